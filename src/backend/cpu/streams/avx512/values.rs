//! From words to values on 512-bit registers: rejection by `vpcompressw` (VBMI2), and tables by comparisons.

use std::arch::x86_64::*;

use super::{
    super::{super::arith::CENTRE, Column, Entropy, Generator, MAX_HEIGHT, Q, REJECTED, in_chunks},
    CHUNK_BYTES, CHUNK_WORDS, Chunk, REGISTERS, read, start,
};

/// The longest table: magnitudes fit a signed byte.
const MAX_THRESHOLDS: usize = 127;

/// x − y where the mask says so. In assembly, as compilers make minima or other masks of it, on the port that AES keeps
/// busy.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn subtract_where(mask: __mmask32, mut x: __m512i, y: __m512i) -> __m512i {
    // SAFETY: registers only.
    unsafe {
        std::arch::asm!(
            "vpsubw {x} {{{mask}}}, {x}, {y}",
            x = inout(zmm_reg) x,
            y = in(zmm_reg) y,
            mask = in(kreg) mask,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    x
}

/// x, of which compilers know nothing: they would replace comparisons with it by others that need a further constant.
#[target_feature(enable = "avx512f")]
#[inline]
fn opaque(mut x: __m512i) -> __m512i {
    // SAFETY: does nothing.
    unsafe { std::arch::asm!("/* {} */", inout(zmm_reg) x, options(pure, nomem, nostack, preserves_flags)) };
    x
}

/// Moves `column[last..filled]` to the front, then draws until `height` values are there; returns how many are.
/// At most a chunk is drawn beyond `height`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,vaes,popcnt")]
pub(in super::super) fn uniform(
    generator: &mut Generator,
    column: &mut Column,
    last: usize,
    filled: usize,
    height: usize,
) -> usize {
    assert!(height <= MAX_HEIGHT && last <= MAX_HEIGHT && last <= filled);
    let start = column.as_mut_ptr();
    // All places of a chunk, whatever is in them: a fixed number of moves.
    let rest: Chunk = std::array::from_fn(|r| {
        // SAFETY: a column has room for a chunk beyond the last height.
        unsafe { _mm512_loadu_si512(start.add(last + 32 * r).cast()) }
    });
    for (r, rest) in rest.into_iter().enumerate() {
        // SAFETY: a column has room for a chunk.
        unsafe { _mm512_storeu_si512(start.add(32 * r).cast(), rest) };
    }
    let mut filled = filled - last;
    if filled >= height {
        return filled;
    }
    let multiples = multiples();
    let mut place = filled;
    let counts = std::cell::Cell::new([0; REGISTERS]);
    read(
        generator,
        |words| {
            counts.set(words.map(|words| count_ones(kept(words))));
            filled += counts.get().iter().sum::<usize>();
            filled < height
        },
        |r, words| {
            // SAFETY: a chunk begins below `height` and each of its registers at most 32 values after the one before,
            // so that the last one ends within a chunk's length of `height`.
            unsafe { store_kept(words, multiples, start.add(place)) };
            place += counts.get()[r];
        },
    );
    filled
}

/// 4q, 2q and q.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn multiples() -> [__m512i; 3] {
    [4, 2, 1].map(|k| opaque(_mm512_set1_epi16((k * Q) as i16)))
}

/// Which words are kept.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn kept(words: __m512i) -> __mmask32 {
    _mm512_cmplt_epu16_mask(words, _mm512_set1_epi16(REJECTED as i16))
}

/// Writes the values of the words that are kept in order, and after them zeros, 32 in all.
///
/// Comparisons and subtractions reduce mod q, as multiplications would wait for the port that AES keeps busy.
///
/// # Safety
/// `to` has room for 32 values.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
#[inline]
unsafe fn store_kept(words: __m512i, multiples: [__m512i; 3], to: *mut i16) {
    let x = multiples.into_iter().fold(words, |x, y| subtract_where(_mm512_cmpge_epu16_mask(x, y), x, y));
    let x = _mm512_sub_epi16(x, _mm512_set1_epi16(CENTRE));
    // SAFETY: by the caller's promise.
    unsafe { _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi16(kept(words), x)) };
}

/// [`store_kept`], and how many there are.
#[cfg(test)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
pub(in super::super) fn compact(words: &[u16; 32], out: &mut [i16; 32]) -> usize {
    // SAFETY: 64 bytes each.
    unsafe {
        let words = _mm512_loadu_si512(words.as_ptr().cast());
        store_kept(words, multiples(), out.as_mut_ptr());
        count_ones(kept(words))
    }
}

