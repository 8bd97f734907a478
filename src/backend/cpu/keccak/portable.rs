//! One message at a time: the plain twin of the others.

use zeroize::Zeroize;

use super::{Function, STREAM_SEED_BYTES};
use crate::hash;

/// Writes `function` of the concatenation of `parts` to `out`, which has the function's length.
pub(super) fn hash(function: Function, parts: &[&[u8]], out: &mut [u8]) {
    match function {
        Function::Sha3_256 => move_to(hash::sha3_256(parts), out),
        Function::Sha3_512 => move_to(hash::sha3_512(parts), out),
        Function::Shake256 => hash::shake256(parts, out),
    }
}

fn move_to<const N: usize>(mut digest: [u8; N], out: &mut [u8]) {
    out.copy_from_slice(&digest);
    digest.zeroize();
}

/// Writes the seed of Stream(seed, tag, index) for each (seed, index) that `next` gives to the next of `out`.
pub(super) fn stream_seeds<'a>(
    tag: u8,
    mut next: impl FnMut() -> (&'a [u8; 32], u32),
    out: &mut [[u8; STREAM_SEED_BYTES]],
) {
    for out in out {
        let (seed, index) = next();
        hash::shake256(&[seed, &[tag], &index.to_le_bytes()], out);
    }
}
