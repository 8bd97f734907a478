//! `cargo bench --bench paper`: the order of arithmetic of arXiv 2607.09541, beside the product of this program.
//!
//! The paper computes u = r·A + e1 once for each bit of the message, and streams the n × n matrix of 32-bit entries from
//! memory every time. Here its loops are written so that the inner one runs along the rows of A, which compilers
//! vectorize (as published, they run down its columns, and take some twenty times as long). The threads share the
//! columns. Expected: bound by memory, 256·4·n² bytes for each encapsulation.
//!
//! `LWE_MPI_BENCH_THREADS`: threads of both, 1 by default.

#[path = "../common/device.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod device;

use std::{env, hint::black_box, thread, time::Duration};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use device::{Noise, bytes, small};
use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    ops::{MatrixForm, Ops, Rows, RowsMut},
};

const BITS: usize = 256;
const Q: u32 = 12289;

/// One message's u, bit by bit. `r` and `u` have a row for each bit, `a` has n rows.
fn bit_by_bit(n: usize, threads: usize, r: &[Vec<i8>], a: &[u32], u: &mut [Vec<u32>]) {
    // Rows of u, cut into one piece of columns for each thread.
    let width = n.div_ceil(threads);
    let mut pieces: Vec<Vec<&mut [u32]>> = (0..threads).map(|_| Vec::new()).collect();
    for row in u {
        row.chunks_mut(width).zip(&mut pieces).for_each(|(piece, pieces)| pieces.push(piece));
    }
    thread::scope(|scope| {
        for (thread, pieces) in pieces.into_iter().enumerate() {
            scope.spawn(move || {
                for (r, u) in r.iter().zip(pieces) {
                    u.fill(0);
                    for (k, &r) in r.iter().enumerate() {
                        let a = &a[k * n + thread * width..][..u.len()];
                        // Sums wrap modulo 2³² as signed ones, which is undone by the reduction below.
                        u.iter_mut().zip(a).for_each(|(u, &a)| *u = u.wrapping_add(a.wrapping_mul(r as u32)));
                    }
                    u.iter_mut().for_each(|u| *u = (*u as i32).rem_euclid(Q as i32) as u32);
                }
            });
        }
    });
}

fn paper(criterion: &mut Criterion) {
    let threads = env::var("LWE_MPI_BENCH_THREADS").map_or(1, |count| count.parse().expect("a number of threads"));
    for n in [1024, 4096] {
        let mut noise = Noise::new(1);
        let rows = noise.rows(BITS, n, 4);
        let a: Vec<u32> = (0..n * n).map(|_| noise.below(Q.into()) as u32).collect();
        let mut u = vec![vec![0; n]; BITS];
        let mut group = criterion.benchmark_group("u of one message");
        group.throughput(Throughput::Elements((BITS * n * n) as u64)).sampling_mode(SamplingMode::Flat);
        group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
        group.bench_function(format!("the paper's order/{n}"), |bencher| {
            bencher.iter(|| bit_by_bit(n, threads, black_box(&rows), black_box(&a), &mut u));
        });
        for isa in Isa::available().filter(|&isa| isa != Isa::Portable) {
            // Unpinned: threads that are made later would inherit this one's core.
            let cpu = Cpu::new(threads, isa, &[]).unwrap();
            let rho = bytes(&cpu, &noise.bytes(32));
            let mut a = cpu.matrices(1, n, MatrixForm::Stored).unwrap();
            cpu.expand(1, Rows::packed(&rho, 32), &mut a);
            let (r, e1) = (small(&cpu, &rows), small(&cpu, &rows));
            let c_bytes = BITS * n / 8 * 14;
            let mut out = cpu.bytes(c_bytes).unwrap();
            group.bench_function(format!("one product, {}/{n}", isa.name()), |bencher| {
                bencher.iter(|| cpu.multiply(1, &r, 4, &a, 1, &e1, RowsMut::packed(&mut out, c_bytes)));
            });
        }
    }
}

criterion_group!(benches, paper);
criterion_main!(benches);
