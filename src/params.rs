//! Every parameter set, as constants and const size functions.
//!
//! Source: the specification of LWE-KEM ([`crate::schemes::lwe`]), "Parameters".

use crate::{
    error::{Error, Result},
    noise::{CBD3_WEIGHTS, Cdt},
};

/// The modulus of LWE-KEM.
pub const Q: u16 = 12289;
/// Bits of a coefficient in an encoding; 2¹⁴ > q.
pub const COEFFICIENT_BITS: usize = 14;
/// Bits of a message: as many rows has a ciphertext's u.
pub const MESSAGE_BITS: usize = 256;
/// Bytes of a message, of every seed and of a shared secret.
pub const SEED_BYTES: usize = 32;
/// The smallest and the largest dimension; every multiple of [`DIMENSION_STEP`] between them is one.
pub const DIMENSIONS: (usize, usize) = (32, 32768);
/// Dimensions are multiples of this.
pub const DIMENSION_STEP: usize = 32;
/// The smallest dimension that is not labelled insecure.
pub const SECURE_DIMENSION: usize = 1024;
/// The dimensions of the paper's tables.
pub const PAPER_DIMENSIONS: [usize; 10] = [32, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
/// How a dimension below [`SECURE_DIMENSION`] is labelled.
pub const INSECURE_LABEL: &str = "insecure size, for tests and scaling only";
/// How a set is labelled whose noise is not the standard's.
pub const STUDY_LABEL: &str = "non-standard noise, a study";

/// How many products of a centred matrix entry (|a| ≤ 6144) and a small coefficient (|r| ≤ `magnitude` ≥ 1) a signed
/// 32-bit sum holds: ⌊(2³¹ − 1) / (6144·magnitude)⌋. For χ that is 87,381, more than any n; for wide noise fewer.
pub const fn max_terms_i32(magnitude: u8) -> usize {
    i32::MAX as usize / (Q as usize / 2 * magnitude as usize)
}

/// How the small vectors of a set are drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Noise {
    /// The specification's: s from CBD(3), everything else from χ.
    Standard,
    /// Not the standard: s and everything else from the rounded Gaussian of width `sigma`.
    Gaussian {
        /// The width as the user gave it.
        sigma: f64,
        /// The table drawn from.
        table: Cdt,
    },
}

/// One parameter set of LWE-KEM.
#[derive(Clone, Debug, PartialEq)]
pub struct LweParams {
    n: usize,
    noise: Noise,
}

impl LweParams {
    /// The specification's set of dimension `n`.
    ///
    /// # Errors
    /// [`Error::Usage`] where `n` is not a multiple of 32 from 32 to 32768.
    pub fn new(n: usize) -> Result<Self> {
        let (low, high) = DIMENSIONS;
        if !(low..=high).contains(&n) || !n.is_multiple_of(DIMENSION_STEP) {
            return Err(Error::Usage(format!(
                "--n {n}: LWE-KEM's n is a multiple of {DIMENSION_STEP} from {low} to {high}"
            )));
        }
        Ok(LweParams { n, noise: Noise::Standard })
    }

    /// The same dimension with every small vector drawn from the rounded Gaussian of width `sigma`.
    ///
    /// # Errors
    /// [`Error::Usage`] where `sigma` is outside [`crate::noise::SIGMA_RANGE`].
    pub fn with_sigma(self, sigma: f64) -> Result<Self> {
        Ok(LweParams { noise: Noise::Gaussian { sigma, table: Cdt::gaussian(sigma)? }, ..self })
    }

    /// The dimension: A is n × n.
    pub fn n(&self) -> usize {
        self.n
    }

    /// The distributions of the small vectors.
    pub fn noise(&self) -> &Noise {
        &self.noise
    }

    /// The table of e, r, e1 and e2.
    pub fn error_table(&self) -> Cdt {
        match &self.noise {
            Noise::Standard => Cdt::chi(),
            Noise::Gaussian { table, .. } => table.clone(),
        }
    }

    /// The largest magnitude of an entry of s.
    pub fn secret_bound(&self) -> u8 {
        match &self.noise {
            Noise::Standard => CBD3_WEIGHTS.len() as u8 / 2,
            Noise::Gaussian { table, .. } => table.max_magnitude(),
        }
    }

    /// What whoever sees a result of this set must be told, if anything.
    pub fn label(&self) -> Option<String> {
        let study = matches!(self.noise, Noise::Gaussian { .. }).then_some(STUDY_LABEL);
        let insecure = (self.n < SECURE_DIMENSION).then_some(INSECURE_LABEL);
        let labels: Vec<&str> = study.into_iter().chain(insecure).collect();
        (!labels.is_empty()).then(|| labels.join("; "))
    }

    /// ByteEncode₁₄ of one vector of n coefficients, in bytes.
    pub const fn row_bytes(&self) -> usize {
        COEFFICIENT_BITS * self.n / 8
    }

    /// ek = ρ ‖ ByteEncode₁₄(t), in bytes.
    pub const fn ek_bytes(&self) -> usize {
        SEED_BYTES + self.row_bytes()
    }

    /// dk = s ‖ ek ‖ H(ek) ‖ z, in bytes.
    pub const fn dk_bytes(&self) -> usize {
        self.n + self.ek_bytes() + 2 * SEED_BYTES
    }

    /// c = ByteEncode₁₄(u ‖ v), in bytes: 448·n + 448.
    pub const fn c_bytes(&self) -> usize {
        MESSAGE_BITS * self.row_bytes() + COEFFICIENT_BITS * MESSAGE_BITS / 8
    }
}
