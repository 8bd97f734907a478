//! NIST's CAVP answers of CTR_DRBG, all of them, and that a wrong one is found.

use std::collections::BTreeMap;

use lwe_mpi::selftest::{
    Vectors,
    cavp::{self, Group, Test},
};

fn parse(text: &str) -> lwe_mpi::error::Result<Vec<Group>> {
    match Vectors::parse("vectors", text)? {
        Vectors::CtrDrbg(groups) => Ok(groups),
        other => panic!("{other:?}"),
    }
}

fn groups() -> Vec<Group> {
    parse(include_str!("vectors/ctr_drbg_cavp.json")).unwrap()
}

#[test]
fn every_answer_holds() {
    let mut passed = BTreeMap::new();
    for group in &groups() {
        let Group { cipher, df, prediction_resistance, output_bits, .. } = group;
        for (t, test) in group.tests.iter().enumerate() {
            assert_eq!(cavp::check(group, test), Ok(()), "{cipher}, df {df}, test {t}");
            *passed.entry((cipher.clone(), *df, *prediction_resistance, *output_bits)).or_insert(0) += 1;
        }
    }
    let mut expected = BTreeMap::new();
    for cipher in ["AES-128", "AES-192", "AES-256"] {
        for df in [false, true] {
            for (prediction_resistance, tests) in [(false, 480), (true, 240)] {
                expected.insert((cipher.to_string(), df, prediction_resistance, 512), tests);
            }
        }
    }
    // "CAVP Large Seed", which OpenSSL adds.
    expected.insert(("AES-192".to_string(), true, true, 256), 1);
    assert_eq!(passed, expected);
    assert_eq!(passed.values().sum::<i32>(), 4321);
}

/// The fields of `test` that are not empty.
fn fields(test: &mut Test) -> impl Iterator<Item = (&'static str, &mut Vec<u8>)> {
    [
        ("Entropy", Some(&mut test.entropy)),
        ("Nonce", Some(&mut test.nonce)),
        ("PersonalisationString", Some(&mut test.personalisation_string)),
        ("ReseedEntropy", test.reseed_entropy.as_mut()),
        ("ReseedAdditionalInput", Some(&mut test.reseed_additional_input)),
        ("AdditionalInputA", Some(&mut test.additional_input_a)),
        ("AdditionalInputB", Some(&mut test.additional_input_b)),
        ("EntropyPredictionResistanceA", test.entropy_prediction_resistance_a.as_mut()),
        ("EntropyPredictionResistanceB", test.entropy_prediction_resistance_b.as_mut()),
        ("Output", Some(&mut test.output)),
    ]
    .into_iter()
    .filter_map(|(name, field)| Some((name, field?)))
    .filter(|(_, field)| !field.is_empty())
}

/// In every test, one bit of every field; which bit differs from test to test.
#[test]
fn a_flipped_bit_is_found() {
    let mut found = BTreeMap::new();
    let mut bit = 0;
    for group in groups() {
        for mut test in group.tests.clone() {
            for which in 0..fields(&mut test.clone()).count() {
                let flip = |test: &mut Test| {
                    let (name, field) = fields(test).nth(which).unwrap();
                    let bit = bit % (8 * field.len());
                    field[bit / 8] ^= 1 << (bit % 8);
                    name
                };
                let name = flip(&mut test);
                let difference = cavp::check(&group, &test).expect_err(name);
                assert!(difference.starts_with("output differs from byte"), "{name}: {difference}");
                flip(&mut test);
                *found.entry(name).or_insert(0) += 1;
            }
            bit += 13;
        }
    }
    let expected = BTreeMap::from([
        ("Entropy", 4321),
        ("Nonce", 2161),
        ("PersonalisationString", 2160),
        ("ReseedEntropy", 1440),
        ("ReseedAdditionalInput", 720),
        ("AdditionalInputA", 2160),
        ("AdditionalInputB", 2160),
        ("EntropyPredictionResistanceA", 1441),
        ("EntropyPredictionResistanceB", 1441),
        ("Output", 4321),
    ]);
    assert_eq!(found, expected);
}

