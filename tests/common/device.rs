//! Buffers on the CPU backend, from and to plain Rust data.

use lwe_mpi::{
    backend::cpu::Cpu,
    ops::{Ops, Rows, RowsMut},
};

pub type Bytes = <Cpu as Ops>::Bytes;
pub type Small = <Cpu as Ops>::Small;

/// A buffer that holds `data`.
pub fn bytes(cpu: &Cpu, data: &[u8]) -> Bytes {
    let mut buffer = cpu.bytes(data.len()).unwrap();
    cpu.upload(data, &mut buffer, 0);
    buffer
}

/// The first `len` bytes of a buffer.
pub fn read(cpu: &Cpu, buffer: &Bytes, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    cpu.download(buffer, 0, &mut data).unwrap();
    data
}

/// Rows of small coefficients.
pub fn small(cpu: &Cpu, rows: &[Vec<i8>]) -> Small {
    let n = rows[0].len();
    let data: Vec<u8> = rows.concat().iter().map(|&x| x as u8).collect();
    let mut small = cpu.small(rows.len(), n).unwrap();
    cpu.load_small(rows.len(), Rows::packed(&bytes(cpu, &data), n), &mut small);
    small
}

/// The first `rows` rows of `n` small coefficients.
pub fn small_rows(cpu: &Cpu, small: &Small, rows: usize, n: usize) -> Vec<Vec<i8>> {
    let mut buffer = cpu.bytes(rows * n).unwrap();
    cpu.store_small(rows, small, RowsMut::packed(&mut buffer, n));
    read(cpu, &buffer, rows * n).chunks(n).map(|row| row.iter().map(|&byte| byte as i8).collect()).collect()
}

/// Deterministic test data: xorshift64*.
pub struct Noise(u64);

impl Noise {
    pub fn new(seed: u64) -> Self {
        Noise(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// From 0 to `bound` − 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// `rows` rows of `n` values from −`max` to `max`.
    pub fn rows(&mut self, rows: usize, n: usize, max: i8) -> Vec<Vec<i8>> {
        let mut value = || (self.below(2 * max as u64 + 1) as i64 - i64::from(max)) as i8;
        (0..rows).map(|_| (0..n).map(|_| value()).collect()).collect()
    }
}
