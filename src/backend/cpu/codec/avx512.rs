//! Reduction, encoding and decoding of 32 coefficients at a time in registers of 512 bits.

use std::arch::x86_64::*;

use super::{PANEL, PANEL_BYTES, SUM_ROWS};
use crate::params::Q;

/// The bytes of a panel's row.
const BYTES: __mmask64 = (1 << PANEL_BYTES) - 1;

/// Of each 8 bytes the first 7, side by side.
const CLOSE: [u8; 64] = {
    let mut indices = [0; 64];
    let mut i = 0;
    while i < PANEL_BYTES {
        indices[i] = (8 * (i / 7) + i % 7) as u8;
        i += 1;
    }
    indices
};

/// The inverse; what fills each eighth byte does not matter.
const OPEN: [u8; 64] = {
    let mut indices = [0; 64];
    let mut i = 0;
    while i < 64 {
        indices[i] = (7 * (i / 8) + i % 8) as u8;
        i += 1;
    }
    indices
};

#[target_feature(enable = "avx512f")]
#[inline]
fn indices(indices: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(indices.as_ptr().cast()) }
}

/// x mod q in each lane, for every x.
///
/// Bound: x and 1/q are off by a factor of at most 1 + 2⁻²⁴ each and their product once more, so that the quotient of
/// |x/q| < 2¹⁷·⁵ is off by less than 2⁻⁴ before it is rounded, and the remainder lies within ±(½ + 2⁻⁴)·q. Secret: x;
/// these conversions and products take the same time for all of its values, none of which is subnormal.
#[target_feature(enable = "avx512f")]
#[inline]
fn reduce(x: __m512i) -> __m512i {
    let q = _mm512_set1_epi32(i32::from(Q));
    let quotient = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_cvtepi32_ps(x), _mm512_set1_ps(1.0 / f32::from(Q))));
    let r = _mm512_sub_epi32(x, _mm512_mullo_epi32(quotient, q));
    // A negative remainder is a large number without sign.
    _mm512_min_epu32(r, _mm512_add_epi32(r, q))
}

/// ByteEncode₁₄ of 32 values below 2¹⁴: 56 bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn encode(low: __m512i, high: __m512i) -> __m512i {
    let words =
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(_mm512_cvtepi32_epi16(low)), _mm512_cvtepi32_epi16(high));
    // Two values in 28 bits, four in 56, groups of seven bytes side by side.
    let pairs = _mm512_madd_epi16(words, _mm512_set1_epi32(1 | 1 << 30));
    let low_28 = _mm512_set1_epi64((1 << 28) - 1);
    // Bit for bit: of `pairs` where the mask is set, of `pairs >> 4` elsewhere.
    let quads = _mm512_ternarylogic_epi64::<0xca>(low_28, pairs, _mm512_srli_epi64::<4>(pairs));
    _mm512_permutexvar_epi8(indices(&CLOSE), quads)
}

/// ByteDecode₁₄ of 56 bytes: 32 words.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
#[inline]
fn decode(bytes: __m512i) -> __m512i {
    let quads = _mm512_permutexvar_epi8(indices(&OPEN), bytes);
    // Of each group of 56 bits, the byte from each of these bits on.
    let places = _mm512_set1_epi64(i64::from_le_bytes([0, 8, 14, 22, 28, 36, 42, 50]));
    _mm512_and_si512(_mm512_multishift_epi64_epi8(places, quads), _mm512_set1_epi16(0x3fff))
}

/// Rows between a line's request and its use: 8 lines of e1 a row, of which some dozens may be on their way.
const AHEAD: usize = 4;

/// [`super::finish`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) fn finish<'e, 'o>(
    sums: &[[[i32; PANEL]; SUM_ROWS]],
    centre_terms: &[i32],
    e1: impl Fn(usize) -> &'e [i16],
    out: impl Fn(usize) -> &'o mut [u8],
) {
    for (j, &centre_term) in centre_terms.iter().enumerate() {
        // Rows of e1 lie pages apart, where no processor looks ahead.
        if j + AHEAD < centre_terms.len() {
            for line in e1(j + AHEAD).chunks(32) {
                _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast());
            }
        }
        let centre_term = _mm512_set1_epi32(centre_term);
        let panels = e1(j).as_chunks::<PANEL>().0.iter().zip(out(j).as_chunks_mut::<PANEL_BYTES>().0);
        for (sums, (e1, out)) in sums.iter().zip(panels) {
            // SAFETY: a row of a panel is 32 sums of 32 bits, 32 words of e1 and 56 bytes.
            unsafe {
                let (sums, e1) = (sums[j].as_ptr().cast::<__m512i>(), e1.as_ptr().cast::<__m256i>());
                let value = |half: usize| {
                    let e1 = _mm512_cvtepi16_epi32(_mm256_loadu_si256(e1.add(half)));
                    let sum = _mm512_loadu_si512(sums.add(half));
                    reduce(_mm512_add_epi32(_mm512_add_epi32(sum, centre_term), e1))
                };
                _mm512_mask_storeu_epi8(out.as_mut_ptr().cast(), BYTES, encode(value(0), value(1)));
            }
        }
    }
}

/// Steps of 32 terms that a lane sums before a reduction: 512·2·2¹⁴·127 < 2³¹.
const STEPS: usize = 512;

/// [`super::encoded_inner_product`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vnni")]
pub(super) fn encoded_inner_product(bytes: &[u8], b: &[i16]) -> i32 {
    let (bytes, b) = (bytes.as_chunks::<PANEL_BYTES>().0, b.as_chunks::<PANEL>().0);
    let mut total = _mm512_setzero_si512();
    for (bytes, b) in bytes.chunks(STEPS).zip(b.chunks(STEPS)) {
        let mut sums = [_mm512_setzero_si512(); 2];
        for (i, (bytes, b)) in bytes.iter().zip(b).enumerate() {
            // SAFETY: 56 bytes and 32 words.
            unsafe {
                let a = decode(_mm512_maskz_loadu_epi8(BYTES, bytes.as_ptr().cast()));
                sums[i % 2] = _mm512_dpwssd_epi32(sums[i % 2], a, _mm512_loadu_si512(b.as_ptr().cast()));
            }
        }
        let [even, odd] = sums.map(|sums| reduce(sums));
        // At most two blocks of two times q.
        total = _mm512_add_epi32(total, _mm512_add_epi32(even, odd));
    }
    super::reduce(_mm512_reduce_add_epi32(total))
}
