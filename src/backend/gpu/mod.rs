//! GPUs: the kernels of `kernels/`, and the drivers that run them.

#[cfg(feature = "cuda")]
pub mod cuda;
pub mod driver;
pub mod kernels;
