//! Eight states at a time in 512-bit registers.
//!
//! Expected: bound by the two ports for 512-bit integers. A round is 90 instructions, 29 of them rotations: 45 cycles,
//! 1080 for 8·136 bytes. The 25 lanes take 25 of the 32 registers.

use std::{arch::x86_64::*, ops::Range};

use super::{
    rounds::{ROUND_CONSTANTS, column, plane, rounds},
    sponge::{Engine, States},
};

/// AVX-512 F; used only on machines that have it.
#[derive(Clone, Copy)]
pub(super) struct Avx512;

impl Engine<8> for Avx512 {
    fn permute(self, states: &mut States<8>) {
        // SAFETY: an `Avx512` is made for `Isa::Avx512` alone, which is used only where the machine has it.
        unsafe { permute(states) }
    }

    fn absorb(self, states: &mut States<8>, rate_bytes: usize, messages: &[&[u8]; 8], range: Range<usize>) {
        // SAFETY: as above.
        unsafe { absorb(states, rate_bytes, messages, range) }
    }
}

#[target_feature(enable = "avx512f")]
fn absorb(states: &mut States<8>, rate_bytes: usize, messages: &[&[u8]; 8], range: Range<usize>) {
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

#[target_feature(enable = "avx512f")]
fn permute(states: &mut States<8>) {
    let mut a = [_mm512_setzero_si512(); 25];
    for (a, lane) in a.iter_mut().zip(&states.lanes) {
        *a = load(lane);
    }
    rounds!(a);
    for (lane, a) in states.lanes.iter_mut().zip(a) {
        store(lane, a);
    }
}

/// Four lanes from `at` on of each of eight messages: a register for each lane.
///
/// # Safety
/// 32 bytes can be read at `at` from each start.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn quad_at(starts: &[*const u8; 8], at: usize) -> [__m512i; 4] {
    // SAFETY: the caller's.
    let half = |j: usize| unsafe { _mm256_loadu_si256(starts[j].add(at).cast()) };
    // Messages are paired so that unpacking and one exchange of quarters put all in order.
    let pair = |i: usize, j: usize| _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(i)), half(j));
    let (m02, m13, m46, m57) = (pair(0, 2), pair(1, 3), pair(4, 6), pair(5, 7));
    let (even_low, even_high) = (_mm512_unpacklo_epi64(m02, m13), _mm512_unpacklo_epi64(m46, m57));
    let (odd_low, odd_high) = (_mm512_unpackhi_epi64(m02, m13), _mm512_unpackhi_epi64(m46, m57));
    [
        _mm512_shuffle_i64x2::<0x88>(even_low, even_high),
        _mm512_shuffle_i64x2::<0x88>(odd_low, odd_high),
        _mm512_shuffle_i64x2::<0xdd>(even_low, even_high),
        _mm512_shuffle_i64x2::<0xdd>(odd_low, odd_high),
    ]
}

/// The lane at `at` of each of eight messages.
///
/// # Safety
/// 8 bytes can be read at `at` from each start.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn lane_at(starts: &[*const u8; 8], at: usize) -> __m512i {
    // SAFETY: the caller's.
    let word = |j: usize| unsafe { starts[j].add(at).cast::<i64>().read_unaligned() };
    _mm512_set_epi64(word(7), word(6), word(5), word(4), word(3), word(2), word(1), word(0))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(lane: &[u64; 8]) -> __m512i {
    // SAFETY: 64 bytes are read, at any address.
    unsafe { _mm512_loadu_si512(lane.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(lane: &mut [u64; 8], register: __m512i) {
    // SAFETY: 64 bytes are written, at any address.
    unsafe { _mm512_storeu_si512(lane.as_mut_ptr().cast(), register) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(lane: &mut [u64; 8], register: __m512i) {
    store(lane, _mm512_xor_si512(load(lane), register));
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0b1001_0110>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn chi(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0b1101_0010>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rol<const K: i32>(a: __m512i) -> __m512i {
    _mm512_rol_epi64::<K>(a)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor_constant(a: __m512i, constant: u64) -> __m512i {
    _mm512_xor_si512(a, _mm512_set1_epi64(constant as i64))
}
