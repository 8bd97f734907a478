//! The operations on this rank's share of the CPU: a pool of threads, one file for each family of operations.
//!
//! Operations run when they are called; there is no queue, so [`Ops::sync`] has nothing to wait for or report.

mod arith;
mod encode;
mod kernel;
mod matrix;
mod symmetric;

use rayon::prelude::*;
use zeroize::Zeroize;

use self::matrix::Layout;
use crate::{
    error::{Error, Result},
    machine,
    ops::{DeviceInfo, Hash, Ops, Rows, RowsMut, Sampler},
};

/// A rank's share of the CPU.
pub struct Cpu {
    pool: rayon::ThreadPool,
}

/// Bytes in host memory, zeroized when dropped.
#[derive(Debug)]
pub struct Bytes(Vec<u8>);

impl Drop for Bytes {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

/// Small coefficients as 16-bit integers, row after row, zeroized when dropped.
#[derive(Debug)]
pub struct Small {
    n: usize,
    coefficients: Vec<i16>,
}

impl Small {
    fn row(&self, i: usize) -> &[i16] {
        &self.coefficients[i * self.n..(i + 1) * self.n]
    }

    fn rows(&self) -> usize {
        self.coefficients.len() / self.n
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        self.coefficients.zeroize();
    }
}

/// Matrices of centred 16-bit entries, in tiles.
#[derive(Debug)]
pub struct Matrices {
    layout: Layout,
    entries: Vec<i16>,
}

impl Matrices {
    fn matrix(&self, i: usize) -> &[i16] {
        &self.entries[i * self.layout.entries()..(i + 1) * self.layout.entries()]
    }
}

impl Cpu {
    /// A pool of `threads` threads.
    ///
    /// # Errors
    /// [`Error::Device`] where the system refuses the threads.
    pub fn new(threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("cpu-{i}"))
            .build()
            .map_err(|error| device_error("start threads", error.to_string()))?;
        Ok(Cpu { pool })
    }
}

fn device_error(operation: &'static str, message: String) -> Error {
    Error::Device { device: "cpu".into(), operation, message }
}

/// A zeroed vector, or an error that says how much was asked for.
fn allocate<T: Clone + Default>(operation: &'static str, len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    vec.try_reserve_exact(len).map_err(|_| {
        let needed = len as f64 * size_of::<T>() as f64 / 1e9;
        device_error(
            operation,
            format!("out of memory: {needed:.3} GB needed, {:.3} GB free", machine::available_bytes() as f64 / 1e9),
        )
    })?;
    vec.resize(len, T::default());
    Ok(vec)
}

/// The bytes of string i.
fn row<'a>(rows: &Rows<'a, Bytes>, i: usize) -> &'a [u8] {
    let start = rows.start(i);
    &rows.buffer.0[start..start + rows.len]
}

/// Calls `write(i, string i)` for `count` strings of `len` bytes, in parallel.
fn for_each_row(count: usize, len: usize, out: RowsMut<Bytes>, write: impl Fn(usize, &mut [u8]) + Sync + Send) {
    assert!(out.stride >= len, "strings of {len} bytes overlap at a stride of {}", out.stride);
    assert!(
        out.buffer.0.len() >= out.offset + count.saturating_sub(1) * out.stride + len,
        "the view leaves its buffer"
    );
    out.buffer.0[out.offset..]
        .par_chunks_mut(out.stride)
        .take(count)
        .enumerate()
        .for_each(|(i, chunk)| write(i, &mut chunk[..len]));
}

impl Ops for Cpu {
    type Bytes = Bytes;
    type Small = Small;
    type Matrices = Matrices;

    fn device(&self) -> DeviceInfo {
        DeviceInfo {
            name: machine::cpu_model(),
            units: self.pool.current_num_threads(),
            available_bytes: machine::available_bytes(),
            isa: kernel::Isa::detect().name().into(),
        }
    }

    fn bytes(&self, len: usize) -> Result<Bytes> {
        allocate("allocate bytes", len).map(Bytes)
    }

