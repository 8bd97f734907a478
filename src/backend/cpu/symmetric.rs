//! Hashes, sampling from generator streams, constant-time comparison and selection.

use subtle::{ConditionallySelectable, ConstantTimeEq};
use zeroize::Zeroizing;

use super::{
    isa::vectorized,
    keccak::{self, Function, MAX_WIDTH, STREAM_SEED_BYTES},
    memory::{Bytes, Shared, Small, row, rows_mut, seed},
    streams,
    workspace::Workspace,
};
use crate::{
    hash,
    ops::{Hash, Rows, RowsMut, Sampler},
    params::SEED_BYTES,
};

pub(super) fn hash(space: &Workspace, f: Hash, count: usize, parts: &[Rows<Bytes>], out: RowsMut<Bytes>) {
    match *parts {
        [a] => hash_parts(space, f, count, [a], out),
        [a, b] => hash_parts(space, f, count, [a, b], out),
        [a, b, c] => hash_parts(space, f, count, [a, b, c], out),
        _ => panic!("no hash of the schemes has {} parts", parts.len()),
    }
}

fn hash_parts<const PARTS: usize>(
    space: &Workspace,
    f: Hash,
    count: usize,
    parts: [Rows<Bytes>; PARTS],
    out: RowsMut<Bytes>,
) {
    let (function, len) = match f {
        Hash::Sha3_256 => (Function::Sha3_256, 32),
        Hash::Sha3_512 => (Function::Sha3_512, 64),
    };
    let stride = out.stride;
    // As many at a time as there are lanes.
    let out = rows_mut(count, len, out);
    let (bytes, out) = (out.len(), Shared::new(out));
    space.each(count.div_ceil(MAX_WIDTH), |_, group| {
        let start = MAX_WIDTH * group * stride;
        // SAFETY: groups of strings do not overlap, and each is one task's.
        let out = unsafe { out.range(start..bytes.min(start + MAX_WIDTH * stride)) };
        let messages = out.chunks_mut(stride).enumerate().map(|(i, out)| {
            let i = MAX_WIDTH * group + i;
            (parts.each_ref().map(|part| row(part, i)), &mut out[..len])
        });
        keccak::hash_many(space.isa, function, messages);
    });
}

pub(super) fn parallel_hash256(
    space: &Workspace,
    count: usize,
    block_bytes: usize,
    customization: &[u8],
    input: Rows<Bytes>,
    out: RowsMut<Bytes>,
) {
    let blocks = input.len.div_ceil(block_bytes);
    let groups = blocks.div_ceil(MAX_WIDTH);
    let call = &mut *space.call();
    let leaves = call.leaves.grown(count * blocks);
    let shared = Shared::new(leaves);
    space.each(count * groups, |_, task| {
        let (i, first) = (task / groups, task % groups * MAX_WIDTH);
        let last = blocks.min(first + MAX_WIDTH);
        let data = &row(&input, i)[first * block_bytes..(last * block_bytes).min(input.len)];
        // SAFETY: groups of blocks are disjoint.
        let leaves = unsafe { shared.range(i * blocks + first..i * blocks + last) };
        keccak::parallel_hash256_leaves(space.isa, data, block_bytes, leaves);
    });
    let leaves = &*leaves;
    space.each_row(count, 32, out, |_, i, out| {
        let leaves = leaves[i * blocks..(i + 1) * blocks].iter().copied();
        hash::parallel_hash256_root(block_bytes, leaves, customization, out);
    });
}

