//! Hashes, sampling from generator streams, constant-time comparison and selection.

use rayon::prelude::*;
use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroize;

use super::{Bytes, Small, for_each_row, row};
use crate::{
    drbg::Stream,
    hash,
    noise::{self, Cdt},
    ops::{Hash, Rows, RowsMut, Sampler},
    params::SEED_BYTES,
};

pub(super) fn hash(f: Hash, count: usize, parts: &[Rows<Bytes>], out: RowsMut<Bytes>) {
    let len = match f {
        Hash::Sha3_256 => 32,
        Hash::Sha3_512 => 64,
    };
    for_each_row(count, len, out, |i, out| {
        // No list of parts in the schemes is longer than three.
        let mut slices: [&[u8]; 4] = [&[]; 4];
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = row(part, i);
        }
        let slices = &slices[..parts.len()];
        match f {
            Hash::Sha3_256 => hash_into(hash::sha3_256(slices), out),
            Hash::Sha3_512 => hash_into(hash::sha3_512(slices), out),
        }
    });
}

fn hash_into<const N: usize>(mut digest: [u8; N], out: &mut [u8]) {
    out.copy_from_slice(&digest);
    digest.zeroize();
}

pub(super) fn parallel_hash256(
    count: usize,
    block_bytes: usize,
    customization: &[u8],
    input: Rows<Bytes>,
    out: RowsMut<Bytes>,
) {
    for_each_row(count, 32, out, |i, out| {
        let input = row(&input, i);
        let leaves: Vec<_> = input.par_chunks(block_bytes).map(hash::parallel_hash256_leaf).collect();
        hash::parallel_hash256_root(block_bytes, leaves, customization, out);
    });
}

/// Coefficients drawn per read of a stream.
const PIECE: usize = 1024;

pub(super) fn sample(sampler: &Sampler, count: usize, seeds: Rows<Bytes>, tag: u8, per_seed: usize, out: &mut Small) {
    assert!(seeds.len == SEED_BYTES && out.rows() >= count * per_seed);
    out.coefficients.par_chunks_mut(out.n).take(count * per_seed).enumerate().for_each(|(i, out)| {
        let seed = row(&seeds, i / per_seed).try_into().expect("a seed has 32 bytes");
        let mut stream = Stream::new(seed, tag, (i % per_seed) as u32);
        let mut bytes = [0u8; 2 * PIECE];
        for out in out.chunks_mut(PIECE) {
            match sampler {
                Sampler::Cbd3 => {
                    let bytes = &mut bytes[..out.len()];
                    stream.read(bytes);
                    out.iter_mut().zip(bytes).for_each(|(x, &mut byte)| *x = i16::from(noise::cbd3(byte)));
                }
                Sampler::Table(table) => {
                    let bytes = &mut bytes[..2 * out.len()];
                    stream.read(bytes);
                    sample_table(table, bytes, out);
                }
            }
        }
        bytes.zeroize();
    });
}

/// [`Cdt::sample`] of each word, threshold by threshold over the whole piece, which compilers vectorize.
/// Secret: no branch or index depends on the words.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn sample_table(table: &Cdt, bytes: &[u8], out: &mut [i16]) {
    let mut halves = [0u16; PIECE];
    let halves = &mut halves[..out.len()];
    for ((half, word), x) in halves.iter_mut().zip(bytes.chunks_exact(2)).zip(out.iter_mut()) {
        *half = u16::from_le_bytes([word[0], word[1]]);
        *x = 0;
    }
    for &threshold in table.thresholds() {
        for (x, &word) in out.iter_mut().zip(halves.iter()) {
            // Both operands are below 2¹⁵: the difference borrows into bit 15 exactly where word/2 is larger.
            *x += (threshold.wrapping_sub(word >> 1) >> 15) as i16;
        }
    }
    for (x, &word) in out.iter_mut().zip(halves.iter()) {
        let sign = -((word & 1) as i16);
        *x = (*x ^ sign) - sign;
    }
    halves.zeroize();
}

pub(super) fn store_small(count: usize, small: &Small, out: RowsMut<Bytes>) {
    for_each_row(count, small.n, out, |i, out| {
        out.iter_mut().zip(small.row(i)).for_each(|(byte, &x)| *byte = x as i8 as u8);
    });
}

pub(super) fn load_small(count: usize, rows: Rows<Bytes>, out: &mut Small) {
    assert!(rows.len == out.n && out.rows() >= count);
    out.coefficients.par_chunks_mut(out.n).take(count).enumerate().for_each(|(i, out)| {
        out.iter_mut().zip(row(&rows, i)).for_each(|(x, &byte)| *x = i16::from(byte as i8));
    });
}

pub(super) fn select_equal(
    count: usize,
    a: Rows<Bytes>,
    b: Rows<Bytes>,
    yes: Rows<Bytes>,
    no: Rows<Bytes>,
    out: RowsMut<Bytes>,
) {
    assert_eq!(a.len, b.len);
    assert_eq!(yes.len, no.len);
    for_each_row(count, yes.len, out, |i, out| {
        let equal = difference(row(&a, i), row(&b, i)).ct_eq(&0);
        for (out, (yes, no)) in out.iter_mut().zip(row(&yes, i).iter().zip(row(&no, i))) {
            *out = u8::conditional_select(no, yes, equal);
        }
    });
}

/// The OR of all byte differences: 0 exactly where `a` and `b` are equal. Secret: every byte is read, whatever the
/// others hold.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn difference(a: &[u8], b: &[u8]) -> u8 {
    let mut lanes = [0u8; 64];
    let (a_blocks, b_blocks) = (a.chunks_exact(64), b.chunks_exact(64));
    let tail = a_blocks.remainder().iter().zip(b_blocks.remainder()).fold(0, |sum, (a, b)| sum | (a ^ b));
    for (a, b) in a_blocks.zip(b_blocks) {
        lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane |= a ^ b);
    }
    lanes.iter().fold(tail, |sum, lane| sum | lane)
}