    fn small(&self, rows: usize, n: usize) -> Result<Small> {
        Ok(Small { n, coefficients: allocate("allocate small vectors", rows * n)? })
    }

    fn matrices(&self, count: usize, n: usize) -> Result<Matrices> {
        let layout = Layout::new(n);
        Ok(Matrices { layout, entries: allocate("allocate matrices", count * layout.entries())? })
    }

    fn matrices_bytes(&self, count: usize, n: usize) -> u64 {
        (count * Layout::new(n).entries() * size_of::<i16>()) as u64
    }

    fn small_bytes(&self, rows: usize, n: usize) -> u64 {
        (rows * n * size_of::<i16>()) as u64
    }

    fn upload(&self, src: &[u8], dst: &mut Bytes, offset: usize) {
        dst.0[offset..offset + src.len()].copy_from_slice(src);
    }

    fn download(&self, src: &Bytes, offset: usize, dst: &mut [u8]) -> Result<()> {
        dst.copy_from_slice(&src.0[offset..offset + dst.len()]);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn copy(&self, count: usize, input: Rows<Bytes>, out: RowsMut<Bytes>) {
        self.pool.install(|| for_each_row(count, input.len, out, |i, out| out.copy_from_slice(row(&input, i))));
    }

    fn hash(&self, f: Hash, count: usize, parts: &[Rows<Bytes>], out: RowsMut<Bytes>) {
        self.pool.install(|| symmetric::hash(f, count, parts, out));
    }

    fn parallel_hash256(
        &self,
        count: usize,
        block_bytes: usize,
        customization: &[u8],
        input: Rows<Bytes>,
        out: RowsMut<Bytes>,
    ) {
        self.pool.install(|| symmetric::parallel_hash256(count, block_bytes, customization, input, out));
    }

    fn sample(&self, sampler: &Sampler, count: usize, seeds: Rows<Bytes>, tag: u8, per_seed: usize, out: &mut Small) {
        self.pool.install(|| symmetric::sample(sampler, count, seeds, tag, per_seed, out));
    }

    fn store_small(&self, count: usize, small: &Small, out: RowsMut<Bytes>) {
        self.pool.install(|| symmetric::store_small(count, small, out));
    }

    fn load_small(&self, count: usize, rows: Rows<Bytes>, out: &mut Small) {
        self.pool.install(|| symmetric::load_small(count, rows, out));
    }

    fn expand(&self, count: usize, rho: Rows<Bytes>, out: &mut Matrices) {
        self.pool.install(|| matrix::expand(count, rho, out));
    }

    fn expand_multiply(
        &self,
        count: usize,
        rho: Rows<Bytes>,
        s: &Small,
        s_max: u8,
        e: &Small,
        out: &mut Matrices,
        t: RowsMut<Bytes>,
    ) {
        self.pool.install(|| matrix::expand_multiply(count, rho, s, s_max, e, out, t));
    }

    fn multiply(
        &self,
        count: usize,
        r: &Small,
        r_max: u8,
        a: &Matrices,
        per_matrix: usize,
        e1: &Small,
        out: RowsMut<Bytes>,
    ) {
        self.pool.install(|| matrix::multiply(count, r, r_max, a, per_matrix, e1, out));
    }

    fn encode_message(&self, count: usize, t: Rows<Bytes>, r: &Small, e2: &Small, m: Rows<Bytes>, out: RowsMut<Bytes>) {
        self.pool.install(|| encode::encode_message(count, t, r, e2, m, out));
    }

    fn decode_message(&self, count: usize, s: &Small, per_key: usize, c: Rows<Bytes>, m: RowsMut<Bytes>) {
        self.pool.install(|| encode::decode_message(count, s, per_key, c, m));
    }

    fn select_equal(
        &self,
        count: usize,
        a: Rows<Bytes>,
        b: Rows<Bytes>,
        yes: Rows<Bytes>,
        no: Rows<Bytes>,
        out: RowsMut<Bytes>,
    ) {
        self.pool.install(|| symmetric::select_equal(count, a, b, yes, no, out));
    }
}
