//! How likely an LWE-KEM parameter set decrypts a message bit wrongly, computed from its distributions.
//!
//! Source: the LWE-KEM specification, "Decryption failure" and "Decaps", step 2 (README, "The scheme").
//!
//! The error X = ⟨e, r⟩ + e2 − ⟨s, e1⟩ of v − ⟨s, u⟩ is a sum of 2n independent products and one more sample.
//! Each term's distribution is known exactly, so the distribution of X on Z or on Z_q is a product of
//! characteristic functions. Two cases keep every figure above the rounding of the transform:
//!
//! - Wide noise (standard deviation at least q/4): X mod q by a transform of length q. It folds large errors back into
//!   the window where they decode right, as Z_q does, and has no other error than rounding.
//! - Otherwise: exponential tilting. P_θ(x) = P(x)·exp(θx)/E[exp(θX)], with θ such that the mean of P_θ is the first
//!   wrong x. There P_θ is large, so the sum over the wrong x, all windows of Z_q, is taken on P_θ and tilted back in
//!   the log domain, down to any exponent. The transform is only as long as P_θ is wide: what lies outside has, by
//!   Chernoff's bound, a mass of at most 2⁻⁶⁹, against a sum above 2⁻¹⁵.
//!
//! Accuracy: the n-th power multiplies the rounding of a transform, about 2⁻⁵², by n. So log2 is right within about
//! n·2⁻⁵⁰ + |log2|·2⁻⁵⁰, which is below 10⁻⁹ for every set.

use rustfft::{FftPlanner, num_complex::Complex64};

use crate::{
    noise::{CBD3_WEIGHTS, Cdt},
    params::{LweParams, MESSAGE_BITS, Noise, Q},
};

/// A set runs unforced only where its failure probability per encapsulation is at most 2 to this.
pub const MAX_LOG2_FAILURE: f64 = -64.0;

/// The smallest |x| under which a bit decodes wrongly: x = −⌊q/4⌋, for a bit 1.
const FIRST_WRONG: i64 = (Q / 4) as i64;
/// −ln of the mass that a tilted distribution may have beyond either end of its grid: 2⁻⁷⁰.
const CUT: f64 = 70.0 * std::f64::consts::LN_2;
/// No tilt is stronger: at e⁶⁴ all mass lies on the largest value.
const MAX_TILT: f64 = 64.0;

/// The decryption-failure probability of one parameter set, over keys, messages and coins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FailureProbability {
    /// log2 of the probability that one uniform message bit decodes wrongly. `None` where the error cannot reach
    /// q/4, so that no bit ever fails.
    pub log2_per_bit: Option<f64>,
    /// log2 of the bound for one encapsulation: 256 times the probability of a bit, at most 1. The bits of one
    /// encapsulation share e and s, so their failures are not independent; this union bound holds all the same.
    /// `None` where no bit ever fails.
    pub log2_per_encaps: Option<f64>,
    /// The standard deviation of the error before reduction mod q.
    pub standard_deviation: f64,
}

impl FailureProbability {
    /// Whether the set may run unforced: at most 2 to [`MAX_LOG2_FAILURE`] per encapsulation.
    pub fn acceptable(&self) -> bool {
        self.log2_per_encaps.is_none_or(|log2| log2 <= MAX_LOG2_FAILURE)
    }
}

/// The decryption-failure probability of `params`.
pub fn failure_probability(params: &LweParams) -> FailureProbability {
    let error = DecryptionError::new(params);
    let standard_deviation = error.tilt(0.0).variance.sqrt();
    let log2_per_bit = if error.max() < FIRST_WRONG {
        None
    } else if standard_deviation >= FIRST_WRONG as f64 {
        Some(error.log2_wide())
    } else {
        Some(error.log2_tilted())
    };
    let log2_bits = (MESSAGE_BITS as f64).log2();
    FailureProbability {
        log2_per_bit,
        log2_per_encaps: log2_per_bit.map(|log2| (log2 + log2_bits).min(0.0)),
        standard_deviation,
    }
}

