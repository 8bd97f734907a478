//! LWE-KEM, batched. The comments give the step numbers of the specification, which follows (`lwe.md` beside this
//! file).
//!
#![doc = include_str!("lwe.md")]

use zeroize::Zeroizing;

use super::{Kem, KemError, Sizes};
use crate::{
    error::Result,
    hash,
    ops::{DeviceInfo, Hash, MatrixForm, Ops, ProductWork, Rows, RowsMut, Sampler},
    params::{COEFFICIENT_BITS, LweParams, MESSAGE_BITS, Noise, Q, SEED_BYTES},
};

/// Customization string of the ciphertext digest D.
pub const DIGEST_CUSTOMIZATION: &[u8] = b"LWE-KEM";

/// LWE-KEM of one parameter set on one device.
pub struct LweKem<'a, O: Ops> {
    ops: &'a O,
    params: LweParams,
    /// How A is held.
    form: MatrixForm,
    /// How s is drawn.
    secret: Sampler,
    /// How e, r, e1 and e2 are drawn.
    error: Sampler,
    /// LE32(n), which KeyGen hashes.
    n_le32: O::Bytes,
}

/// Keys on the device: ek, H(ek) and A of each; s and z too where they are key pairs.
pub struct Keys<O: Ops> {
    capacity: usize,
    count: usize,
    has_secret: bool,
    /// ρ ‖ ByteEncode₁₄(t).
    ek: O::Bytes,
    /// H(ek).
    h: O::Bytes,
    a: O::Matrices,
    /// Secret.
    s: O::Small,
    /// Secret; used by KeyGen alone.
    e: O::Small,
    /// ρ ‖ σ; σ is secret.
    rho_sigma: O::Bytes,
    /// d ‖ z; secret.
    d_z: O::Bytes,
}

/// Ciphertexts on the device with their digests and secrets, and the space that making and checking them takes.
pub struct Batch<O: Ops> {
    capacity: usize,
    count: usize,
    c: O::Bytes,
    /// D(c).
    digest: O::Bytes,
    /// K. Secret.
    k: O::Bytes,
    /// m, or m' in Decaps. Secret.
    m: O::Bytes,
    /// K̄ ‖ coins. Secret.
    k_coins: O::Bytes,
    /// c' of Decaps, compared with c.
    reencrypted: O::Bytes,
    /// K̄' or z, whichever the comparison chose. Secret.
    chosen: O::Bytes,
    /// Secret.
    r: O::Small,
    /// Secret.
    e1: O::Small,
    /// Secret.
    e2: O::Small,
}

const SEEDS: usize = 2 * SEED_BYTES;

impl<'a, O: Ops> LweKem<'a, O> {
    /// The scheme on a device.
    ///
    /// # Errors
    /// The device's.
    pub fn new(ops: &'a O, params: LweParams, form: MatrixForm) -> Result<Self> {
        let error = Sampler::Table(params.error_table());
        let secret = match params.noise() {
            Noise::Standard => Sampler::Cbd3,
            Noise::Gaussian { .. } => error.clone(),
        };
        let mut n_le32 = ops.bytes(4)?;
        ops.upload(&(params.n() as u32).to_le_bytes(), &mut n_le32, 0);
        Ok(LweKem { ops, params, form, secret, error, n_le32 })
    }

    /// The parameter set.
    pub fn params(&self) -> &LweParams {
        &self.params
    }

    /// How its matrices are held.
    pub fn form(&self) -> MatrixForm {
        self.form
    }

    /// H of the first `count` encapsulation keys.
    fn hash_ek(&self, keys: &mut Keys<O>) {
        let ek = Rows::packed(&keys.ek, self.params.ek_bytes());
        self.ops.hash(Hash::Sha3_256, keys.count, &[ek], RowsMut::packed(&mut keys.h, SEED_BYTES));
    }

