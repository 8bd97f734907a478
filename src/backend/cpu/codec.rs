//! ByteEncode₁₄, ByteDecode₁₄ (FIPS 203, Algorithms 5 and 6), what stands before and after them, and the message's way
//! into and out of v.
//!
//! Four coefficients take 56 bits, so rows are handled as groups of four coefficients in seven bytes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(test)]
mod tests;

use super::{
    arith::reduce,
    isa::{Isa, vectorized},
    kernel::{PANEL, SUM_ROWS},
    memory::{Bytes, Shared, Small, row, rows_mut},
    workspace::Workspace,
};
use crate::{
    ops::{Rows, RowsMut},
    params::{COEFFICIENT_BITS, MESSAGE_BITS, Q},
};

/// Terms summed in 32 bits before a reduction: 2¹⁴·127·512 < 2³¹.
const TERMS: usize = 512;
const GROUP_BYTES: usize = 7;
/// A panel's row, encoded.
const PANEL_BYTES: usize = PANEL / 4 * GROUP_BYTES;

/// Four values below 2¹⁴ as 56 bits.
#[inline(always)]
fn pack4(x: [i32; 4]) -> u64 {
    x[0] as u64 | (x[1] as u64) << 14 | (x[2] as u64) << 28 | (x[3] as u64) << 42
}

vectorized! {
    /// ByteEncode₁₄ of values below 2¹⁴; their number is a multiple of 4.
    pub(super) fn encode14(values: &[i32], out: &mut [u8]) {
        for (group, bytes) in values.as_chunks().0.iter().zip(out.chunks_exact_mut(GROUP_BYTES)) {
            bytes.copy_from_slice(&pack4(*group).to_le_bytes()[..GROUP_BYTES]);
        }
    }
}

vectorized! {
    /// ByteDecode₁₄; the number of values is a multiple of 4.
    fn decode14(bytes: &[u8], out: &mut [i16]) {
        for (bytes, group) in bytes.chunks_exact(GROUP_BYTES).zip(out.chunks_exact_mut(4)) {
            let mut packed = [0; 8];
            packed[..GROUP_BYTES].copy_from_slice(bytes);
            let packed = u64::from_le_bytes(packed);
            for (k, x) in group.iter_mut().enumerate() {
                *x = (packed >> (14 * k) & 0x3fff) as i16;
            }
        }
    }
}

/// Row j of the product in the panels of a block, ByteEncode₁₄(sums + centre term + e1 mod q), to `out(j)`.
///
/// Secret: sums, centre terms and e1, which are only added, reduced and moved; the result is public.
pub(super) fn finish<'e, 'o>(
    isa: Isa,
    sums: &[[[i32; PANEL]; SUM_ROWS]],
    centre_terms: &[i32],
    e1: impl Fn(usize) -> &'e [i16],
    out: impl Fn(usize) -> &'o mut [u8],
) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        Isa::Amx | Isa::Avx512 => unsafe { avx512::finish(sums, centre_terms, e1, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::AvxVnni | Isa::Avx2 => unsafe { avx2::finish(sums, centre_terms, e1, out) },
        _ => {
            for (j, &centre_term) in centre_terms.iter().enumerate() {
                let panels = e1(j).as_chunks::<PANEL>().0.iter().zip(out(j).as_chunks_mut::<PANEL_BYTES>().0);
                for (sums, (e1, out)) in sums.iter().zip(panels) {
                    let values: [i32; PANEL] =
                        std::array::from_fn(|i| reduce(sums[j][i] + centre_term + i32::from(e1[i])));
                    encode14(isa, &values, out);
                }
            }
        }
    }
}

vectorized! {
    /// ⟨a, b⟩ mod q for 0 ≤ a < 2¹⁴ and |b| ≤ 127. Secret: either, which are only multiplied.
    fn inner_product(a: &[i16], b: &[i16]) -> i32 {
        let mut sum = 0;
        for (a, b) in a.chunks(TERMS).zip(b.chunks(TERMS)) {
            let block: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
            // At most 64 blocks of less than q.
            sum += reduce(block);
        }
        reduce(sum)
    }
}