/// How many of the two message bits an error x turns into the other one (Decaps, step 2), halved.
///
/// A bit 0 decodes right for x mod q in [−⌊q/4⌋, ⌊q/4⌋], a bit 1, at ⌊q/2⌋, for x mod q in [1 − ⌊q/4⌋, ⌊q/4⌋].
fn wrong_share(x: i64) -> f64 {
    let q = i64::from(Q);
    let wrong = |bit: i64| {
        let mu = (x + bit * (q / 2)).rem_euclid(q);
        let decoded = i64::from(q / 4 < mu && mu < q - q / 4);
        f64::from(u8::from(decoded != bit))
    };
    (wrong(0) + wrong(1)) / 2.0
}

/// A distribution on few integers, symmetric about 0: (value, probability), ascending.
struct Pmf(Vec<(i64, f64)>);

/// What is needed of a distribution P tilted by θ.
#[derive(Clone, Copy)]
struct Tilt {
    /// ln E[exp(θX)].
    log_mgf: f64,
    /// Mean of the tilted distribution.
    mean: f64,
    /// Variance of the tilted distribution.
    variance: f64,
}

impl Pmf {
    fn table(table: &Cdt) -> Self {
        let weights = table.weights();
        let max = i64::from(table.max_magnitude());
        Pmf((-max..=max).map(|k| (k, f64::from(weights[k.unsigned_abs() as usize]) / 65536.0)).collect())
    }

    fn cbd3() -> Self {
        Pmf((-3..).zip(CBD3_WEIGHTS.map(|weight| f64::from(weight) / 64.0)).collect())
    }

    fn max(&self) -> i64 {
        self.0.last().map_or(0, |&(value, _)| value)
    }

    /// The distribution of the product of two independent samples. No rounding: multiples of 2⁻³².
    fn product(&self, other: &Pmf) -> Pmf {
        let max = self.max() * other.max();
        let mut dense = vec![0.0; 2 * max as usize + 1];
        for &(a, p) in &self.0 {
            for &(b, r) in &other.0 {
                dense[(a * b + max) as usize] += p * r;
            }
        }
        Pmf((-max..).zip(dense).filter(|&(_, p)| p > 0.0).collect())
    }

    /// P(x)·exp(θx − |θ|·max): scaled so that nothing overflows.
    fn scaled(&self, theta: f64) -> impl Iterator<Item = (i64, f64)> {
        let shift = theta.abs() * self.max() as f64;
        self.0.iter().map(move |&(value, p)| (value, p * (theta * value as f64 - shift).exp()))
    }

    fn tilt(&self, theta: f64) -> Tilt {
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (value, p) in self.scaled(theta) {
            let x = value as f64;
            sum += p;
            first += p * x;
            second += p * x * x;
        }
        let mean = first / sum;
        Tilt {
            log_mgf: sum.ln() + theta.abs() * self.max() as f64,
            mean,
            variance: (second / sum - mean * mean).max(0.0),
        }
    }

    /// The characteristic function of the distribution tilted by θ and folded on Z_length, at its `length`
    /// frequencies.
    fn characteristic(&self, theta: f64, length: usize, planner: &mut FftPlanner<f64>) -> Vec<Complex64> {
        let sum: f64 = self.scaled(theta).map(|(_, p)| p).sum();
        let mut grid = vec![Complex64::ZERO; length];
        for (value, p) in self.scaled(theta) {
            grid[value.rem_euclid(length as i64) as usize].re += p / sum;
        }
        planner.plan_fft_forward(length).process(&mut grid);
        grid
    }
}

/// X as a sum: n independent samples of each of `products`, and one of `single`. All are symmetric, so the sign of
/// ⟨s, e1⟩ does not matter.
struct DecryptionError {
    n: u32,
    products: [Pmf; 2],
    single: Pmf,
}

impl DecryptionError {
    fn new(params: &LweParams) -> Self {
        let error = Pmf::table(&params.error_table());
        let secret = match params.noise() {
            Noise::Standard => Pmf::cbd3(),
            Noise::Gaussian { table, .. } => Pmf::table(table),
        };
        let products = [error.product(&error), secret.product(&error)];
        DecryptionError { n: params.n() as u32, products, single: error }
    }

    /// The largest value of X.
    fn max(&self) -> i64 {
        self.single.max() + i64::from(self.n) * self.products.iter().map(Pmf::max).sum::<i64>()
    }

    fn tilt(&self, theta: f64) -> Tilt {
        let n = f64::from(self.n);
        self.products.iter().map(|product| product.tilt(theta)).fold(self.single.tilt(theta), |sum, term| Tilt {
            log_mgf: sum.log_mgf + n * term.log_mgf,
            mean: sum.mean + n * term.mean,
            variance: sum.variance + n * term.variance,
        })
    }

