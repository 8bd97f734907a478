//! The seam between schemes and devices: the batched operations that schemes are written in.
//!
//! An implementation owns one device. Its buffers are resident there, zeroized when dropped, and opaque to schemes:
//! a matrix may be kept as vector tiles, as planes for tensor cores, or in any form that its products like.
//! Operations are enqueued in order on the device's stream; a failure surfaces at the next [`Ops::sync`] or
//! [`Ops::download`], with the operation's name. Results depend on the arguments alone, never on the device, its
//! threads or its launch geometry.
//!
//! Shapes are the caller's duty: an operation panics where a view leaves its buffer, on every backend alike.
//!
//! Secrets: every [`Ops::Small`] and every byte that is not marked public below is secret. No operation branches,
//! indexes memory or divides by secret values.

use crate::{error::Result, noise::Cdt};

/// `count` byte strings of `len` bytes inside one buffer: string i begins at `offset + (i / repeat)·stride`.
///
/// `stride` 0 or `repeat` > 1 shares a string between several items (all messages to one key share H(ek)).
#[derive(Debug)]
pub struct Rows<'a, B> {
    /// The buffer.
    pub buffer: &'a B,
    /// Where string 0 begins, in bytes.
    pub offset: usize,
    /// From one string to the next, in bytes.
    pub stride: usize,
    /// Length of each string, in bytes.
    pub len: usize,
    /// How many consecutive items share one string; at least 1.
    pub repeat: usize,
}

impl<B> Clone for Rows<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Rows<'_, B> {}

impl<'a, B> Rows<'a, B> {
    /// Strings of `len` bytes back to back from the start of `buffer`.
    pub fn packed(buffer: &'a B, len: usize) -> Self {
        Rows { buffer, offset: 0, stride: len, len, repeat: 1 }
    }

    /// `len` bytes at `offset` of every stride.
    pub fn field(self, offset: usize, len: usize) -> Self {
        Rows { offset: self.offset + offset, len, ..self }
    }

    /// The same strings, each shared by `repeat` consecutive items.
    pub fn repeated(self, repeat: usize) -> Self {
        Rows { repeat, ..self }
    }

    /// Where string i begins, in bytes.
    pub fn start(&self, i: usize) -> usize {
        self.offset + i / self.repeat * self.stride
    }
}

/// Where an operation writes `count` byte strings: string i begins at `offset + i·stride`.
#[derive(Debug)]
pub struct RowsMut<'a, B> {
    /// The buffer.
    pub buffer: &'a mut B,
    /// Where string 0 begins, in bytes.
    pub offset: usize,
    /// From one string to the next, in bytes; at least the length written.
    pub stride: usize,
}

impl<'a, B> RowsMut<'a, B> {
    /// Strings back to back, `stride` bytes apart, from the start of `buffer`.
    pub fn packed(buffer: &'a mut B, stride: usize) -> Self {
        RowsMut { buffer, offset: 0, stride }
    }

    /// Strings at `offset` of every stride.
    pub fn field(self, offset: usize) -> Self {
        RowsMut { offset: self.offset + offset, ..self }
    }
}

/// The fixed-length hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// H: SHA3-256, 32 bytes.
    Sha3_256,
    /// G: SHA3-512, 64 bytes.
    Sha3_512,
}

/// How small vectors are drawn from the bytes of a generator stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sampler {
    /// CBD(3), one byte a coefficient.
    Cbd3,
    /// A cumulative table, one little-endian 16-bit word a coefficient.
    Table(Cdt),
}

impl Sampler {
    /// The largest magnitude that it draws.
    pub fn max_magnitude(&self) -> u8 {
        match self {
            Sampler::Cbd3 => 3,
            Sampler::Table(table) => table.max_magnitude(),
        }
    }
}

/// How a backend holds matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixForm {
    /// Every entry in memory.
    Stored,
    /// Only ρ; every use expands a piece of the matrix, uses it and forgets it.
    Regenerated,
}

impl MatrixForm {
    /// Its name in flags and reports.
    pub fn name(self) -> &'static str {
        match self {
            MatrixForm::Stored => "stored",
            MatrixForm::Regenerated => "regenerated",
        }
    }
}

/// What the products of a device, [`Ops::multiply`], have done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProductWork {
    /// 14-bit multiplications with addition: 256·n² for each item.
    pub macs: u64,
    /// Time at them, in seconds, with everything that [`Ops::multiply`] does.
    pub busy_s: f64,
}

/// What a backend says of its device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The device as people know it: a CPU's or a GPU's model name.
    pub name: String,
    /// Threads, or streaming multiprocessors.
    pub units: usize,
    /// Memory that may still be allocated, in bytes.
    pub available_bytes: u64,
    /// The instruction set or architecture in use.
    pub isa: String,
}

/// One device's batched operations.
pub trait Ops {
    /// Bytes on the device.
    type Bytes;
    /// Rows of small coefficients on the device: secret.
    type Small;
    /// A batch of n × n matrices over Z_q, centred or split as the backend likes: public.
    type Matrices;

    /// The device and what it can still hold.
    fn device(&self) -> DeviceInfo;

