//! SHA-3 and SHAKE256 (FIPS 202) of many messages at a time, one Keccak state in each lane of vector registers.
//!
//! Results are those of [`crate::hash`] on every instruction set. Messages and digests may be secret: neither timing
//! nor addresses depend on their bytes, and states and buffers are wiped before a call returns. Lengths are public.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod rounds;
#[cfg(target_arch = "x86_64")]
mod sponge;

use super::isa::Isa;
use crate::hash::LEAF_BYTES;

/// Bytes of a stream's seed: seedlen of CTR_DRBG with AES-256 (SP 800-90A, table 3).
pub(super) const STREAM_SEED_BYTES: usize = 48;

/// States at a time on the widest instruction set: calls on a multiple of it waste no lane.
pub(super) const MAX_WIDTH: usize = 8;

/// The largest rate here, that of SHA3-256 and SHAKE256, in bytes.
const MAX_RATE_BYTES: usize = 136;

/// A function of FIPS 202, section 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// SHA3-256, 32 bytes.
    Sha3_256,
    /// SHA3-512, 64 bytes.
    Sha3_512,
    /// SHAKE256, cut to at most 136 bytes, one block.
    Shake256,
}

impl Function {
    /// Whether a digest may have this length.
    fn has_length(self, bytes: usize) -> bool {
        match self {
            Function::Sha3_256 => bytes == 32,
            Function::Sha3_512 => bytes == 64,
            Function::Shake256 => bytes <= MAX_RATE_BYTES,
        }
    }
}

/// Writes `function` of each message, the concatenation of its parts, to the slice beside it.
///
/// Messages are hashed together while all their parts are as long as those of the message before; where lengths
/// change, a group ends.
///
/// # Panics
/// Where a slice has not the function's length.
pub(super) fn hash_many<'m, 'o, const PARTS: usize>(
    isa: Isa,
    function: Function,
    messages: impl IntoIterator<Item = ([&'m [u8]; PARTS], &'o mut [u8])>,
) {
    let messages = messages
        .into_iter()
        .inspect(|(_, out)| assert!(function.has_length(out.len()), "{function:?} has not {} bytes", out.len()));
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => sponge::hash(avx512::Avx512, function, messages),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::AvxVnni => sponge::hash(avx2::Avx2, function, messages),
        _ => messages.for_each(|(parts, out)| portable::hash(function, &parts, out)),
    }
}

/// Writes the leaf digests of ParallelHash256 (SP 800-185, 6.3.1, step 3): SHAKE256, 64 bytes, of each block of
/// `data`. The last block may be short; empty data has no block.
///
/// # Panics
/// `block_bytes` = 0, or another number of leaves than of blocks.
pub(super) fn parallel_hash256_leaves(isa: Isa, data: &[u8], block_bytes: usize, leaves: &mut [[u8; LEAF_BYTES]]) {
    assert_eq!(leaves.len(), data.len().div_ceil(block_bytes), "a leaf for each block");
    let blocks = data.chunks(block_bytes).map(|block| [block]);
    hash_many(isa, Function::Shake256, blocks.zip(leaves.iter_mut().map(<[u8; _]>::as_mut_slice)));
}

/// Writes the seeds of Stream(seed, tag, first), Stream(seed, tag, first + 1), … mod 2³²: see [`stream_seeds_of`].
pub(super) fn stream_seeds(isa: Isa, seed: &[u8; 32], tag: u8, first: u32, out: &mut [[u8; STREAM_SEED_BYTES]]) {
    stream_seeds_of(isa, tag, (0..).map(|i| (seed, first.wrapping_add(i))), out);
}

/// Writes the seed of Stream(seed, tag, index) for each (seed, index) of `streams` to the next of `out`:
/// SHAKE256(seed ‖ tag ‖ LE32(index)), 48 bytes (LWE-KEM specification, "Randomness").
///
/// # Panics
/// Where there are fewer streams than seeds asked for.
pub(super) fn stream_seeds_of<'a>(
    isa: Isa,
    tag: u8,
    streams: impl IntoIterator<Item = (&'a [u8; 32], u32)>,
    out: &mut [[u8; STREAM_SEED_BYTES]],
) {
    let mut streams = streams.into_iter();
    let streams = || streams.next().expect("a stream for each seed");
    match isa {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 | Isa::Amx => sponge::stream_seeds(avx512::Avx512, tag, streams, out),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 | Isa::AvxVnni => sponge::stream_seeds(avx2::Avx2, tag, streams, out),
        _ => portable::stream_seeds(tag, streams, out),
    }
}

