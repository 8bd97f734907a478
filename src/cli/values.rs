//! Values of flags.

use std::{str::FromStr, time::Duration};

/// "auto" or a number of at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// The program chooses.
    Auto,
    /// The user chose.
    Exactly(usize),
}

impl Count {
    /// The user's number, if there is one.
    pub fn exactly(self) -> Option<usize> {
        match self {
            Count::Auto => None,
            Count::Exactly(number) => Some(number),
        }
    }
}

/// How matrices are held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Matrix {
    /// Stored where the memory of every rank allows, else regenerated.
    #[default]
    Auto,
    /// Every entry in memory.
    Stored,
    /// Expanded from the seed at every use, piece by piece.
    Regenerated,
}

/// 32 bytes from up to 64 hexadecimal digits: a number, padded with zeros in front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").unwrap_or(text);
        if digits.is_empty() || digits.len() > 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err("a seed is 1 to 64 hexadecimal digits".into());
        }
        let mut seed = [0; 32];
        hex::decode_to_slice(format!("{digits:0>64}"), &mut seed).map_err(|error| error.to_string())?;
        Ok(Seed(seed))
    }
}

/// A number of at least 1.
///
/// # Errors
/// What is wrong, in words.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("at least 1 is needed".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("not a whole number of at least 1".into()),
    }
}

/// "auto" or a number of at least 1.
///
/// # Errors
/// What is wrong, in words.
pub fn count(text: &str) -> Result<Count, String> {
    if text == "auto" {
        Ok(Count::Auto)
    } else {
        positive(text).map(Count::Exactly).map_err(|_| "neither \"auto\" nor a whole number of at least 1".into())
    }
}

/// The most threads of a rank: more than any machine has cores.
const MAX_THREADS: usize = 1024;

/// "auto" or a number of threads.
///
/// # Errors
/// What is wrong, in words.
pub fn threads(text: &str) -> Result<Count, String> {
    match count(text)? {
        Count::Exactly(threads) if threads > MAX_THREADS => Err(format!("at most {MAX_THREADS} threads")),
        count => Ok(count),
    }
}

/// Whole seconds, at least one.
///
/// # Errors
/// What is wrong, in words.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=31_536_000) => Ok(Duration::from_secs(seconds)),
        _ => Err("a time-out is from 1 to 31536000 whole seconds".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_numbers() {
        let mut one = [0; 32];
        one[31] = 1;
        for text in ["1", "01", "0x1", &format!("{:0>64}", 1)] {
            assert_eq!(text.parse(), Ok(Seed(one)), "{text}");
        }
        assert_eq!("F".repeat(64).parse(), Ok(Seed([0xff; 32])));
        for text in ["", "0x", "g", "+1", "-1", " 1", &"0".repeat(65), "é"] {
            assert!(text.parse::<Seed>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn counts_are_auto_or_positive() {
        assert_eq!((count("auto"), count("7")), (Ok(Count::Auto), Ok(Count::Exactly(7))));
        for text in ["0", "-1", "1.5", "", "Auto", "99999999999999999999"] {
            assert!(count(text).is_err() && positive(text).is_err(), "{text:?}");
        }
        for text in ["0", "-1", "0.5", "x", "99999999999"] {
            assert!(seconds(text).is_err(), "{text:?}");
        }
    }
}