    /// Puts encapsulation keys on the device, with H(ek) and A.
    fn expand_ek(&self, eks: &[u8], keys: &mut Keys<O>) {
        let ek_bytes = self.params.ek_bytes();
        keys.count = eks.len() / ek_bytes;
        keys.has_secret = false;
        self.ops.upload(eks, &mut keys.ek, 0);
        self.hash_ek(keys);
        self.ops.expand(keys.count, Rows::packed(&keys.ek, ek_bytes).field(0, SEED_BYTES), &mut keys.a);
    }

    /// (K̄ ‖ coins) = G(m ‖ H(ek)): Encaps 2 and Decaps 3.
    fn derive_coins(&self, keys: &Keys<O>, per_key: usize, batch: &mut Batch<O>) {
        let m = Rows::packed(&batch.m, SEED_BYTES);
        let h = Rows::packed(&keys.h, SEED_BYTES).repeated(per_key);
        self.ops.hash(Hash::Sha3_512, batch.count, &[m, h], RowsMut::packed(&mut batch.k_coins, SEEDS));
    }

    /// The encryption of m with coins into c, or into c' of Decaps: Encaps 3 and 4.
    fn encrypt(&self, keys: &Keys<O>, per_key: usize, batch: &mut Batch<O>, reencrypt: bool) {
        let (params, count) = (&self.params, batch.count);
        let coins = Rows::packed(&batch.k_coins, SEEDS).field(SEED_BYTES, SEED_BYTES);
        self.ops.sample(&self.error, count, coins, b'r', MESSAGE_BITS, &mut batch.r);
        self.ops.sample(&self.error, count, coins, b'x', MESSAGE_BITS, &mut batch.e1);
        self.ops.sample(&self.error, count, coins, b'y', 1, &mut batch.e2);

        let r_max = self.error.max_magnitude();
        let out = if reencrypt { &mut batch.reencrypted } else { &mut batch.c };
        let u = RowsMut::packed(out, params.c_bytes());
        self.ops.multiply(count, &batch.r, r_max, &keys.a, per_key, &batch.e1, u);

        let t = Rows::packed(&keys.ek, params.ek_bytes()).field(SEED_BYTES, params.row_bytes()).repeated(per_key);
        let m = Rows::packed(&batch.m, SEED_BYTES);
        let v = RowsMut::packed(out, params.c_bytes()).field(MESSAGE_BITS * params.row_bytes());
        self.ops.encode_message(count, t, &batch.r, &batch.e2, m, v);
    }

    /// D(c), then K = H(key ‖ D(c)): Encaps 5 and Decaps 4.
    fn derive_secret(&self, batch: &mut Batch<O>, chosen: bool) {
        let (params, count) = (&self.params, batch.count);
        let c = Rows::packed(&batch.c, params.c_bytes());
        let digest = RowsMut::packed(&mut batch.digest, SEED_BYTES);
        self.ops.parallel_hash256(count, params.row_bytes(), DIGEST_CUSTOMIZATION, c, digest);

        let key = if chosen {
            Rows::packed(&batch.chosen, SEED_BYTES)
        } else {
            Rows::packed(&batch.k_coins, SEEDS).field(0, SEED_BYTES)
        };
        let digest = Rows::packed(&batch.digest, SEED_BYTES);
        self.ops.hash(Hash::Sha3_256, count, &[key, digest], RowsMut::packed(&mut batch.k, SEED_BYTES));
    }

    /// Encaps 1: every coefficient of t is below q. ek is public, and so is the answer.
    fn check_ek(&self, ek: &[u8]) -> Result<(), KemError> {
        let t = &ek[SEED_BYTES..];
        // Four coefficients in seven bytes.
        let below_q = t.chunks_exact(COEFFICIENT_BITS / 2).all(|bytes| {
            let mut group = [0; 8];
            group[..COEFFICIENT_BITS / 2].copy_from_slice(bytes);
            let group = u64::from_le_bytes(group);
            (0..4).all(|k| group >> (COEFFICIENT_BITS * k) & 0x3fff < u64::from(Q))
        });
        if below_q { Ok(()) } else { Err(KemError::EncapsulationKey) }
    }

