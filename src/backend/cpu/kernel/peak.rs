//! The most that an instruction set multiplies: loops of products of registers and nothing else.
//!
//! Nothing is loaded, so that a processor may run these loops at a higher clock than any loop that loads its operands.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::{PANEL, SUM_ROWS};
use crate::backend::cpu::{isa::Isa, team::Team};

/// How long each thread multiplies; the fastest of the pieces counts.
const TIME: Duration = Duration::from_millis(30);
const PIECES: u32 = 10;

/// 14-bit multiply-adds per second of all threads of the team, at work together.
pub(in crate::backend::cpu) fn peak_mac_per_s(isa: Isa, team: &Team) -> f64 {
    let sum = Mutex::new(0.0);
    // Each thread takes one of these tasks: they take longer than a thread takes to wake.
    team.run(team.threads(), |_, _| {
        let peak = thread_peak_mac_per_s(isa);
        *sum.lock().unwrap_or_else(PoisonError::into_inner) += peak;
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn thread_peak_mac_per_s(isa: Isa) -> f64 {
    let mut passes = 1 << 10;
    let mut best = 0f64;
    let start = Instant::now();
    while start.elapsed() < TIME {
        let start = Instant::now();
        let macs = multiply_registers(isa, passes);
        let took = start.elapsed();
        if took * PIECES < TIME {
            passes *= 2;
        } else {
            best = best.max(macs as f64 / took.as_secs_f64());
        }
    }
    best
}

/// Multiplies registers; returns how many multiply-adds that were.
fn multiply_registers(isa: Isa, passes: u64) -> u64 {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        Isa::Amx => unsafe { super::amx::multiply_registers(passes) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512 => unsafe { avx512(passes) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::AvxVnni => unsafe { avx_vnni(passes) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2(passes) },
        _ => portable(passes),
    }
}

/// The portable loop has no instruction of its own: its peak is that of the twin on a panel in the first cache.
fn portable(passes: u64) -> u64 {
    const DEPTH: usize = 32;
    let (r, a) = ([1i16; SUM_ROWS * DEPTH], [1i16; PANEL * DEPTH]);
    let mut sums = [[0; PANEL]; SUM_ROWS];
    let panels = passes.div_ceil(1 << 10);
    for _ in 0..panels {
        super::portable::multiply_panel(std::hint::black_box(&mut sums), false, std::hint::black_box(&r), &a);
    }
    panels * (SUM_ROWS * DEPTH * PANEL) as u64
}

/// A loop of 13 or 26 statements in assembly, which no compiler shortens.
#[cfg(target_arch = "x86_64")]
macro_rules! register_loop {
    ($passes:ident, $([$($statement:literal),+])+; $($register:tt)+) => {
        std::arch::asm!(
            "2:",
            $($($statement,)+)+
            "dec {passes}",
            "jnz 2b",
            passes = inout(reg) $passes => _,
            $(out($register) _,)+
            options(nomem, nostack),
        )
    };
}

/// # Safety
/// The machine has AVX-512 VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
unsafe fn avx512(passes: u64) -> u64 {
    // SAFETY: the registers named are declared; what they hold at first does not matter.
    unsafe {
        register_loop!(
            passes,
            ["vpdpwssd zmm0, zmm28, zmm30", "vpdpwssd zmm1, zmm28, zmm31"]
            ["vpdpwssd zmm2, zmm29, zmm30", "vpdpwssd zmm3, zmm29, zmm31"]
            ["vpdpwssd zmm4, zmm28, zmm30", "vpdpwssd zmm5, zmm28, zmm31"]
            ["vpdpwssd zmm6, zmm29, zmm30", "vpdpwssd zmm7, zmm29, zmm31"]
            ["vpdpwssd zmm8, zmm28, zmm30", "vpdpwssd zmm9, zmm28, zmm31"]
            ["vpdpwssd zmm10, zmm29, zmm30", "vpdpwssd zmm11, zmm29, zmm31"]
            ["vpdpwssd zmm12, zmm28, zmm30", "vpdpwssd zmm13, zmm28, zmm31"]
            ["vpdpwssd zmm14, zmm29, zmm30", "vpdpwssd zmm15, zmm29, zmm31"]
            ["vpdpwssd zmm16, zmm28, zmm30", "vpdpwssd zmm17, zmm28, zmm31"]
            ["vpdpwssd zmm18, zmm29, zmm30", "vpdpwssd zmm19, zmm29, zmm31"]
            ["vpdpwssd zmm20, zmm28, zmm30", "vpdpwssd zmm21, zmm28, zmm31"]
            ["vpdpwssd zmm22, zmm29, zmm30", "vpdpwssd zmm23, zmm29, zmm31"]
            ["vpdpwssd zmm24, zmm28, zmm30", "vpdpwssd zmm25, zmm28, zmm31"];
            "zmm0" "zmm1" "zmm2" "zmm3" "zmm4" "zmm5" "zmm6" "zmm7" "zmm8" "zmm9" "zmm10" "zmm11" "zmm12" "zmm13"
            "zmm14" "zmm15" "zmm16" "zmm17" "zmm18" "zmm19" "zmm20" "zmm21" "zmm22" "zmm23" "zmm24" "zmm25"
        );
    }
    // 32 products of an instruction of 512 bits.
    passes * 26 * 32
}

/// # Safety
/// The machine has AVX-VNNI.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avxvnni")]
unsafe fn avx_vnni(passes: u64) -> u64 {
    // SAFETY: the registers named are declared; what they hold at first does not matter.
    unsafe {
        register_loop!(
            passes,
            ["{{vex}} vpdpwssd ymm0, ymm13, ymm14"] ["{{vex}} vpdpwssd ymm1, ymm13, ymm15"]
            ["{{vex}} vpdpwssd ymm2, ymm13, ymm14"] ["{{vex}} vpdpwssd ymm3, ymm13, ymm15"]
            ["{{vex}} vpdpwssd ymm4, ymm13, ymm14"] ["{{vex}} vpdpwssd ymm5, ymm13, ymm15"]
            ["{{vex}} vpdpwssd ymm6, ymm13, ymm14"] ["{{vex}} vpdpwssd ymm7, ymm13, ymm15"]
            ["{{vex}} vpdpwssd ymm8, ymm13, ymm14"] ["{{vex}} vpdpwssd ymm9, ymm13, ymm15"]
            ["{{vex}} vpdpwssd ymm10, ymm13, ymm14"] ["{{vex}} vpdpwssd ymm11, ymm13, ymm15"]
            ["{{vex}} vpdpwssd ymm12, ymm13, ymm14"];
            "ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12"
        );
    }
    passes * 13 * 16
}

/// # Safety
/// The machine has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(passes: u64) -> u64 {
    // SAFETY: the registers named are declared; what they hold at first does not matter.
    unsafe {
        register_loop!(
            passes,
            ["vpmaddwd ymm12, ymm14, ymm15", "vpaddd ymm0, ymm0, ymm12"]
            ["vpmaddwd ymm13, ymm14, ymm15", "vpaddd ymm1, ymm1, ymm13"]
            ["vpmaddwd ymm12, ymm14, ymm15", "vpaddd ymm2, ymm2, ymm12"]
            ["vpmaddwd ymm13, ymm14, ymm15", "vpaddd ymm3, ymm3, ymm13"]
            ["vpmaddwd ymm12, ymm14, ymm15", "vpaddd ymm4, ymm4, ymm12"]
            ["vpmaddwd ymm13, ymm14, ymm15", "vpaddd ymm5, ymm5, ymm13"]
            ["vpmaddwd ymm12, ymm14, ymm15", "vpaddd ymm6, ymm6, ymm12"]
            ["vpmaddwd ymm13, ymm14, ymm15", "vpaddd ymm7, ymm7, ymm13"]
            ["vpmaddwd ymm12, ymm14, ymm15", "vpaddd ymm8, ymm8, ymm12"]
            ["vpmaddwd ymm13, ymm14, ymm15", "vpaddd ymm9, ymm9, ymm13"]
            ["vpmaddwd ymm12, ymm14, ymm15", "vpaddd ymm10, ymm10, ymm12"]
            ["vpmaddwd ymm13, ymm14, ymm15", "vpaddd ymm11, ymm11, ymm13"]
            ["vpmaddwd ymm12, ymm14, ymm15", "vpaddd ymm0, ymm0, ymm12"];
            "ymm0" "ymm1" "ymm2" "ymm3" "ymm4" "ymm5" "ymm6" "ymm7" "ymm8" "ymm9" "ymm10" "ymm11" "ymm12" "ymm13"
        );
    }
    passes * 13 * 16
}
