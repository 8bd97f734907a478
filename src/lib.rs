//! lwe-mpi: post-quantum key encapsulation on plain LWE, measured at the speed of whole clusters.

pub mod backend;
pub mod comm;
pub mod drbg;
pub mod error;
pub mod failure;
pub mod hash;
pub mod machine;
pub mod noise;
pub mod ops;
pub mod params;
pub mod schemes;
pub mod selftest;
