//! The inner loop of R·A, one panel of 32 columns of A at a time, in 32-bit sums, in two forms.
//!
//! | form | A | R | instruction, and 14-bit multiply-adds of one |
//! |---|---|---|---|
//! | pairs | 16-bit entries, pairs of rows side by side | pairs of 16-bit coefficients, groups of 13 or 6 rows | `vpdpwssd` 32 (512 bits) or 16, `vpmaddwd` + `vpaddd` 16 |
//! | planes | two 8-bit planes, a = 128·hi + lo, in tiles of 64 × 16 | tiles of 16 × 64 8-bit coefficients | two `tdpbssd` 16384 |
//!
//! Expected: bound by multiplication in both. Pairs: 13 rows × 2 registers of sums, the panel's two registers and
//! coefficients broadcast from memory fit the 32 registers of AVX-512; 26 independent sums hide the latency, and 15
//! loads stand beside 26 products. AVX2 has 16 registers: 6 rows × 2 registers of sums, two passes over a panel, 8 loads
//! beside 12 products (4 % faster than 13 × 1). Planes: two tiles of R and two of A make four products of 16 cycles each
//! for four loads of 8 cycles, so that loads hide where they come from the first two caches.

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod peak;
mod portable;
#[cfg(test)]
mod tests;

use super::isa::{Isa, vectorized};
use crate::params::MESSAGE_BITS;

pub(super) use peak::peak_mac_per_s;

/// Columns of a panel.
pub(super) const PANEL: usize = 32;

/// Rows of R in a group of the pairs where a row of sums is two registers of 512 bits. 256 rows are 20 groups with 4 rows
/// (1.5 %) of padding.
const WIDE_GROUP: usize = 13;
/// Rows in a group where half a row of sums is two registers of 256 bits; 43 groups with 2 rows of padding.
const NARROW_GROUP: usize = 6;
/// Rows of sums: a message's, and the most padding.
pub(super) const SUM_ROWS: usize = MESSAGE_BITS.next_multiple_of(WIDE_GROUP);
const _: () = assert!(SUM_ROWS >= MESSAGE_BITS.next_multiple_of(NARROW_GROUP));

/// Rows and columns of a tile of sums.
const TILE: usize = 16;
/// Rows of A in a tile.
const TILE_DEPTH: usize = 64;

/// How entries and coefficients lie for the inner loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// 16-bit pairs, in groups of so many rows.
    Pairs { group: usize },
    /// 8-bit planes.
    Planes,
}

impl Form {
    /// The form that an instruction set multiplies.
    pub(super) fn of(isa: Isa) -> Self {
        match isa {
            Isa::Amx => Form::Planes,
            Isa::Avx2 | Isa::AvxVnni => Form::Pairs { group: NARROW_GROUP },
            Isa::Avx512 | Isa::Portable => Form::Pairs { group: WIDE_GROUP },
        }
    }

    /// The number of rows of A that a panel's depth is padded to a multiple of.
    pub(super) fn depth_step(self) -> usize {
        match self {
            Form::Pairs { .. } => 2,
            Form::Planes => TILE_DEPTH,
        }
    }

    /// 16-bit places that 256 rows of R take for `depth` rows of A.
    pub(super) fn packed_len(self, depth: usize) -> usize {
        match self {
            Form::Pairs { group } => MESSAGE_BITS.next_multiple_of(group) * depth,
            Form::Planes => MESSAGE_BITS * depth.next_multiple_of(TILE_DEPTH) / 2,
        }
    }
}

/// Brings coefficients `first` … `first + depth` of 256 rows into the order of the inner loop; `row(j)` is row j.
///
/// Pairs: for each group of 13 or 6 rows, for each pair of coefficients, the rows' pairs. Planes: for each 16 rows, for
/// each 64 coefficients, the rows' 64 bytes, two in a 16-bit place; a last tile that is not full ends in zeros.
/// Secret: the coefficients, which are only moved.
///
/// # Panics
/// Where `packed` has not [`Form::packed_len`] places or a row is too short.
pub(super) fn pack<'a>(isa: Isa, first: usize, depth: usize, row: impl Fn(usize) -> &'a [i16], packed: &mut [i16]) {
    let form = Form::of(isa);
    assert_eq!(packed.len(), form.packed_len(depth));
    let rows = |from: usize, count: usize| (from..(from + count).min(MESSAGE_BITS)).map(&row);
    match form {
        Form::Pairs { group: height } => {
            for (group, packed) in packed.chunks_exact_mut(height * depth).enumerate() {
                let mut rows = rows(group * height, height);
                for i in 0..height {
                    let row = rows.next().map_or(&[][..], |row| &row[first..][..depth]);
                    pack_pairs(isa, row, packed, i, height);
                }
            }
        }
        Form::Planes => {
            let tiles = depth.div_ceil(TILE_DEPTH);
            for (group, packed) in packed.chunks_exact_mut(TILE * TILE_DEPTH / 2 * tiles).enumerate() {
                for (i, row) in rows(group * TILE, TILE).enumerate() {
                    for (tile, coefficients) in row[first..][..depth].chunks(TILE_DEPTH).enumerate() {
                        let place = (tile * TILE + i) * TILE_DEPTH / 2;
                        pack_bytes(isa, coefficients, &mut packed[place..][..TILE_DEPTH / 2]);
                    }
                }
            }
        }
    }
}

