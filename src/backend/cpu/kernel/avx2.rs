//! `vpmaddwd` with `vpaddd`, and AVX-VNNI's `vpdpwssd`, on 256-bit registers.

use std::arch::x86_64::*;

use super::{Ahead, NARROW_GROUP as GROUP, PANEL, SUM_ROWS, prefetch};

/// Repeats a statement for each row of a group; a loop over an array of registers is not reliably unrolled.
macro_rules! each_row {
    ($row:ident) => {
        $row!(0);
        $row!(1);
        $row!(2);
        $row!(3);
        $row!(4);
        $row!(5);
    };
}

/// One copy of the loops for each way to multiply and add.
macro_rules! loops {
    ($multiply_panel:ident, $features:literal, $multiply_add:expr) => {
        /// # Safety
        /// The machine has the instructions; the slices are as [`super::multiply_panel`] asserts.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $multiply_panel(
            sums: &mut [[i32; PANEL]; SUM_ROWS],
            add: bool,
            r: &[i16],
            a: &[i16],
            ahead: Ahead,
        ) {
            let pairs = a.len() / PANEL / 2;
            let groups = sums.as_chunks_mut::<GROUP>().0.iter_mut().zip(r.chunks_exact(2 * GROUP * pairs));
            for ((sums, r), ahead) in groups.zip(ahead.parts(GROUP)) {
                ahead.into_iter().for_each(prefetch);
                for half in 0..2 {
                    let mut totals = [[_mm256_setzero_si256(); 2]; GROUP];
                    let mut a_pair = a.as_ptr().cast::<__m256i>().wrapping_add(2 * half);
                    let mut r_pair = r.as_ptr().cast::<i32>();
                    for _ in 0..pairs {
                        // SAFETY: a pair of k is 32 column pairs of a, four registers, and 6 row pairs of r.
                        unsafe {
                            let (a0, a1) = (_mm256_loadu_si256(a_pair), _mm256_loadu_si256(a_pair.wrapping_add(1)));
                            macro_rules! row {
                                ($i:literal) => {
                                    let r = _mm256_set1_epi32(r_pair.add($i).read_unaligned());
                                    totals[$i][0] = $multiply_add(totals[$i][0], r, a0);
                                    totals[$i][1] = $multiply_add(totals[$i][1], r, a1);
                                };
                            }
                            each_row!(row);
                        }
                        a_pair = a_pair.wrapping_add(4);
                        r_pair = r_pair.wrapping_add(GROUP);
                    }
                    macro_rules! row {
                        ($i:literal) => {
                            // SAFETY: a row of sums is four registers.
                            unsafe {
                                let to = sums[$i].as_mut_ptr().cast::<__m256i>().add(2 * half);
                                if add {
                                    totals[$i][0] = _mm256_add_epi32(totals[$i][0], _mm256_loadu_si256(to));
                                    totals[$i][1] = _mm256_add_epi32(totals[$i][1], _mm256_loadu_si256(to.add(1)));
                                }
                                _mm256_storeu_si256(to, totals[$i][0]);
                                _mm256_storeu_si256(to.add(1), totals[$i][1]);
                            }
                        };
                    }
                    each_row!(row);
                }
            }
        }
    };
}

loops!(multiply_panel, "avx2", |sum, r, a| _mm256_add_epi32(sum, _mm256_madd_epi16(r, a)));
loops!(multiply_panel_vnni, "avx2,avxvnni", |sum, r, a| _mm256_dpwssd_avx_epi32(sum, r, a));
