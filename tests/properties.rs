//! LWE-KEM's properties over random coins, small dimensions and every kind of malformed input.

mod common;

use std::sync::LazyLock;

use common::device::Noise;
use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    drbg::CtrDrbg,
    error::Error,
    hash::{parallel_hash256, sha3_256},
    ops::MatrixForm,
    params::LweParams,
    schemes::{Kem, KemError, lwe::LweKem},
};
use proptest::prelude::*;

static CPU: LazyLock<Cpu> = LazyLock::new(|| Cpu::new(2, Isa::best(), &[]).unwrap());

fn kem(n: usize) -> LweKem<'static, Cpu> {
    LweKem::new(&*CPU, LweParams::new(n).unwrap(), MatrixForm::Stored).unwrap()
}

/// A key pair and an encapsulation to it.
struct Honest {
    kem: LweKem<'static, Cpu>,
    ek: Vec<u8>,
    dk: Vec<u8>,
    c: Vec<u8>,
    k: Vec<u8>,
    z: [u8; 32],
}

impl Honest {
    fn new(n: usize, d: [u8; 32], z: [u8; 32], m: [u8; 32]) -> Self {
        let kem = kem(n);
        let (mut keys, mut batch) = (kem.keys(1).unwrap(), kem.batch(1).unwrap());
        kem.keygen_derand(&[d, z].concat(), &mut keys).unwrap();
        kem.encaps_derand(&keys, &m, &mut batch).unwrap();
        let mut c = Vec::new();
        kem.c(&batch, &mut c).unwrap();
        let (ek, dk, k) = (kem.ek(&keys).unwrap(), kem.dk(&keys).unwrap().to_vec(), kem.secrets(&batch).unwrap());
        Honest { ek, dk, c, k: k.to_vec(), z, kem }
    }

    fn decaps(&self, dk: &[u8], c: &[u8]) -> Vec<u8> {
        let (mut keys, mut batch) = (self.kem.keys(1).unwrap(), self.kem.batch(1).unwrap());
        self.kem.load_dk(dk, &mut keys).unwrap();
        self.kem.load_c(c, &mut batch).unwrap();
        self.kem.decaps(&keys, &mut batch).unwrap();
        self.kem.secrets(&batch).unwrap().to_vec()
    }

    /// H(z ‖ D(c)).
    fn rejected(&self, z: &[u8], c: &[u8]) -> Vec<u8> {
        let mut digest = [0; 32];
        parallel_hash256(c, self.kem.params().row_bytes(), b"LWE-KEM", &mut digest);
        sha3_256(&[z, &digest]).to_vec()
    }
}

fn dimension() -> impl Strategy<Value = usize> {
    (1usize..=5).prop_map(|k| 32 * k)
}

fn honest() -> impl Strategy<Value = Honest> {
    (dimension(), any::<[u8; 32]>(), any::<[u8; 32]>(), any::<[u8; 32]>())
        .prop_map(|(n, d, z, m)| Honest::new(n, d, z, m))
        .no_shrink()
}

impl std::fmt::Debug for Honest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "n = {}, dk = {}", self.kem.params().n(), hex::encode(&self.dk))
    }
}

/// A coefficient of a ByteEncode₁₄ string set to `value`.
fn set_coefficient(bytes: &mut [u8], index: usize, value: usize) {
    for k in 0..14 {
        let bit = 14 * index + k;
        bytes[bit / 8] = bytes[bit / 8] & !(1 << (bit % 8)) | ((value >> k & 1) as u8) << (bit % 8);
    }
}

#[track_caller]
fn refused<T>(result: lwe_mpi::error::Result<T>) -> KemError {
    match result {
        Err(Error::Kem(error)) => error,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused"),
    }
}

