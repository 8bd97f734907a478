//! The operations on this rank's share of the CPU: a team of threads, one file for each family of operations.
//!
//! Operations run when they are called; there is no queue, so [`Ops::sync`] has nothing to wait for or report.

mod arith;
mod codec;
pub mod isa;
mod keccak;
mod kernel;
mod matrix;
mod memory;
mod streams;
mod symmetric;
mod team;
mod workspace;

use std::{
    sync::{Mutex, PoisonError},
    time::Instant,
};

use self::{isa::Isa, memory::device_error, team::Team, workspace::Workspace};
use crate::{
    error::Result,
    machine,
    ops::{DeviceInfo, Hash, MatrixForm, Ops, ProductWork, Rows, RowsMut, Sampler},
    params::MESSAGE_BITS,
};

pub use matrix::Matrices;
pub use memory::{Bytes, Small};

/// A rank's share of the CPU.
pub struct Cpu {
    space: Workspace,
    product_work: Mutex<ProductWork>,
}

impl Cpu {
    /// The calling thread and `threads` − 1 others, which run `isa`, each kept on its core of `cores`; on none where
    /// `cores` is empty.
    ///
    /// # Errors
    /// [`crate::error::Error::Device`] where the machine lacks the instructions or the system refuses the threads.
    pub fn new(threads: usize, isa: Isa, cores: &[usize]) -> Result<Self> {
        if !Isa::available().any(|available| available == isa) {
            let names: Vec<_> = Isa::available().map(Isa::name).collect();
            let message = format!("this machine has no {}; it has {}", isa.name(), names.join(", "));
            return Err(device_error("choose an instruction set", message));
        }
        let team = Team::new(threads, cores).map_err(|error| device_error("start threads", error.to_string()))?;
        Ok(Cpu { space: Workspace::new(isa, team), product_work: Mutex::default() })
    }
}

impl Ops for Cpu {
    type Bytes = Bytes;
    type Small = Small;
    type Matrices = Matrices;

    fn device(&self) -> DeviceInfo {
        DeviceInfo {
            name: machine::cpu_model(),
            units: self.space.team.threads(),
            available_bytes: machine::available_bytes(),
            isa: self.space.isa.name().into(),
        }
    }

    fn bytes(&self, len: usize) -> Result<Bytes> {
        memory::Secret::new("allocate bytes", len).map(Bytes)
    }

    fn small(&self, rows: usize, n: usize) -> Result<Small> {
        Ok(Small { n, coefficients: memory::Secret::new("allocate small vectors", rows * n)? })
    }

    fn matrices(&self, count: usize, n: usize, form: MatrixForm) -> Result<Matrices> {
        Matrices::new(self.space.isa, count, n, form)
    }

    fn matrices_bytes(&self, count: usize, n: usize, form: MatrixForm) -> u64 {
        Matrices::bytes(self.space.isa, count, n, form)
    }

    fn small_bytes(&self, rows: usize, n: usize) -> u64 {
        (rows * n * size_of::<i16>()) as u64
    }

    fn scratch_bytes(&self, count: usize, n: usize) -> u64 {
        matrix::scratch_bytes(&self.space, count, n)
    }

    fn product_work(&self) -> ProductWork {
        *self.product_work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peak_mac_per_s(&self) -> f64 {
        kernel::peak_mac_per_s(self.space.isa, &self.space.team)
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
        symmetric::copy(&self.space, count, input, out);
    }

    fn hash(&self, f: Hash, count: usize, parts: &[Rows<Bytes>], out: RowsMut<Bytes>) {
        symmetric::hash(&self.space, f, count, parts, out);
    }

    fn parallel_hash256(
        &self,
        count: usize,
        block_bytes: usize,
        customization: &[u8],
        input: Rows<Bytes>,
        out: RowsMut<Bytes>,
    ) {
        symmetric::parallel_hash256(&self.space, count, block_bytes, customization, input, out);
    }

    fn sample(&self, sampler: &Sampler, count: usize, seeds: Rows<Bytes>, tag: u8, per_seed: usize, out: &mut Small) {
        symmetric::sample(&self.space, sampler, count, seeds, tag, per_seed, out);
    }

    fn store_small(&self, count: usize, small: &Small, out: RowsMut<Bytes>) {
        symmetric::store_small(&self.space, count, small, out);
    }

    fn load_small(&self, count: usize, rows: Rows<Bytes>, out: &mut Small) {
        symmetric::load_small(&self.space, count, rows, out);
    }

    fn expand(&self, count: usize, rho: Rows<Bytes>, out: &mut Matrices) {
        matrix::expand(&self.space, count, rho, out);
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
        matrix::expand_multiply(&self.space, count, rho, s, s_max, e, out, t);
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
        let start = Instant::now();
        matrix::multiply(&self.space, count, r, r_max, a, per_matrix, e1, out);
        let mut work = self.product_work.lock().unwrap_or_else(PoisonError::into_inner);
        work.macs += (count * MESSAGE_BITS * r.n * r.n) as u64;
        work.busy_s += start.elapsed().as_secs_f64();
    }

    fn encode_message(&self, count: usize, t: Rows<Bytes>, r: &Small, e2: &Small, m: Rows<Bytes>, out: RowsMut<Bytes>) {
        codec::encode_message(&self.space, count, t, r, e2, m, out);
    }

    fn decode_message(&self, count: usize, s: &Small, per_key: usize, c: Rows<Bytes>, m: RowsMut<Bytes>) {
        codec::decode_message(&self.space, count, s, per_key, c, m);
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
        symmetric::select_equal(&self.space, count, a, b, yes, no, out);
    }
}
