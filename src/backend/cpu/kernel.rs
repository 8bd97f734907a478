//! The inner loop of R·A: 13 rows of R against one panel of 32 columns of A, in 32-bit sums.
//!
//! Expected: bound by multiplication. `vpdpwssd` on 512-bit registers does 32 products of 16 bits each; 13 rows × 2
//! registers of sums, the panel's two registers and coefficients broadcast from memory fit the 32 registers, and 26
//! independent sums hide the latency. AVX2 has 16 registers: 13 sums at a time, four passes over a panel.

/// Columns of a panel.
pub(super) const PANEL: usize = 32;
/// Rows of R in a group. 256 rows are 20 groups with 4 rows (1.5 %) of padding.
pub(super) const GROUP: usize = 13;

/// The instruction sets that a copy of the inner loop exists for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Isa {
    /// AVX-512 with VNNI.
    Avx512,
    /// AVX2.
    Avx2,
    /// What every machine has.
    Portable,
}

impl Isa {
    /// The best that this machine has.
    pub(super) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vnni") {
                return Isa::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Isa::Avx2;
            }
        }
        Isa::Portable
    }

    /// Its name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512-vnni",
            Isa::Avx2 => "avx2",
            Isa::Portable => "portable",
        }
    }
}

/// `c[i][j] += Σ_k r[i][k]·a[k][j]` for one group of 13 rows and the panel's 32 columns.
///
/// `c` has a row each `c_stride` sums. `r` holds, for each pair of k, the 13 rows' pairs of coefficients; `a` holds
/// for each pair of k the 32 columns' pairs of entries. Nothing overflows: the caller bounds the number of terms.
/// Secret: r, which is only multiplied.
///
/// # Panics
/// Where `r` and `a` differ in depth or `c` is too short.
pub(super) fn multiply_panel(isa: Isa, c: &mut [i32], c_stride: usize, r: &[[i16; 2]], a: &[[i16; 2]]) {
    let pairs = a.len() / PANEL;
    assert!(a.len() == pairs * PANEL && r.len() == pairs * GROUP && c.len() >= (GROUP - 1) * c_stride + PANEL);
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` comes from `Isa::detect`, so the machine has the instructions; the assertion above holds
        // every access inside the slices.
        Isa::Avx512 => unsafe { avx512(c, c_stride, r, a) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2(c, c_stride, r, a) },
        _ => portable(c, c_stride, r, a),
    }
}

/// The plain twin of the others.
fn portable(c: &mut [i32], c_stride: usize, r: &[[i16; 2]], a: &[[i16; 2]]) {
    for (i, c) in c.chunks_mut(c_stride).take(GROUP).enumerate() {
        let mut sums = [0i32; PANEL];
        for (r, a) in r.chunks_exact(GROUP).zip(a.chunks_exact(PANEL)) {
            for (sum, a) in sums.iter_mut().zip(a) {
                *sum += i32::from(r[i][0]) * i32::from(a[0]) + i32::from(r[i][1]) * i32::from(a[1]);
            }
        }
        c.iter_mut().zip(sums).for_each(|(c, sum)| *c += sum);
    }
}

/// Repeats a statement for each row of a group; a loop over an array of registers is not reliably unrolled.
#[cfg(target_arch = "x86_64")]
macro_rules! each_row {
    ($row:ident) => {
        $row!(0);
        $row!(1);
        $row!(2);
        $row!(3);
        $row!(4);
        $row!(5);
        $row!(6);
        $row!(7);
        $row!(8);
        $row!(9);
        $row!(10);
        $row!(11);
        $row!(12);
    };
}

/// # Safety
/// The machine has AVX-512 VNNI; the slices are as [`multiply_panel`] asserts.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
unsafe fn avx512(c: &mut [i32], c_stride: usize, r: &[[i16; 2]], a: &[[i16; 2]]) {
    use std::arch::x86_64::*;
    let mut sums = [[_mm512_setzero_si512(); 2]; GROUP];
    let mut a_pair = a.as_ptr().cast::<__m512i>();
    let mut r_pair = r.as_ptr().cast::<i32>();
    for _ in 0..a.len() / PANEL {
        // SAFETY: a pair of k is 32 column pairs of a, two registers, and 13 row pairs of r.
        unsafe {
            let (a0, a1) = (_mm512_loadu_si512(a_pair), _mm512_loadu_si512(a_pair.add(1)));
            macro_rules! row {
                ($i:literal) => {
                    let r = _mm512_set1_epi32(r_pair.add($i).read_unaligned());
                    sums[$i][0] = _mm512_dpwssd_epi32(sums[$i][0], r, a0);
                    sums[$i][1] = _mm512_dpwssd_epi32(sums[$i][1], r, a1);
                };
            }
            each_row!(row);
            a_pair = a_pair.add(2);
            r_pair = r_pair.add(GROUP);
        }
    }
    let c = c.as_mut_ptr();
    macro_rules! row {
        ($i:literal) => {
            // SAFETY: a row of c has 32 sums, two registers.
            unsafe {
                let c = c.add($i * c_stride).cast::<__m512i>();
                _mm512_storeu_si512(c, _mm512_add_epi32(_mm512_loadu_si512(c), sums[$i][0]));
                _mm512_storeu_si512(c.add(1), _mm512_add_epi32(_mm512_loadu_si512(c.add(1)), sums[$i][1]));
            }
        };
    }
    each_row!(row);
}

/// # Safety
/// The machine has AVX2; the slices are as [`multiply_panel`] asserts.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2(c: &mut [i32], c_stride: usize, r: &[[i16; 2]], a: &[[i16; 2]]) {
    use std::arch::x86_64::*;
    for quarter in 0..4 {
        let mut sums = [_mm256_setzero_si256(); GROUP];
        let mut a_pair = a.as_ptr().cast::<__m256i>().wrapping_add(quarter);
        let mut r_pair = r.as_ptr().cast::<i32>();
        for _ in 0..a.len() / PANEL {
            // SAFETY: a pair of k is 32 column pairs of a, four registers, and 13 row pairs of r.
            unsafe {
                let a = _mm256_loadu_si256(a_pair);
                macro_rules! row {
                    ($i:literal) => {
                        let r = _mm256_set1_epi32(r_pair.add($i).read_unaligned());
                        sums[$i] = _mm256_add_epi32(sums[$i], _mm256_madd_epi16(r, a));
                    };
                }
                each_row!(row);
            }
            a_pair = a_pair.wrapping_add(4);
            r_pair = r_pair.wrapping_add(GROUP);
        }
        let c = c.as_mut_ptr();
        macro_rules! row {
            ($i:literal) => {
                // SAFETY: a row of c has 32 sums, four registers.
                unsafe {
                    let c = c.add($i * c_stride).cast::<__m256i>().add(quarter);
                    _mm256_storeu_si256(c, _mm256_add_epi32(_mm256_loadu_si256(c), sums[$i]));
                }
            };
        }
        each_row!(row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every instruction set against the plain twin: ragged depths, a stride with a gap, extreme entries.
        #[test]
        fn all_isas_agree(pairs in 1usize..300, extreme: bool, seed: u64) {
            let c_stride = PANEL + 8;
            let mut state = seed | 1;
            let mut next = |bound: i16| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let x = ((state >> 33) % (2 * bound as u64 + 1)) as i16 - bound;
                if extreme { if x < 0 { -bound } else { bound } } else { x }
            };
            let r: Vec<[i16; 2]> = (0..pairs * GROUP).map(|_| [next(127), next(127)]).collect();
            let a: Vec<[i16; 2]> = (0..pairs * PANEL).map(|_| [next(6144), next(6144)]).collect();
            let start: Vec<i32> = (0..GROUP as i32 * c_stride as i32).collect();
            let mut expected = start.clone();
            multiply_panel(Isa::Portable, &mut expected, c_stride, &r, &a);
            let mut isas = vec![Isa::detect()];
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                isas.push(Isa::Avx2);
            }
            for isa in isas {
                let mut c = start.clone();
                multiply_panel(isa, &mut c, c_stride, &r, &a);
                prop_assert_eq!(&c, &expected, "{:?}", isa);
            }
        }
    }
}