/// Ones of a mask, by way of memory: a move to a general register would wait for the port that AES keeps busy.
#[target_feature(enable = "avx512f,avx512bw,popcnt")]
#[inline]
fn count_ones(mask: __mmask32) -> usize {
    let mut stored = std::mem::MaybeUninit::<u32>::uninit();
    // SAFETY: writes the 4 bytes that are read.
    unsafe {
        std::arch::asm!(
            "kmovd dword ptr [{}], {}",
            in(reg) stored.as_mut_ptr(),
            in(kreg) mask,
            options(nostack, preserves_flags)
        );
        stored.assume_init().count_ones() as usize
    }
}

/// See [`super::super::sample_table`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(in super::super) fn sample_table(entropy: &Entropy, thresholds: &[u16], out: &mut [i16]) {
    // word >> 1 is above a threshold where the word is above this. Twice, as pairs are broadcast from memory.
    let bounds = |threshold: u16| u32::from(2 * threshold + 1) * 0x1_0001;
    // Adds 1 where the word is above.
    let count = |x, word, bounds: u32| {
        let above = _mm512_cmpgt_epu16_mask(word, _mm512_set1_epi32(bounds as i32));
        subtract_where(above, x, _mm512_set1_epi16(-1))
    };
    match thresholds {
        &[a, b, c, d] => {
            let [a, b, c, d] = [a, b, c, d].map(bounds);
            let magnitude =
                |word| count(count(count(count(_mm512_setzero_si512(), word, a), word, b), word, c), word, d);
            sample_words(entropy, out, magnitude);
        }
        _ => {
            let mut all = [0; MAX_THRESHOLDS];
            let all = &mut all[..thresholds.len()];
            all.iter_mut().zip(thresholds).for_each(|(to, &threshold)| *to = bounds(threshold));
            sample_words(entropy, out, |word| {
                all.iter().fold(_mm512_setzero_si512(), |x, &bounds| count(x, word, bounds))
            });
        }
    }
}

/// Fills `out` with the magnitudes that `magnitude` makes of the stream's words, signed by the words' low bits.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
#[inline]
fn sample_words(entropy: &Entropy, out: &mut [i16], magnitude: impl Fn(__m512i) -> __m512i) {
    let mut generator = Generator::default();
    start([entropy; 4], std::array::from_mut(&mut generator));
    in_chunks(out, |out: &mut [[i16; CHUNK_WORDS]]| {
        read_into(&mut generator, out, |out, r, words| {
            let x = magnitude(words);
            let negative = _mm512_test_epi16_mask(words, _mm512_set1_epi16(1));
            let x = _mm512_mask_sub_epi16(x, negative, _mm512_setzero_si512(), x);
            // SAFETY: 32 values of a chunk.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().add(32 * r).cast(), x) };
        });
    });
}

/// Reads a chunk for each piece of `out`: `write(piece, r, x)` gets its register r.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
#[inline]
fn read_into<T>(generator: &mut Generator, out: &mut [T], mut write: impl FnMut(&mut T, usize, __m512i)) {
    let mut left = out.len();
    let mut place = out.as_mut_ptr();
    if left == 0 {
        return;
    }
    let more = |_: &Chunk| {
        left -= 1;
        left > 0
    };
    read(generator, more, |r, x| {
        // SAFETY: as many chunks are read as `out` has pieces.
        unsafe {
            write(&mut *place, r, x);
            place = place.add(usize::from(r == REGISTERS - 1));
        }
    });
}

/// See [`super::super::cbd3`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
pub(in super::super) fn cbd3(entropy: &Entropy, out: &mut [i16]) {
    let mut generator = Generator::default();
    start([entropy; 4], std::array::from_mut(&mut generator));
    let ones = _mm512_set1_epi8(0b1001);
    let two_bits = _mm512_set1_epi8(0b11);
    in_chunks(out, |out: &mut [[i16; CHUNK_BYTES]]| {
        read_into(&mut generator, out, |out, r, bytes| {
            // Bits 0 to 2 and 3 to 5 of each byte summed side by side, in bits 0 to 1 and 3 to 4.
            let bit = |x| _mm512_and_si512(x, ones);
            let sums = _mm512_add_epi8(bit(bytes), bit(_mm512_srli_epi16::<1>(bytes)));
            let sums = _mm512_add_epi8(sums, bit(_mm512_srli_epi16::<2>(bytes)));
            let minuend = _mm512_and_si512(sums, two_bits);
            let subtrahend = _mm512_and_si512(_mm512_srli_epi16::<3>(sums), two_bits);
            let x = _mm512_sub_epi8(minuend, subtrahend);
            // SAFETY: 64 values of a chunk.
            unsafe {
                let to: *mut __m512i = out.as_mut_ptr().add(64 * r).cast();
                _mm512_storeu_si512(to, _mm512_cvtepi8_epi16(_mm512_castsi512_si256(x)));
                _mm512_storeu_si512(to.add(1), _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64::<1>(x)));
            }
        });
    });
}
