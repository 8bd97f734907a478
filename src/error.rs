//! What can go wrong in a run, and the exit code that each kind ends with.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | all well |
//! | 1 | wrong results: a disagreement, a degenerate secret, a failed known answer |
//! | 2 | usage: a flag or a value that makes no sense |
//! | 3 | device: a backend that is missing, out of memory or failing |
//! | 4 | MPI: the wrong launcher, a silent peer, a failing call |
//! | 5 | input or output: a file that cannot be read or written |
//! | 101 | a panic, which is a bug in this program |

use crate::{drbg::DrbgError, schemes::KemError};

/// Every error of the library and the program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A flag, a value or a combination of them that cannot be run.
    #[error("{0}")]
    Usage(String),
    /// The work was done and its results are wrong.
    #[error("{0}")]
    Wrong(String),
    /// A backend could not be used or an operation on its device failed.
    #[error("device {device}: {operation}: {message}")]
    Device {
        /// The device as the ranks' table names it.
        device: String,
        /// The operation of the seam ([`crate::ops`]) that failed.
        operation: &'static str,
        /// What the device or its driver said.
        message: String,
    },
    /// The ranks cannot talk to each other.
    #[error("MPI: {0}")]
    Mpi(String),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file as the user named it.
        path: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A scheme refused its input.
    #[error(transparent)]
    Kem(#[from] KemError),
    /// The generator refused a request.
    #[error(transparent)]
    Drbg(#[from] DrbgError),
}

/// The result of anything that may fail in a run.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The exit code that this error ends the program with.
    pub fn exit_code(&self) -> i32 {
        match self {
            Error::Wrong(_) | Error::Kem(_) | Error::Drbg(_) => 1,
            Error::Usage(_) => 2,
            Error::Device { .. } => 3,
            Error::Mpi(_) => 4,
            Error::Io { .. } => 5,
        }
    }
}
