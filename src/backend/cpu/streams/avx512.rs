//! Streams on 512-bit registers: VAES.

mod values;

use std::arch::x86_64::*;

#[cfg(test)]
pub(super) use self::values::compact;
pub(super) use self::values::{cbd3, sample_table, uniform};
use super::{super::kernel::PANEL, Entropy, Generator, ROUND_KEYS, ZERO_KEY_BLOCKS, initial_v};

/// Blocks of a chunk. More than four registers of them would hide the latency of the rounds better, but not leave room
/// for those of the chunk before.
const BLOCKS: usize = 16;
const CHUNK_BYTES: usize = 16 * BLOCKS;
const CHUNK_WORDS: usize = CHUNK_BYTES / 2;
/// Registers of a chunk, with 4 blocks or 32 words each.
const REGISTERS: usize = BLOCKS / 4;
type Chunk = [__m512i; REGISTERS];

/// The 128-bit integer I of `from`, four times.
///
/// In assembly so that compilers neither keep round keys across chunks, for which there are too few registers, nor
/// leave copies of them in the stack.
#[target_feature(enable = "avx512f")]
#[inline]
fn broadcast<const I: usize, const N: usize>(from: &[u128; N]) -> __m512i {
    const { assert!(I < N) };
    let broadcast;
    // SAFETY: reads 16 bytes of `from`.
    unsafe {
        std::arch::asm!(
            "vbroadcasti32x4 {}, xmmword ptr [{} + {}]",
            lateout(zmm_reg) broadcast,
            in(reg) from.as_ptr(),
            const 16 * I,
            options(readonly, nostack, preserves_flags)
        );
    }
    broadcast
}

/// The AES-256 key expansion (FIPS 197, 5.2) of four keys at a time, whose first and second halves `key` holds.
/// `store(r, x)` takes their round keys r.
///
/// `vaesenclast` on a block of four equal words, where ShiftRows does nothing, is SubWord with Rcon added.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
#[inline]
fn expand_keys(key: [__m512i; 2], mut store: impl FnMut(usize, __m512i)) {
    let last = _mm512_set1_epi32(0x0f0e0d0c);
    let rotated_last = _mm512_set1_epi32(0x0c0f0e0d);
    let [mut two_before, mut before] = key;
    store(0, two_before);
    store(1, before);
    for r in 2..ROUND_KEYS {
        let (word, rcon) = if r % 2 == 0 { (rotated_last, 1 << (r / 2 - 1)) } else { (last, 0) };
        let word = _mm512_aesenclast_epi128(_mm512_shuffle_epi8(before, word), _mm512_set1_epi32(rcon));
        // Each word is the XOR of the words two round keys before up to its place, and of the substituted word.
        let x = _mm512_xor_si512(two_before, _mm512_bslli_epi128::<4>(two_before));
        let x = _mm512_xor_si512(x, _mm512_bslli_epi128::<8>(x));
        (two_before, before) = (before, _mm512_xor_si512(x, word));
        store(r, before);
    }
}

/// Starts a panel's streams, four at a time.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
pub(super) fn start_all(entropy: &[Entropy; PANEL], generators: &mut [Generator; PANEL]) {
    for ([a, b, c, d], generators) in entropy.as_chunks().0.iter().zip(generators.as_chunks_mut::<4>().0) {
        start([a, b, c, d], generators);
    }
}

/// Starts the first N of four streams.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
#[inline]
fn start<const N: usize>(entropy: [&Entropy; 4], generators: &mut [Generator; N]) {
    let half = |i: usize| {
        // SAFETY: a block of each 48 bytes.
        let block = |lane: usize| unsafe { _mm_loadu_si128(entropy[lane].as_ptr().add(16 * i).cast()) };
        let x = _mm512_castsi128_si512(block(0));
        let x = _mm512_inserti32x4::<1>(x, block(1));
        let x = _mm512_inserti32x4::<2>(x, block(2));
        let x = _mm512_inserti32x4::<3>(x, block(3));
        // SAFETY: 16 bytes.
        let constant = unsafe { _mm_loadu_si128((&raw const ZERO_KEY_BLOCKS[i]).cast()) };
        _mm512_xor_si512(x, _mm512_broadcast_i32x4(constant))
    };
    expand_keys([half(0), half(1)], |r, keys| {
        for (lane, generator) in generators.iter_mut().enumerate() {
            let to = std::ptr::from_mut(&mut generator.round_keys[r]).cast();
            // SAFETY: a round key is 16 bytes.
            unsafe {
                match lane {
                    0 => _mm_storeu_si128(to, _mm512_castsi512_si128(keys)),
                    1 => _mm_storeu_si128(to, _mm512_extracti32x4_epi32::<1>(keys)),
                    2 => _mm_storeu_si128(to, _mm512_extracti32x4_epi32::<2>(keys)),
                    _ => _mm_storeu_si128(to, _mm512_extracti32x4_epi32::<3>(keys)),
                }
            }
        }
    });
    for (entropy, generator) in entropy.into_iter().zip(generators) {
        generator.begin_request(initial_v(entropy));
    }
}

