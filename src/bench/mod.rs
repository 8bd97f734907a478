//! The measured workload: every rank makes keys, encapsulates to its neighbour's, decapsulates what comes back, and
//! rank 0 learns how fast that was and whether both sides of every encapsulation hold the same secret.
//!
//! | module | duty |
//! |---|---|
//! | [`workload`] | what is to be done, and the coins of every item |
//! | [`plan`] | how it is cut into batches and rounds that fit memory |
//! | `keys` | which keys are on the device |
//! | [`pass`] | one pass over the workload, timed by phase |
//! | [`verify`] | both sides' results compared; the fingerprint |
//! | [`stats`] | order statistics |
//! | [`run`] | warm-up, repeats, and the gathered report |
//! | [`drill`] | failures on purpose |

pub mod drill;
mod keys;
pub mod pass;
pub mod plan;
pub mod run;
pub mod stats;
pub mod verify;
pub mod workload;
