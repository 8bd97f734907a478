//! The choice of a backend: the only place that names concrete ones.

use super::cpu::{Cpu, isa::Isa};
use crate::error::Result;

/// What the user asked for with `--backend`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Backend {
    /// The best device that can be used; the reports say which and why.
    #[default]
    Auto,
    /// This rank's share of the CPU.
    Cpu,
}

/// An open backend, and what the reports say of it.
pub struct Opened {
    /// The device's operations.
    pub ops: Cpu,
    /// The backend's name.
    pub name: &'static str,
    /// Why it was taken.
    pub reason: &'static str,
}

/// The kinds of devices that this build cannot use, and why.
pub const ABSENT: [(&str, &str); 2] =
    [("NVIDIA GPU", "this version has no CUDA backend"), ("AMD GPU", "this version has no HIP backend")];

/// Opens the backend that `choice` asks for, with `threads` threads where it is the CPU.
///
/// # Errors
/// [`crate::error::Error::Device`] where it cannot be used.
pub fn open(choice: Backend, threads: usize) -> Result<Opened> {
    let reason = match choice {
        Backend::Auto => "auto: the CPU is the only backend of this build",
        Backend::Cpu => "asked for with --backend cpu",
    };
    Ok(Opened { ops: Cpu::new(threads, Isa::best(), &[])?, name: "cpu", reason })
}
