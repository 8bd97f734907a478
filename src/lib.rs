//! lwe-mpi: post-quantum key encapsulation on plain LWE, measured at the speed of whole clusters.
//!
//! The program (`lwe-mpi --help`) is thin; this library holds it. From the outside in:
//!
//! | module | duty | source |
//! |---|---|---|
//! | [`cli`], [`commands`] | flags, and what each subcommand does with them | |
//! | [`bench`](mod@bench) | the workload over all ranks: plan, passes, times, agreement, fingerprint | |
//! | [`report`] | what a run found, as table, JSON and CSV | |
//! | [`selftest`] | known answers, built in and from files | |
//! | [`schemes`] | the key encapsulation mechanisms, batched | the schemes' specifications |
//! | [`params`], [`noise`], [`failure`] | parameter sets, distributions, decryption-failure bounds | |
//! | [`ops`] | the seam: the device operations that schemes are written in | |
//! | [`backend`] | those operations on concrete devices | |
//! | [`drbg`] | CTR_DRBG and the streams of LWE-KEM | SP 800-90A Rev. 1 |
//! | [`hash`] | SHA-3, SHAKE, cSHAKE, ParallelHash | FIPS 202, SP 800-185 |
//! | [`comm`] | the ranks: MPI, or one process | MPI 3.1 |
//! | [`machine`], [`error`] | facts of this host; errors and exit codes | |
//!
//! Arrows: commands → bench → schemes → ops ← backend. `report` is a leaf, [`backend::select`] alone names backends,
//! and `comm` alone uses MPI.

pub mod backend;
pub mod bench;
pub mod cli;
pub mod comm;
pub mod commands;
pub mod drbg;
pub mod error;
pub mod failure;
pub mod hash;
pub mod machine;
pub mod noise;
pub mod ops;
pub mod params;
pub mod report;
pub mod schemes;
pub mod selftest;
