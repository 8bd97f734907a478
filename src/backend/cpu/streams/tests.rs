//! Streams in bulk against [`crate::drbg::Stream`], and their parts against plain twins.

use super::*;
use crate::{
    drbg::{Cipher, CtrDrbg, Stream},
    hash::shake256,
    noise,
};

const CENTRE: i16 = super::super::arith::CENTRE;

/// The first bytes of the stream that starts from `entropy`, by the generator of the standard.
fn stream(entropy: &Entropy, len: usize) -> Vec<u8> {
    let mut drbg = CtrDrbg::instantiate(Cipher::Aes256, entropy, &[]).unwrap();
    let mut bytes = vec![0; len.next_multiple_of(MAX_REQUEST_BYTES)];
    bytes.chunks_mut(MAX_REQUEST_BYTES).for_each(|request| drbg.generate(request, &[]).unwrap());
    bytes.truncate(len);
    bytes
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u16> {
    bytes.as_chunks().0.iter().map(|&word| u16::from_le_bytes(word))
}

/// The first n values of a column whose stream starts from `entropy`.
fn column(entropy: &Entropy, n: usize) -> Vec<i16> {
    let bytes = stream(entropy, 2 * n * 9 / 8 + 512);
    let column: Vec<_> = words(&bytes).filter(|&w| w < 5 * Q).map(|w| (w % Q) as i16 - CENTRE).take(n).collect();
    assert_eq!(column.len(), n);
    column
}

fn entropy(seed: u8, i: u32) -> Entropy {
    let mut entropy = [0; 48];
    shake256(&[&[seed; 32], b"A", &i.to_le_bytes()], &mut entropy);
    entropy
}

/// Entropy whose V is `below` short of all ones in its last `bytes` bytes.
fn entropy_before_carry(seed: u8, bytes: usize, below: u16) -> Entropy {
    let mut entropy = entropy(seed, u32::from(below));
    let mut v = initial_v(&entropy);
    let mask = u128::MAX >> (128 - 8 * bytes);
    v = (v | mask) - u128::from(below);
    entropy[32..].copy_from_slice(&(v ^ u128::from_be(ZERO_KEY_BLOCKS[2])).to_be_bytes());
    assert_eq!(initial_v(&entropy), v);
    entropy
}

/// 32 streams: carries out of 4, 8 and 16 bytes in the first and in later chunks, and random ones.
fn panel(seed: u8) -> [Entropy; PANEL] {
    std::array::from_fn(|j| match j {
        0..15 => entropy_before_carry(seed, [4, 8, 16][j % 3], [0, 1, 30, 37, 700][j / 3]),
        _ => entropy(seed, j as u32),
    })
}

#[test]
fn streams_are_the_specified_ones() {
    let seed = [9; 32];
    let mut expected = vec![0; 200_000];
    Stream::new(&seed, b'A', 7).read(&mut expected);
    assert_eq!(stream(&entropy(9, 7), expected.len()), expected);
}

/// Columns in blocks of rows of all kinds of heights, across the ends of requests; then their panel order and products.
#[test]
fn columns_are_the_streams_values() {
    let heights = [512, 32, 480, 0, 64, 96, 512, 32, 32, 32];
    let s: [i16; PANEL] = std::array::from_fn(|j| [-127, 127, 3, 0, -1][j % 5]);
    let mut buffer = vec![0; PANEL * MAX_HEIGHT + 64];
    for (seed, n) in [(1, 1000), (2, 36_000)] {
        let entropy = panel(seed);
        let expected = entropy.map(|entropy| column(&entropy, n));
        for isa in Isa::available() {
            let mut columns = Columns::new(isa);
            columns.start(&entropy);
            let mut first = 0;
            for (i, &height) in heights.iter().cycle().enumerate() {
                if first + height > n {
                    break;
                }
                columns.advance(height);
                let streaming = i % 3 > 0;
                // Aligned to cache lines, and not.
                let start = buffer.as_ptr().align_offset(64) + i % 2;
                let tile = &mut buffer[start..].as_chunks_mut().0[..height / 32];
                let mut sums: Vec<[i32; 32]> = (0..height as i32 / 32).map(|i| [i; 32]).collect();
                columns.store_and_multiply(tile, streaming, &s, &mut sums);
                for k in 0..height {
                    let row: [i16; PANEL] = std::array::from_fn(|j| expected[j][first + k]);
                    let pair = &tile[k / 32][k % 32 / 2 * 2 * PANEL..][..2 * PANEL];
                    assert!(row.iter().eq(pair.iter().skip(k % 2).step_by(2)), "{isa:?}: row {}", first + k);
                    let product: i32 = row.iter().zip(&s).map(|(&a, &s)| i32::from(a) * i32::from(s)).sum();
                    assert_eq!(sums[k / 32][k % 32], (k / 32) as i32 + product, "{isa:?}: row {}", first + k);
                }
                let stored = tile.to_vec();
                tile.as_flattened_mut().fill(1);
                columns.store(tile, streaming);
                assert!(*tile == stored, "{isa:?}: {height} rows from {first} on");
                first += height;
            }
            assert!(first > n - MAX_HEIGHT);
        }
    }
}

/// Every word, and every set of kept words among 8, where streams seldom reject more than one.
#[test]
#[cfg(target_arch = "x86_64")]
fn words_are_reduced_and_compacted() {
    let every_word = (0..=u16::MAX / 32).map(|i| std::array::from_fn(|j| 32 * i + j as u16));
    let every_set = (0..=255u16).map(|kept| {
        std::array::from_fn(|j| {
            let word = (j as u16 + 1) * 1900;
            let kept = kept.rotate_left(3 * (j / 8) as u32);
            if kept >> (j % 8) & 1 == 1 { word } else { u16::MAX - word % 4000 }
        })
    });
    let words: Vec<[u16; 32]> = every_word.chain(every_set).collect();
    for isa in Isa::available().filter(|&isa| isa != Isa::Portable) {
        for words in &words {
            let expected: Vec<_> = words.iter().filter(|&&w| w < 5 * Q).map(|w| (w % Q) as i16 - CENTRE).collect();
            let mut out = [0; 32];
            // SAFETY: an `Isa` is used only where the machine has its instructions.
            let kept = unsafe {
                match isa {
                    Isa::Avx512 | Isa::Amx => avx512::compact(words, &mut out),
                    _ => avx2::compact(words, &mut out),
                }
            };
            assert_eq!(out[..kept], expected, "{isa:?}: {words:?}");
        }
    }
}

#[test]
fn samples_are_the_streams() {
    let tables = [0.25, 1.0, 3.2, 25.0].map(|sigma| Cdt::gaussian(sigma).unwrap());
    let lens = [0, 1, 31, 32, 255, 256, 257, 1000, 4096, 33_000, 40_000];
    for isa in Isa::available() {
        for (i, entropy) in panel(3).iter().enumerate() {
            let len = lens[i % lens.len()];
            let bytes = stream(entropy, 2 * len);
            let mut out = vec![99; len + 1];
            for table in &tables {
                sample_table(isa, entropy, table, &mut out[..len]);
                let expected: Vec<_> = words(&bytes).map(|w| i16::from(table.sample(w))).collect();
                assert!(
                    out[..len] == expected,
                    "{isa:?}: {len} samples of stream {i}, {} thresholds",
                    table.thresholds().len()
                );
            }
            cbd3(isa, entropy, &mut out[..len]);
            let expected: Vec<_> = bytes[..len].iter().map(|&byte| i16::from(noise::cbd3(byte))).collect();
            assert!(out[..len] == expected, "{isa:?}: {len} samples of stream {i}, CBD(3)");
            assert_eq!(out[len], 99, "{isa:?}: nothing beyond the end");
        }
    }
}