/// [`inner_product`] of an encoded vector and b; `decoded` is work space as long as b.
fn encoded_inner_product(isa: Isa, bytes: &[u8], b: &[i16], decoded: &mut [i16]) -> i32 {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        Isa::Amx | Isa::Avx512 => unsafe { avx512::encoded_inner_product(bytes, b) },
        _ => {
            decode14(isa, bytes, decoded);
            inner_product(isa, decoded, b)
        }
    }
}

pub(super) fn encode_message(
    space: &Workspace,
    count: usize,
    t: Rows<Bytes>,
    r: &Small,
    e2: &Small,
    m: Rows<Bytes>,
    out: RowsMut<Bytes>,
) {
    let (isa, n) = (space.isa, r.n);
    let call = &mut *space.call();
    let decoded = call.coefficients.grown(count * n);
    let shared = Shared::new(decoded);
    // SAFETY: each item has its own vector.
    space.each(count, |_, i| decode14(isa, row(&t, i), unsafe { shared.range(i * n..(i + 1) * n) }));
    let decoded = &*decoded;
    let stride = out.stride;
    let out = Shared::new(rows_mut(count, MESSAGE_BITS / 4 * GROUP_BYTES, out));
    space.each(count * MESSAGE_TASKS, |_, task| {
        let (i, first) = (task / MESSAGE_TASKS, task % MESSAGE_TASKS * TASK_BITS);
        let (t_i, m, e2) = (&decoded[i * n..(i + 1) * n], row(&m, i), e2.row(i));
        let start = i * stride + first / 4 * GROUP_BYTES;
        // SAFETY: tasks have different bits of different items.
        let out = unsafe { out.range(start..start + TASK_BITS / 4 * GROUP_BYTES) };
        let mut v = [0; TASK_BITS];
        for (j, v) in (first..).zip(&mut v) {
            let bit = i32::from(m[j / 8] >> (j % 8) & 1);
            let sum = inner_product(isa, t_i, r.row(MESSAGE_BITS * i + j));
            *v = reduce(sum + i32::from(e2[j]) + bit * i32::from(Q / 2));
        }
        encode14(isa, &v, out);
    });
}

/// Bits of a message that one task encodes or decodes.
const TASK_BITS: usize = 32;
const MESSAGE_TASKS: usize = MESSAGE_BITS / TASK_BITS;

pub(super) fn decode_message(
    space: &Workspace,
    count: usize,
    s: &Small,
    per_key: usize,
    c: Rows<Bytes>,
    m: RowsMut<Bytes>,
) {
    let isa = space.isa;
    let row_bytes = s.n * COEFFICIENT_BITS / 8;
    space.reserve(|thread| _ = thread.entries.grown(s.n));
    let stride = m.stride;
    let m = Shared::new(rows_mut(count, MESSAGE_BITS / 8, m));
    space.each(count * MESSAGE_TASKS, |thread, task| {
        let (i, first) = (task / MESSAGE_TASKS, task % MESSAGE_TASKS * TASK_BITS);
        let (u, v) = row(&c, i).split_at(MESSAGE_BITS * row_bytes);
        let s = s.row(i / per_key);
        let mut v_i = [0; TASK_BITS];
        decode14(isa, &v[first / 4 * GROUP_BYTES..], &mut v_i);
        let decoded = &mut thread.entries[..s.len()];
        let mut bits = 0u32;
        for (bit, &v) in v_i.iter().enumerate() {
            let j = first + bit;
            let product = encoded_inner_product(isa, &u[j * row_bytes..(j + 1) * row_bytes], s, decoded);
            bits |= u32::from(decode_bit(reduce(i32::from(v) - product))) << bit;
        }
        let start = i * stride + first / 8;
        // SAFETY: tasks have different bytes of different items.
        unsafe { m.range(start..start + TASK_BITS / 8) }.copy_from_slice(&bits.to_le_bytes());
    });
}

/// 1 where ⌊q/4⌋ < mu < q − ⌊q/4⌋, for 0 ≤ mu < q. Secret: the sign bits of two differences, no comparison.
#[inline(always)]
fn decode_bit(mu: i32) -> u8 {
    let (q, quarter) = (i32::from(Q), i32::from(Q / 4));
    (((quarter - mu) & (mu - (q - quarter))) >> 31 & 1) as u8
}
