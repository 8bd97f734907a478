//! SHA-3, SHAKE256 (FIPS 202), cSHAKE256 and ParallelHash256 (SP 800-185).
//!
//! Sponge states are wiped when dropped. ParallelHash256 is used on ciphertexts, which are public: its leaf digests
//! are not wiped.

use cshake::{
    CShake256,
    digest::{ExtendableOutput, XofReader},
};
use sha3::{
    Sha3_256, Sha3_512,
    digest::{FixedOutput, Update},
};
use zeroize::ZeroizeOnDrop;

/// Sponges wipe themselves only with the feature `zeroize` of `cshake` and `sha3`: without it this does not compile.
const _: () = {
    const fn wiped_on_drop<T: ZeroizeOnDrop>() {}
    wiped_on_drop::<CShake256>();
    wiped_on_drop::<Sha3_256>();
    wiped_on_drop::<Sha3_512>();
};

/// Bytes of a leaf digest of ParallelHash256: 512 bits.
pub const LEAF_BYTES: usize = 64;

/// SHA3-256 of the concatenation of `parts`.
pub fn sha3_256(parts: &[&[u8]]) -> [u8; 32] {
    let mut sponge = Sha3_256::default();
    parts.iter().for_each(|part| sponge.update(part));
    let mut digest = [0; 32];
    sponge.finalize_into((&mut digest).into());
    digest
}

/// SHA3-512 of the concatenation of `parts`.
pub fn sha3_512(parts: &[&[u8]]) -> [u8; 64] {
    let mut sponge = Sha3_512::default();
    parts.iter().for_each(|part| sponge.update(part));
    let mut digest = [0; 64];
    sponge.finalize_into((&mut digest).into());
    digest
}

/// Fills `out` with SHAKE256 of the concatenation of `parts`.
pub fn shake256(parts: &[&[u8]], out: &mut [u8]) {
    // cSHAKE with both strings empty is SHAKE (SP 800-185, 3.3).
    let mut sponge = CShake256::default();
    parts.iter().for_each(|part| sponge.update(part));
    sponge.finalize_xof().read(out);
}

/// Fills `out` with cSHAKE256(data, 8·out.len(), name, customization) (SP 800-185, section 3). `name` is for functions
/// that NIST defines. With `name` and `customization` empty it is SHAKE256.
pub fn cshake256(data: &[u8], name: &[u8], customization: &[u8], out: &mut [u8]) {
    let mut sponge = CShake256::new_with_function_name(name, customization);
    sponge.update(data);
    sponge.finalize_xof().read(out);
}

/// Fills `out` with ParallelHash256(data, block_bytes, 8·out.len(), customization) (SP 800-185, section 6).
/// The last block may be short; empty data has no block.
///
/// # Panics
/// `block_bytes` = 0.
pub fn parallel_hash256(data: &[u8], block_bytes: usize, customization: &[u8], out: &mut [u8]) {
    assert_ne!(block_bytes, 0, "ParallelHash256 needs a block of at least one byte");
    parallel_hash256_root(block_bytes, data.chunks(block_bytes).map(parallel_hash256_leaf), customization, out);
}

/// The leaf digest of one block in ParallelHash256: cSHAKE256(block, 512, "", "") (SP 800-185, 6.3.1, step 3).
pub fn parallel_hash256_leaf(block: &[u8]) -> [u8; LEAF_BYTES] {
    let mut leaf = [0; LEAF_BYTES];
    shake256(&[block], &mut leaf);
    leaf
}

/// Fills `out` with ParallelHash256 of data whose leaf digests, in order of blocks of `block_bytes`, are `leaves`
/// (SP 800-185, 6.3.1, steps 2 and 4 to 6). Leaf digests side by side in one `&[u8]` are passed as
/// `bytes.as_chunks().0.iter().copied()`.
///
/// # Panics
/// `block_bytes` = 0.
pub fn parallel_hash256_root(
    block_bytes: usize,
    leaves: impl IntoIterator<Item = [u8; LEAF_BYTES]>,
    customization: &[u8],
    out: &mut [u8],
) {
    assert_ne!(block_bytes, 0, "ParallelHash256 needs a block of at least one byte");
    let mut sponge = CShake256::new_with_function_name(b"ParallelHash", customization);
    sponge.update(left_encode(block_bytes as u64).as_bytes());
    let mut blocks = 0u64;
    for leaf in leaves {
        sponge.update(&leaf);
        blocks += 1;
    }
    sponge.update(right_encode(blocks).as_bytes());
    sponge.update(right_encode(8 * out.len() as u64).as_bytes());
    sponge.finalize_xof().read(out);
}

/// An encoded integer: up to eight bytes of value and one of length.
#[derive(Debug, PartialEq)]
struct Encoded {
    buffer: [u8; 9],
    start: usize,
    end: usize,
}

impl Encoded {
    fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }
}

/// Bytes of x without leading zeros, but at least one.
fn value_bytes(x: u64) -> usize {
    (8 - x.leading_zeros() as usize / 8).max(1)
}

/// left_encode(x) (SP 800-185, 2.3.1): the number of bytes of x, then x in big-endian order.
fn left_encode(x: u64) -> Encoded {
    let start = 8 - value_bytes(x);
    let mut buffer = [0; 9];
    buffer[1..].copy_from_slice(&x.to_be_bytes());
    buffer[start] = value_bytes(x) as u8;
    Encoded { buffer, start, end: 9 }
}

/// right_encode(x) (SP 800-185, 2.3.1): x in big-endian order, then the number of its bytes.
fn right_encode(x: u64) -> Encoded {
    let start = 8 - value_bytes(x);
    let mut buffer = [0; 9];
    buffer[..8].copy_from_slice(&x.to_be_bytes());
    buffer[8] = value_bytes(x) as u8;
    Encoded { buffer, start, end: 9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_encoded_without_leading_zeros() {
        let cases: [(u64, &[u8]); 8] = [
            (0, &[0]),
            (1, &[1]),
            (255, &[255]),
            (256, &[1, 0]),
            (65536, &[1, 0, 0]),
            (0x0012_3456_789a, &[0x12, 0x34, 0x56, 0x78, 0x9a]),
            (1 << 56, &[1, 0, 0, 0, 0, 0, 0, 0]),
            (u64::MAX, &[255; 8]),
        ];
        for (x, value) in cases {
            let length = [value.len() as u8];
            assert_eq!(left_encode(x).as_bytes(), [&length, value].concat(), "left_encode({x})");
            assert_eq!(right_encode(x).as_bytes(), [value, &length].concat(), "right_encode({x})");
        }
    }
}
