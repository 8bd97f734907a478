//! Reduction and encoding of 32 coefficients at a time in registers of 256 bits.

use std::arch::x86_64::*;

use super::{PANEL, PANEL_BYTES, SUM_ROWS};
use crate::params::Q;

/// x mod q in each lane, for every x. Bound and secrets: as for the one of 512 bits.
#[target_feature(enable = "avx2")]
#[inline]
fn reduce(x: __m256i) -> __m256i {
    let q = _mm256_set1_epi32(i32::from(Q));
    let quotient = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(x), _mm256_set1_ps(1.0 / f32::from(Q))));
    let r = _mm256_sub_epi32(x, _mm256_mullo_epi32(quotient, q));
    // A negative remainder is a large number without sign.
    _mm256_min_epu32(r, _mm256_add_epi32(r, q))
}

/// [`super::finish`].
#[target_feature(enable = "avx2")]
pub(super) fn finish<'e, 'o>(
    sums: &[[[i32; PANEL]; SUM_ROWS]],
    centre_terms: &[i32],
    e1: impl Fn(usize) -> &'e [i16],
    out: impl Fn(usize) -> &'o mut [u8],
) {
    // Of each 8 bytes the first 7.
    let close = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, -1, -1));
    let low_28 = _mm256_set1_epi64x((1 << 28) - 1);
    for (j, &centre_term) in centre_terms.iter().enumerate() {
        let centre_term = _mm256_set1_epi32(centre_term);
        let panels = e1(j).as_chunks::<PANEL>().0.iter().zip(out(j).as_chunks_mut::<PANEL_BYTES>().0);
        for (sums, (e1, out)) in sums.iter().zip(panels) {
            let mut bytes = [0u8; PANEL_BYTES + 2];
            for half in 0..2 {
                // SAFETY: a row of a panel is 4 registers of sums, and 4 half registers of e1.
                let values = [2 * half, 2 * half + 1].map(|i| unsafe {
                    let e1 = _mm256_cvtepi16_epi32(_mm_loadu_si128(e1.as_ptr().cast::<__m128i>().add(i)));
                    let sum = _mm256_loadu_si256(sums[j].as_ptr().cast::<__m256i>().add(i));
                    reduce(_mm256_add_epi32(_mm256_add_epi32(sum, centre_term), e1))
                });
                // Packing works inside halves of registers: the second step puts the quarters into their order.
                let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi32(values[0], values[1]));
                // Two values in 28 bits, four in 56.
                let pairs = _mm256_madd_epi16(words, _mm256_set1_epi32(1 | 1 << 30));
                let high = _mm256_andnot_si256(low_28, _mm256_srli_epi64::<4>(pairs));
                let quads = _mm256_shuffle_epi8(_mm256_or_si256(_mm256_and_si256(pairs, low_28), high), close);
                // SAFETY: 16 bytes from 28·half and 14 after it on, of which the last two are written again or left over.
                unsafe {
                    let to = bytes.as_mut_ptr().add(PANEL_BYTES / 2 * half);
                    _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(quads));
                    _mm_storeu_si128(to.add(14).cast(), _mm256_extracti128_si256::<1>(quads));
                }
            }
            out.copy_from_slice(&bytes[..PANEL_BYTES]);
        }
    }
}
