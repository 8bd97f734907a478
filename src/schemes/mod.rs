//! The schemes, each written beside its specification in the operations of [`crate::ops`], and what the workloads
//! know of them: [`Kem`].
//!
//! | module | specification |
//! |---|---|
//! | [`lwe`] | LWE-KEM: plain LWE with 256 message bits (`lwe.md`, shown there) |

pub mod lwe;

use zeroize::Zeroizing;

use crate::{
    drbg::CtrDrbg,
    error::Result,
    ops::{DeviceInfo, ProductWork},
    params::SEED_BYTES,
};

/// Why a scheme refused its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KemError {
    /// A key, ciphertext or seed of another length.
    #[error("{what}: {got} bytes given where {expected} are due")]
    Length {
        /// ek, dk, c, …
        what: &'static str,
        /// The length due, in bytes.
        expected: usize,
        /// The length given, in bytes.
        got: usize,
    },
    /// An encapsulation key with a coefficient of q or more.
    #[error("malformed encapsulation key: a coefficient is not below q")]
    EncapsulationKey,
    /// A decapsulation key whose H(ek) does not match or whose s is out of range.
    #[error("malformed decapsulation key: {0}")]
    DecapsulationKey(&'static str),
    /// Decapsulation with keys that were loaded from encapsulation keys.
    #[error("these keys have no decapsulation half")]
    NoSecret,
}

/// The lengths of a scheme's strings, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Randomness of one key generation.
    pub keygen_coins: usize,
    /// Randomness of one encapsulation.
    pub encaps_coins: usize,
    /// Encapsulation key.
    pub ek: usize,
    /// Decapsulation key.
    pub dk: usize,
    /// Ciphertext.
    pub c: usize,
    /// Digest of a ciphertext.
    pub digest: usize,
    /// Shared secret K.
    pub k: usize,
}

/// A key encapsulation mechanism over batches that are resident on one device.
///
/// Keys and batches are buffers of a fixed capacity, made once and filled again and again, so that timed loops
/// allocate nothing of size. A batch holds the same number of ciphertexts for every key: item i belongs to key
/// i / per_key.
pub trait Kem {
    /// A batch of keys, with what the device keeps of them (for LWE-KEM: the matrices).
    type Keys;
    /// A batch of ciphertexts with their digests and shared secrets.
    type Batch;

    /// The lengths of its strings.
    fn sizes(&self) -> Sizes;
    /// The device.
    fn device(&self) -> DeviceInfo;
    /// What the matrix products have done since the device was opened.
    fn product_work(&self) -> ProductWork;

    /// Room for `count` keys.
    ///
    /// # Errors
    /// [`crate::error::Error::Device`]: out of memory.
    fn keys(&self, count: usize) -> Result<Self::Keys>;
    /// What [`Kem::keys`] takes, in bytes.
    fn keys_bytes(&self, count: usize) -> u64;
    /// Room for `items` ciphertexts.
    ///
    /// # Errors
    /// [`crate::error::Error::Device`]: out of memory.
    fn batch(&self, items: usize) -> Result<Self::Batch>;
    /// What [`Kem::batch`] takes, in bytes, with what the operations on it take for a while.
    fn batch_bytes(&self, items: usize) -> u64;

    /// Key pairs from coins (`keygen_coins` bytes each), as many as `coins` are for.
    ///
    /// # Errors
    /// [`KemError::Length`]; the device's.
    fn keygen_derand(&self, coins: &[u8], keys: &mut Self::Keys) -> Result<()>;
    /// Encapsulation keys (`ek` bytes each), checked.
    ///
    /// # Errors
    /// [`KemError::Length`], [`KemError::EncapsulationKey`]; the device's.
    fn load_ek(&self, eks: &[u8], keys: &mut Self::Keys) -> Result<()>;
    /// Decapsulation keys (`dk` bytes each), checked.
    ///
    /// # Errors
    /// [`KemError::Length`], [`KemError::DecapsulationKey`]; the device's.
    fn load_dk(&self, dks: &[u8], keys: &mut Self::Keys) -> Result<()>;
    /// The encapsulation keys, one after the other.
    ///
    /// # Errors
    /// The device's.
    fn ek(&self, keys: &Self::Keys) -> Result<Vec<u8>>;
    /// The decapsulation keys, one after the other. Secret.
    ///
    /// # Errors
    /// [`KemError::NoSecret`]; the device's.
    fn dk(&self, keys: &Self::Keys) -> Result<Zeroizing<Vec<u8>>>;