    /// P_θ(X ≡ x mod length) at index x, for every x of Z_length.
    fn folded(&self, theta: f64, length: usize) -> Vec<f64> {
        let mut planner = FftPlanner::new();
        let mut grid = self.single.characteristic(theta, length, &mut planner);
        for product in &self.products {
            for (sum, term) in grid.iter_mut().zip(product.characteristic(theta, length, &mut planner)) {
                *sum *= term.powu(self.n);
            }
        }
        planner.plan_fft_inverse(length).process(&mut grid);
        grid.iter().map(|p| p.re / length as f64).collect()
    }

    /// log2 of a bit's failure probability, from X mod q. The probability is off by about n·2⁻⁵², however small it is.
    fn log2_wide(&self) -> f64 {
        let folded = self.folded(0.0, usize::from(Q));
        (0..).zip(folded).map(|(x, p)| wrong_share(x) * p).sum::<f64>().log2()
    }

    /// log2 of a bit's failure probability, by exponential tilting. Needs `max()` ≥ [`FIRST_WRONG`].
    fn log2_tilted(&self) -> f64 {
        let theta = self.tilt_to(FIRST_WRONG as f64);
        let (low, high) = self.grid(theta);
        // Powers of two transform fastest.
        let length = ((high - low + 1) as usize).next_power_of_two();
        let folded = self.folded(theta, length);
        // P(x)·E[exp(θX)]⁻¹ = P_θ(x)·exp(−θx), with the factor at the first wrong x taken out; x and −x count.
        let sum: f64 = (FIRST_WRONG..=high)
            .map(|x| {
                let p = folded[x.rem_euclid(length as i64) as usize];
                (wrong_share(x) + wrong_share(-x)) * p * (-theta * (x - FIRST_WRONG) as f64).exp()
            })
            .sum();
        (sum.ln() + self.tilt(theta).log_mgf - theta * FIRST_WRONG as f64) / std::f64::consts::LN_2
    }

    /// θ with mean `mean` of the tilted X: the mean rises with θ. Any θ gives the same probability, a near one
    /// loses no digits.
    fn tilt_to(&self, mean: f64) -> f64 {
        let (mut low, mut high) = (0.0, MAX_TILT);
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            if self.tilt(middle).mean < mean {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }

    /// The first and the last x of a grid outside which X tilted by θ has a mass of at most 2·exp(−[`CUT`]).
    ///
    /// Chernoff: P_θ(X ≥ b) ≤ exp(K(θ + λ) − K(θ) − λb) for every λ > 0, with K = ln E[exp(θX)]; likewise below. The
    /// λ taken here is the best one for a Gaussian.
    fn grid(&self, theta: f64) -> (i64, i64) {
        let Tilt { log_mgf, variance, .. } = self.tilt(theta);
        let lambda = (2.0 * CUT).sqrt() / variance.sqrt().max(1.0);
        let end = |lambda: f64| (self.tilt(theta + lambda).log_mgf - log_mgf + CUT) / lambda;
        let low = (end(-lambda).floor() as i64).max(-self.max());
        let high = (end(lambda).ceil() as i64).min(self.max());
        (low, high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_methods_agree_where_both_hold() {
        // q/4 is 2.7, 2.2 and 0.96 standard deviations away, and then so near that X is all but uniform on Z_q.
        for (n, sigma) in [(32, 12.0), (2048, 4.7), (32, 20.0), (512, 20.0)] {
            let error = DecryptionError::new(&LweParams::new(n).unwrap().with_sigma(sigma).unwrap());
            let (wide, tilted) = (error.log2_wide(), error.log2_tilted());
            assert!((wide - tilted).abs() < 1e-10, "n {n}, sigma {sigma}: {wide} and {tilted}");
        }
    }

    #[test]
    fn the_windows_of_both_bits() {
        let shares = [-9218, -9217, -3073, -3072, -3071, 0, 3072, 3073, 9216, 9217, 9218].map(wrong_share);
        assert_eq!(shares, [0.0, 0.0, 1.0, 0.5, 0.0, 0.0, 0.0, 1.0, 1.0, 0.5, 0.0]);
    }
}
