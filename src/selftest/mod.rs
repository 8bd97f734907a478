//! Known answers: a few that are built in and run on every rank before any work, as a FIPS 140 module would, and
//! whole files of them that users bring.

pub mod cavp;
pub mod lwe_kem;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    error::{Error, Result},
    hash,
    ops::Ops,
};

/// How many tests passed, and what those that failed said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Tests that gave the known answer.
    pub passed: usize,
    /// Those that did not, in order.
    pub failures: Vec<Failure>,
}

/// A test that did not give the known answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Its place among all tests.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// What differed.
    pub difference: String,
}

impl Outcome {
    /// How many tests were run.
    pub fn tests(&self) -> usize {
        self.passed + self.failures.len()
    }

    fn count(&mut self, name: String, result: Result<(), String>) {
        match result {
            Ok(()) => self.passed += 1,
            Err(difference) => self.failures.push(Failure { index: self.tests(), name, difference }),
        }
    }
}

/// A file of known answers, told apart by its fields.
#[derive(Clone, Debug)]
pub enum Vectors {
    /// The format of `tests/vectors/ctr_drbg_cavp.json`.
    CtrDrbg(Vec<cavp::Group>),
    /// The format of `tests/vectors/lwe_kem.json`.
    LweKem(Vec<lwe_kem::Test>),
}

impl Vectors {
    /// Reads a file's text. `path` names it in errors.
    ///
    /// # Errors
    /// [`Error::Io`]: not JSON, or neither format, or without a test.
    pub fn parse(path: &str, text: &str) -> Result<Self> {
        let invalid = |message: String| Error::Io {
            path: path.into(),
            source: std::io::Error::new(std::io::ErrorKind::InvalidData, message),
        };
        let entries: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(text)
            .map_err(|error| invalid(format!("not a JSON array of known answers: {error}")))?;
        let Some(first) = entries.first() else {
            return Err(invalid("holds no known answers".into()));
        };
        let vectors = if first.contains_key("cipher") {
            serde_json::from_str(text).map(Vectors::CtrDrbg)
        } else if first.contains_key("shared_secret") {
            serde_json::from_str(text).map(Vectors::LweKem)
        } else {
            return Err(invalid(
                "neither CTR_DRBG nor LWE-KEM known answers: no \"cipher\", no \"shared_secret\"".into(),
            ));
        };
        let vectors = vectors.map_err(|error| invalid(error.to_string()))?;
        match &vectors {
            Vectors::CtrDrbg(groups) if groups.iter().all(|group| group.tests.is_empty()) => {
                Err(invalid("holds no known answers".into()))
            }
            _ => Ok(vectors),
        }
    }

    /// Runs every test, LWE-KEM's on the given device.
    pub fn check<O: Ops>(&self, ops: &O) -> Outcome {
        let mut outcome = Outcome::default();
        self.check_into(ops, &mut outcome);
        outcome
    }

    fn check_into<O: Ops>(&self, ops: &O, outcome: &mut Outcome) {
        match self {
            Vectors::CtrDrbg(groups) => {
                for (g, group) in groups.iter().enumerate() {
                    let df = if group.df { "df" } else { "no df" };
                    for (t, test) in group.tests.iter().enumerate() {
                        let name = format!("CTR_DRBG {} {df} group {g} test {t}", group.cipher);
                        outcome.count(name, cavp::check(group, test));
                    }
                }
            }
            Vectors::LweKem(tests) => {
                for (t, test) in tests.iter().enumerate() {
                    outcome.count(format!("LWE-KEM n = {} test {t}", test.n), lwe_kem::check(test, ops));
                }
            }
        }
    }
}

/// The built-in known answers on one device: hashes, the generator in every configuration, the scheme.
///
/// # Panics
/// Never: the built-in files are well formed, which every run of the tests shows.
pub fn built_in<O: Ops>(ops: &O) -> Outcome {
    let mut outcome = Outcome::default();
    let mut compare = |name: &str, got: &[u8], expected: &str| {
        let got = hex::encode(got);
        outcome
            .count(name.into(), if got == expected { Ok(()) } else { Err(format!("expected {expected}, got {got}")) });
    };
    // FIPS 202: NIST's examples for the empty message.
    compare("SHA3-256", &hash::sha3_256(&[]), "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a");
    compare(
        "SHA3-512",
        &hash::sha3_512(&[]),
        "a69f73cca23a9ac5c8b567dc185a756e97c982164fe25859e0d1dcc1475c80a6\
         15b2123af1f5f94c11e3e9402c3ac558f500199d95b6d3e301758586281dcd26",
    );
    // SP 800-185, ParallelHash256, sample #5.
    let data = [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23, 32, 33, 34, 35, 36, 37, 38, 39];
    let mut digest = [0; 64];
    hash::parallel_hash256(&data, 8, b"Parallel Data", &mut digest);
    compare(
        "ParallelHash256",
        &digest,
        "cdf15289b54f6212b4bc270528b49526006dd9b54e2b6add1ef6900dda3963bb\
         33a72491f236969ca8afaea29c682d47a393c065b38e29fae651a2091c833110",
    );
    for (path, text) in [
        ("built-in ctr_drbg.json", include_str!("ctr_drbg.json")),
        ("built-in lwe_kem.json", include_str!("lwe_kem.json")),
    ] {
        let vectors = Vectors::parse(path, text).expect("the built-in known answers are well formed");
        vectors.check_into(ops, &mut outcome);
    }
    outcome
}

/// Hexadecimal bytes of a field that may be absent.
fn some_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<u8>>, D::Error> {
    hex::serde::deserialize(deserializer).map(Some)
}