    /// How many strings of `len` bytes fill `bytes`, at least one and at most `capacity`.
    fn count(what: &'static str, bytes: &[u8], len: usize, capacity: usize) -> Result<usize, KemError> {
        let count = bytes.len() / len;
        if count == 0 || !bytes.len().is_multiple_of(len) || count > capacity {
            let expected = len * count.clamp(1, capacity);
            return Err(KemError::Length { what, expected, got: bytes.len() });
        }
        Ok(count)
    }

    /// Ciphertexts per key, of `count`.
    fn per_key(keys: &Keys<O>, count: usize) -> Result<usize, KemError> {
        if keys.count == 0 || count == 0 || !count.is_multiple_of(keys.count) {
            let expected = keys.count * (count / keys.count.max(1)).max(1);
            return Err(KemError::Length { what: "ciphertexts of all keys", expected, got: count });
        }
        Ok(count / keys.count)
    }

    fn download(&self, buffer: &O::Bytes, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.ops.download(buffer, 0, &mut bytes)?;
        Ok(bytes)
    }
}

impl<O: Ops> Kem for LweKem<'_, O> {
    type Keys = Keys<O>;
    type Batch = Batch<O>;

    fn sizes(&self) -> Sizes {
        Sizes {
            keygen_coins: SEEDS,
            encaps_coins: SEED_BYTES,
            ek: self.params.ek_bytes(),
            dk: self.params.dk_bytes(),
            c: self.params.c_bytes(),
            digest: SEED_BYTES,
            k: SEED_BYTES,
        }
    }

    fn device(&self) -> DeviceInfo {
        self.ops.device()
    }

    fn product_work(&self) -> ProductWork {
        self.ops.product_work()
    }

    fn keys(&self, capacity: usize) -> Result<Keys<O>> {
        let (ops, n) = (self.ops, self.params.n());
        Ok(Keys {
            capacity,
            count: 0,
            has_secret: false,
            ek: ops.bytes(capacity * self.params.ek_bytes())?,
            h: ops.bytes(capacity * SEED_BYTES)?,
            a: ops.matrices(capacity, n, self.form)?,
            s: ops.small(capacity, n)?,
            e: ops.small(capacity, n)?,
            rho_sigma: ops.bytes(capacity * SEEDS)?,
            d_z: ops.bytes(capacity * SEEDS)?,
        })
    }

    fn keys_bytes(&self, count: usize) -> u64 {
        let n = self.params.n();
        let bytes = count * (self.params.ek_bytes() + SEED_BYTES + 2 * SEEDS);
        self.ops.matrices_bytes(count, n, self.form) + 2 * self.ops.small_bytes(count, n) + bytes as u64
    }

    fn batch(&self, capacity: usize) -> Result<Batch<O>> {
        let (ops, n) = (self.ops, self.params.n());
        Ok(Batch {
            capacity,
            count: 0,
            c: ops.bytes(capacity * self.params.c_bytes())?,
            digest: ops.bytes(capacity * SEED_BYTES)?,
            k: ops.bytes(capacity * SEED_BYTES)?,
            m: ops.bytes(capacity * SEED_BYTES)?,
            k_coins: ops.bytes(capacity * SEEDS)?,
            reencrypted: ops.bytes(capacity * self.params.c_bytes())?,
            chosen: ops.bytes(capacity * SEED_BYTES)?,
            r: ops.small(capacity * MESSAGE_BITS, n)?,
            e1: ops.small(capacity * MESSAGE_BITS, n)?,
            e2: ops.small(capacity, MESSAGE_BITS)?,
        })
    }

    fn batch_bytes(&self, items: usize) -> u64 {
        let n = self.params.n();
        // r and e1.
        let small = 2 * self.ops.small_bytes(items * MESSAGE_BITS, n) + self.ops.scratch_bytes(items, n);
        small + (items * (2 * self.params.c_bytes() + 6 * SEED_BYTES + 2 * MESSAGE_BITS)) as u64
    }

    fn keygen_derand(&self, coins: &[u8], keys: &mut Keys<O>) -> Result<()> {
        let params = &self.params;
        keys.count = Self::count("keygen coins", coins, SEEDS, keys.capacity)?;
        keys.has_secret = true;
        self.ops.upload(coins, &mut keys.d_z, 0);

        // 1. (ρ ‖ σ) = G(d ‖ LE32(n)).
        let d = Rows::packed(&keys.d_z, SEEDS).field(0, SEED_BYTES);
        let n = Rows { buffer: &self.n_le32, offset: 0, stride: 0, len: 4, repeat: 1 };
        self.ops.hash(Hash::Sha3_512, keys.count, &[d, n], RowsMut::packed(&mut keys.rho_sigma, SEEDS));
        // 3. s and e.
        let sigma = Rows::packed(&keys.rho_sigma, SEEDS).field(SEED_BYTES, SEED_BYTES);
        self.ops.sample(&self.secret, keys.count, sigma, b's', 1, &mut keys.s);
        self.ops.sample(&self.error, keys.count, sigma, b'e', 1, &mut keys.e);
        // 2. and 4. A, and t = A·s + e.
        let rho = Rows::packed(&keys.rho_sigma, SEEDS).field(0, SEED_BYTES);
        let t = RowsMut::packed(&mut keys.ek, params.ek_bytes()).field(SEED_BYTES);
        let s_max = self.secret.max_magnitude();
        self.ops.expand_multiply(keys.count, rho, &keys.s, s_max, &keys.e, &mut keys.a, t);
        // 5. ek = ρ ‖ ByteEncode₁₄(t), and H(ek) of dk.
        self.ops.copy(keys.count, rho, RowsMut::packed(&mut keys.ek, params.ek_bytes()));
        self.hash_ek(keys);
        self.ops.sync()
    }

    fn load_ek(&self, eks: &[u8], keys: &mut Keys<O>) -> Result<()> {
        let ek_bytes = self.params.ek_bytes();
        Self::count("encapsulation keys", eks, ek_bytes, keys.capacity)?;
        eks.chunks_exact(ek_bytes).try_for_each(|ek| self.check_ek(ek))?;
        self.expand_ek(eks, keys);
        self.ops.sync()
    }

    fn load_dk(&self, dks: &[u8], keys: &mut Keys<O>) -> Result<()> {
        let (n, ek_bytes, dk_bytes) = (self.params.n(), self.params.ek_bytes(), self.params.dk_bytes());
        let count = Self::count("decapsulation keys", dks, dk_bytes, keys.capacity)?;
        let mut eks = Vec::with_capacity(count * ek_bytes);
        let mut s_bytes = self.ops.bytes(count * n)?;
        for (i, dk) in dks.chunks_exact(dk_bytes).enumerate() {
            let (s, rest) = dk.split_at(n);
            let (ek, rest) = rest.split_at(ek_bytes);
            let h = &rest[..SEED_BYTES];
            // Decaps 1. The whole of s is read whatever it holds; only the verdict leaves.
            let bound = i16::from(self.params.secret_bound());
            let outside = s.iter().fold(0, |sum, &x| {
                let x = i16::from(x as i8);
                sum | ((bound - x) | (bound + x)) >> 15
            });
            if outside != 0 {
                return Err(KemError::DecapsulationKey("an entry of s is out of range").into());
            }
            if hash::sha3_256(&[ek]) != h {
                return Err(KemError::DecapsulationKey("H(ek) does not match ek").into());
            }
            eks.extend_from_slice(ek);
            self.ops.upload(s, &mut s_bytes, i * n);
        }
        // Only when all are well: a refused call leaves the keys as they were.
        for (i, dk) in dks.chunks_exact(dk_bytes).enumerate() {
            self.ops.upload(&dk[dk_bytes - SEED_BYTES..], &mut keys.d_z, i * SEEDS + SEED_BYTES);
        }
        self.expand_ek(&eks, keys);
        self.ops.load_small(count, Rows::packed(&s_bytes, n), &mut keys.s);
        keys.has_secret = true;
        self.ops.sync()
    }

    fn ek(&self, keys: &Keys<O>) -> Result<Vec<u8>> {
        self.download(&keys.ek, keys.count * self.params.ek_bytes())
    }

    fn dk(&self, keys: &Keys<O>) -> Result<Zeroizing<Vec<u8>>> {
        if !keys.has_secret {
            return Err(KemError::NoSecret.into());
        }
        let (n, dk_bytes) = (self.params.n(), self.params.dk_bytes());
        // dk = s ‖ ek ‖ H(ek) ‖ z.
        let mut dk = self.ops.bytes(keys.count * dk_bytes)?;
        let ek = Rows::packed(&keys.ek, self.params.ek_bytes());
        let z = Rows::packed(&keys.d_z, SEEDS).field(SEED_BYTES, SEED_BYTES);
        let parts = [(n, ek), (n + ek.len, Rows::packed(&keys.h, SEED_BYTES)), (n + ek.len + SEED_BYTES, z)];
        self.ops.store_small(keys.count, &keys.s, RowsMut::packed(&mut dk, dk_bytes));
        for (offset, part) in parts {
            self.ops.copy(keys.count, part, RowsMut::packed(&mut dk, dk_bytes).field(offset));
        }
        self.download(&dk, keys.count * dk_bytes).map(Zeroizing::new)
    }

    fn encaps_derand(&self, keys: &Keys<O>, coins: &[u8], batch: &mut Batch<O>) -> Result<()> {
        let count = Self::count("encaps coins", coins, SEED_BYTES, batch.capacity)?;
        let per_key = Self::per_key(keys, count)?;
        batch.count = count;
        self.ops.upload(coins, &mut batch.m, 0);
        self.derive_coins(keys, per_key, batch);
        self.encrypt(keys, per_key, batch, false);
        self.derive_secret(batch, false);
        self.ops.sync()
    }

    fn load_c(&self, cs: &[u8], batch: &mut Batch<O>) -> Result<()> {
        batch.count = Self::count("ciphertexts", cs, self.params.c_bytes(), batch.capacity)?;
        self.ops.upload(cs, &mut batch.c, 0);
        Ok(())
    }

    fn decaps(&self, keys: &Keys<O>, batch: &mut Batch<O>) -> Result<()> {
        if !keys.has_secret {
            return Err(KemError::NoSecret.into());
        }
        let per_key = Self::per_key(keys, batch.count)?;
        let (count, c_bytes) = (batch.count, self.params.c_bytes());
        // 2. m'.
        let c = Rows::packed(&batch.c, c_bytes);
        self.ops.decode_message(count, &keys.s, per_key, c, RowsMut::packed(&mut batch.m, SEED_BYTES));
        // 3. c'.
        self.derive_coins(keys, per_key, batch);
        self.encrypt(keys, per_key, batch, true);
        // 4. K̄' where c' = c, else z; then K.
        let (c, reencrypted) = (Rows::packed(&batch.c, c_bytes), Rows::packed(&batch.reencrypted, c_bytes));
        let accepted = Rows::packed(&batch.k_coins, SEEDS).field(0, SEED_BYTES);
        let rejected = Rows::packed(&keys.d_z, SEEDS).field(SEED_BYTES, SEED_BYTES).repeated(per_key);
        let chosen = RowsMut::packed(&mut batch.chosen, SEED_BYTES);
        self.ops.select_equal(count, c, reencrypted, accepted, rejected, chosen);
        self.derive_secret(batch, true);
        self.ops.sync()
    }

    fn c(&self, batch: &Batch<O>, out: &mut Vec<u8>) -> Result<()> {
        out.resize(batch.count * self.params.c_bytes(), 0);
        self.ops.download(&batch.c, 0, out)
    }

    fn read_digests(&self, batch: &Batch<O>, out: &mut Vec<u8>) -> Result<()> {
        out.resize(batch.count * SEED_BYTES, 0);
        self.ops.download(&batch.digest, 0, out)
    }

    fn read_secrets(&self, batch: &Batch<O>, out: &mut Zeroizing<Vec<u8>>) -> Result<()> {
        out.resize(batch.count * SEED_BYTES, 0);
        self.ops.download(&batch.k, 0, out)
    }
}
