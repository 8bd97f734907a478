//! `vpdpwssd` on 512-bit registers.

use std::arch::x86_64::*;

use super::{Ahead, PANEL, SUM_ROWS, WIDE_GROUP as GROUP, prefetch};

/// Repeats a statement for each row of a group; a loop over an array of registers is not reliably unrolled.
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
/// The machine has AVX-512 VNNI; the slices are as [`super::multiply_panel`] asserts.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) unsafe fn multiply_panel(
    sums: &mut [[i32; PANEL]; SUM_ROWS],
    add: bool,
    r: &[i16],
    a: &[i16],
    ahead: Ahead,
) {
    let pairs = a.len() / PANEL / 2;
    let ahead = ahead.parts(GROUP);
    let groups = sums.as_chunks_mut::<GROUP>().0.iter_mut().zip(r.chunks_exact(2 * GROUP * pairs));
    for ((sums, r), ahead) in groups.zip(ahead) {
        ahead.into_iter().for_each(prefetch);
        let mut totals = [[_mm512_setzero_si512(); 2]; GROUP];
        let mut a_pair = a.as_ptr().cast::<__m512i>();
        let mut r_pair = r.as_ptr().cast::<i32>();
        for _ in 0..pairs {
            // SAFETY: a pair of k is 32 column pairs of a, two registers, and 13 row pairs of r.
            unsafe {
                let (a0, a1) = (_mm512_loadu_si512(a_pair), _mm512_loadu_si512(a_pair.add(1)));
                macro_rules! row {
                    ($i:literal) => {
                        let r = _mm512_set1_epi32(r_pair.add($i).read_unaligned());
                        totals[$i][0] = _mm512_dpwssd_epi32(totals[$i][0], r, a0);
                        totals[$i][1] = _mm512_dpwssd_epi32(totals[$i][1], r, a1);
                    };
                }
                each_row!(row);
                a_pair = a_pair.add(2);
                r_pair = r_pair.add(GROUP);
            }
        }
        macro_rules! row {
            ($i:literal) => {
                let to = sums[$i].as_mut_ptr().cast::<__m512i>();
                // SAFETY: a row of sums is two registers.
                unsafe {
                    if add {
                        totals[$i][0] = _mm512_add_epi32(totals[$i][0], _mm512_loadu_si512(to));
                        totals[$i][1] = _mm512_add_epi32(totals[$i][1], _mm512_loadu_si512(to.add(1)));
                    }
                    _mm512_storeu_si512(to, totals[$i][0]);
                    _mm512_storeu_si512(to.add(1), totals[$i][1]);
                }
            };
        }
        each_row!(row);
    }
}
