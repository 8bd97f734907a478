//! The decryption-failure probability against exact values, plain convolutions and approximations.

use lwe_mpi::{
    failure::{FailureProbability, failure_probability},
    noise::CBD3_WEIGHTS,
    params::{DIMENSIONS, LweParams, MESSAGE_BITS, Noise, PAPER_DIMENSIONS, max_terms_i32},
};

const Q: i64 = 12289;

fn params(n: usize, sigma: Option<f64>) -> LweParams {
    let params = LweParams::new(n).unwrap();
    sigma.map_or(params.clone(), |sigma| params.with_sigma(sigma).unwrap())
}

fn failure(n: usize, sigma: Option<f64>) -> FailureProbability {
    failure_probability(&params(n, sigma))
}

fn log2_per_bit(n: usize, sigma: Option<f64>) -> f64 {
    failure(n, sigma).log2_per_bit.unwrap()
}

fn assert_close(found: f64, expected: f64, relative: f64, what: &str) {
    assert!((found - expected).abs() <= relative * expected.abs(), "{what}: {found}, expected {expected}");
}

/// The error tables of a set as (value, probability): of e, r, e1 and e2, and of s.
fn tables(params: &LweParams) -> [Vec<(i64, f64)>; 2] {
    let table = params.error_table();
    let max = i64::from(table.max_magnitude());
    let weight = |x: i64| f64::from(table.weights()[x.unsigned_abs() as usize]);
    let error: Vec<_> = (-max..=max).map(|x| (x, weight(x) / 65536.0)).collect();
    let secret = match params.noise() {
        Noise::Standard => (-3..).zip(CBD3_WEIGHTS.map(|weight| f64::from(weight) / 64.0)).collect(),
        Noise::Gaussian { .. } => error.clone(),
    };
    [error, secret]
}

/// The distribution of a product on Z, at index x + max, and max.
fn product(a: &[(i64, f64)], b: &[(i64, f64)]) -> (Vec<f64>, i64) {
    let max = a.last().unwrap().0 * b.last().unwrap().0;
    let mut product = vec![0.0; 2 * max as usize + 1];
    for (x, p) in a {
        for (y, r) in b {
            product[(x * y + max) as usize] += p * r;
        }
    }
    (product, max)
}

/// How many of the two bits decode wrongly under the error x, halved.
fn wrong(x: i64) -> f64 {
    let decode = |mu: i64| 3072 < mu && mu < Q - 3072;
    let wrong = [decode(x.rem_euclid(Q)), !decode((x + 6144).rem_euclid(Q))];
    wrong.into_iter().filter(|&wrong| wrong).count() as f64 / 2.0
}

/// log2 of a bit's failure probability by 2n convolutions on Z, each probability held as its natural logarithm.
fn by_log_domain_convolution(params: &LweParams) -> f64 {
    let convolve = |a: &[f64], kernel: &[(usize, f64)], length: usize| -> Vec<f64> {
        let term = |x: usize, &(shift, log): &(usize, f64)| match x.checked_sub(shift).and_then(|y| a.get(y)) {
            Some(&value) => value + log,
            None => f64::NEG_INFINITY,
        };
        let sum = |x: usize| {
            let largest = kernel.iter().map(|entry| term(x, entry)).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = kernel.iter().map(|entry| (term(x, entry) - largest).exp()).sum();
            if largest == f64::NEG_INFINITY { largest } else { largest + sum.ln() }
        };
        (0..length).map(sum).collect()
    };
    let [error, secret] = tables(params);
    let mut distribution: Vec<f64> = error.iter().map(|(_, p)| p.ln()).collect();
    for (product, _) in [product(&error, &error), product(&secret, &error)] {
        let kernel: Vec<_> = product.iter().enumerate().filter(|(_, p)| **p > 0.0).map(|(i, p)| (i, p.ln())).collect();
        for _ in 0..params.n() {
            distribution = convolve(&distribution, &kernel, distribution.len() + product.len() - 1);
        }
    }
    let max = distribution.len() as i64 / 2;
    let terms: Vec<f64> = (-max..).zip(distribution).map(|(x, log)| log + wrong(x).ln()).collect();
    let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (largest + terms.iter().map(|term| (term - largest).exp()).sum::<f64>().ln()) / std::f64::consts::LN_2
}

