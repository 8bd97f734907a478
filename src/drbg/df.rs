//! Block_Cipher_df (SP 800-90A Rev. 1, 10.3.2) and BCC (10.3.3).

use super::block::{BLOCK_BYTES, Cipher, KeySchedule, MAX_KEY_BYTES, MAX_SEED_BYTES};
use aes::Block;
use zeroize::{Zeroize, Zeroizing};

/// Chains of BCC that the longest output of the first pass needs: ⌈(keylen + outlen)/outlen⌉ for AES-256.
const MAX_CHAINS: usize = (MAX_KEY_BYTES + BLOCK_BYTES).div_ceil(BLOCK_BYTES);

/// The key of the first pass (10.3.2, step 8): 00 01 02 …, cut to keylen.
const DF_KEY: [u8; MAX_KEY_BYTES] = {
    let mut key = [0; MAX_KEY_BYTES];
    let mut i = 0;
    while i < MAX_KEY_BYTES {
        key[i] = i as u8;
        i += 1;
    }
    key
};

/// Derives seedlen bytes into `out` from the concatenation of `input`. `out` has the cipher's seedlen; the
/// concatenation has at most 2³² − 1 bytes, because step 2 writes its length in 32 bits (the callers check).
pub(super) fn block_cipher_df(cipher: Cipher, input: &[&[u8]], out: &mut [u8]) {
    let input_bytes: usize = input.iter().map(|part| part.len()).sum();
    let input_bytes = u32::try_from(input_bytes).expect("callers bound the input of the derivation function");
    let key_bytes = cipher.key_bytes();

    // Steps 1 to 9: all chains take in the same S = L ‖ N ‖ input ‖ 0x80 ‖ 0…; they differ in their IVs only.
    let mut bcc = Bcc::new(cipher);
    bcc.update(&input_bytes.to_be_bytes());
    bcc.update(&(out.len() as u32).to_be_bytes());
    for part in input {
        bcc.update(part);
    }
    let mut temp = Zeroizing::new([0; MAX_SEED_BYTES]);
    bcc.finalize(&mut temp);

    // Steps 10 to 15: K and X, then X = E(K, X) until `out` is full.
    let key = KeySchedule::new(cipher, &temp[..key_bytes]);
    let mut x = Block::default();
    x.copy_from_slice(&temp[key_bytes..key_bytes + BLOCK_BYTES]);
    for piece in out.chunks_mut(BLOCK_BYTES) {
        key.encrypt(std::slice::from_mut(&mut x));
        piece.copy_from_slice(&x[..piece.len()]);
    }
    x.zeroize();
}

/// The chaining values of BCC(K, IVᵢ ‖ S) for i = 0, 1, …, taken together so that S is read once.
struct Bcc {
    key: KeySchedule,
    chains: [Block; MAX_CHAINS],
    /// Input bytes that the chaining values have taken in since the last encryption.
    filled: usize,
}

impl Bcc {
    /// Step 9.1: IVᵢ is the 32-bit counter i, padded with zeros to a block.
    fn new(cipher: Cipher) -> Self {
        let mut chains = [Block::default(); MAX_CHAINS];
        for (i, chain) in chains.iter_mut().enumerate() {
            chain[..4].copy_from_slice(&(i as u32).to_be_bytes());
        }
        let key = KeySchedule::new(cipher, &DF_KEY[..cipher.key_bytes()]);
        let mut bcc = Bcc { key, chains, filled: 0 };
        bcc.encrypt();
        bcc
    }

    fn encrypt(&mut self) {
        self.key.encrypt(&mut self.chains);
        self.filled = 0;
    }

    fn update(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let take = data.len().min(BLOCK_BYTES - self.filled);
            for chain in &mut self.chains {
                for (value, byte) in chain[self.filled..].iter_mut().zip(&data[..take]) {
                    *value ^= byte;
                }
            }
            self.filled += take;
            data = &data[take..];
            if self.filled == BLOCK_BYTES {
                self.encrypt();
            }
        }
    }

    /// Step 4's padding, 0x80 and zeros up to a whole block; then the chaining values are written to `temp`.
    fn finalize(mut self, temp: &mut [u8; MAX_SEED_BYTES]) {
        self.update(&[0x80]);
        if self.filled != 0 {
            self.encrypt();
        }
        for (piece, chain) in temp.chunks_exact_mut(BLOCK_BYTES).zip(&self.chains) {
            piece.copy_from_slice(chain);
        }
    }
}

impl Drop for Bcc {
    fn drop(&mut self) {
        self.chains.iter_mut().for_each(|chain| chain.zeroize());
    }
}