/// AES-256 of independent blocks. Calls `beside` once for each of their registers, in between.
#[target_feature(enable = "avx512f,vaes")]
#[inline]
fn encrypt<const N: usize>(
    round_keys: &[u128; ROUND_KEYS],
    mut blocks: [__m512i; N],
    mut beside: impl FnMut(usize),
) -> [__m512i; N] {
    macro_rules! round {
        ($r:literal, $round:ident) => {
            let key = broadcast::<$r, _>(round_keys);
            for block in &mut blocks {
                *block = $round(*block, key);
            }
            // N times in 14 rounds.
            if $r > 0 && $r * N / 14 > ($r - 1) * N / 14 {
                beside($r * N / 14 - 1);
            }
        };
    }
    round!(0, _mm512_xor_si512);
    round!(1, _mm512_aesenc_epi128);
    round!(2, _mm512_aesenc_epi128);
    round!(3, _mm512_aesenc_epi128);
    round!(4, _mm512_aesenc_epi128);
    round!(5, _mm512_aesenc_epi128);
    round!(6, _mm512_aesenc_epi128);
    round!(7, _mm512_aesenc_epi128);
    round!(8, _mm512_aesenc_epi128);
    round!(9, _mm512_aesenc_epi128);
    round!(10, _mm512_aesenc_epi128);
    round!(11, _mm512_aesenc_epi128);
    round!(12, _mm512_aesenc_epi128);
    round!(13, _mm512_aesenc_epi128);
    round!(14, _mm512_aesenclast_epi128);
    blocks
}

/// Big-endian counters from native integers.
#[target_feature(enable = "avx512f,avx512bw")]
#[inline]
fn swap_bytes(x: __m512i) -> __m512i {
    let order = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    _mm512_shuffle_epi8(x, _mm512_broadcast_i32x4(order))
}

/// 128-bit sums, where `y` is below 2⁶⁴.
#[target_feature(enable = "avx512f")]
#[inline]
fn add_carrying(x: __m512i, y: __m512i) -> __m512i {
    let sum = _mm512_add_epi64(x, y);
    // High halves, of which `y` has none, are never below.
    let carries = _mm512_cmplt_epu64_mask(sum, x) << 1;
    _mm512_mask_sub_epi64(sum, carries, sum, _mm512_set1_epi64(-1))
}

/// Update (SP 800-90A, 10.2.1.2) without additional input: the next request's Key and V.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,vaes")]
fn update(generator: &mut Generator) {
    let counters = first_counters(&generator.v);
    let [key_and_v] = encrypt(&generator.round_keys, [swap_bytes(counters)], |_| ());
    let key = [
        _mm512_shuffle_i32x4::<0b00_00_00_00>(key_and_v, key_and_v),
        _mm512_shuffle_i32x4::<0b01_01_01_01>(key_and_v, key_and_v),
    ];
    expand_keys(key, |r, keys| {
        let to = std::ptr::from_mut(&mut generator.round_keys[r]).cast();
        // SAFETY: a round key is 16 bytes.
        unsafe { _mm_storeu_si128(to, _mm512_castsi512_si128(keys)) };
    });
    // SAFETY: V is 16 bytes.
    unsafe { _mm_storeu_si128((&raw mut generator.v).cast(), _mm512_extracti32x4_epi32::<2>(key_and_v)) };
    generator.begin_request(u128::from_be(generator.v));
}

/// The counters of the next chunks.
struct Counters {
    /// The next four.
    next: __m512i,
    /// The low half of the last counter used.
    low: u64,
    /// Counters given.
    blocks: u32,
}

impl Counters {
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn new(v: &u128) -> Self {
        Counters { next: first_counters(v), low: *v as u64, blocks: 0 }
    }

    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn next(&mut self) -> Chunk {
        let four = _mm512_broadcast_i32x4(_mm_set_epi64x(0, 4));
        let mut next = self.next;
        let mut chunk = [next; REGISTERS];
        for counters in &mut chunk {
            *counters = next;
            next = _mm512_add_epi64(next, four);
        }
        // For 20 of 2⁶⁴ counters.
        if self.low > u64::MAX - BLOCKS as u64 - 4 {
            next = self.next;
            for counters in &mut chunk {
                *counters = next;
                next = add_carrying(next, four);
            }
        }
        self.next = next;
        self.low = self.low.wrapping_add(BLOCKS as u64);
        self.blocks += BLOCKS as u32;
        chunk.map(|x| swap_bytes(x))
    }
}

/// V + 1 to V + 4.
#[target_feature(enable = "avx512f")]
#[inline]
fn first_counters(v: &u128) -> __m512i {
    add_carrying(broadcast::<0, _>(std::array::from_ref(v)), _mm512_setr_epi64(1, 0, 2, 0, 3, 0, 4, 0))
}

/// Reads chunks of a stream: calls `more` with each, until it says no, and `take` with each of its registers, which it
/// gets while the next chunk is encrypted, so that the two fill each other's pauses.
#[target_feature(enable = "avx512f,avx512bw,vaes")]
#[inline]
fn read(generator: &mut Generator, mut more: impl FnMut(&Chunk) -> bool, mut take: impl FnMut(usize, __m512i)) {
    let mut continues = true;
    while continues {
        if generator.blocks_left == 0 {
            update(generator);
        }
        let mut counters = Counters::new(&generator.v);
        let mut chunk = encrypt(&generator.round_keys, counters.next(), |_| ());
        loop {
            continues = more(&chunk);
            if !continues || counters.blocks == generator.blocks_left {
                break;
            }
            chunk = encrypt(&generator.round_keys, counters.next(), |r| take(r, chunk[r]));
        }
        // Not across requests: what is live while `update` is called goes to the stack.
        for (r, words) in chunk.into_iter().enumerate() {
            take(r, words);
        }
        generator.advance(counters.blocks);
    }
}
