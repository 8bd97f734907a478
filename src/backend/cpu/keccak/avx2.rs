//! Four states at a time in 256-bit registers.
//!
//! Expected: bound by the three ports for 256-bit integers. A round is about 185 instructions (a rotation is two shifts
//! and an OR, χ an AND-NOT and an XOR): 62 cycles, 1480 for 4·136 bytes. 25 lanes do not fit the 16 registers; loads
//! and stores of those that are kept in memory run beside the arithmetic.

use std::{arch::x86_64::*, ops::Range};

use super::{
    rounds::{ROUND_CONSTANTS, column, plane, rounds},
    sponge::{Engine, States},
};

/// AVX2; used only on machines that have it.
#[derive(Clone, Copy)]
pub(super) struct Avx2;

impl Engine<4> for Avx2 {
    fn permute(self, states: &mut States<4>) {
        // SAFETY: an `Avx2` is made for the `Isa`s with AVX2 alone, which are used only where the machine has it.
        unsafe { permute(states) }
    }

    fn absorb(self, states: &mut States<4>, rate_bytes: usize, messages: &[&[u8]; 4], range: Range<usize>) {
        // SAFETY: as above.
        unsafe { absorb(states, rate_bytes, messages, range) }
    }
}

#[target_feature(enable = "avx2")]
fn absorb(states: &mut States<4>, rate_bytes: usize, messages: &[&[u8]; 4], range: Range<usize>) {
    let len = range.len();
    assert!(rate_bytes.is_multiple_of(8) && len.is_multiple_of(rate_bytes));
    let starts = messages.map(|message| message[range.clone()].as_ptr());
    let mut at = 0;
    while at < len {
        let (quads, rest) = states.lanes[..rate_bytes / 8].as_chunks_mut::<4>();
        for quad in quads {
            // SAFETY: `len` bytes can be read from each start, whole blocks of `rate_bytes`, 32 for each quad of lanes
            // and 8 for each other lane.
            let columns = unsafe { quad_at(&starts, at) };
            for (lane, column) in quad.iter_mut().zip(columns) {
                add(lane, column);
            }
            at += 32;
        }
        for lane in rest {
            // SAFETY: as above.
            add(lane, unsafe { lane_at(&starts, at) });
            at += 8;
        }
        permute(states);
    }
}

#[target_feature(enable = "avx2")]
fn permute(states: &mut States<4>) {
    let mut a = [_mm256_setzero_si256(); 25];
    for (a, lane) in a.iter_mut().zip(&states.lanes) {
        *a = load(lane);
    }
    rounds!(a);
    for (lane, a) in states.lanes.iter_mut().zip(a) {
        store(lane, a);
    }
}

/// Four lanes from `at` on of each of four messages: a register for each lane.
///
/// # Safety
/// 32 bytes can be read at `at` from each start.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn quad_at(starts: &[*const u8; 4], at: usize) -> [__m256i; 4] {
    // SAFETY: the caller's.
    let row = |j: usize| unsafe { _mm256_loadu_si256(starts[j].add(at).cast()) };
    let (m0, m1, m2, m3) = (row(0), row(1), row(2), row(3));
    let (even_low, even_high) = (_mm256_unpacklo_epi64(m0, m1), _mm256_unpacklo_epi64(m2, m3));
    let (odd_low, odd_high) = (_mm256_unpackhi_epi64(m0, m1), _mm256_unpackhi_epi64(m2, m3));
    [
        _mm256_permute2x128_si256::<0x20>(even_low, even_high),
        _mm256_permute2x128_si256::<0x20>(odd_low, odd_high),
        _mm256_permute2x128_si256::<0x31>(even_low, even_high),
        _mm256_permute2x128_si256::<0x31>(odd_low, odd_high),
    ]
}

/// The lane at `at` of each of four messages.
///
/// # Safety
/// 8 bytes can be read at `at` from each start.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn lane_at(starts: &[*const u8; 4], at: usize) -> __m256i {
    // SAFETY: the caller's.
    let word = |j: usize| unsafe { starts[j].add(at).cast::<i64>().read_unaligned() };
    _mm256_set_epi64x(word(3), word(2), word(1), word(0))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(lane: &[u64; 4]) -> __m256i {
    // SAFETY: 32 bytes are read, at any address.
    unsafe { _mm256_loadu_si256(lane.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(lane: &mut [u64; 4], register: __m256i) {
    // SAFETY: 32 bytes are written, at any address.
    unsafe { _mm256_storeu_si256(lane.as_mut_ptr().cast(), register) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(lane: &mut [u64; 4], register: __m256i) {
    store(lane, _mm256_xor_si256(load(lane), register));
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor3(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    // b ⊕ c first: in θ they are common to a column.
    _mm256_xor_si256(a, _mm256_xor_si256(b, c))
}

#[inline]
#[target_feature(enable = "avx2")]
fn chi(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    _mm256_xor_si256(a, _mm256_andnot_si256(b, c))
}

#[inline]
#[target_feature(enable = "avx2")]
fn rol<const K: i32>(a: __m256i) -> __m256i {
    // Compiles to a shift by an immediate; 64 − K is no constant expression on stable Rust.
    let right = _mm256_srl_epi64(a, _mm_cvtsi32_si128(64 - K));
    _mm256_or_si256(_mm256_slli_epi64::<K>(a), right)
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor_constant(a: __m256i, constant: u64) -> __m256i {
    _mm256_xor_si256(a, _mm256_set1_epi64x(constant as i64))
}
