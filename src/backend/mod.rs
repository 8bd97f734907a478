//! The devices that carry the operations of [`crate::ops`]: one folder each, chosen in [`select`] alone.

pub mod cpu;
pub mod select;
