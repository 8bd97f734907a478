//! Streams on 128-bit AES and 256-bit registers: AES-NI, and a table of byte shuffles for the rejection.
//!
//! Expected: bound by AES. `aesenc` issues twice per cycle on current processors, so that 16 words take 14 cycles.

use std::arch::x86_64::*;

use super::{
    super::{arith::CENTRE, kernel::PANEL},
    Column, Entropy, Generator, MAX_HEIGHT, Q, REJECTED, ROUND_KEYS, ZERO_KEY_BLOCKS, in_chunks, initial_v,
};

/// Blocks of a chunk: enough to hide the latency of the rounds.
const BLOCKS: usize = 8;
const CHUNK_BYTES: usize = 16 * BLOCKS;
const CHUNK_WORDS: usize = CHUNK_BYTES / 2;
/// Registers of a chunk's results, with two blocks or 16 words each.
const REGISTERS: usize = BLOCKS / 2;
type Chunk = [__m256i; REGISTERS];

/// One 128-bit integer of `from`. In assembly so that compilers neither keep round keys across chunks, for which there
/// are too few registers, nor leave copies of them in the stack.
#[target_feature(enable = "avx2")]
#[inline]
fn load<const I: usize, const N: usize>(from: &[u128; N]) -> __m128i {
    const { assert!(I < N) };
    let x;
    // SAFETY: reads 16 bytes of `from`.
    unsafe {
        std::arch::asm!(
            "vmovdqu {}, xmmword ptr [{} + {}]",
            lateout(xmm_reg) x,
            in(reg) from.as_ptr(),
            const 16 * I,
            options(readonly, nostack, preserves_flags)
        );
    }
    x
}

#[target_feature(enable = "avx2")]
#[inline]
fn store_block(to: &mut u128, x: __m128i) {
    // SAFETY: 16 bytes.
    unsafe { _mm_storeu_si128(std::ptr::from_mut(to).cast(), x) };
}

/// The AES-256 key expansion (FIPS 197, 5.2) of N keys side by side, whose halves `keys` holds. `store(i, r, x)` takes
/// round key r of key i.
///
/// `aesenclast` on a block of four equal words, where ShiftRows does nothing, is SubWord with Rcon added.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn expand_keys<const N: usize>(mut keys: [[__m128i; 2]; N], mut store: impl FnMut(usize, usize, __m128i)) {
    let last = _mm_set1_epi32(0x0f0e0d0c);
    let rotated_last = _mm_set1_epi32(0x0c0f0e0d);
    for (i, [first, second]) in keys.into_iter().enumerate() {
        store(i, 0, first);
        store(i, 1, second);
    }
    for r in 2..ROUND_KEYS {
        let (word, rcon) = if r % 2 == 0 { (rotated_last, 1 << (r / 2 - 1)) } else { (last, 0) };
        for (i, [two_before, before]) in keys.iter_mut().enumerate() {
            let word = _mm_aesenclast_si128(_mm_shuffle_epi8(*before, word), _mm_set1_epi32(rcon));
            // Each word is the XOR of the words two round keys before up to its place, and of the substituted word.
            let x = _mm_xor_si128(*two_before, _mm_bslli_si128::<4>(*two_before));
            let x = _mm_xor_si128(x, _mm_bslli_si128::<8>(x));
            (*two_before, *before) = (*before, _mm_xor_si128(x, word));
            store(i, r, *before);
        }
    }
}

/// Starts a panel's streams, four at a time.
#[target_feature(enable = "avx2,aes")]
pub(super) fn start_all(entropy: &[Entropy; PANEL], generators: &mut [Generator; PANEL]) {
    for (entropy, generators) in entropy.as_chunks::<4>().0.iter().zip(generators.as_chunks_mut().0) {
        start(entropy, generators);
    }
}

