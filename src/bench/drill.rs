//! Failures on purpose, so that users can prove on their own cluster that one failing rank ends the whole job with a
//! line that names it: `--drill KIND@PHASE[:RANK]`.

use std::str::FromStr;

use crate::error::{Error, Result};

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A panic.
    Panic,
    /// An error of the device.
    Error,
    /// The process is killed (SIGKILL).
    Kill,
    /// The rank stops answering (SIGSTOP).
    Stop,
    /// One bit of the first shared secret that the rank decapsulates is flipped.
    Flip,
}

/// A failure at the start of a phase on one rank, in every pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drill {
    /// What fails.
    pub kind: Kind,
    /// The phase that it happens in: keygen, exchange, encaps or decaps.
    pub phase: String,
    /// The rank that it happens on.
    pub rank: usize,
}

const KINDS: [(&str, Kind); 5] =
    [("panic", Kind::Panic), ("error", Kind::Error), ("kill", Kind::Kill), ("stop", Kind::Stop), ("flip", Kind::Flip)];
const PHASES: [&str; 4] = ["keygen", "exchange", "encaps", "decaps"];

impl FromStr for Drill {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let form =
            "a drill is KIND@PHASE[:RANK], with panic, error, kill, stop or flip at keygen, exchange, encaps or decaps";
        let (kind, place) = text.split_once('@').ok_or(form)?;
        let (phase, rank) = place.split_once(':').unwrap_or((place, "0"));
        let kind = KINDS.iter().find(|(name, _)| *name == kind).ok_or(form)?.1;
        if !PHASES.contains(&phase) {
            return Err(form.into());
        }
        if kind == Kind::Flip && phase != "decaps" {
            return Err("a secret is flipped at decaps".into());
        }
        let rank = rank.parse().map_err(|_| format!("the drill's rank is a number, not {rank:?}"))?;
        Ok(Drill { kind, phase: phase.into(), rank })
    }
}

impl Drill {
    /// Fails where this is the drill's phase and rank.
    ///
    /// # Errors
    /// [`Error::Device`], for the kind of that name.
    ///
    /// # Panics
    /// For the kind of that name.
    pub fn strike(&self, phase: &'static str, rank: usize) -> Result<()> {
        if self.rank != rank || self.phase != phase {
            return Ok(());
        }
        let raise = |signal| {
            nix::sys::signal::raise(signal).map_err(|error| Error::Device {
                device: "drill".into(),
                operation: phase,
                message: error.to_string(),
            })
        };
        match self.kind {
            Kind::Panic => panic!("a drill"),
            Kind::Error => {
                Err(Error::Device { device: "drill".into(), operation: phase, message: "an error on purpose".into() })
            }
            Kind::Kill => raise(nix::sys::signal::SIGKILL),
            Kind::Stop => raise(nix::sys::signal::SIGSTOP),
            Kind::Flip => Ok(()),
        }
    }

    /// Whether this rank's first secret is to be flipped.
    pub fn flips(&self, rank: usize) -> bool {
        self.kind == Kind::Flip && self.rank == rank
    }
}