/// The length that is refused.
#[track_caller]
fn refused_length<T>(result: lwe_mpi::error::Result<T>) -> usize {
    match refused(result) {
        KemError::Length { got, expected, .. } if got != expected => got,
        other => panic!("{other}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn both_sides_agree(honest in honest()) {
        prop_assert_eq!(honest.decaps(&honest.dk, &honest.c), &honest.k[..]);
        let n = honest.kem.params().n();
        let sizes = [honest.ek.len(), honest.dk.len(), honest.c.len(), honest.k.len()];
        prop_assert_eq!(sizes, [32 + 14 * n / 8, n + 32 + 14 * n / 8 + 64, 448 * n + 448, 32]);
        prop_assert_eq!(&honest.dk[n..n + honest.ek.len()], &honest.ek[..]);
        prop_assert_eq!(&honest.dk[n + honest.ek.len()..][..32], &sha3_256(&[&honest.ek])[..]);
        prop_assert_eq!(&honest.dk[n + honest.ek.len() + 32..], &honest.z[..]);
    }

    /// Any change of any byte: another secret, always the same, as the specification computes it.
    #[test]
    fn a_tampered_ciphertext_is_rejected_implicitly(honest in honest(), at: prop::sample::Index, xor in 1u8..) {
        let mut c = honest.c.clone();
        c[at.index(honest.c.len())] ^= xor;
        let k = honest.decaps(&honest.dk, &c);
        prop_assert_ne!(&k, &honest.k);
        prop_assert_eq!(&k, &honest.rejected(&honest.z, &c));
        prop_assert_eq!(honest.decaps(&honest.dk, &c), k);
    }

    #[test]
    fn a_single_bit_of_every_row_and_of_v_counts(honest in honest(), bit in 0u8..8, within: prop::sample::Index) {
        let row_bytes = honest.kem.params().row_bytes();
        let rows = (0..256).step_by(37).map(|row| row * row_bytes + within.index(row_bytes));
        for at in rows.chain([0, 256 * row_bytes - 1, 256 * row_bytes, honest.c.len() - 1]) {
            let mut c = honest.c.clone();
            c[at] ^= 1 << bit;
            prop_assert_eq!(honest.decaps(&honest.dk, &c), honest.rejected(&honest.z, &c), "byte {}", at);
        }
    }

    #[test]
    fn another_key_gives_another_secret(honest in honest(), d: [u8; 32], z: [u8; 32]) {
        let other = Honest::new(honest.kem.params().n(), d, z, [0; 32]);
        let k = honest.decaps(&other.dk, &honest.c);
        prop_assert_ne!(&k, &honest.k);
        prop_assert_eq!(k, honest.rejected(&z, &honest.c));
    }

    /// Whatever a ciphertext holds, coefficients of q and more too, is no error.
    #[test]
    fn any_ciphertext_is_processed(honest in honest(), seed: u64, fill in prop::option::of(any::<u8>())) {
        let len = honest.c.len();
        let c = fill.map_or_else(|| Noise::new(seed).bytes(len), |byte| vec![byte; len]);
        prop_assert_eq!(honest.decaps(&honest.dk, &c), honest.rejected(&honest.z, &c));
        // The same residue written as x + q is another ciphertext.
        let mut c = honest.c.clone();
        let index = seed as usize % (256 * honest.kem.params().n());
        let coefficient = (0..14).map(|k| usize::from(c[(14 * index + k) / 8] >> ((14 * index + k) % 8) & 1) << k);
        let coefficient: usize = coefficient.sum();
        if coefficient + 12289 < 16384 {
            set_coefficient(&mut c, index, coefficient + 12289);
            prop_assert_eq!(honest.decaps(&honest.dk, &c), honest.rejected(&honest.z, &c));
        }
    }

    #[test]
    fn coefficients_of_ek_are_below_q(honest in honest(), at: prop::sample::Index, value in 12289usize..16384) {
        let kem = &honest.kem;
        let mut keys = kem.keys(1).unwrap();
        let mut ek = honest.ek.clone();
        let index = at.index(kem.params().n());
        for value in [12289, value, 16383] {
            set_coefficient(&mut ek[32..], index, value);
            prop_assert_eq!(refused(kem.load_ek(&ek, &mut keys)), KemError::EncapsulationKey);
        }
        set_coefficient(&mut ek[32..], index, 12288);
        kem.load_ek(&ek, &mut keys).unwrap();
        kem.encaps_derand(&keys, &[7; 32], &mut kem.batch(1).unwrap()).unwrap();
    }

    #[test]
    fn malformed_decapsulation_keys_are_refused(honest in honest(), at: prop::sample::Index, entry in 4i8..) {
        let kem = &honest.kem;
        let n = kem.params().n();
        let mut keys = kem.keys(1).unwrap();
        for entry in [4, -4, entry, -entry, 127, -128] {
            let mut dk = honest.dk.clone();
            dk[at.index(n)] = entry as u8;
            let error = refused(kem.load_dk(&dk, &mut keys));
            prop_assert!(matches!(error, KemError::DecapsulationKey(_)), "{}: {}", entry, error);
        }
        // ek and H(ek): any byte of either.
        let mut dk = honest.dk.clone();
        dk[n + at.index(honest.ek.len() + 32)] ^= 0x10;
        let error = refused(kem.load_dk(&dk, &mut keys));
        prop_assert!(matches!(error, KemError::DecapsulationKey(_)), "{}", error);
        for entry in [3, -3] {
            let mut dk = honest.dk.clone();
            dk[at.index(n)] = entry as u8;
            kem.load_dk(&dk, &mut keys).unwrap();
        }
    }

    #[test]
    fn wrong_lengths_are_typed_errors(honest in honest(), cut in 1usize..88, more in 1usize..88) {
        let kem = &honest.kem;
        let (mut keys, mut batch) = (kem.keys(2).unwrap(), kem.batch(2).unwrap());
        let wrong = |good: &[u8]| {
            let longer = [good, &vec![0; more.min(good.len() - 1)]].concat();
            [good[..good.len() - cut.min(good.len())].to_vec(), longer, good.repeat(3), Vec::new()]
        };
        for ek in wrong(&honest.ek) {
            prop_assert_eq!(refused_length(kem.load_ek(&ek, &mut keys)), ek.len());
        }
        for dk in wrong(&honest.dk) {
            prop_assert_eq!(refused_length(kem.load_dk(&dk, &mut keys)), dk.len());
        }
        for coins in wrong(&[1; 64]) {
            prop_assert_eq!(refused_length(kem.keygen_derand(&coins, &mut keys)), coins.len());
        }
        for c in wrong(&honest.c) {
            prop_assert_eq!(refused_length(kem.load_c(&c, &mut batch)), c.len());
        }
        kem.load_dk(&honest.dk, &mut keys).unwrap();
        for m in wrong(&[2; 32]) {
            prop_assert_eq!(refused_length(kem.encaps_derand(&keys, &m, &mut batch)), m.len());
        }
    }

    /// Many keys with many encapsulations each in one call: what one by one gives.
    #[test]
    fn batches_equal_one_by_one(n in dimension(), keys in 1usize..4, per_key in 1usize..4, seed: u64) {
        let mut noise = Noise::new(seed);
        let (coins, messages) = (noise.bytes(64 * keys), noise.bytes(32 * keys * per_key));
        let kem = kem(n);
        let mut all = kem.keys(keys + 1).unwrap();
        kem.keygen_derand(&coins, &mut all).unwrap();
        let (eks, dks) = (kem.ek(&all).unwrap(), kem.dk(&all).unwrap());
        let mut loaded = kem.keys(keys).unwrap();
        kem.load_ek(&eks, &mut loaded).unwrap();
        let mut batch = kem.batch(keys * per_key + 2).unwrap();
        kem.encaps_derand(&loaded, &messages, &mut batch).unwrap();
        let mut cs = Vec::new();
        kem.c(&batch, &mut cs).unwrap();
        let (digests, secrets) = (kem.digests(&batch).unwrap(), kem.secrets(&batch).unwrap());
        // One ciphertext is tampered with on its way.
        let tampered = seed as usize % (keys * per_key);
        let c_bytes = kem.sizes().c;
        cs[tampered * c_bytes] ^= 1;
        kem.load_dk(&dks, &mut loaded).unwrap();
        kem.load_c(&cs, &mut batch).unwrap();
        kem.decaps(&loaded, &mut batch).unwrap();
        let decapsulated = kem.secrets(&batch).unwrap();
        for (i, m) in messages.chunks(32).enumerate() {
            let coins: [u8; 64] = coins[i / per_key * 64..][..64].try_into().unwrap();
            let (d, z) = (coins[..32].try_into().unwrap(), coins[32..].try_into().unwrap());
            let one = Honest::new(n, d, z, m.try_into().unwrap());
            prop_assert_eq!(&eks[i / per_key * one.ek.len()..][..one.ek.len()], &one.ek[..]);
            prop_assert_eq!(&dks[i / per_key * one.dk.len()..][..one.dk.len()], &one.dk[..]);
            let mut c = one.c.clone();
            c[0] ^= u8::from(i == tampered);
            prop_assert_eq!(&cs[i * c_bytes..][..c_bytes], &c[..]);
            prop_assert_eq!(&secrets[i * 32..][..32], &one.k[..]);
            let expected = if i == tampered { one.rejected(&one.z, &c) } else { one.k.clone() };
            prop_assert_eq!(&decapsulated[i * 32..][..32], &expected[..]);
            let mut digest = [0; 32];
            parallel_hash256(&one.c, kem.params().row_bytes(), b"LWE-KEM", &mut digest);
            prop_assert_eq!(&digests[i * 32..][..32], &digest[..]);
        }
    }
}

#[test]
fn keys_without_secrets_do_not_decapsulate() {
    let honest = Honest::new(32, [1; 32], [2; 32], [3; 32]);
    let kem = &honest.kem;
    let (mut keys, mut batch) = (kem.keys(2).unwrap(), kem.batch(4).unwrap());
    kem.load_c(&honest.c, &mut batch).unwrap();
    assert!(
        refused(kem.dk(&keys)) == KemError::NoSecret && refused(kem.decaps(&keys, &mut batch)) == KemError::NoSecret
    );
    kem.load_dk(&honest.dk, &mut keys).unwrap();
    kem.load_ek(&honest.ek, &mut keys).unwrap();
    assert!(
        refused(kem.dk(&keys)) == KemError::NoSecret && refused(kem.decaps(&keys, &mut batch)) == KemError::NoSecret
    );
    // Three ciphertexts cannot be the same number for each of two keys.
    kem.load_dk(&honest.dk.repeat(2), &mut keys).unwrap();
    kem.load_c(&honest.c.repeat(3), &mut batch).unwrap();
    assert!(matches!(refused(kem.decaps(&keys, &mut batch)), KemError::Length { .. }));
    assert!(matches!(refused(kem.encaps_derand(&keys, &[0; 96], &mut batch)), KemError::Length { .. }));
}

#[test]
fn the_randomized_forms_agree_and_differ_from_call_to_call() {
    let kem = kem(64);
    let mut rng = CtrDrbg::from_system().unwrap();
    let (mut keys, mut batch) = (kem.keys(2).unwrap(), kem.batch(6).unwrap());
    let mut seen = Vec::new();
    for _ in 0..2 {
        kem.keygen(2, &mut rng, &mut keys).unwrap();
        seen.extend(kem.ek(&keys).unwrap().chunks(kem.sizes().ek).map(Vec::from));
        for _ in 0..2 {
            kem.encaps(&keys, 6, &mut rng, &mut batch).unwrap();
            let honest = kem.secrets(&batch).unwrap();
            seen.extend(honest.chunks(32).map(Vec::from));
            let mut c = Vec::new();
            kem.c(&batch, &mut c).unwrap();
            kem.load_c(&c, &mut batch).unwrap();
            kem.decaps(&keys, &mut batch).unwrap();
            assert_eq!(*kem.secrets(&batch).unwrap(), *honest);
        }
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 2 * 2 + 4 * 6);
}

#[test]
fn a_refused_load_leaves_the_keys_as_they_were() {
    let [old, other] = [1, 2].map(|seed| Honest::new(32, [seed; 32], [seed; 32], [seed; 32]));
    let mut keys = old.kem.keys(2).unwrap();
    old.kem.load_dk(&old.dk, &mut keys).unwrap();
    let mut bad = other.dk.clone();
    bad[0] = 4;
    refused(old.kem.load_dk(&[&other.dk[..], &bad].concat(), &mut keys));
    assert_eq!(&*old.kem.dk(&keys).unwrap(), &old.dk);
    let mut tampered = old.c.clone();
    tampered[0] ^= 1;
    let mut batch = old.kem.batch(1).unwrap();
    old.kem.load_c(&tampered, &mut batch).unwrap();
    old.kem.decaps(&keys, &mut batch).unwrap();
    assert_eq!(*old.kem.secrets(&batch).unwrap(), old.rejected(&old.z, &tampered));
}