#[target_feature(enable = "avx2,aes")]
#[inline]
fn start<const N: usize>(entropy: &[Entropy; N], generators: &mut [Generator; N]) {
    let keys = entropy.each_ref().map(|entropy| {
        [0, 1].map(|i| {
            // SAFETY: 16 of 48 bytes.
            let half = unsafe { _mm_loadu_si128(entropy.as_ptr().add(16 * i).cast()) };
            // SAFETY: 16 bytes.
            let constant = unsafe { _mm_loadu_si128((&raw const ZERO_KEY_BLOCKS[i]).cast()) };
            _mm_xor_si128(half, constant)
        })
    });
    expand_keys(keys, |i, r, x| store_block(&mut generators[i].round_keys[r], x));
    for (entropy, generator) in entropy.iter().zip(generators) {
        generator.begin_request(initial_v(entropy));
    }
}

/// AES-256 of independent blocks.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn encrypt<const N: usize>(round_keys: &[u128; ROUND_KEYS], mut blocks: [__m128i; N]) -> [__m128i; N] {
    macro_rules! round {
        ($r:literal, $round:ident) => {
            let key = load::<$r, _>(round_keys);
            for block in &mut blocks {
                *block = $round(*block, key);
            }
        };
    }
    round!(0, _mm_xor_si128);
    round!(1, _mm_aesenc_si128);
    round!(2, _mm_aesenc_si128);
    round!(3, _mm_aesenc_si128);
    round!(4, _mm_aesenc_si128);
    round!(5, _mm_aesenc_si128);
    round!(6, _mm_aesenc_si128);
    round!(7, _mm_aesenc_si128);
    round!(8, _mm_aesenc_si128);
    round!(9, _mm_aesenc_si128);
    round!(10, _mm_aesenc_si128);
    round!(11, _mm_aesenc_si128);
    round!(12, _mm_aesenc_si128);
    round!(13, _mm_aesenc_si128);
    round!(14, _mm_aesenclast_si128);
    blocks
}

/// A big-endian counter from a native integer.
#[target_feature(enable = "avx2")]
#[inline]
fn swap_bytes(x: __m128i) -> __m128i {
    _mm_shuffle_epi8(x, _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15))
}

/// The next N counters, big-endian. `last` is the last one used, and `low` its low half.
#[target_feature(enable = "avx2")]
#[inline]
fn count<const N: usize>(last: &mut __m128i, low: u64) -> [__m128i; N] {
    let one = _mm_set_epi64x(0, 1);
    let start = *last;
    let mut counters = [start; N];
    for counter in &mut counters {
        *last = _mm_add_epi64(*last, one);
        *counter = *last;
    }
    // For N of 2⁶⁴ counters.
    if low > u64::MAX - N as u64 {
        *last = start;
        for counter in &mut counters {
            let sum = _mm_add_epi64(*last, one);
            // A low half that became zero carries: −1 moves to the high half.
            let carry = _mm_bslli_si128::<8>(_mm_cmpeq_epi64(sum, _mm_setzero_si128()));
            *last = _mm_sub_epi64(sum, carry);
            *counter = *last;
        }
    }
    counters.map(|x| swap_bytes(x))
}

/// Update (SP 800-90A, 10.2.1.2) without additional input: the next request's Key and V.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2,aes")]
fn update(generator: &mut Generator) {
    let mut last = load::<0, 1>(std::array::from_ref(&generator.v));
    let [first, second, v] = encrypt(&generator.round_keys, count(&mut last, generator.v as u64));
    expand_keys([[first, second]], |_, r, x| store_block(&mut generator.round_keys[r], x));
    store_block(&mut generator.v, v);
    generator.begin_request(u128::from_be(generator.v));
}

/// Calls `take` with the next chunk for as long as it asks for more.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn read(generator: &mut Generator, mut take: impl FnMut(Chunk) -> bool) {
    let mut more = true;
    while more {
        if generator.blocks_left == 0 {
            update(generator);
        }
        let mut last = load::<0, 1>(std::array::from_ref(&generator.v));
        let mut low = generator.v as u64;
        let mut blocks = 0;
        while more && blocks < generator.blocks_left {
            let x: [__m128i; BLOCKS] = encrypt(&generator.round_keys, count(&mut last, low));
            low = low.wrapping_add(BLOCKS as u64);
            blocks += BLOCKS as u32;
            more = take(std::array::from_fn(|r| _mm256_set_m128i(x[2 * r + 1], x[2 * r])));
        }
        generator.advance(blocks);
    }
}

