//! Every row of LWE-KEM's known answers, and that a wrong row is found.

use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    selftest::{self, Vectors, lwe_kem},
};

fn tests(text: &str) -> Vec<lwe_kem::Test> {
    match Vectors::parse("vectors", text).unwrap() {
        Vectors::LweKem(tests) => tests,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_row_holds() {
    let cpu = Cpu::new(2, Isa::best(), &[]).unwrap();
    for (file, rows) in [(include_str!("vectors/lwe_kem.json"), 12), (include_str!("vectors/lwe_kem_full.json"), 1)] {
        let outcome = Vectors::LweKem(tests(file)).check(&cpu);
        assert_eq!((outcome.passed, outcome.failures), (rows, vec![]));
    }
}

#[test]
fn every_field_is_compared() {
    let cpu = Cpu::new(1, Isa::best(), &[]).unwrap();
    type Field = fn(&mut lwe_kem::Test) -> &mut u8;
    let fields: [(&str, Field); 11] = [
        ("d", |t| &mut t.d[31]),
        ("z", |t| &mut t.z[0]),
        ("m", |t| &mut t.m[7]),
        ("ek_sha3_256", |t| &mut t.ek_sha3_256[0]),
        ("dk_sha3_256", |t| &mut t.dk_sha3_256[0]),
        ("c_sha3_256", |t| &mut t.c_sha3_256[0]),
        ("c_digest", |t| &mut t.c_digest[0]),
        ("shared_secret", |t| &mut t.shared_secret[31]),
        ("tampered_shared_secret", |t| &mut t.tampered_shared_secret[31]),
        ("ek", |t| &mut t.ek.as_mut().unwrap()[31]),
        ("c", |t| t.c.as_mut().unwrap().last_mut().unwrap()),
    ];
    for (name, field) in fields {
        let mut test = tests(include_str!("vectors/lwe_kem_full.json")).remove(0);
        *field(&mut test) ^= 1;
        assert!(lwe_kem::check(&test, &cpu).is_err(), "{name}");
    }
}

#[test]
fn the_built_in_answers_hold() {
    let outcome = selftest::built_in(&Cpu::new(2, Isa::best(), &[]).unwrap());
    assert_eq!((outcome.passed, outcome.failures), (17, vec![]));
}

#[test]
fn other_files_are_refused() {
    for text in [
        "",
        "{}",
        "[]",
        "[{}]",
        "[{\"n\": 32}]",
        "[{\"shared_secret\": \"00\"}]",
        "[{\"cipher\": \"AES-128\"}]",
        "[{\"cipher\": \"AES-128\", \"df\": true, \"prediction_resistance\": false, \"output_bits\": 8, \"tests\": []}]",
    ] {
        assert!(Vectors::parse("file", text).is_err(), "{text}");
    }
    let typo = include_str!("vectors/lwe_kem.json").replacen("tampered_xor", "tampered_xro", 1);
    assert!(Vectors::parse("file", &typo).is_err());
}