/// log2 of a bit's failure probability by convolutions on Z_q; n is a power of two. All terms are positive, so no
/// digits are lost above the smallest number of the type.
fn by_convolution_mod_q(params: &LweParams) -> f64 {
    let convolve = |a: &[f64], b: &[f64]| {
        let twice = b.repeat(2);
        let mut sum = vec![0.0; a.len()];
        for (y, &p) in a.iter().enumerate().filter(|(_, p)| **p > 0.0) {
            sum.iter_mut().zip(&twice[a.len() - y..]).for_each(|(sum, r)| *sum += p * r);
        }
        sum
    };
    let fold = |distribution: &[f64], max: i64| {
        let mut folded = vec![0.0; Q as usize];
        (-max..).zip(distribution).for_each(|(x, p)| folded[x.rem_euclid(Q) as usize] += p);
        folded
    };
    let [error, secret] = tables(params);
    let single: Vec<f64> = error.iter().map(|(_, p)| *p).collect();
    let mut distribution = fold(&single, error.last().unwrap().0);
    for (product, max) in [product(&error, &error), product(&secret, &error)] {
        let mut power = fold(&product, max);
        for _ in 0..params.n().ilog2() {
            power = convolve(&power, &power);
        }
        distribution = convolve(&distribution, &power);
    }
    (0..).zip(distribution).map(|(x, p)| wrong(x) * p).sum::<f64>().log2()
}

#[test]
fn equals_the_exact_values() {
    // The inverse transform of X mod q over Z_q, summed over the wrong x, with up to 9000 bits of precision.
    let exact = [
        (128, None, -4020.306310029806),
        (256, None, -3169.923291373659),
        (512, None, -2428.267721453034),
        (1024, None, -1695.279860726294),
        (2048, None, -1044.559299416305),
        (4096, None, -575.136013025794),
        (8192, None, -298.425267804109),
        (16384, None, -152.272845520359),
        (32768, None, -77.888066915823),
        (32768, Some(3.2), -2.031633348160),
        (32768, Some(2.0), -8.246008870379),
        (4096, Some(3.2), -9.947657724498),
        (1024, Some(3.09), -38.609193771146),
        (128, Some(5.0), -41.898737849006),
        (32, Some(10.0), -12.165133024763),
    ];
    for (n, sigma, log2) in exact {
        assert_close(log2_per_bit(n, sigma), log2, 1e-11, &format!("n {n}, sigma {sigma:?}"));
    }
}

#[test]
fn equals_plain_convolution() {
    for n in [128, 160] {
        assert_close(log2_per_bit(n, None), by_log_domain_convolution(&params(n, None)), 1e-11, &format!("n {n}"));
    }
    // 37, 15, 2.7 and 0.96 standard deviations to q/4: the last one wraps around.
    for (n, sigma) in [(32, 3.2), (32, 5.0), (32, 12.0), (32, 20.0)] {
        let expected = by_convolution_mod_q(&params(n, Some(sigma)));
        assert_close(log2_per_bit(n, Some(sigma)), expected, 1e-10, &format!("n {n}, sigma {sigma}"));
    }
}

#[test]
fn equals_the_closed_form_where_the_error_just_reaches() {
    // σ = 1/4 draws −1, 0 and 1 only, so |X| ≤ 2n + 1, which is 3073 at n = 1536.
    let params = params(1536, Some(0.25));
    let weights = params.error_table().weights();
    let [zero, one] = [weights[0], weights[1]].map(|weight| f64::from(weight) / 65536.0);
    assert_eq!(weights.len(), 2);
    let products = 2.0 * 1536.0;
    // P(a product is 1); X = 3073 takes every product and e2. X = 3072 takes one less.
    let up = 2.0 * one * one;
    let top = products * up.log2() + one.log2();
    let next = zero / one + products * (1.0 - 2.0 * up) / up;
    // A bit 0 fails at ±3073, a bit 1 at ±3073 and −3072.
    let expected = top + (2.0 + next / 2.0).log2();
    assert_close(failure_probability(&params).log2_per_bit.unwrap(), expected, 1e-12, "n 1536");
    assert_eq!(failure(1504, Some(0.25)).log2_per_bit, None);
}

