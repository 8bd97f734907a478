//! CTR_DRBG over AES (SP 800-90A Rev. 1, section 10.2.1), with and without derivation function.
//!
//! [`CtrDrbg`] is the generator as the standard describes it; [`Stream`] is the fixed use that LWE-KEM makes of it.
//! The counter field is the whole block (ctr_len = blocklen = 128). The caller brings the entropy, except for
//! [`CtrDrbg::from_system`]. Internal states and everything they are computed from are wiped when dropped, which is
//! the standard's Uninstantiate. An empty string stands for the standard's Null.

mod block;
mod df;
mod stream;

pub use block::Cipher;
pub use stream::Stream;

use block::{KeySchedule, MAX_KEY_BYTES, MAX_SEED_BYTES};
use std::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// max_number_of_bits_per_request (table 3) in bytes: 2¹⁹ bits.
pub const MAX_REQUEST_BYTES: usize = 1 << 16;

/// reseed_interval (table 3): how many requests are served between two (re)seedings.
pub const RESEED_INTERVAL: u64 = 1 << 48;

/// The most bytes that all inputs of one call of the derivation function may have together: their length is written
/// in 32 bits (10.3.2, step 2).
pub const MAX_DF_INPUT_BYTES: u64 = u32::MAX as u64;

/// An input of the generator, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// entropy_input, at instantiation or reseeding.
    EntropyInput,
    /// nonce.
    Nonce,
    /// personalization_string.
    PersonalizationString,
    /// additional_input, at reseeding or generation.
    AdditionalInput,
    /// All inputs of the derivation function together.
    DfInput,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Input::EntropyInput => "entropy input",
            Input::Nonce => "nonce",
            Input::PersonalizationString => "personalization string",
            Input::AdditionalInput => "additional input",
            Input::DfInput => "input of the derivation function",
        })
    }
}

/// Why the generator refused. Its state is then as it was before the call, and nothing was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrbgError {
    /// 2⁴⁸ requests were served since the last seeding (9.3.1, step 7): reseed first.
    #[error("the generator must be reseeded: it has served {RESEED_INTERVAL} requests")]
    ReseedRequired,
    /// More than [`MAX_REQUEST_BYTES`] in one request.
    #[error("a request for {bytes} bytes; at most {MAX_REQUEST_BYTES} are served at once")]
    RequestTooLarge {
        /// The length asked for.
        bytes: usize,
    },
    /// An input that is too short or too long.
    #[error("{input}: {bytes} bytes, need {min_bytes} to {max_bytes}")]
    WrongLength {
        /// Which input.
        input: Input,
        /// Its length.
        bytes: u64,
        /// The shortest allowed.
        min_bytes: u64,
        /// The longest allowed.
        max_bytes: u64,
    },
    /// The operating system gave no entropy.
    #[error("the system's entropy source failed: {0}")]
    System(#[source] getrandom::Error),
}

/// A CTR_DRBG. Key and V are secret and wiped on drop.
pub struct CtrDrbg {
    key: KeySchedule,
    v: u128,
    reseed_counter: u64,
    uses_df: bool,
}

impl CtrDrbg {
    /// Instantiates a generator without derivation function (10.2.1.3.1).
    ///
    /// `entropy_input` has full entropy and exactly seedlen ([`Cipher::seed_bytes`]); `personalization_string` has at
    /// most seedlen.
    ///
    /// # Errors
    /// [`DrbgError::WrongLength`].
    pub fn instantiate(cipher: Cipher, entropy_input: &[u8], personalization_string: &[u8]) -> Result<Self, DrbgError> {
        let seedlen = cipher.seed_bytes();
        check(Input::EntropyInput, entropy_input.len(), seedlen as u64, seedlen as u64)?;
        check(Input::PersonalizationString, personalization_string.len(), 0, seedlen as u64)?;
        let mut seed_material = Zeroizing::new([0; MAX_SEED_BYTES]);
        xor(&mut *seed_material, entropy_input);
        xor(&mut *seed_material, personalization_string);
        Ok(CtrDrbg::from_seed_material(cipher, false, &seed_material))
    }

    /// Instantiates a generator with derivation function (10.2.1.3.2).
    ///
    /// `entropy_input` has at least the security strength ([`Cipher::security_strength_bytes`]) and `nonce` at least
    /// half of it (8.6.7); together with `personalization_string` they have at most [`MAX_DF_INPUT_BYTES`].
    ///
    /// # Errors
    /// [`DrbgError::WrongLength`].
    pub fn instantiate_df(
        cipher: Cipher,
        entropy_input: &[u8],
        nonce: &[u8],
        personalization_string: &[u8],
    ) -> Result<Self, DrbgError> {
        let strength_bytes = cipher.security_strength_bytes() as u64;
        check(Input::EntropyInput, entropy_input.len(), strength_bytes, MAX_DF_INPUT_BYTES)?;
        check(Input::Nonce, nonce.len(), strength_bytes / 2, MAX_DF_INPUT_BYTES)?;
        let seed_material = derive(cipher, &[entropy_input, nonce, personalization_string])?;
        Ok(CtrDrbg::from_seed_material(cipher, true, &seed_material))
    }

