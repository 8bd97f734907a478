//! LWE-KEM known answers in the format of `tests/vectors/lwe_kem.json`: a JSON array of [`Test`]s; strings of bytes
//! are hexadecimal.

use serde::Deserialize;

use crate::{
    error::Result,
    hash::sha3_256,
    ops::{MatrixForm, Ops},
    params::LweParams,
    schemes::{Kem, lwe::LweKem},
};

/// One known answer.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The dimension.
    pub n: usize,
    /// KeyGen's first seed.
    #[serde(with = "hex")]
    pub d: Vec<u8>,
    /// KeyGen's second seed, the key of implicit rejection.
    #[serde(with = "hex")]
    pub z: Vec<u8>,
    /// The message.
    #[serde(with = "hex")]
    pub m: Vec<u8>,
    /// SHA3-256 of the encapsulation key.
    #[serde(with = "hex")]
    pub ek_sha3_256: Vec<u8>,
    /// SHA3-256 of the decapsulation key.
    #[serde(with = "hex")]
    pub dk_sha3_256: Vec<u8>,
    /// SHA3-256 of the ciphertext.
    #[serde(with = "hex")]
    pub c_sha3_256: Vec<u8>,
    /// D(c).
    #[serde(with = "hex")]
    pub c_digest: Vec<u8>,
    /// K.
    #[serde(with = "hex")]
    pub shared_secret: Vec<u8>,
    /// The byte of c that tampering changes.
    pub tampered_byte: usize,
    /// What that byte is XORed with.
    pub tampered_xor: u8,
    /// K of the tampered ciphertext.
    #[serde(with = "hex")]
    pub tampered_shared_secret: Vec<u8>,
    /// The whole encapsulation key, where the file holds it.
    #[serde(deserialize_with = "super::some_hex", default)]
    pub ek: Option<Vec<u8>>,
    /// The whole decapsulation key, where the file holds it.
    #[serde(deserialize_with = "super::some_hex", default)]
    pub dk: Option<Vec<u8>>,
    /// The whole ciphertext, where the file holds it.
    #[serde(deserialize_with = "super::some_hex", default)]
    pub c: Option<Vec<u8>>,
}

/// Runs one test on a device: key generation, encapsulation to the key as loaded from its bytes, and decapsulation of
/// the ciphertext and of the tampered one with the key as made and as loaded from its bytes.
///
/// # Errors
/// What differs, or why the test cannot be run, in one line.
pub fn check<O: Ops>(test: &Test, ops: &O) -> Result<(), String> {
    let mut differences = Vec::new();
    run(test, ops, &mut differences).map_err(|error| error.to_string())?;
    match differences.first() {
        None => Ok(()),
        Some(first) => Err(first.clone()),
    }
}

fn run<O: Ops>(test: &Test, ops: &O, differences: &mut Vec<String>) -> Result<()> {
    let mut compare = |what: &str, got: &[u8], expected: &[u8]| {
        if got != expected {
            let [expected, got] = [expected, got].map(|bytes| hex::encode(&bytes[..bytes.len().min(32)]));
            differences.push(format!("{what}: expected {expected}, got {got}"));
        }
    };
    let kem = LweKem::new(ops, LweParams::new(test.n)?, MatrixForm::Stored)?;
    let (mut keys, mut loaded, mut batch) = (kem.keys(1)?, kem.keys(1)?, kem.batch(1)?);

    kem.keygen_derand(&[&test.d[..], &test.z].concat(), &mut keys)?;
    let (ek, dk) = (kem.ek(&keys)?, kem.dk(&keys)?);
    compare("ek_sha3_256", &sha3_256(&[&ek]), &test.ek_sha3_256);
    compare("dk_sha3_256", &sha3_256(&[&dk]), &test.dk_sha3_256);

    kem.load_ek(&ek, &mut loaded)?;
    kem.encaps_derand(&loaded, &test.m, &mut batch)?;
    let mut c = Vec::new();
    kem.c(&batch, &mut c)?;
    compare("c_sha3_256", &sha3_256(&[&c]), &test.c_sha3_256);
    compare("c_digest", &kem.digests(&batch)?, &test.c_digest);
    compare("shared_secret", &kem.secrets(&batch)?, &test.shared_secret);
    for (what, got, expected) in [("ek", &ek[..], &test.ek), ("dk", &dk, &test.dk), ("c", &c, &test.c)] {
        if let Some(expected) = expected {
            compare(what, got, expected);
        }
    }

    let mut tampered = c.clone();
    match tampered.get_mut(test.tampered_byte) {
        Some(byte) => *byte ^= test.tampered_xor,
        None => compare("tampered_byte lies outside c; its length", &c.len().to_be_bytes(), &[]),
    }
    kem.load_dk(&dk, &mut loaded)?;
    for keys in [&keys, &loaded] {
        kem.load_c(&c, &mut batch)?;
        kem.decaps(keys, &mut batch)?;
        compare("shared_secret of decapsulation", &kem.secrets(&batch)?, &test.shared_secret);
        kem.load_c(&tampered, &mut batch)?;
        kem.decaps(keys, &mut batch)?;
        compare("tampered_shared_secret", &kem.secrets(&batch)?, &test.tampered_shared_secret);
    }
    Ok(())
}
