//! The streams of LWE-KEM (LWE-KEM specification, "Randomness").

use super::{
    MAX_REQUEST_BYTES,
    block::{BLOCK_BYTES, MAX_KEY_BYTES, MAX_SEED_BYTES, encrypt_counters},
};
use crate::hash::shake256;
use aes::{Aes256Enc, cipher::KeyInit};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// E₀(1) ‖ E₀(2) ‖ E₀(3) of AES-256 under the all-zero key: what Update starts from at instantiation.
const ZERO_KEY_BLOCKS: [u8; MAX_SEED_BYTES] = [
    0x53, 0x0f, 0x8a, 0xfb, 0xc7, 0x45, 0x36, 0xb9, 0xa9, 0x63, 0xb4, 0xf1, 0xc4, 0xcb, 0x73, 0x8b, //
    0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e, 0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18, //
    0x72, 0x60, 0x03, 0xca, 0x37, 0xa6, 0x2a, 0x74, 0xd1, 0xa2, 0xf5, 0x8e, 0x75, 0x06, 0x35, 0x8e,
];

/// Stream(seed, tag, index): an AES-256 CTR_DRBG without derivation function whose entropy input is
/// SHAKE256(seed ‖ tag ‖ LE32(index)), read by requests of 65536 bytes without reseeding.
///
/// Its bytes do not depend on how they are cut into reads. A read computes only the blocks that it returns (and the
/// rest of the last one): the state update that ends a request waits for the first read beyond it. Making a stream
/// costs one SHAKE256 permutation and one key schedule, and no allocation.
pub struct Stream {
    aes: Aes256Enc,
    /// V of the request in progress: the last counter used.
    v: u128,
    /// Bytes of the request in progress that are read already, at most 65536.
    request_read_bytes: usize,
    /// The last block encrypted, where a read ended inside it.
    block: [u8; BLOCK_BYTES],
}

impl Stream {
    /// The stream of `seed` (32 bytes), `tag` (one ASCII byte) and `index`.
    pub fn new(seed: &[u8; 32], tag: u8, index: u32) -> Self {
        let mut input = Zeroizing::new([0; 37]);
        input[..32].copy_from_slice(seed);
        input[32] = tag;
        input[33..].copy_from_slice(&index.to_le_bytes());
        let mut entropy_input = Zeroizing::new([0; MAX_SEED_BYTES]);
        shake256(&[&*input], &mut *entropy_input);
        Stream::instantiate(&mut entropy_input)
    }

    /// Instantiate (SP 800-90A, 10.2.1.3.1) without personalization string. Overwrites `entropy_input`.
    fn instantiate(entropy_input: &mut [u8; MAX_SEED_BYTES]) -> Self {
        for (byte, e) in entropy_input.iter_mut().zip(&ZERO_KEY_BLOCKS) {
            *byte ^= e;
        }
        Stream::from_key_and_v(entropy_input)
    }

    /// A stream at the start of a request, from Key ‖ V.
    fn from_key_and_v(key_and_v: &[u8; MAX_SEED_BYTES]) -> Self {
        let (key, v) = key_and_v.split_at(MAX_KEY_BYTES);
        Stream {
            aes: Aes256Enc::new_from_slice(key).expect("32 bytes"),
            v: u128::from_be_bytes(v.try_into().expect("16 bytes")),
            request_read_bytes: 0,
            block: [0; BLOCK_BYTES],
        }
    }

    /// Fills `out` with the next bytes of the stream. Any length.
    pub fn read(&mut self, out: &mut [u8]) {
        let mut rest = out;
        while !rest.is_empty() {
            if self.request_read_bytes == MAX_REQUEST_BYTES {
                self.update();
            }
            let take = rest.len().min(MAX_REQUEST_BYTES - self.request_read_bytes);
            let (now, later) = rest.split_at_mut(take);
            self.read_within_request(now);
            rest = later;
        }
    }

    /// `out` ends within the request in progress.
    fn read_within_request(&mut self, mut out: &mut [u8]) {
        let used = self.request_read_bytes % BLOCK_BYTES;
        self.request_read_bytes += out.len();
        if used != 0 {
            let take = out.len().min(BLOCK_BYTES - used);
            let (head, rest) = out.split_at_mut(take);
            head.copy_from_slice(&self.block[used..used + take]);
            out = rest;
        }
        let (whole, cut) = out.split_at_mut(out.len() / BLOCK_BYTES * BLOCK_BYTES);
        encrypt_counters(&self.aes, &mut self.v, whole);
        if !cut.is_empty() {
            encrypt_counters(&self.aes, &mut self.v, &mut self.block);
            cut.copy_from_slice(&self.block[..cut.len()]);
        }
    }

    /// Update (SP 800-90A, 10.2.1.2) without additional input, which ends a request.
    fn update(&mut self) {
        let mut key_and_v = Zeroizing::new([0; MAX_SEED_BYTES]);
        encrypt_counters(&self.aes, &mut self.v, &mut *key_and_v);
        *self = Stream::from_key_and_v(&key_and_v);
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("request_read_bytes", &self.request_read_bytes).finish_non_exhaustive()
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.v.zeroize();
        self.block.zeroize();
    }
}

impl ZeroizeOnDrop for Stream {}

#[cfg(test)]
mod tests {
    use super::{
        super::{Cipher, CtrDrbg},
        *,
    };

    /// A stream with a chosen state, and the generator that has the same.
    fn at(key_and_v: &[u8; MAX_SEED_BYTES]) -> (Stream, CtrDrbg) {
        let mut entropy_input = *key_and_v;
        for (byte, e) in entropy_input.iter_mut().zip(&ZERO_KEY_BLOCKS) {
            *byte ^= e;
        }
        let drbg = CtrDrbg::instantiate(Cipher::Aes256, &entropy_input, &[]).unwrap();
        (Stream::instantiate(&mut entropy_input), drbg)
    }

    #[test]
    fn counters_carry_within_a_read_and_between_reads() {
        let mut expected = [0; 200 * BLOCK_BYTES];
        let mut got = expected;
        for read_bytes in [expected.len(), 64 * BLOCK_BYTES, BLOCK_BYTES, 7] {
            for carry_bytes in [8, 16] {
                let mut key_and_v = [0x5a; MAX_SEED_BYTES];
                key_and_v[MAX_SEED_BYTES - carry_bytes..].fill(0xff);
                key_and_v[MAX_SEED_BYTES - 1] -= 99;
                let (mut stream, mut drbg) = at(&key_and_v);
                drbg.generate(&mut expected, &[]).unwrap();
                got.chunks_mut(read_bytes).for_each(|piece| stream.read(piece));
                assert_eq!(got, expected, "carry out of {carry_bytes} bytes, reads of {read_bytes}");
            }
        }
    }

    #[test]
    fn a_full_request_is_not_followed_by_an_update() {
        let (mut stream, mut drbg) = at(&[0; MAX_SEED_BYTES]);
        let mut request = vec![0; MAX_REQUEST_BYTES];
        stream.read(&mut request);
        stream.read(&mut []);
        assert_eq!(stream.v, (MAX_REQUEST_BYTES / BLOCK_BYTES) as u128);
        assert_eq!(stream.request_read_bytes, MAX_REQUEST_BYTES);

        let mut next = [0; 1];
        stream.read(&mut next);
        drbg.generate(&mut request, &[]).unwrap();
        drbg.generate(&mut request, &[]).unwrap();
        assert_eq!((next[0], stream.request_read_bytes), (request[0], 1));
    }
}
