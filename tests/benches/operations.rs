//! `cargo bench`: every operation of the CPU backend and the three of the scheme, in the units of the field.
//!
//! One group an operation; in it one line for each instruction set of the machine and each dimension. Dimensions are
//! 1024 and 4096; the portable loops, which nobody waits for, do 256. A part of it: `cargo bench -- 'product/avx512'`.
//!
//! | environment variable | meaning |
//! |---|---|
//! | `LWE_MPI_BENCH_THREADS` | threads of the backend, 1 by default; they are not pinned: on a busy machine run under `taskset` |
//!
//! | group | `thrpt` counts |
//! |---|---|
//! | expansion, expansion with A·s | entries of A |
//! | sampling χ, sampling CBD(3) | samples, for the rows of one message |
//! | product, product regenerated | 14-bit multiply-adds, 256·n² for one message; the line before it gives the most that the machine's instructions do |
//! | SHA3-256, SHA3-512 | messages of 64 bytes, as the scheme hashes them |
//! | ParallelHash256, comparison | bytes of a ciphertext |
//! | encoding, decoding | coefficients of r or u that meet t or s |
//! | KeyGen, Encaps, Decaps | operations, one a call: the matrix is stored and Encaps and Decaps find it resident |

#[path = "../common/device.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod device;

use std::{env, hint::black_box, time::Duration};

use criterion::{
    BenchmarkGroup, BenchmarkId, Criterion, SamplingMode, Throughput, criterion_group, criterion_main,
    measurement::WallTime,
};
use device::{Bytes, Noise, Small, bytes};
use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    noise::Cdt,
    ops::{Hash, MatrixForm, Ops, Rows, RowsMut, Sampler},
    params::LweParams,
    schemes::{Kem, lwe::LweKem},
};

/// Bits of a message: rows of r, and of u.
const BITS: usize = 256;
/// Messages of one call of a hash.
const MESSAGES: usize = 1024;

fn threads() -> usize {
    match env::var("LWE_MPI_BENCH_THREADS") {
        Ok(count) => count.parse().expect("LWE_MPI_BENCH_THREADS is a number of threads"),
        Err(_) => 1,
    }
}

fn dimensions(isa: Isa) -> &'static [usize] {
    match isa {
        Isa::Portable => &[256],
        _ => &[1024, 4096],
    }
}

/// One line: an instruction set and a dimension.
struct Case<'a, 'c> {
    group: &'a mut BenchmarkGroup<'c, WallTime>,
    cpu: &'a Cpu,
    isa: Isa,
    n: usize,
}

impl<'a> Case<'a, '_> {
    /// Measures `operation`, which does `work` a call.
    fn measure(&mut self, work: Throughput, mut operation: impl FnMut(&Cpu)) {
        let id = BenchmarkId::new(self.isa.name(), self.n);
        self.group.throughput(work).bench_function(id, |bencher| bencher.iter(|| operation(self.cpu)));
    }

    /// Bytes of a vector of coefficients, encoded.
    fn row_bytes(&self) -> usize {
        self.n / 8 * 14
    }

    /// Bytes of a ciphertext.
    fn c_bytes(&self) -> usize {
        448 * self.n + 448
    }

    /// A seed, or several.
    fn seeds(&self, count: usize) -> Bytes {
        bytes(self.cpu, &Noise::new(1).bytes(32 * count))
    }

    /// Rows of χ: real ones, as a processor's clock may depend on what it multiplies.
    fn small(&self, rows: usize, n: usize, tag: u8) -> Small {
        let mut out = self.cpu.small(rows, n).unwrap();
        let sampler = Sampler::Table(Cdt::chi());
        self.cpu.sample(&sampler, 1, Rows::packed(&self.seeds(1), 32), tag, rows, &mut out);
        out
    }

    /// The scheme.
    fn kem(&self) -> LweKem<'a, Cpu> {
        LweKem::new(self.cpu, LweParams::new(self.n).unwrap(), MatrixForm::Stored).unwrap()
    }
}

/// A group of all instruction sets and dimensions.
fn over_dimensions(criterion: &mut Criterion, name: &str, bench: impl Fn(&mut Case)) {
    over(criterion, name, dimensions, bench);
}

