//! AES under one key, in the two shapes that CTR_DRBG uses: a run of counter blocks, and a few chained blocks.

use aes::{
    Aes128Enc, Aes192Enc, Aes256Enc, Block,
    cipher::{
        Array, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, KeyInit, ParBlocks,
        consts::U16,
    },
};
use zeroize::{ZeroizeOnDrop, Zeroizing};

/// outlen (SP 800-90A, table 3) in bytes: the block of AES.
pub(super) const BLOCK_BYTES: usize = 16;

/// The largest keylen and seedlen (SP 800-90A, table 3) in bytes: those of AES-256.
pub(super) const MAX_KEY_BYTES: usize = 32;
pub(super) const MAX_SEED_BYTES: usize = MAX_KEY_BYTES + BLOCK_BYTES;

/// The block cipher of a generator (SP 800-90A, table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-128: keylen 128, seedlen 256.
    Aes128,
    /// AES-192: keylen 192, seedlen 320.
    Aes192,
    /// AES-256: keylen 256, seedlen 384.
    Aes256,
}

impl Cipher {
    /// keylen in bytes: 16, 24 or 32.
    pub const fn key_bytes(self) -> usize {
        match self {
            Cipher::Aes128 => 16,
            Cipher::Aes192 => 24,
            Cipher::Aes256 => 32,
        }
    }

    /// seedlen = keylen + outlen in bytes: 32, 40 or 48.
    pub const fn seed_bytes(self) -> usize {
        self.key_bytes() + BLOCK_BYTES
    }

    /// The highest security strength that the cipher supports, in bytes: its key length.
    pub const fn security_strength_bytes(self) -> usize {
        self.key_bytes()
    }
}

/// An expanded key. Secret; the ciphers wipe themselves on drop.
pub(super) enum KeySchedule {
    Aes128(Aes128Enc),
    Aes192(Aes192Enc),
    Aes256(Aes256Enc),
}

/// The ciphers wipe themselves only with the feature `zeroize` of `aes`: without it this does not compile.
const _: () = {
    const fn wiped_on_drop<T: ZeroizeOnDrop>() {}
    wiped_on_drop::<Aes128Enc>();
    wiped_on_drop::<Aes192Enc>();
    wiped_on_drop::<Aes256Enc>();
};

impl KeySchedule {
    /// Expands `key`, which has the cipher's key length.
    pub(super) fn new(cipher: Cipher, key: &[u8]) -> Self {
        const LENGTH: &str = "a key of the cipher's length";
        match cipher {
            Cipher::Aes128 => KeySchedule::Aes128(Aes128Enc::new_from_slice(key).expect(LENGTH)),
            Cipher::Aes192 => KeySchedule::Aes192(Aes192Enc::new_from_slice(key).expect(LENGTH)),
            Cipher::Aes256 => KeySchedule::Aes256(Aes256Enc::new_from_slice(key).expect(LENGTH)),
        }
    }

    /// The cipher whose key this is.
    pub(super) fn cipher(&self) -> Cipher {
        match self {
            KeySchedule::Aes128(_) => Cipher::Aes128,
            KeySchedule::Aes192(_) => Cipher::Aes192,
            KeySchedule::Aes256(_) => Cipher::Aes256,
        }
    }

    /// Encrypts independent blocks in place.
    pub(super) fn encrypt(&self, blocks: &mut [Block]) {
        match self {
            KeySchedule::Aes128(aes) => aes.encrypt_blocks(blocks),
            KeySchedule::Aes192(aes) => aes.encrypt_blocks(blocks),
            KeySchedule::Aes256(aes) => aes.encrypt_blocks(blocks),
        }
    }

    /// [`encrypt_counters`] under this key.
    pub(super) fn encrypt_counters(&self, v: &mut u128, out: &mut [u8]) {
        match self {
            KeySchedule::Aes128(aes) => encrypt_counters(aes, v, out),
            KeySchedule::Aes192(aes) => encrypt_counters(aes, v, out),
            KeySchedule::Aes256(aes) => encrypt_counters(aes, v, out),
        }
    }
}

/// SP 800-90A, 10.2.1.5.1, step 4, with ctr_len = blocklen: fills `out` with E(V+1) ‖ E(V+2) ‖ …, the last block cut,
/// and leaves in `v` the last counter used. The counter is a big-endian 128-bit number and wraps.
pub(super) fn encrypt_counters(aes: &impl BlockCipherEncrypt<BlockSize = U16>, v: &mut u128, out: &mut [u8]) {
    let (blocks, cut) = Block::slice_as_chunks_mut(out);
    if !blocks.is_empty() {
        aes.encrypt_with_backend(Counters { v: *v, blocks });
        *v = v.wrapping_add(blocks.len() as u128);
    }
    if !cut.is_empty() {
        *v = v.wrapping_add(1);
        let mut block = Zeroizing::new(v.to_be_bytes());
        aes.encrypt_block((&mut *block).into());
        cut.copy_from_slice(&block[..cut.len()]);
    }
}

/// Whole counter blocks after `v`. As a closure it is compiled once for each instruction set that the `aes` crate
/// knows, so that the counters are written by the same wide instructions, just ahead of their encryption in place.
struct Counters<'a> {
    v: u128,
    blocks: &'a mut [Block],
}

impl BlockSizeUser for Counters<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Counters<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let Counters { mut v, blocks } = self;
        let (batches, rest) = ParBlocks::<B>::slice_as_chunks_mut(blocks);
        for batch in batches {
            write_counters(v, batch);
            v = v.wrapping_add(batch.len() as u128);
            backend.encrypt_par_blocks(batch.into());
        }
        write_counters(v, rest);
        for block in rest {
            backend.encrypt_block(block.into());
        }
    }
}

/// Writes V+1, V+2, … to `blocks`. The halves are added apart, with the carry as a comparison, and stored as one
/// integer: LLVM vectorizes these additions. It vectorizes neither 128-bit additions nor halves that are stored apart.
#[inline(always)]
fn write_counters(v: u128, blocks: &mut [Block]) {
    let (high, low) = ((v >> 64) as u64, v as u64);
    // Wrapping, though it never does: an overflow check would keep the loop scalar.
    let mut add = 0u64;
    for block in blocks {
        add = add.wrapping_add(1);
        let new_low = low.wrapping_add(add);
        let new_high = high.wrapping_add(u64::from(new_low < add));
        *block = Array((u128::from(new_high) << 64 | u128::from(new_low)).to_be_bytes());
    }
}