    /// An AES-256 generator with derivation function, its entropy input (32 bytes) and nonce (16 bytes) from the
    /// operating system.
    ///
    /// # Errors
    /// [`DrbgError::System`].
    pub fn from_system() -> Result<Self, DrbgError> {
        let mut seed = Zeroizing::new([0; 48]);
        getrandom::fill(&mut *seed).map_err(DrbgError::System)?;
        let (entropy_input, nonce) = seed.split_at(32);
        CtrDrbg::instantiate_df(Cipher::Aes256, entropy_input, nonce, b"lwe-mpi")
    }

    /// The last steps of both instantiations: Update from Key = 0 and V = 0.
    fn from_seed_material(cipher: Cipher, uses_df: bool, seed_material: &[u8; MAX_SEED_BYTES]) -> Self {
        let zero = [0; MAX_KEY_BYTES];
        let key = KeySchedule::new(cipher, &zero[..cipher.key_bytes()]);
        let mut drbg = CtrDrbg { key, v: 0, reseed_counter: 1, uses_df };
        drbg.update(seed_material);
        drbg
    }

    /// Reseeds (10.2.1.4). The lengths are those of instantiation; `additional_input` is bounded as a
    /// personalization string.
    ///
    /// # Errors
    /// [`DrbgError::WrongLength`].
    pub fn reseed(&mut self, entropy_input: &[u8], additional_input: &[u8]) -> Result<(), DrbgError> {
        let cipher = self.cipher();
        let seed_material = if self.uses_df {
            let strength_bytes = cipher.security_strength_bytes() as u64;
            check(Input::EntropyInput, entropy_input.len(), strength_bytes, MAX_DF_INPUT_BYTES)?;
            derive(cipher, &[entropy_input, additional_input])?
        } else {
            let seedlen = cipher.seed_bytes() as u64;
            check(Input::EntropyInput, entropy_input.len(), seedlen, seedlen)?;
            let mut seed_material = self.condition(additional_input)?;
            xor(&mut *seed_material, entropy_input);
            seed_material
        };
        self.update(&seed_material);
        self.reseed_counter = 1;
        Ok(())
    }

    /// Generates `out` (10.2.1.5), at most [`MAX_REQUEST_BYTES`]. `additional_input` is at most seedlen without
    /// derivation function and [`MAX_DF_INPUT_BYTES`] with it.
    ///
    /// # Errors
    /// [`DrbgError::RequestTooLarge`], [`DrbgError::WrongLength`], or [`DrbgError::ReseedRequired`] once
    /// [`RESEED_INTERVAL`] requests were served.
    pub fn generate(&mut self, out: &mut [u8], additional_input: &[u8]) -> Result<(), DrbgError> {
        check_request(out)?;
        if self.reseed_counter > RESEED_INTERVAL {
            return Err(DrbgError::ReseedRequired);
        }
        let additional = self.condition(additional_input)?;
        if !additional_input.is_empty() {
            self.update(&additional);
        }
        self.key.encrypt_counters(&mut self.v, out);
        self.update(&additional);
        self.reseed_counter += 1;
        Ok(())
    }

    /// Generates `out` with prediction resistance (9.3.1, steps 7.1 to 7.4): reseeds from fresh `entropy_input` and
    /// `additional_input` and generates without additional input. It also serves where [`CtrDrbg::generate`] asks
    /// for a reseeding.
    ///
    /// # Errors
    /// [`DrbgError::RequestTooLarge`] or [`DrbgError::WrongLength`].
    pub fn generate_with_prediction_resistance(
        &mut self,
        out: &mut [u8],
        entropy_input: &[u8],
        additional_input: &[u8],
    ) -> Result<(), DrbgError> {
        check_request(out)?;
        self.reseed(entropy_input, additional_input)?;
        self.generate(out, &[])
    }

    /// The requests served since the last seeding, plus 1.
    pub fn reseed_counter(&self) -> u64 {
        self.reseed_counter
    }

    /// The block cipher.
    pub fn cipher(&self) -> Cipher {
        self.key.cipher()
    }

    /// Additional input as seedlen bytes: padded with zeros, or through the derivation function. Empty gives zeros.
    fn condition(&self, additional_input: &[u8]) -> Result<Zeroizing<[u8; MAX_SEED_BYTES]>, DrbgError> {
        if self.uses_df && !additional_input.is_empty() {
            return derive(self.cipher(), &[additional_input]);
        }
        check(Input::AdditionalInput, additional_input.len(), 0, self.cipher().seed_bytes() as u64)?;
        let mut padded = Zeroizing::new([0; MAX_SEED_BYTES]);
        xor(&mut *padded, additional_input);
        Ok(padded)
    }