fn over(criterion: &mut Criterion, name: &str, sizes: fn(Isa) -> &'static [usize], bench: impl Fn(&mut Case)) {
    let mut group = criterion.benchmark_group(name);
    group.sampling_mode(SamplingMode::Flat);
    for isa in Isa::available() {
        let cpu = &Cpu::new(threads(), isa, &[]).unwrap();
        for &n in sizes(isa) {
            bench(&mut Case { group: &mut group, cpu, isa, n });
        }
    }
    group.finish();
}

fn expansion(criterion: &mut Criterion) {
    over_dimensions(criterion, "expansion", |case| {
        let n = case.n;
        let rho = case.seeds(1);
        let mut a = case.cpu.matrices(1, n, MatrixForm::Stored).unwrap();
        case.measure(entries(n), |cpu| cpu.expand(1, Rows::packed(&rho, 32), &mut a));
    });
    over_dimensions(criterion, "expansion with A·s", |case| {
        let (n, row_bytes) = (case.n, case.row_bytes());
        let (rho, s, e) = (case.seeds(1), case.small(1, n, b's'), case.small(1, n, b'e'));
        let mut a = case.cpu.matrices(1, n, MatrixForm::Stored).unwrap();
        let mut t = case.cpu.bytes(row_bytes).unwrap();
        case.measure(entries(n), |cpu| {
            cpu.expand_multiply(1, Rows::packed(&rho, 32), &s, 4, &e, &mut a, RowsMut::packed(&mut t, row_bytes));
        });
    });
}

fn entries(n: usize) -> Throughput {
    Throughput::Elements((n * n) as u64)
}

fn sampling(criterion: &mut Criterion) {
    for (name, sampler) in [("sampling χ", Sampler::Table(Cdt::chi())), ("sampling CBD(3)", Sampler::Cbd3)] {
        over_dimensions(criterion, name, |case| {
            let seed = case.seeds(1);
            let mut out = case.cpu.small(BITS, case.n).unwrap();
            let samples = Throughput::Elements((BITS * case.n) as u64);
            case.measure(samples, |cpu| cpu.sample(&sampler, 1, Rows::packed(&seed, 32), b'r', BITS, &mut out));
        });
    }
}

fn product(criterion: &mut Criterion) {
    for isa in Isa::available() {
        let peak = Cpu::new(threads(), isa, &[]).unwrap().peak_mac_per_s();
        println!("peak of {} on {} thread(s): {:.1} G multiply-adds/s", isa.name(), threads(), peak / 1e9);
    }
    for (name, form) in [("product", MatrixForm::Stored), ("product regenerated", MatrixForm::Regenerated)] {
        over_dimensions(criterion, name, |case| {
            let (n, item_bytes) = (case.n, BITS * case.row_bytes());
            let (r, e1) = (case.small(BITS, n, b'r'), case.small(BITS, n, b'x'));
            let mut a = case.cpu.matrices(1, n, form).unwrap();
            case.cpu.expand(1, Rows::packed(&case.seeds(1), 32), &mut a);
            let mut out = case.cpu.bytes(item_bytes).unwrap();
            case.measure(Throughput::Elements((BITS * n * n) as u64), |cpu| {
                cpu.multiply(1, &r, 4, &a, 1, &e1, RowsMut::packed(&mut out, item_bytes));
            });
        });
    }
}

fn hash(criterion: &mut Criterion) {
    for (name, hash, digest_bytes) in [("SHA3-256", Hash::Sha3_256, 32), ("SHA3-512", Hash::Sha3_512, 64)] {
        over(
            criterion,
            name,
            |_| &[MESSAGES],
            |case| {
                // K̄ ‖ D(c), or m ‖ H(ek).
                let (first, second) = (case.seeds(MESSAGES), case.seeds(MESSAGES));
                let mut out = case.cpu.bytes(MESSAGES * digest_bytes).unwrap();
                case.measure(Throughput::Elements(MESSAGES as u64), |cpu| {
                    let parts = [Rows::packed(&first, 32), Rows::packed(&second, 32)];
                    cpu.hash(hash, MESSAGES, &parts, RowsMut::packed(&mut out, digest_bytes));
                });
            },
        );
    }
    over_dimensions(criterion, "ParallelHash256", |case| {
        let (row_bytes, c_bytes) = (case.row_bytes(), case.c_bytes());
        let c = bytes(case.cpu, &Noise::new(2).bytes(c_bytes));
        let mut out = case.cpu.bytes(32).unwrap();
        case.measure(Throughput::BytesDecimal(c_bytes as u64), |cpu| {
            let c = Rows::packed(&c, c_bytes);
            cpu.parallel_hash256(1, row_bytes, b"LWE-KEM", c, RowsMut::packed(&mut out, 32));
        });
    });
}

