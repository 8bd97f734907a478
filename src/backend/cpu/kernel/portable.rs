//! The plain twin, in pairs.

use super::{PANEL, SUM_ROWS, WIDE_GROUP as GROUP};

pub(super) fn multiply_panel(sums: &mut [[i32; PANEL]; SUM_ROWS], add: bool, r: &[i16], a: &[i16]) {
    let depth = a.len() / PANEL;
    for (sums, r) in sums.chunks_exact_mut(GROUP).zip(r.chunks_exact(GROUP * depth)) {
        for (i, sums) in sums.iter_mut().enumerate() {
            if !add {
                sums.fill(0);
            }
            for (r, a) in r.chunks_exact(2 * GROUP).zip(a.chunks_exact(2 * PANEL)) {
                let (r0, r1) = (i32::from(r[2 * i]), i32::from(r[2 * i + 1]));
                for (sum, a) in sums.iter_mut().zip(a.as_chunks::<2>().0) {
                    *sum += r0 * i32::from(a[0]) + r1 * i32::from(a[1]);
                }
            }
        }
    }
}
