//! Plain twins of the operations, written from the specification of LWE-KEM alone.

use lwe_mpi::{
    drbg::{Cipher, CtrDrbg},
    hash,
};

pub const Q: i64 = 12289;

/// The first `len` bytes of Stream(seed, tag, index).
pub fn stream(seed: &[u8], tag: u8, index: u32, len: usize) -> Vec<u8> {
    let mut entropy_input = [0; 48];
    hash::shake256(&[seed, &[tag], &index.to_le_bytes()], &mut entropy_input);
    let mut drbg = CtrDrbg::instantiate(Cipher::Aes256, &entropy_input, &[]).unwrap();
    let mut out = Vec::new();
    while out.len() < len {
        // A request's first bytes do not depend on how many it asks for.
        let mut request = vec![0; 65536.min(len - out.len())];
        drbg.generate(&mut request, &[]).unwrap();
        out.extend(request);
    }
    out
}

pub fn words(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.chunks(2).map(|word| i64::from(word[0]) + 256 * i64::from(word[1]))
}

/// The first `n` values of uniform(rho, "A", j): column j of A.
pub fn column(rho: &[u8], j: usize, n: usize) -> Vec<i64> {
    // 15 of 16 words are kept: twice as many as needed are far more than enough.
    let bytes = stream(rho, b'A', j as u32, 4 * n + 256);
    let column: Vec<i64> = words(&bytes).filter(|&w| w < 5 * Q).map(|w| w % Q).take(n).collect();
    assert_eq!(column.len(), n);
    column
}

/// A by columns: `matrix(…)[j][i]` is row i, column j.
pub fn matrix(rho: &[u8], n: usize) -> Vec<Vec<i64>> {
    (0..n).map(|j| column(rho, j, n)).collect()
}

/// ByteEncode₁₄, bit after bit.
pub fn encode(values: &[i64]) -> Vec<u8> {
    let mut out = vec![0; values.len() * 14 / 8];
    for bit in 0..values.len() * 14 {
        out[bit / 8] |= ((values[bit / 14] >> (bit % 14) & 1) << (bit % 8)) as u8;
    }
    out
}

/// ByteDecode₁₄.
pub fn decode(bytes: &[u8]) -> Vec<i64> {
    let bit = |i: usize| i64::from(bytes[i / 8] >> (i % 8) & 1);
    (0..bytes.len() * 8 / 14).map(|value| (0..14).map(|k| bit(14 * value + k) << k).sum()).collect()
}

pub fn inner(a: &[i64], b: &[i8]) -> i64 {
    a.iter().zip(b).map(|(&a, &b)| a * i64::from(b)).sum()
}

/// r·A + e1 mod q.
pub fn row_product(r: &[i8], a: &[Vec<i64>], e1: &[i8]) -> Vec<i64> {
    a.iter().zip(e1).map(|(column, &e1)| (inner(column, r) + i64::from(e1)).rem_euclid(Q)).collect()
}

/// A·s + e mod q.
pub fn key_product(a: &[Vec<i64>], s: &[i8], e: &[i8]) -> Vec<i64> {
    let mut t: Vec<i64> = e.iter().map(|&e| e.into()).collect();
    for (column, &s) in a.iter().zip(s) {
        t.iter_mut().zip(column).for_each(|(t, &a)| *t += a * i64::from(s));
    }
    t.iter().map(|t| t.rem_euclid(Q)).collect()
}