fn messages(criterion: &mut Criterion) {
    over_dimensions(criterion, "encoding", |case| {
        let (n, row_bytes) = (case.n, case.row_bytes());
        let (r, e2, m) = (case.small(BITS, n, b'r'), case.small(1, BITS, b'y'), case.seeds(1));
        let t = bytes(case.cpu, &Noise::new(3).bytes(row_bytes));
        let mut out = case.cpu.bytes(448).unwrap();
        case.measure(Throughput::Elements((BITS * n) as u64), |cpu| {
            let (t, m) = (Rows::packed(&t, row_bytes), Rows::packed(&m, 32));
            cpu.encode_message(1, t, &r, &e2, m, RowsMut::packed(&mut out, 448));
        });
    });
    over_dimensions(criterion, "decoding", |case| {
        let (n, c_bytes) = (case.n, case.c_bytes());
        let (s, c) = (case.small(1, n, b's'), bytes(case.cpu, &Noise::new(4).bytes(c_bytes)));
        let mut m = case.cpu.bytes(32).unwrap();
        case.measure(Throughput::Elements((BITS * n) as u64), |cpu| {
            cpu.decode_message(1, &s, 1, Rows::packed(&c, c_bytes), RowsMut::packed(&mut m, 32));
        });
    });
}

fn comparison(criterion: &mut Criterion) {
    over_dimensions(criterion, "comparison", |case| {
        let c_bytes = case.c_bytes();
        // Two buffers of the same bytes.
        let [a, b] = [5, 5].map(|seed| bytes(case.cpu, &Noise::new(seed).bytes(c_bytes)));
        let (yes, no) = (case.seeds(1), case.seeds(1));
        let mut out = case.cpu.bytes(32).unwrap();
        case.measure(Throughput::BytesDecimal(c_bytes as u64), |cpu| {
            let [a, b] = [&a, &b].map(|buffer| Rows::packed(buffer, c_bytes));
            let [yes, no] = [&yes, &no].map(|buffer| Rows::packed(buffer, 32));
            cpu.select_equal(1, a, b, yes, no, RowsMut::packed(&mut out, 32));
        });
    });
}

fn scheme(criterion: &mut Criterion) {
    let coins = Noise::new(6).bytes(64);
    let one = Throughput::Elements(1);
    over_dimensions(criterion, "KeyGen", |case| {
        let kem = case.kem();
        let mut keys = kem.keys(1).unwrap();
        case.measure(one.clone(), |_| kem.keygen_derand(black_box(&coins), &mut keys).unwrap());
    });
    over_dimensions(criterion, "Encaps", |case| {
        let kem = case.kem();
        let (mut keys, mut batch) = (kem.keys(1).unwrap(), kem.batch(1).unwrap());
        kem.keygen_derand(&coins, &mut keys).unwrap();
        case.measure(one.clone(), |_| kem.encaps_derand(&keys, black_box(&coins[..32]), &mut batch).unwrap());
    });
    over_dimensions(criterion, "Decaps", |case| {
        let kem = case.kem();
        let (mut keys, mut batch) = (kem.keys(1).unwrap(), kem.batch(1).unwrap());
        kem.keygen_derand(&coins, &mut keys).unwrap();
        kem.encaps_derand(&keys, &coins[..32], &mut batch).unwrap();
        case.measure(one.clone(), |_| kem.decaps(&keys, &mut batch).unwrap());
    });
}

/// Short, as there are many lines.
fn settings() -> Criterion {
    Criterion::default()
        .without_plots()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(10)
}

criterion_group! {
    name = operations;
    config = settings();
    targets = expansion, sampling, product, hash, messages, comparison, scheme
}
criterion_main!(operations);