    /// A zeroed buffer of `len` bytes.
    ///
    /// # Errors
    /// Out of memory, like every allocation here.
    fn bytes(&self, len: usize) -> Result<Self::Bytes>;
    /// Zeroed small vectors: `rows` rows of `n` coefficients.
    ///
    /// # Errors
    /// Out of memory.
    fn small(&self, rows: usize, n: usize) -> Result<Self::Small>;
    /// Room for `count` matrices of dimension `n`.
    ///
    /// # Errors
    /// Out of memory.
    fn matrices(&self, count: usize, n: usize, form: MatrixForm) -> Result<Self::Matrices>;
    /// What [`Ops::matrices`] would take, in bytes.
    fn matrices_bytes(&self, count: usize, n: usize, form: MatrixForm) -> u64;
    /// What [`Ops::small`] would take, in bytes.
    fn small_bytes(&self, rows: usize, n: usize) -> u64;
    /// What a call for `count` items takes beside its arguments, at most, in bytes: [`Ops::multiply`] takes most.
    fn scratch_bytes(&self, count: usize, n: usize) -> u64;

    /// What the products have done so far.
    fn product_work(&self) -> ProductWork;
    /// The most 14-bit multiplications with addition per second that the device's instructions do, measured by a loop
    /// on all its units that multiplies registers and does nothing else. Takes some hundredths of a second.
    fn peak_mac_per_s(&self) -> f64;

    /// Copies host bytes into `dst` from byte `offset` on.
    fn upload(&self, src: &[u8], dst: &mut Self::Bytes, offset: usize);
    /// Waits, then copies device bytes from byte `offset` on into `dst`.
    ///
    /// # Errors
    /// The first failure since the last synchronization.
    fn download(&self, src: &Self::Bytes, offset: usize, dst: &mut [u8]) -> Result<()>;
    /// Waits for everything enqueued.
    ///
    /// # Errors
    /// The first failure since the last synchronization, with its operation's name.
    fn sync(&self) -> Result<()>;

    /// `out[i] = input[i]` for `count` items.
    fn copy(&self, count: usize, input: Rows<Self::Bytes>, out: RowsMut<Self::Bytes>);
    /// `out[i] = f(parts[0][i] ‖ parts[1][i] ‖ …)` for `count` items.
    fn hash(&self, f: Hash, count: usize, parts: &[Rows<Self::Bytes>], out: RowsMut<Self::Bytes>);
    /// `out[i] = ParallelHash256(input[i], block_bytes, 256 bits, customization)` (SP 800-185, section 6).
    fn parallel_hash256(
        &self,
        count: usize,
        block_bytes: usize,
        customization: &[u8],
        input: Rows<Self::Bytes>,
        out: RowsMut<Self::Bytes>,
    );
    /// Row `i·per_seed + j` of `out` is drawn from `Stream(seeds[i], tag, j)`, for i below `count` and j below
    /// `per_seed`.
    fn sample(
        &self,
        sampler: &Sampler,
        count: usize,
        seeds: Rows<Self::Bytes>,
        tag: u8,
        per_seed: usize,
        out: &mut Self::Small,
    );
    /// The first `count` rows of small coefficients as signed bytes, a row a string.
    fn store_small(&self, count: usize, small: &Self::Small, out: RowsMut<Self::Bytes>);
    /// The inverse of [`Ops::store_small`].
    fn load_small(&self, count: usize, rows: Rows<Self::Bytes>, out: &mut Self::Small);

    /// Column j of each of the first `count` matrices is the first n values of `uniform(rho[i], "A", j)`.
    fn expand(&self, count: usize, rho: Rows<Self::Bytes>, out: &mut Self::Matrices);
    /// [`Ops::expand`], and on the way `t[i] = ByteEncode₁₄(A_i·s_i + e_i mod q)`. `s` and `e` hold one row a
    /// matrix; `s_max` bounds the magnitude in s.
    fn expand_multiply(
        &self,
        count: usize,
        rho: Rows<Self::Bytes>,
        s: &Self::Small,
        s_max: u8,
        e: &Self::Small,
        out: &mut Self::Matrices,
        t: RowsMut<Self::Bytes>,
    );
    /// Row j of each of `count` items: `ByteEncode₁₄(r·A + e1 mod q)`, rows back to back inside the item's string.
    /// Items `i·per_matrix …` belong to matrix i, 256 rows each; `r_max` bounds the magnitude in r.
    fn multiply(
        &self,
        count: usize,
        r: &Self::Small,
        r_max: u8,
        a: &Self::Matrices,
        per_matrix: usize,
        e1: &Self::Small,
        out: RowsMut<Self::Bytes>,
    );
    /// `ByteEncode₁₄(⟨t, r_j⟩ + e2_j + m_j·⌊q/2⌋ mod q)` for the 256 bits j of each of `count` messages; `t` is encoded.
    fn encode_message(
        &self,
        count: usize,
        t: Rows<Self::Bytes>,
        r: &Self::Small,
        e2: &Self::Small,
        m: Rows<Self::Bytes>,
        out: RowsMut<Self::Bytes>,
    );
    /// m'_j = 1 where ⌊q/4⌋ < v_j − ⟨s, u_j⟩ mod q < q − ⌊q/4⌋, for each of `count` ciphertexts; ciphertexts
    /// `i·per_key …` belong to row i of `s`.
    fn decode_message(
        &self,
        count: usize,
        s: &Self::Small,
        per_key: usize,
        c: Rows<Self::Bytes>,
        m: RowsMut<Self::Bytes>,
    );
    /// `out[i] = yes[i]` where `a[i] = b[i]` in every byte, else `no[i]`; constant-time in all of them.
    fn select_equal(
        &self,
        count: usize,
        a: Rows<Self::Bytes>,
        b: Rows<Self::Bytes>,
        yes: Rows<Self::Bytes>,
        no: Rows<Self::Bytes>,
        out: RowsMut<Self::Bytes>,
    );
}