#[cfg(test)]
mod tests {
    use proptest::{array::uniform3, collection::vec, prelude::*};

    use super::*;
    use crate::hash;

    /// Bytes without a period.
    fn bytes(len: usize, mut state: u64) -> Vec<u8> {
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 56) as u8
        };
        (0..len).map(|_| next()).collect()
    }

    /// Lengths around the edges of one and two blocks of both rates, and others.
    fn part_bytes() -> impl Strategy<Value = usize> {
        prop_oneof![Just(0), Just(32), 71..=73usize, 135..=137usize, 143..=145usize, 271..=273usize, 0..700usize]
    }

    proptest! {
        /// Runs of messages with equal parts, between none and more than two groups, against the plain functions.
        #[test]
        fn hashes_are_the_plain_ones(
            runs in vec((uniform3(part_bytes()), 1..20usize), 0..4),
            shake in 0..=136usize,
            seed: u64,
        ) {
            let messages: Vec<[Vec<u8>; 3]> = runs
                .iter()
                .flat_map(|&(lengths, count)| (0..count).map(move |_| lengths))
                .enumerate()
                .map(|(i, lengths)| lengths.map(|len| bytes(len, seed ^ ((i * 1000 + len) as u64) << 20)))
                .collect();
            let parts = || messages.iter().map(|[a, b, c]| [a.as_slice(), b, c]);
            for (function, len) in [(Function::Sha3_256, 32), (Function::Sha3_512, 64), (Function::Shake256, shake)] {
                let expected: Vec<Vec<u8>> = parts()
                    .map(|parts| match function {
                        Function::Sha3_256 => hash::sha3_256(&parts).to_vec(),
                        Function::Sha3_512 => hash::sha3_512(&parts).to_vec(),
                        Function::Shake256 => {
                            let mut out = vec![0; len];
                            hash::shake256(&parts, &mut out);
                            out
                        }
                    })
                    .collect();
                for isa in Isa::available() {
                    let mut digests = vec![vec![0; len]; messages.len()];
                    hash_many(isa, function, parts().zip(digests.iter_mut().map(Vec::as_mut_slice)));
                    prop_assert!(digests == expected, "{} {:?}", isa.name(), function);
                }
            }
        }

        /// Blocks of a ciphertext's rows and others, the last one short or not.
        #[test]
        fn leaves_are_the_plain_ones(
            block_bytes in prop_oneof![Just(7168), Just(56), 1..1000usize],
            blocks in 0..20usize,
            cut in 0..1000usize,
            seed: u64,
        ) {
            let data = bytes((block_bytes * blocks).saturating_sub(cut), seed);
            let expected: Vec<_> = data.chunks(block_bytes).map(hash::parallel_hash256_leaf).collect();
            for isa in Isa::available() {
                let mut leaves = vec![[0; LEAF_BYTES]; expected.len()];
                parallel_hash256_leaves(isa, &data, block_bytes, &mut leaves);
                prop_assert!(leaves == expected, "{}", isa.name());
            }
        }

        /// Any number of streams of several seeds, with indices that wrap.
        #[test]
        fn stream_seeds_are_the_plain_ones(
            seeds: [[u8; 32]; 3],
            tag: u8,
            first in prop_oneof![any::<u32>(), u32::MAX - 20..=u32::MAX],
            count in 0..40usize,
        ) {
            let plain = |seed: &[u8; 32], index: u32| {
                let mut out = [0; STREAM_SEED_BYTES];
                hash::shake256(&[seed, &[tag], &index.to_le_bytes()], &mut out);
                out
            };
            let streams = || (0..count).map(|i| (&seeds[i % 3], first.wrapping_add((i / 3) as u32)));
            let of_one: Vec<_> = (0..count).map(|i| plain(&seeds[0], first.wrapping_add(i as u32))).collect();
            let of_all: Vec<_> = streams().map(|(seed, index)| plain(seed, index)).collect();
            for isa in Isa::available() {
                let mut out = vec![[0; STREAM_SEED_BYTES]; count];
                stream_seeds(isa, &seeds[0], tag, first, &mut out);
                prop_assert!(out == of_one, "{}", isa.name());
                stream_seeds_of(isa, tag, streams(), &mut out);
                prop_assert!(out == of_all, "{}", isa.name());
            }
        }
    }
}
