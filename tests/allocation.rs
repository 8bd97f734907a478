//! Timed loops allocate nothing: every allocation of every thread of this process is counted, and its address space, to
//! which the backend's buffers are mapped, does not grow.
//!
//! One test alone, so that no other one's allocations are counted.

#[path = "common/device.rs"]
#[allow(dead_code, reason = "the tests of the operations use the rest")]
mod device;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    backtrace::Backtrace,
    cell::Cell,
    collections::BTreeSet,
    fs, hint, mem,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
};

use device::Noise;
use lwe_mpi::{
    backend::cpu::{Cpu, isa::Isa},
    ops::{MatrixForm, Ops},
    params::LweParams,
    schemes::{Kem, lwe::LweKem},
};
use zeroize::Zeroizing;

const ROUNDS: usize = 50;
/// The system's allocator, counted.
struct Counted;

#[global_allocator]
static ALLOCATOR: Counted = Counted;

static COUNTS: AtomicBool = AtomicBool::new(false);
static TOTAL_BYTES: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Where they came from.
static CALLERS: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

thread_local! {
    /// A thread that looks at its own calls allocates, too.
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

fn count(len: usize) {
    // A thread that ends has no such value any more, and is none of the loops'.
    if !COUNTS.load(Relaxed) || LOOKS.try_with(Cell::get).unwrap_or(true) {
        return;
    }
    TOTAL_BYTES.fetch_add(len, Relaxed);
    COUNT.fetch_add(1, Relaxed);
    LOOKS.set(true);
    CALLERS.lock().unwrap().insert(format!("    {len} bytes in {}", callers()));
    LOOKS.set(false);
}

/// The functions of this package that are running, the innermost ones.
fn callers() -> String {
    let backtrace = Backtrace::force_capture().to_string();
    let of_package = backtrace.lines().filter_map(|line| line.split("lwe_mpi::").nth(1));
    of_package.take(5).collect::<Vec<_>>().join(" < ")
}

// SAFETY: everything is the system allocator's; counting touches no memory that it gives.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        count(len);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, len) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Bytes of this process's address space.
fn address_space_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').next().unwrap().parse::<usize>().unwrap() * 4096
}

/// Total bytes and number of allocations of all threads in `work`, and where they came from.
fn allocations(work: impl FnOnce()) -> (usize, usize, BTreeSet<String>) {
    TOTAL_BYTES.store(0, Relaxed);
    COUNT.store(0, Relaxed);
    COUNTS.store(true, Relaxed);
    work();
    COUNTS.store(false, Relaxed);
    (TOTAL_BYTES.load(Relaxed), COUNT.load(Relaxed), mem::take(&mut *CALLERS.lock().unwrap()))
}

#[test]
fn timed_loops_allocate_nothing() {
    let (total, count, callers) = allocations(|| drop(hint::black_box(vec![1u8; 77])));
    assert_eq!((total, count, callers.len()), (77, 1, 1), "a vector is counted");
    let before = address_space_bytes();
    let cpu = Cpu::new(1, Isa::best(), &[]).unwrap();
    let map = cpu.bytes(1 << 22).unwrap();
    assert!(address_space_bytes() >= before + (1 << 22), "a buffer is seen");
    drop(map);

    let mut failures = String::new();
    for isa in Isa::available() {
        // The portable loops take seconds at the larger dimension, and allocate as the others do.
        let dimensions: &[usize] = if isa == Isa::Portable { &[256] } else { &[256, 1024] };
        for (&n, form) in dimensions.iter().flat_map(|n| [(n, MatrixForm::Stored), (n, MatrixForm::Regenerated)]) {
            let cpu = Cpu::new(2, isa, &[]).unwrap();
            let kem = LweKem::new(&cpu, LweParams::new(n).unwrap(), form).unwrap();
            let (mut keys, mut batch) = (kem.keys(1).unwrap(), kem.batch(2).unwrap());
            let mut noise = Noise::new(1);
            let (keygen_coins, encaps_coins) = (noise.bytes(64), noise.bytes(2 * 32));
            // What a ciphertext holds makes no difference.
            let c = vec![0; 2 * kem.sizes().c];
            let (mut digests, mut secrets) = (Vec::new(), Zeroizing::default());
            let mut round = || {
                kem.keygen_derand(&keygen_coins, &mut keys).unwrap();
                kem.encaps_derand(&keys, &encaps_coins, &mut batch).unwrap();
                kem.load_c(&c, &mut batch).unwrap();
                kem.decaps(&keys, &mut batch).unwrap();
                kem.read_digests(&batch, &mut digests).unwrap();
                kem.read_secrets(&batch, &mut secrets).unwrap();
            };
            round();
            let before = address_space_bytes();
            let (total, count, callers) = allocations(|| (0..ROUNDS).for_each(|_| round()));
            let mapped = address_space_bytes() - before;
            if count > 0 || mapped > 0 {
                let what = format!("{}, n = {n}, {}", isa.name(), form.name());
                failures += &format!("{what}: {count} allocations of {total} bytes, {mapped} mapped\n");
                failures += &(Vec::from_iter(callers).join("\n") + "\n");
            }
        }
    }
    assert!(failures.is_empty(), "{ROUNDS} rounds after one to warm up:\n{failures}");
}