    /// CTR_DRBG_Update (10.2.1.2). The first seedlen bytes of `provided_data` count.
    fn update(&mut self, provided_data: &[u8; MAX_SEED_BYTES]) {
        let cipher = self.cipher();
        let seedlen = cipher.seed_bytes();
        let mut temp = Zeroizing::new([0; MAX_SEED_BYTES]);
        self.key.encrypt_counters(&mut self.v, &mut temp[..seedlen]);
        xor(&mut *temp, &provided_data[..seedlen]);
        let (key, v) = temp[..seedlen].split_at(cipher.key_bytes());
        self.key = KeySchedule::new(cipher, key);
        self.v = u128::from_be_bytes(v.try_into().expect("seedlen is keylen and one block"));
    }
}

impl fmt::Debug for CtrDrbg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CtrDrbg")
            .field("cipher", &self.cipher())
            .field("uses_df", &self.uses_df)
            .field("reseed_counter", &self.reseed_counter)
            .finish_non_exhaustive()
    }
}

impl Drop for CtrDrbg {
    fn drop(&mut self) {
        self.v.zeroize();
    }
}

impl ZeroizeOnDrop for CtrDrbg {}

/// Block_Cipher_df of `input` to seedlen, with its length check.
fn derive(cipher: Cipher, input: &[&[u8]]) -> Result<Zeroizing<[u8; MAX_SEED_BYTES]>, DrbgError> {
    check_df_input(input.iter().map(|part| part.len() as u64))?;
    let mut out = Zeroizing::new([0; MAX_SEED_BYTES]);
    df::block_cipher_df(cipher, input, &mut out[..cipher.seed_bytes()]);
    Ok(out)
}

/// The total of the lengths fits the derivation function. Lengths of slices: their sum cannot overflow 64 bits.
fn check_df_input(lengths: impl Iterator<Item = u64>) -> Result<(), DrbgError> {
    let bytes: u64 = lengths.sum();
    if bytes > MAX_DF_INPUT_BYTES {
        return Err(DrbgError::WrongLength {
            input: Input::DfInput,
            bytes,
            min_bytes: 0,
            max_bytes: MAX_DF_INPUT_BYTES,
        });
    }
    Ok(())
}

fn check(input: Input, bytes: usize, min_bytes: u64, max_bytes: u64) -> Result<(), DrbgError> {
    let bytes = bytes as u64;
    if (min_bytes..=max_bytes).contains(&bytes) {
        Ok(())
    } else {
        Err(DrbgError::WrongLength { input, bytes, min_bytes, max_bytes })
    }
}

fn check_request(out: &[u8]) -> Result<(), DrbgError> {
    if out.len() > MAX_REQUEST_BYTES { Err(DrbgError::RequestTooLarge { bytes: out.len() }) } else { Ok(()) }
}

/// XORs `other` into the start of `data`, which is at least as long.
fn xor(data: &mut [u8], other: &[u8]) {
    for (byte, x) in data.iter_mut().zip(other) {
        *byte ^= x;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 9.3.1, step 7, and table 3: request 2⁴⁸ is served, the one after it is not.
    #[test]
    fn requests_end_at_the_reseed_interval() {
        for cipher in [Cipher::Aes128, Cipher::Aes192, Cipher::Aes256] {
            let seed = [7; MAX_SEED_BYTES];
            let entropy_input = &seed[..cipher.seed_bytes()];
            let mut drbg = CtrDrbg::instantiate(cipher, entropy_input, &[]).unwrap();
            drbg.reseed_counter = RESEED_INTERVAL;
            let mut out = [0x5a; 40];
            drbg.generate(&mut out, &[]).unwrap();

            out = [0x5a; 40];
            let v = drbg.v;
            for additional_input in [&[][..], &[1]] {
                assert_eq!(drbg.generate(&mut out, additional_input), Err(DrbgError::ReseedRequired));
                assert_eq!((drbg.v, drbg.reseed_counter(), out), (v, RESEED_INTERVAL + 1, [0x5a; 40]));
            }

            drbg.generate_with_prediction_resistance(&mut out, entropy_input, &[]).unwrap();
            assert_eq!(drbg.reseed_counter(), 2);
            drbg.reseed_counter = RESEED_INTERVAL + 1;
            drbg.reseed(entropy_input, &[]).unwrap();
            assert_eq!(drbg.reseed_counter(), 1);
            drbg.generate(&mut out, &[]).unwrap();
        }
    }

    #[test]
    fn the_derivation_function_bounds_its_inputs_together() {
        assert_eq!(check_df_input([MAX_DF_INPUT_BYTES - 3, 1, 2].into_iter()), Ok(()));
        assert_eq!(
            check_df_input([MAX_DF_INPUT_BYTES - 3, 2, 2].into_iter()),
            Err(DrbgError::WrongLength {
                input: Input::DfInput,
                bytes: 1 << 32,
                min_bytes: 0,
                max_bytes: MAX_DF_INPUT_BYTES,
            })
        );
    }
}