#[test]
fn a_difference_is_located() {
    let mut group = groups().remove(0);
    let mut test = group.tests.remove(0);
    test.output[30] ^= 0xff;
    let difference = cavp::check(&group, &test).unwrap_err();
    assert_eq!(difference, "output differs from byte 30 on: expected b477…, got 4b77…");
}

/// The first group with this configuration, and its first test that has a reseeding where asked for.
fn first(df: bool, prediction_resistance: bool, reseeds: bool) -> (Group, Test) {
    groups()
        .into_iter()
        .filter(|group| (group.df, group.prediction_resistance) == (df, prediction_resistance))
        .find_map(|group| {
            let test = group.tests.iter().find(|test| test.reseed_entropy.is_some() == reseeds)?.clone();
            Some((group, test))
        })
        .unwrap()
}

#[test]
fn contradictory_tests_are_refused() {
    type Change = fn(&mut Group, &mut Test);
    let cases: [(&str, (Group, Test), Change); 11] = [
        ("unknown cipher AES-512", first(true, false, false), |g, _| g.cipher = "AES-512".into()),
        ("unknown cipher aes-128", first(true, false, false), |g, _| g.cipher = "aes-128".into()),
        ("output_bits is 0", first(true, false, false), |g, t| {
            g.output_bits = 0;
            t.output.clear();
        }),
        ("Output has 0 bytes", first(true, false, false), |_, t| t.output.clear()),
        ("Output has 64 bytes, output_bits is 511", first(true, false, false), |g, _| g.output_bits = 511),
        ("Nonce without derivation function", first(true, false, false), |g, _| g.df = false),
        ("nonce: 0 bytes", first(true, false, false), |_, t| t.nonce.clear()),
        ("ReseedAdditionalInput without ReseedEntropy", first(true, false, false), |_, t| {
            t.reseed_additional_input = vec![1];
        }),
        ("without its entropy", first(false, false, true), |g, _| g.prediction_resistance = true),
        ("EntropyPredictionResistance without", first(false, true, false), |g, _| g.prediction_resistance = false),
        ("at most 65536", first(false, false, false), |g, t| {
            t.output = vec![0; 65537];
            g.output_bits = 8 * 65537;
        }),
    ];
    for (message, (mut group, mut test), change) in cases {
        assert_eq!(cavp::check(&group, &test), Ok(()), "{message}: before the change");
        change(&mut group, &mut test);
        let refusal = cavp::check(&group, &test).expect_err(message);
        assert!(refusal.contains(message), "{refusal}, not {message}");
    }
}

#[test]
fn files_of_another_form_are_refused() {
    let file = |group: &str, test: &str| {
        format!(
            r#"[{{"cipher": "AES-128", "df": false, "prediction_resistance": false, "output_bits": 8{group},
                "tests": [{{"Entropy": "00", "Output": "00"{test}}}]}}]"#
        )
    };
    let parsed = parse(&file("", r#", "Nonce": """#)).unwrap();
    assert_eq!((parsed.len(), parsed[0].tests.len()), (1, 1));
    for (group, test) in [
        (r#", "note": "x""#, ""),
        ("", r#", "Nounce": """#),
        ("", r#", "nonce": """#),
        ("", r#", "Entropy": "00""#),
        ("", r#", "Nonce": "0""#),
        ("", r#", "Nonce": "0g""#),
        ("", r#", "ReseedEntropy": null"#),
    ] {
        let text = file(group, test);
        assert!(parse(&text).is_err(), "{text}");
    }
    for removed in [r#""df": false, "#, r#""prediction_resistance": false, "#, r#", "Output": "00""#] {
        let text = file("", "");
        assert!(text.contains(removed));
        assert!(parse(&text.replace(removed, "")).is_err(), "without {removed}");
    }
}