/// For each set of 8 words that are kept, the shuffle that brings them to the front in order.
static COMPRESSIONS: [[u8; 16]; 256] = {
    let mut shuffles = [[0x80; 16]; 256];
    let mut kept = 0;
    while kept < 256 {
        let (mut word, mut place) = (0, 0);
        while word < 8 {
            if kept >> word & 1 == 1 {
                shuffles[kept][2 * place] = 2 * word;
                shuffles[kept][2 * place + 1] = 2 * word + 1;
                place += 1;
            }
            word += 1;
        }
        kept += 1;
    }
    shuffles
};

/// Moves `column[last..filled]` to the front, then draws until `height` values are there; returns how many are.
/// At most a chunk is drawn beyond `height`. Public: which words are kept selects shuffles from a table.
#[target_feature(enable = "avx2,aes,popcnt")]
pub(super) fn uniform(
    generator: &mut Generator,
    column: &mut Column,
    last: usize,
    filled: usize,
    height: usize,
) -> usize {
    assert!(height <= MAX_HEIGHT && last <= filled);
    column.copy_within(last..filled, 0);
    let mut filled = filled - last;
    if filled >= height {
        return filled;
    }
    let start = column.as_mut_ptr();
    let constants = Constants::new();
    read(generator, |chunk| {
        for words in chunk {
            // SAFETY: a chunk begins below `height` and each of its registers at most 16 values after the one before,
            // so that the last one ends within a chunk's length of `height`.
            filled += unsafe { store_kept(words, &constants, start.add(filled)) };
        }
        filled < height
    });
    filled
}

struct Constants {
    /// The largest word that is kept.
    largest: __m256i,
    /// 4q, 2q and q.
    multiples: [__m256i; 3],
    centre: __m256i,
}

impl Constants {
    /// As values that compilers know nothing of: they would broadcast constants anew, on the port that shuffles need.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new() -> Self {
        let [largest, centre, multiples @ ..] =
            std::hint::black_box([REJECTED - 1, CENTRE as u16, 4 * Q, 2 * Q, Q]).map(|x| _mm256_set1_epi16(x as i16));
        Constants { largest, multiples, centre }
    }
}

/// Writes the values of the words that are kept in order, 16 in all with what follows them, and returns how many they
/// are.
///
/// # Safety
/// `to` has room for 16 values.
#[target_feature(enable = "avx2,popcnt")]
#[inline]
unsafe fn store_kept(words: __m256i, constants: &Constants, to: *mut i16) -> usize {
    // Below y, x − y wraps to above x.
    let x = constants.multiples.into_iter().fold(words, |x, y| _mm256_min_epu16(x, _mm256_sub_epi16(x, y)));
    let x = _mm256_sub_epi16(x, constants.centre);
    let kept = _mm256_cmpeq_epi16(_mm256_min_epu16(words, constants.largest), words);
    // Bits 0 to 7 and 16 to 23.
    let kept = _mm256_movemask_epi8(_mm256_packs_epi16(kept, _mm256_setzero_si256())) as usize;
    let halves = [kept & 0xff, kept >> 16 & 0xff];
    // SAFETY: a shuffle has 16 bytes; `to` has room for two halves, however many of the first's words are kept.
    unsafe {
        let shuffles = halves.map(|half| _mm_loadu_si128(COMPRESSIONS[half].as_ptr().cast()));
        let x = _mm256_shuffle_epi8(x, _mm256_set_m128i(shuffles[1], shuffles[0]));
        _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(x));
        _mm_storeu_si128(to.add(halves[0].count_ones() as usize).cast(), _mm256_extracti128_si256::<1>(x));
    }
    kept.count_ones() as usize
}

/// [`store_kept`] twice.
#[cfg(test)]
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn compact(words: &[u16; 32], out: &mut [i16; 32]) -> usize {
    let constants = Constants::new();
    // SAFETY: 32 bytes of `words` each; the first writes the first half of `out`, and the second begins in it.
    unsafe {
        let [first, second] = [0, 16].map(|i| _mm256_loadu_si256(words.as_ptr().add(i).cast()));
        let filled = store_kept(first, &constants, out.as_mut_ptr());
        filled + store_kept(second, &constants, out.as_mut_ptr().add(filled))
    }
}