    /// Encapsulations from coins (`encaps_coins` bytes each), the same number for every key.
    ///
    /// # Errors
    /// [`KemError::Length`]; the device's.
    fn encaps_derand(&self, keys: &Self::Keys, coins: &[u8], batch: &mut Self::Batch) -> Result<()>;
    /// Puts received ciphertexts (`c` bytes each) into a batch.
    ///
    /// # Errors
    /// [`KemError::Length`].
    fn load_c(&self, cs: &[u8], batch: &mut Self::Batch) -> Result<()>;
    /// Decapsulates the batch's ciphertexts, the same number for every key. Never fails for what they hold.
    ///
    /// # Errors
    /// [`KemError::NoSecret`], [`KemError::Length`]; the device's.
    fn decaps(&self, keys: &Self::Keys, batch: &mut Self::Batch) -> Result<()>;

    /// Copies the ciphertexts out, one after the other.
    ///
    /// # Errors
    /// The device's.
    fn c(&self, batch: &Self::Batch, out: &mut Vec<u8>) -> Result<()>;
    /// Copies the digests of the ciphertexts out, one after the other.
    ///
    /// # Errors
    /// The device's.
    fn read_digests(&self, batch: &Self::Batch, out: &mut Vec<u8>) -> Result<()>;
    /// Copies the shared secrets K out, one after the other. Secret.
    ///
    /// # Errors
    /// The device's.
    fn read_secrets(&self, batch: &Self::Batch, out: &mut Zeroizing<Vec<u8>>) -> Result<()>;

    /// The digests of the ciphertexts, one after the other.
    ///
    /// # Errors
    /// The device's.
    fn digests(&self, batch: &Self::Batch) -> Result<Vec<u8>> {
        let mut digests = Vec::new();
        self.read_digests(batch, &mut digests)?;
        Ok(digests)
    }

    /// The shared secrets K, one after the other. Secret.
    ///
    /// # Errors
    /// The device's.
    fn secrets(&self, batch: &Self::Batch) -> Result<Zeroizing<Vec<u8>>> {
        let mut secrets = Zeroizing::default();
        self.read_secrets(batch, &mut secrets)?;
        Ok(secrets)
    }

    /// `count` key pairs from a generator.
    ///
    /// # Errors
    /// The generator's and [`Kem::keygen_derand`]'s.
    fn keygen(&self, count: usize, rng: &mut CtrDrbg, keys: &mut Self::Keys) -> Result<()> {
        self.keygen_derand(&random(rng, count * self.sizes().keygen_coins)?, keys)
    }

    /// `count` encapsulations from a generator, the same number for every key.
    ///
    /// # Errors
    /// The generator's and [`Kem::encaps_derand`]'s.
    fn encaps(&self, keys: &Self::Keys, count: usize, rng: &mut CtrDrbg, batch: &mut Self::Batch) -> Result<()> {
        self.encaps_derand(keys, &random(rng, count * self.sizes().encaps_coins)?, batch)
    }
}

/// Bytes from a generator, a request for every 32 of them: no request's output is longer than a seed.
fn random(rng: &mut CtrDrbg, len: usize) -> Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; len]);
    for seed in bytes.chunks_mut(SEED_BYTES) {
        rng.generate(seed, &[])?;
    }
    Ok(bytes)
}