#[test]
fn is_near_the_gaussian_approximation() {
    for (n, sigma, tolerance) in [
        (16384, None, 0.03),
        (32768, None, 0.01),
        (32768, Some(2.0), 0.001),
        (32768, Some(3.2), 0.001),
        (2048, Some(5.0), 0.02),
    ] {
        let found = failure(n, sigma);
        // Rounding to integers adds 1/12 to the variance of a Gaussian; CBD(3) has 3/2.
        let error = sigma.unwrap_or(1.0).powi(2) + 1.0 / 12.0;
        let secret = sigma.map_or(1.5, |_| error);
        let deviation = (n as f64 * (error * error + secret * error) + error).sqrt();
        assert_close(found.standard_deviation, deviation, 1e-3, "standard deviation");
        let beyond = |x: f64| libm::erfc(x / (deviation * std::f64::consts::SQRT_2));
        // From the window of the wrong bit to the next one of the right bit.
        let expected = (beyond(3072.25) - beyond(9216.75)).log2();
        assert_close(found.log2_per_bit.unwrap(), expected, tolerance, &format!("n {n}, sigma {sigma:?}"));
    }
    let rate = |sigma| log2_per_bit(32768, Some(sigma)).exp2();
    assert!((0.24..0.25).contains(&rate(3.2)) && (0.003..0.0035).contains(&rate(2.0)));
}

#[test]
fn every_standard_set_is_acceptable_and_larger_ones_fail_more() {
    let mut last = f64::NEG_INFINITY;
    for n in (32..2048).step_by(32).chain((2048..=DIMENSIONS.1).step_by(2048)) {
        let found = failure(n, None);
        assert!(found.acceptable(), "n {n}");
        // 28n + 4 is the largest error.
        assert_eq!(found.log2_per_bit.is_none(), 28 * n + 4 < 3072, "n {n}");
        if let Some(log2) = found.log2_per_bit {
            assert!(log2 > last && (log2 < -140.0 || n > 16384), "n {n}: {log2} after {last}");
            last = log2;
        }
    }
    assert!((-78.0..-77.0).contains(&last), "{last}");
    assert_eq!(failure(32, None).log2_per_encaps, None);
}

#[test]
fn wider_noise_fails_more() {
    for n in [32, 1024, PAPER_DIMENSIONS[9]] {
        let mut last = f64::NEG_INFINITY;
        for step in 1..=50 {
            let sigma = 0.5 * f64::from(step);
            let found = failure(n, Some(sigma));
            let bit = found.log2_per_bit.unwrap_or(f64::NEG_INFINITY);
            assert!(bit >= last - 1e-9 && bit < -1.0 + 1e-9, "n {n}, sigma {sigma}: {bit} after {last}");
            last = bit;
            let encaps = found.log2_per_encaps.unwrap_or(f64::NEG_INFINITY);
            assert_eq!(encaps, (bit + (MESSAGE_BITS as f64).log2()).min(0.0), "n {n}, sigma {sigma}");
            assert_eq!(found.acceptable(), encaps <= -64.0, "n {n}, sigma {sigma}");
        }
        // Nearly half of all bits: X mod q is all but uniform.
        assert!(last > -1.1, "n {n}: {last}");
    }
}

#[test]
fn sums_of_max_terms_fit_and_one_more_does_not() {
    for magnitude in 1..=127u8 {
        let sum = |terms: usize| terms as i64 * 6144 * i64::from(magnitude);
        let terms = max_terms_i32(magnitude);
        assert!(sum(terms) <= i64::from(i32::MAX) && sum(terms + 1) > i64::from(i32::MAX), "magnitude {magnitude}");
    }
    assert_eq!([4, 10, 11].map(max_terms_i32), [87381, 34952, 31775]);
}