vectorized! {
    /// Row i of a group of `height` rows as pairs; an empty row stands for zeros.
    fn pack_pairs(row: &[i16], packed: &mut [i16], i: usize, height: usize) {
        let places = packed.chunks_exact_mut(2 * height);
        if row.is_empty() {
            places.for_each(|pairs| pairs[2 * i..2 * i + 2].fill(0));
        } else {
            let pairs = row.as_chunks::<2>().0.iter();
            pairs.zip(places).for_each(|(pair, pairs)| pairs[2 * i..2 * i + 2].copy_from_slice(pair));
        }
    }
}

vectorized! {
    /// Coefficients as signed bytes, two in a 16-bit place.
    fn pack_bytes(coefficients: &[i16], packed: &mut [i16]) {
        packed.fill(0);
        for (place, pair) in packed.iter_mut().zip(coefficients.as_chunks::<2>().0) {
            *place = i16::from_le_bytes(pair.map(|x| x as u8));
        }
    }
}

/// Turns `height` rows of a panel from pairs into planes: for the left 16 columns and then the right, for each 64 rows,
/// the tile of low parts and the tile of high parts, a = 128·hi + lo with −64 ≤ lo < 64. In a tile's row lie, for each
/// of 16 columns, four rows' bytes. Rows beyond `height` are zero. Half a panel of 512 rows is then 16 KB in one piece,
/// and leaves two thirds of the first cache's ways to R.
///
/// # Panics
/// Where the lengths do not fit.
#[cfg(target_arch = "x86_64")]
pub(super) fn split_planes(isa: Isa, pairs: &[i16], planes: &mut [i16], streaming: bool) {
    let height = pairs.len() / PANEL;
    assert!(pairs.len() == PANEL * height && planes.len() == PANEL * height.next_multiple_of(TILE_DEPTH));
    assert!(!streaming || planes.as_ptr().addr().is_multiple_of(64), "stores past the caches want whole lines");
    match isa {
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        Isa::Amx => unsafe { amx::split_planes(pairs, planes, streaming) },
        _ => unreachable!("only AMX multiplies planes"),
    }
}

/// What will be multiplied after a panel: memory that is asked for beforehand, as the products of a panel take less time
/// than bringing operands from beyond the second cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ahead<'a> {
    /// The next panel.
    pub(super) a: &'a [i16],
    /// This panel's part of the next R.
    pub(super) r: &'a [i16],
}

impl<'a> Ahead<'a> {
    /// A part for each of the groups of `height` rows.
    #[cfg(target_arch = "x86_64")]
    fn parts(self, height: usize) -> impl Iterator<Item = [&'a [i16]; 2]> {
        let groups = MESSAGE_BITS.div_ceil(height);
        let part = move |slice: &'a [i16], group: usize| {
            let places = slice.len().div_ceil(groups);
            &slice[(group * places).min(slice.len())..((group + 1) * places).min(slice.len())]
        };
        (0..groups).map(move |group| [part(self.a, group), part(self.r, group)])
    }
}

/// `sums[j][c] = Σ_k r[j][k]·a[k][c]`, added to what is there where `add`, for 256 rows j and the panel's 32 columns c.
///
/// `r` is as [`pack`] leaves it, `a` in the same form; `ahead` is fetched into the second cache on the way. Rows of sums beyond 256 are scratch. Nothing overflows: the caller
/// bounds the number of terms. Secret: r, which is only multiplied.
///
/// # Panics
/// Where `r` and `a` differ in depth.
pub(super) fn multiply_panel(
    isa: Isa,
    sums: &mut [[i32; PANEL]; SUM_ROWS],
    add: bool,
    r: &[i16],
    a: &[i16],
    ahead: Ahead,
) {
    let depth = a.len() / PANEL;
    assert!(a.len() == PANEL * depth && depth.is_multiple_of(Form::of(isa).depth_step()));
    assert_eq!(r.len(), Form::of(isa).packed_len(depth));
    assert!(depth > 0, "a panel has rows");
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions; the assertions hold every access inside
        // the slices.
        Isa::Amx => unsafe { amx::multiply_panel(sums, add, r, a, ahead) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512 => unsafe { avx512::multiply_panel(sums, add, r, a, ahead) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::AvxVnni => unsafe { avx2::multiply_panel_vnni(sums, add, r, a, ahead) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 => unsafe { avx2::multiply_panel(sums, add, r, a, ahead) },
        _ => portable::multiply_panel(sums, add, r, a),
    }
}

/// Asks for the cache lines of a slice, for the second cache.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch(entries: &[i16]) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
    for line in entries.chunks(32) {
        // SAFETY: a request for memory that is there, with an instruction that every x86-64 has.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) }
    }
}
