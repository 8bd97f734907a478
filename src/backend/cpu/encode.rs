//! ByteEncode₁₄, ByteDecode₁₄ (FIPS 203, Algorithms 5 and 6) and the message's way into and out of v.
//!
//! Four coefficients take 56 bits, so rows are handled as groups of four coefficients in seven bytes.

use rayon::prelude::*;

use super::{Bytes, Small, arith::reduce, for_each_row, row};
use crate::{
    ops::{Rows, RowsMut},
    params::{MESSAGE_BITS, Q, max_terms_i32},
};

/// Terms summed in 32 bits before a reduction: 2¹⁴·127·512 < 2³¹.
const BLOCK: usize = 512;
const GROUP_BYTES: usize = 7;

/// Four values below 2¹⁴ as 56 bits.
#[inline(always)]
pub(super) fn pack4(x: [i32; 4]) -> u64 {
    x[0] as u64 | (x[1] as u64) << 14 | (x[2] as u64) << 28 | (x[3] as u64) << 42
}

/// ByteEncode₁₄ of values below 2¹⁴; their number is a multiple of 4.
pub(super) fn encode14(values: &[i32], out: &mut [u8]) {
    for (group, bytes) in values.chunks_exact(4).zip(out.chunks_exact_mut(GROUP_BYTES)) {
        let packed = pack4(group.try_into().expect("groups of four"));
        bytes.copy_from_slice(&packed.to_le_bytes()[..GROUP_BYTES]);
    }
}

/// ByteDecode₁₄; the number of values is a multiple of 4.
pub(super) fn decode14(bytes: &[u8], out: &mut [i16]) {
    for (bytes, group) in bytes.chunks_exact(GROUP_BYTES).zip(out.chunks_exact_mut(4)) {
        let mut packed = [0; 8];
        packed[..GROUP_BYTES].copy_from_slice(bytes);
        let packed = u64::from_le_bytes(packed);
        for (k, x) in group.iter_mut().enumerate() {
            *x = (packed >> (14 * k) & 0x3fff) as i16;
        }
    }
}

/// ⟨a, b⟩ mod q for 0 ≤ a < 2¹⁴ and |b| ≤ 127.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn inner_product(a: &[i16], b: &[i16]) -> i32 {
    let mut sum = 0;
    for (a, b) in a.chunks(BLOCK).zip(b.chunks(BLOCK)) {
        let block: i32 = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b)).sum();
        // At most 64 blocks of less than q.
        sum += reduce(block);
    }
    reduce(sum)
}

pub(super) fn encode_message(count: usize, t: Rows<Bytes>, r: &Small, e2: &Small, m: Rows<Bytes>, out: RowsMut<Bytes>) {
    debug_assert!(max_terms_i32(127) >= BLOCK, "blocks of t are within the matrix entries' bound");
    for_each_row(count, MESSAGE_BITS / 4 * GROUP_BYTES, out, |i, out| {
        let mut t_i = vec![0; r.n];
        decode14(row(&t, i), &mut t_i);
        let (m, e2) = (row(&m, i), e2.row(i));
        out.par_chunks_mut(GROUP_BYTES).enumerate().for_each(|(group, out)| {
            let mut v = [0; 4];
            for (k, v) in v.iter_mut().enumerate() {
                let j = 4 * group + k;
                let bit = i32::from(m[j / 8] >> (j % 8) & 1);
                let sum = inner_product(&t_i, r.row(MESSAGE_BITS * i + j));
                *v = reduce(sum + i32::from(e2[j]) + bit * i32::from(Q / 2));
            }
            encode14(&v, out);
        });
    });
}

pub(super) fn decode_message(count: usize, s: &Small, per_key: usize, c: Rows<Bytes>, m: RowsMut<Bytes>) {
    let row_bytes = s.n / 4 * GROUP_BYTES;
    for_each_row(count, MESSAGE_BITS / 8, m, |i, m| {
        let (u, v) = row(&c, i).split_at(MESSAGE_BITS * row_bytes);
        let s = s.row(i / per_key);
        let mut v_i = [0; MESSAGE_BITS];
        decode14(v, &mut v_i);
        m.par_iter_mut().enumerate().for_each_init(
            || vec![0; s.len()],
            |u_j, (byte, m)| {
                *m = 0;
                for bit in 0..8 {
                    let j = 8 * byte + bit;
                    decode14(&u[j * row_bytes..(j + 1) * row_bytes], u_j);
                    let mu = reduce(i32::from(v_i[j]) - inner_product(u_j, s));
                    *m |= decode_bit(mu) << bit;
                }
            },
        );
    });
}

/// 1 where ⌊q/4⌋ < mu < q − ⌊q/4⌋, for 0 ≤ mu < q. Secret: the sign bits of two differences, no comparison.
#[inline(always)]
fn decode_bit(mu: i32) -> u8 {
    let (q, quarter) = (i32::from(Q), i32::from(Q / 4));
    (((quarter - mu) & (mu - (q - quarter))) >> 31 & 1) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_decode_between_the_quarters() {
        for mu in 0..i32::from(Q) {
            assert_eq!(decode_bit(mu) == 1, 3072 < mu && mu < 12289 - 3072, "{mu}");
        }
    }

    #[test]
    fn inner_products_do_not_overflow() {
        for n in [32, 512, 544, 32768] {
            let expected = |a: i64, b: i64| (a * b * n as i64).rem_euclid(12289) as i32;
            for (a, b) in [(16383, 127), (16383, -127), (12288, 4), (0, -4)] {
                assert_eq!(inner_product(&vec![a; n], &vec![b; n]), expected(a.into(), b.into()));
            }
        }
    }

    proptest! {
        /// The twin: bit after bit, as FIPS 203 writes the two algorithms.
        #[test]
        fn encoding_is_fips_203s(values in proptest::collection::vec(0i32..16384, 1..50)) {
            let values: Vec<i32> = values.iter().flat_map(|&x| [x, 16383 - x, 0, 16383]).collect();
            let mut bits = values.iter().flat_map(|x| (0..14).map(move |k| x >> k & 1));
            let mut expected = vec![0u8; values.len() * 14 / 8];
            for byte in &mut expected {
                for k in 0..8 {
                    *byte |= (bits.next().unwrap() as u8) << k;
                }
            }
            let mut bytes = vec![0; expected.len()];
            encode14(&values, &mut bytes);
            prop_assert_eq!(&bytes, &expected);
            let mut decoded = vec![0; values.len()];
            decode14(&bytes, &mut decoded);
            prop_assert!(decoded.iter().zip(&values).all(|(&d, &v)| i32::from(d) == v));
        }
    }
}