pub(super) fn sample(
    space: &Workspace,
    sampler: &Sampler,
    count: usize,
    seeds: Rows<Bytes>,
    tag: u8,
    per_seed: usize,
    out: &mut Small,
) {
    assert!(seeds.len == SEED_BYTES && out.rows() >= count * per_seed);
    let n = out.n;
    let count = count * per_seed;
    let rows = Shared::new(&mut out.coefficients[..count * n]);
    space.each(count.div_ceil(MAX_WIDTH), |_, group| {
        let first = MAX_WIDTH * group;
        // SAFETY: groups of rows do not overlap, and each is one task's.
        let rows = unsafe { rows.range(first * n..count.min(first + MAX_WIDTH) * n) };
        let streams = (first..).map(|i| (seed(&seeds, i / per_seed), (i % per_seed) as u32));
        let mut entropy = Zeroizing::new([[0; STREAM_SEED_BYTES]; MAX_WIDTH]);
        let entropy = &mut entropy[..rows.len() / n];
        keccak::stream_seeds_of(space.isa, tag, streams, entropy);
        for (row, entropy) in rows.chunks_exact_mut(n).zip(&*entropy) {
            match sampler {
                Sampler::Cbd3 => streams::cbd3(space.isa, entropy, row),
                Sampler::Table(table) => streams::sample_table(space.isa, entropy, table, row),
            }
        }
    });
}

pub(super) fn copy(space: &Workspace, count: usize, input: Rows<Bytes>, out: RowsMut<Bytes>) {
    space.each_row(count, input.len, out, |_, i, out| out.copy_from_slice(row(&input, i)));
}

pub(super) fn store_small(space: &Workspace, count: usize, small: &Small, out: RowsMut<Bytes>) {
    space.each_row(count, small.n, out, |_, i, out| {
        out.iter_mut().zip(small.row(i)).for_each(|(byte, &x)| *byte = x as i8 as u8);
    });
}

pub(super) fn load_small(space: &Workspace, count: usize, rows: Rows<Bytes>, out: &mut Small) {
    assert!(rows.len == out.n && out.rows() >= count);
    let n = out.n;
    let coefficients = Shared::new(&mut out.coefficients);
    space.each(count, |_, i| {
        // SAFETY: each row is one task's.
        let out = unsafe { coefficients.range(i * n..(i + 1) * n) };
        out.iter_mut().zip(row(&rows, i)).for_each(|(x, &byte)| *x = i16::from(byte as i8));
    });
}

pub(super) fn select_equal(
    space: &Workspace,
    count: usize,
    a: Rows<Bytes>,
    b: Rows<Bytes>,
    yes: Rows<Bytes>,
    no: Rows<Bytes>,
    out: RowsMut<Bytes>,
) {
    assert_eq!(a.len, b.len);
    assert_eq!(yes.len, no.len);
    let pieces = a.len.div_ceil(PIECE_BYTES).max(1);
    let call = &mut *space.call();
    let differences = call.differences.grown(count * pieces);
    let shared = Shared::new(differences);
    space.each(count * pieces, |_, task| {
        let (i, first) = (task / pieces, task % pieces * PIECE_BYTES);
        let piece = first..a.len.min(first + PIECE_BYTES);
        // SAFETY: each task has its own byte.
        let to = unsafe { shared.range(task..task + 1) };
        to[0] = difference(space.isa, &row(&a, i)[piece.clone()], &row(&b, i)[piece]);
    });
    let differences = &*differences;
    space.each_row(count, yes.len, out, |_, i, out| {
        let difference = differences[i * pieces..(i + 1) * pieces].iter().fold(0, |sum, piece| sum | piece);
        let equal = difference.ct_eq(&0);
        for (out, (yes, no)) in out.iter_mut().zip(row(&yes, i).iter().zip(row(&no, i))) {
            *out = u8::conditional_select(no, yes, equal);
        }
    });
}

/// Bytes compared by one task.
const PIECE_BYTES: usize = 256 * 1024;

vectorized! {
    /// The OR of all byte differences of two pieces. Secret: every byte is read, whatever the others hold.
    fn difference(a: &[u8], b: &[u8]) -> u8 {
        let mut lanes = [0u8; 64];
        let (a_blocks, b_blocks) = (a.chunks_exact(64), b.chunks_exact(64));
        let tail = a_blocks.remainder().iter().zip(b_blocks.remainder()).fold(0, |sum, (a, b)| sum | (a ^ b));
        for (a, b) in a_blocks.zip(b_blocks) {
            lanes.iter_mut().zip(a.iter().zip(b)).for_each(|(lane, (a, b))| *lane |= a ^ b);
        }
        lanes.iter().fold(tail, |sum, lane| sum | lane)
    }
}
