//! Streams without special instructions, as far as the `aes` crate does without: the plain twin of the others.

use aes::{
    Aes256Enc, Block,
    cipher::{BlockCipherEncrypt, KeyInit},
};
use zeroize::{Zeroize, Zeroizing};

use super::{
    super::{arith::CENTRE, kernel::PANEL},
    Column, Entropy, Generator, Q, REJECTED, ZERO_KEY_BLOCKS, in_chunks, initial_v,
};
use crate::noise;

/// Blocks of a chunk.
const BLOCKS: usize = 16;
const CHUNK_BYTES: usize = 16 * BLOCKS;
const CHUNK_WORDS: usize = CHUNK_BYTES / 2;

/// Starts a panel's streams.
pub(super) fn start_all(entropy: &[Entropy; PANEL], generators: &mut [Generator; PANEL]) {
    entropy.iter().zip(generators).for_each(|(entropy, generator)| start(entropy, generator));
}

fn start(entropy: &Entropy, generator: &mut Generator) {
    let (blocks, _) = entropy.as_chunks();
    for i in 0..2 {
        generator.round_keys[i] = u128::from_ne_bytes(blocks[i]) ^ ZERO_KEY_BLOCKS[i];
    }
    generator.begin_request(initial_v(entropy));
}

fn cipher(generator: &Generator) -> Aes256Enc {
    let mut key = Zeroizing::new([0; 32]);
    for (bytes, half) in key.chunks_exact_mut(16).zip(generator.round_keys) {
        bytes.copy_from_slice(&half.to_ne_bytes());
    }
    Aes256Enc::new((&*key).into())
}

/// Calls `take` with the bytes of the next chunk for as long as it asks for more.
fn read(generator: &mut Generator, mut take: impl FnMut(&[u8; CHUNK_BYTES]) -> bool) {
    let mut aes = cipher(generator);
    let mut blocks = [Block::default(); BLOCKS];
    let mut more = true;
    while more {
        if generator.blocks_left == 0 {
            // Update (SP 800-90A, 10.2.1.2) without additional input.
            encrypt_counters(&aes, &mut generator.v, &mut blocks[..3]);
            let [first, second, v] = std::array::from_fn(|i| u128::from_ne_bytes(blocks[i].into()));
            (generator.round_keys[0], generator.round_keys[1]) = (first, second);
            generator.begin_request(u128::from_be(v));
            aes = cipher(generator);
        }
        encrypt_counters(&aes, &mut generator.v, &mut blocks);
        generator.blocks_left -= BLOCKS as u32;
        let bytes: &[u8] = Block::slice_as_flattened(&blocks);
        more = take(bytes.try_into().expect("a chunk's bytes"));
    }
    blocks.iter_mut().for_each(|block| block.zeroize());
}

fn encrypt_counters(aes: &Aes256Enc, v: &mut u128, blocks: &mut [Block]) {
    for block in &mut *blocks {
        *v = v.wrapping_add(1);
        *block = v.to_be_bytes().into();
    }
    aes.encrypt_blocks(blocks);
}

/// Moves `column[last..filled]` to the front, then draws until `height` values are there; returns how many are.
/// At most a chunk is drawn beyond `height`.
pub(super) fn uniform(
    generator: &mut Generator,
    column: &mut Column,
    last: usize,
    filled: usize,
    height: usize,
) -> usize {
    column.copy_within(last..filled, 0);
    let mut filled = filled - last;
    if filled < height {
        read(generator, |bytes| {
            for word in bytes.as_chunks().0 {
                let word = u16::from_le_bytes(*word);
                column[filled] = (word % Q) as i16 - CENTRE;
                filled += usize::from(word < REJECTED);
            }
            filled < height
        });
    }
    filled
}

/// See [`super::sample_table`].
pub(super) fn sample_table(entropy: &Entropy, thresholds: &[u16], out: &mut [i16]) {
    let mut generator = Generator::default();
    start(entropy, &mut generator);
    in_chunks(out, |out: &mut [[i16; CHUNK_WORDS]]| {
        read_into(&mut generator, out, |out, bytes| {
            let words = bytes.as_chunks().0;
            out.fill(0);
            // Threshold by threshold over the whole chunk, which compilers vectorize.
            for &threshold in thresholds {
                for (x, &word) in out.iter_mut().zip(words) {
                    // Both operands are below 2¹⁵: the difference borrows into bit 15 exactly where word/2 is larger.
                    *x += (threshold.wrapping_sub(u16::from_le_bytes(word) >> 1) >> 15) as i16;
                }
            }
            for (x, &word) in out.iter_mut().zip(words) {
                let sign = -((u16::from_le_bytes(word) & 1) as i16);
                *x = (*x ^ sign) - sign;
            }
        });
    });
}

/// See [`super::cbd3`].
pub(super) fn cbd3(entropy: &Entropy, out: &mut [i16]) {
    let mut generator = Generator::default();
    start(entropy, &mut generator);
    in_chunks(out, |out: &mut [[i16; CHUNK_BYTES]]| {
        read_into(&mut generator, out, |out, bytes| {
            out.iter_mut().zip(bytes).for_each(|(x, &byte)| *x = i16::from(noise::cbd3(byte)));
        });
    });
}

/// Reads a chunk for each piece of `out`.
fn read_into<T>(generator: &mut Generator, out: &mut [T], write: impl Fn(&mut T, &[u8; CHUNK_BYTES])) {
    let mut pieces = out.iter_mut();
    if pieces.len() > 0 {
        read(generator, |bytes| {
            write(pieces.next().expect("a chunk is read for each piece"), bytes);
            pieces.len() > 0
        });
    }
}