/// See [`super::sample_table`].
#[target_feature(enable = "avx2,aes")]
pub(super) fn sample_table(entropy: &Entropy, thresholds: &[u16], out: &mut [i16]) {
    // Adds 1 where word >> 1 is above; both are below 2¹⁵.
    let count =
        |x, half, threshold: u16| _mm256_sub_epi16(x, _mm256_cmpgt_epi16(half, _mm256_set1_epi16(threshold as i16)));
    let zero = _mm256_setzero_si256();
    match thresholds {
        &[a, b, c, d] => {
            sample_words(entropy, out, |half| count(count(count(count(zero, half, a), half, b), half, c), half, d));
        }
        _ => sample_words(entropy, out, |half| thresholds.iter().fold(zero, |x, &t| count(x, half, t))),
    }
}

/// Fills `out` with the magnitudes that `magnitude` makes of the halves of the stream's words, word >> 1, signed by the
/// words' low bits.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn sample_words(entropy: &Entropy, out: &mut [i16], magnitude: impl Fn(__m256i) -> __m256i) {
    let mut generator = Generator::default();
    start(std::array::from_ref(entropy), std::array::from_mut(&mut generator));
    in_chunks(out, |out: &mut [[i16; CHUNK_WORDS]]| {
        read_into(&mut generator, out, |out, r, words| {
            let sign = _mm256_or_si256(_mm256_slli_epi16::<15>(words), _mm256_set1_epi16(1));
            let x = _mm256_sign_epi16(magnitude(_mm256_srli_epi16::<1>(words)), sign);
            // SAFETY: 16 values of a chunk.
            unsafe { _mm256_storeu_si256(out.as_mut_ptr().add(16 * r).cast(), x) };
        });
    });
}

/// See [`super::cbd3`].
#[target_feature(enable = "avx2,aes")]
pub(super) fn cbd3(entropy: &Entropy, out: &mut [i16]) {
    let mut generator = Generator::default();
    start(std::array::from_ref(entropy), std::array::from_mut(&mut generator));
    let ones = _mm256_set1_epi8(0b1001);
    let two_bits = _mm256_set1_epi8(0b11);
    in_chunks(out, |out: &mut [[i16; CHUNK_BYTES]]| {
        read_into(&mut generator, out, |out, r, bytes| {
            // Bits 0 to 2 and 3 to 5 of each byte summed side by side, in bits 0 to 1 and 3 to 4.
            let bit = |x| _mm256_and_si256(x, ones);
            let sums = _mm256_add_epi8(bit(bytes), bit(_mm256_srli_epi16::<1>(bytes)));
            let sums = _mm256_add_epi8(sums, bit(_mm256_srli_epi16::<2>(bytes)));
            let minuend = _mm256_and_si256(sums, two_bits);
            let subtrahend = _mm256_and_si256(_mm256_srli_epi16::<3>(sums), two_bits);
            let x = _mm256_sub_epi8(minuend, subtrahend);
            // SAFETY: 32 values of a chunk.
            unsafe {
                let to: *mut __m256i = out.as_mut_ptr().add(32 * r).cast();
                _mm256_storeu_si256(to, _mm256_cvtepi8_epi16(_mm256_castsi256_si128(x)));
                _mm256_storeu_si256(to.add(1), _mm256_cvtepi8_epi16(_mm256_extracti128_si256::<1>(x)));
            }
        });
    });
}

/// Reads a chunk for each piece of `out`: `write(piece, r, x)` gets its register r.
#[target_feature(enable = "avx2,aes")]
#[inline]
fn read_into<T>(generator: &mut Generator, out: &mut [T], mut write: impl FnMut(&mut T, usize, __m256i)) {
    let mut pieces = out.iter_mut();
    let Some(mut piece) = pieces.next() else { return };
    read(generator, |chunk| {
        for (r, x) in chunk.into_iter().enumerate() {
            write(piece, r, x);
        }
        match pieces.next() {
            Some(next) => piece = next,
            None => return false,
        }
        true
    });
}
