//! Known answers of CTR_DRBG in the format of `tests/vectors/ctr_drbg_cavp.json`: NIST's CAVP vectors, regrouped.
//!
//! A file is a JSON array of [`Group`]s; strings of bytes are hexadecimal. Each test instantiates a generator, reseeds
//! it where the test says so, and generates `output_bits` twice; the second output is compared. With prediction
//! resistance each generation takes fresh entropy first.

use crate::drbg::{Cipher, CtrDrbg};
use serde::Deserialize;

/// Tests with one configuration of the generator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// "AES-128", "AES-192" or "AES-256".
    pub cipher: String,
    /// With derivation function.
    pub df: bool,
    /// With prediction resistance.
    pub prediction_resistance: bool,
    /// Length of each output: a multiple of 8, at least 8.
    pub output_bits: usize,
    /// The tests.
    pub tests: Vec<Test>,
}

/// One test. What a test does not have is empty, or `None` where its presence decides what is done.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "PascalCase")]
pub struct Test {
    /// entropy_input of the instantiation.
    #[serde(with = "hex")]
    pub entropy: Vec<u8>,
    /// nonce; only with derivation function.
    #[serde(with = "hex", default)]
    pub nonce: Vec<u8>,
    /// personalization_string.
    #[serde(with = "hex", default)]
    pub personalisation_string: Vec<u8>,
    /// entropy_input of a reseeding before the first generation.
    #[serde(deserialize_with = "super::some_hex", default)]
    pub reseed_entropy: Option<Vec<u8>>,
    /// additional_input of that reseeding.
    #[serde(with = "hex", default)]
    pub reseed_additional_input: Vec<u8>,
    /// additional_input of the first generation.
    #[serde(with = "hex", default)]
    pub additional_input_a: Vec<u8>,
    /// additional_input of the second generation.
    #[serde(with = "hex", default)]
    pub additional_input_b: Vec<u8>,
    /// Fresh entropy_input of the first generation; only with prediction resistance.
    #[serde(deserialize_with = "super::some_hex", default)]
    pub entropy_prediction_resistance_a: Option<Vec<u8>>,
    /// Fresh entropy_input of the second generation; only with prediction resistance.
    #[serde(deserialize_with = "super::some_hex", default)]
    pub entropy_prediction_resistance_b: Option<Vec<u8>>,
    /// The second output.
    #[serde(with = "hex")]
    pub output: Vec<u8>,
}

/// Runs `test` of `group`.
///
/// # Errors
/// What differs from the expected output, or why the test cannot be run.
pub fn check(group: &Group, test: &Test) -> Result<(), String> {
    let cipher = match group.cipher.as_str() {
        "AES-128" => Cipher::Aes128,
        "AES-192" => Cipher::Aes192,
        "AES-256" => Cipher::Aes256,
        other => return Err(format!("unknown cipher {other}")),
    };
    if group.output_bits == 0 {
        return Err("output_bits is 0: nothing to compare".into());
    }
    if !group.output_bits.is_multiple_of(8) || test.output.len() != group.output_bits / 8 {
        return Err(format!("Output has {} bytes, output_bits is {}", test.output.len(), group.output_bits));
    }
    if !group.df && !test.nonce.is_empty() {
        return Err("Nonce without derivation function".into());
    }
    if test.reseed_entropy.is_none() && !test.reseed_additional_input.is_empty() {
        return Err("ReseedAdditionalInput without ReseedEntropy".into());
    }
    let output = second_output(cipher, group, test)?;
    match output.iter().zip(&test.output).position(|(got, expected)| got != expected) {
        None => Ok(()),
        Some(byte) => {
            let [expected, got] =
                [&test.output, &output].map(|bytes| hex::encode(&bytes[byte..][..8.min(bytes.len() - byte)]));
            Err(format!("output differs from byte {byte} on: expected {expected}…, got {got}…"))
        }
    }
}

/// The generator's second output; the first is discarded, as CAVP does.
fn second_output(cipher: Cipher, group: &Group, test: &Test) -> Result<Vec<u8>, String> {
    let personalization = &test.personalisation_string;
    let mut drbg = if group.df {
        CtrDrbg::instantiate_df(cipher, &test.entropy, &test.nonce, personalization)
    } else {
        CtrDrbg::instantiate(cipher, &test.entropy, personalization)
    }
    .map_err(|error| error.to_string())?;
    if let Some(entropy) = &test.reseed_entropy {
        drbg.reseed(entropy, &test.reseed_additional_input).map_err(|error| error.to_string())?;
    }
    let mut output = vec![0; test.output.len()];
    for (additional_input, entropy) in [
        (&test.additional_input_a, &test.entropy_prediction_resistance_a),
        (&test.additional_input_b, &test.entropy_prediction_resistance_b),
    ] {
        match (group.prediction_resistance, entropy) {
            (true, Some(entropy)) => drbg.generate_with_prediction_resistance(&mut output, entropy, additional_input),
            (false, None) => drbg.generate(&mut output, additional_input),
            (true, None) => return Err("prediction resistance without its entropy".into()),
            (false, Some(_)) => return Err("EntropyPredictionResistance without prediction resistance".into()),
        }
        .map_err(|error| error.to_string())?;
    }
    Ok(output)
}
