//! Small symmetric distributions over the integers: χ, the centred binomial, and rounded Gaussians of any width.
//!
//! A [`Cdt`] is a cumulative table in 1/65536, sampled from one 16-bit word w without a branch or an index that
//! depends on it: the magnitude is the number of thresholds T with (w >> 1) > T, the sign is the low bit of w
//! (LWE-KEM specification, "Parameters").

use crate::error::{Error, Result};

/// The narrowest and the widest Gaussian that `--sigma` takes. Below the first the table is all zeros; above the
/// second a sample could leave the range of a signed byte.
pub const SIGMA_RANGE: (f64, f64) = (0.25, 25.0);

/// A symmetric distribution as a table of cumulative thresholds on 15-bit words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cdt {
    /// Strictly ascending; magnitude(w) = number of entries below w >> 1.
    thresholds: Vec<u16>,
}

impl Cdt {
    /// χ: the Gaussian with σ = 1 rounded to integers; weights 25096, 15842, 3971, 392, 15 in 1/65536.
    pub fn chi() -> Self {
        Cdt { thresholds: vec![12547, 28389, 32360, 32752] }
    }

    /// The Gaussian of width `sigma` rounded to integers: weight k is the nearest integer to
    /// 65536·(Φ((k + ½)/σ) − Φ((k − ½)/σ)), and what is left goes to 0. `gaussian(1.0)` is [`Cdt::chi`].
    ///
    /// # Errors
    /// `sigma` outside [`SIGMA_RANGE`].
    pub fn gaussian(sigma: f64) -> Result<Self> {
        let (low, high) = SIGMA_RANGE;
        if !(low..=high).contains(&sigma) {
            return Err(Error::Usage(format!("--sigma {sigma}: the width must be from {low} to {high}")));
        }
        let phi = |x: f64| 0.5 * libm::erfc(-x / (sigma * std::f64::consts::SQRT_2));
        let weights: Vec<u32> = (1..128)
            .map(|k| (65536.0 * (phi(f64::from(k) + 0.5) - phi(f64::from(k) - 0.5))).round() as u32)
            .take_while(|&weight| weight > 0)
            .collect();
        // The half of 0 with sign bit 0 holds 32768 − Σ weights of the 32768 words w >> 1.
        let mut below = 32768 - weights.iter().sum::<u32>();
        let mut thresholds = Vec::with_capacity(weights.len());
        for weight in weights {
            thresholds.push((below - 1) as u16);
            below += weight;
        }
        Ok(Cdt { thresholds })
    }

    /// The thresholds, strictly ascending, on 15-bit words.
    pub fn thresholds(&self) -> &[u16] {
        &self.thresholds
    }

    /// The largest magnitude that can be drawn; at most 127.
    pub fn max_magnitude(&self) -> u8 {
        self.thresholds.len() as u8
    }

    /// P(X = k)·65536 for k = 0, 1, … [`Self::max_magnitude`]; P(X = −k) is the same.
    pub fn weights(&self) -> Vec<u32> {
        let mut edges: Vec<u32> = self.thresholds.iter().map(|&t| u32::from(t) + 1).collect();
        edges.push(32768);
        let mut weights = vec![2 * edges[0]];
        weights.extend(edges.windows(2).map(|pair| pair[1] - pair[0]));
        weights
    }

    /// One sample from a 16-bit word. Secret: no branch or index depends on `word`.
    #[inline(always)]
    pub fn sample(&self, word: u16) -> i8 {
        let half = word >> 1;
        // `T - half` borrows exactly when half > T: the borrow is bit 15, as both are below 2^15.
        let magnitude = self.thresholds.iter().fold(0, |sum, &t| sum + (t.wrapping_sub(half) >> 15)) as i8;
        let sign = -((word & 1) as i8);
        (magnitude ^ sign) - sign
    }
}

/// P(CBD(3) = k)·64 for k = −3 … 3: the difference of two sums of three fair bits.
pub const CBD3_WEIGHTS: [u32; 7] = [1, 6, 15, 20, 15, 6, 1];

/// CBD(3) of one byte b: b₀ + b₁ + b₂ − b₃ − b₄ − b₅. Secret: no branch or index depends on `byte`.
#[inline(always)]
pub fn cbd3(byte: u8) -> i8 {
    let bit = |k: u8| (byte >> k & 1) as i8;
    bit(0) + bit(1) + bit(2) - bit(3) - bit(4) - bit(5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chi_is_the_specified_table() {
        assert_eq!(Cdt::chi().weights(), [25096, 15842, 3971, 392, 15]);
        assert_eq!(Cdt::gaussian(1.0).unwrap(), Cdt::chi());
    }

    #[test]
    fn every_word_is_sampled_with_its_weight() {
        for table in
            [Cdt::chi(), Cdt::gaussian(0.25).unwrap(), Cdt::gaussian(3.2).unwrap(), Cdt::gaussian(25.0).unwrap()]
        {
            let mut counts = vec![0u32; 255];
            for word in 0..=u16::MAX {
                counts[(i16::from(table.sample(word)) + 127) as usize] += 1;
            }
            let weights = table.weights();
            for magnitude in 0..=127usize {
                let expected = weights.get(magnitude).copied().unwrap_or(0);
                assert_eq!((counts[127 + magnitude], counts[127 - magnitude]), (expected, expected));
            }
        }
    }

    #[test]
    fn cbd3_has_its_weights() {
        let mut counts = [0u32; 7];
        for byte in 0..64 {
            counts[(cbd3(byte) + 3) as usize] += 1;
        }
        assert_eq!(counts, CBD3_WEIGHTS);
        assert_eq!(cbd3(0b1100_0111), 3, "the two highest bits do not count");
    }

    #[test]
    fn widths_out_of_range_are_refused() {
        for sigma in [0.0, 0.2, 25.1, f64::NAN, f64::INFINITY, -1.0] {
            assert!(Cdt::gaussian(sigma).is_err(), "{sigma}");
        }
    }
}
