//! The choice of a backend: the only place that names concrete ones.

use clap::ValueEnum;

use super::cpu::{Cpu, isa::Isa};
use crate::error::{Error, Result};

/// What the user asked for with `--backend`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// The best device that can be used; the reports say which and why.
    #[default]
    Auto,
    /// This rank's share of the CPU.
    Cpu,
}

/// What the user asked for with `--isa`: the instruction set of the CPU's inner loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum InstructionSet {
    /// The best that the machine has.
    #[default]
    Auto,
    /// Matrix tiles of 8-bit integers.
    Amx,
    /// Vectors of 512 bits.
    Avx512,
    /// Vectors of 256 bits with fused products of 16-bit integers.
    AvxVnni,
    /// Vectors of 256 bits.
    Avx2,
    /// What every machine has.
    Portable,
}

/// What is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The user's `--backend`.
    pub backend: Backend,
    /// The user's `--isa`.
    pub isa: InstructionSet,
    /// Threads, where it is the CPU.
    pub threads: usize,
    /// The core of each thread; empty: threads are not pinned.
    pub cores: &'a [usize],
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

/// The names of the instruction sets that this machine has and the CPU backend has loops for, the plainest first.
pub fn instruction_sets() -> Vec<&'static str> {
    Isa::available().map(Isa::name).collect()
}

/// Opens the backend that `request` asks for.
///
/// # Errors
/// [`Error::Device`] where it cannot be used or the machine lacks the instruction set.
pub fn open(request: &Request) -> Result<Opened> {
    let reason = match request.backend {
        Backend::Auto => "auto: the CPU is the only backend of this build",
        Backend::Cpu => "asked for with --backend cpu",
    };
    let isa = find(request.isa)?;
    Ok(Opened { ops: Cpu::new(request.threads, isa, request.cores)?, name: "cpu", reason })
}

fn find(choice: InstructionSet) -> Result<Isa> {
    let Some(value) = choice.to_possible_value().filter(|_| choice != InstructionSet::Auto) else {
        return Ok(Isa::best());
    };
    Isa::available().find(|isa| isa.name() == value.get_name()).ok_or_else(|| Error::Device {
        device: "cpu".into(),
        operation: "choose the instruction set",
        message: format!("this machine has no {}; it has {}", value.get_name(), instruction_sets().join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name that a backend gives can be asked for, and is what one gets.
    #[test]
    fn available_sets_can_be_forced() {
        assert_eq!(find(InstructionSet::Auto).unwrap(), Isa::best());
        for isa in Isa::available() {
            let choice = InstructionSet::from_str(isa.name(), false).unwrap();
            assert_eq!(find(choice).unwrap(), isa);
        }
    }

    #[test]
    fn a_set_that_is_missing_is_refused_with_those_that_are_there() {
        let names = instruction_sets();
        for choice in InstructionSet::value_variants().iter().filter(|choice| **choice != InstructionSet::Auto) {
            let name = choice.to_possible_value().unwrap().get_name().to_string();
            match find(*choice) {
                Ok(isa) => assert!(names.contains(&isa.name()) && isa.name() == name),
                Err(error) => {
                    let end = format!("this machine has no {name}; it has {}", names.join(", "));
                    assert!(error.to_string().ends_with(&end) && error.exit_code() == 3, "{error}");
                }
            }
        }
    }
}
