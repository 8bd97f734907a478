//! The matrix A: where its entries lie, its expansion from ρ, A·s on the way, and R·A.
//!
//! A is kept centred (x − 6144, so that |a| ≤ 6144) in contiguous tiles of 256 columns × 512 rows; inside a tile lie
//! panels of 32 columns, in a panel the entries in the order of the inner loop ([`super::kernel`]). A panel of a tile is
//! 32 KB, which with a group of R fits the first cache; the tile, R's part and the sums fit the second. Tiles keep strides
//! between panels off powers of two, which collide in caches.

mod expand;
mod product;

use std::ops::Range;

pub(super) use expand::{expand, expand_multiply};
pub(super) use product::{multiply, scratch_bytes};

use super::{
    arith::{CENTRE, reduce},
    isa::Isa,
    kernel::{Form, PANEL},
    memory::Buffer,
};
use crate::{
    error::Result,
    ops::MatrixForm,
    params::{DIMENSION_STEP, SEED_BYTES},
};

/// Columns of a tile, and of the block that one task multiplies.
const BLOCK: usize = 256;
/// Rows of a tile.
const BAND: usize = 512;

/// Where the entries of an n × n matrix lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    n: usize,
    form: Form,
}

/// Some rows of all columns: a row of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Band {
    first: usize,
    height: usize,
    /// The height with padding.
    depth: usize,
}

impl Layout {
    pub(super) fn new(n: usize, isa: Isa) -> Self {
        assert!(n > 0 && n.is_multiple_of(DIMENSION_STEP), "n is a multiple of {DIMENSION_STEP}");
        Layout { n, form: Form::of(isa) }
    }

    /// Rows with padding.
    fn depth(self) -> usize {
        self.n.next_multiple_of(self.form.depth_step())
    }

    /// Entries of one matrix, padding included.
    fn entries(self) -> usize {
        self.n * self.depth()
    }

    fn panels(self) -> usize {
        self.n / PANEL
    }

    fn blocks(self) -> usize {
        self.n.div_ceil(BLOCK)
    }

    /// The panels of a block.
    fn block_panels(self, block: usize) -> Range<usize> {
        block * BLOCK / PANEL..((block + 1) * BLOCK).min(self.n) / PANEL
    }

    /// From top to bottom.
    fn bands(self) -> impl Iterator<Item = Band> + Clone {
        (0..self.n).step_by(BAND).map(move |first| {
            let height = BAND.min(self.n - first);
            Band { first, height, depth: height.next_multiple_of(self.form.depth_step()) }
        })
    }

    /// The entries of a tile.
    fn tile(self, block: usize, band: Band) -> Range<usize> {
        let width = self.block_panels(block).len() * PANEL;
        let start = block * BLOCK * self.depth() + width * band.first;
        start..start + width * band.depth
    }

    /// The entries of a panel in a band.
    fn panel(self, panel: usize, band: Band) -> Range<usize> {
        let block = panel * PANEL / BLOCK;
        let start = self.tile(block, band).start + (panel - self.block_panels(block).start) * PANEL * band.depth;
        start..start + PANEL * band.depth
    }
}

/// Matrices of centred entries in tiles, or the seeds of matrices.
pub struct Matrices {
    layout: Layout,
    entries: Entries,
}

enum Entries {
    Stored(Buffer<i16>),
    Regenerated(Buffer<[u8; SEED_BYTES]>),
}

impl Matrices {
    /// Room for `count` matrices.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn new(isa: Isa, count: usize, n: usize, form: MatrixForm) -> Result<Self> {
        let layout = Layout::new(n, isa);
        let operation = "allocate matrices";
        let entries = match form {
            MatrixForm::Stored => Entries::Stored(Buffer::new(operation, count * layout.entries())?),
            MatrixForm::Regenerated => Entries::Regenerated(Buffer::new(operation, count)?),
        };
        Ok(Matrices { layout, entries })
    }

    /// What `count` matrices take, in bytes.
    pub(super) fn bytes(isa: Isa, count: usize, n: usize, form: MatrixForm) -> u64 {
        let each = match form {
            MatrixForm::Stored => Layout::new(n, isa).entries() * size_of::<i16>(),
            MatrixForm::Regenerated => SEED_BYTES,
        };
        (count * each) as u64
    }

    fn capacity(&self) -> usize {
        match &self.entries {
            Entries::Stored(entries) => entries.len() / self.layout.entries(),
            Entries::Regenerated(seeds) => seeds.len(),
        }
    }
}

/// 6144·Σ x mod q: what centring takes from ⟨a, x⟩. Secret: x, which is only summed.
fn centre_term(isa: Isa, x: &[i16]) -> i32 {
    // |Σ x| ≤ 127·32768 < 2²³, and times 6144 after a reduction < 2²⁷.
    reduce(reduce(sum(isa, x)) * i32::from(CENTRE))
}

super::isa::vectorized! {
    fn sum(x: &[i16]) -> i32 {
        x.iter().map(|&x| i32::from(x)).sum()
    }
}

super::isa::vectorized! {
    /// Each value mod q. Secret: the values.
    fn reduce_all(values: &mut [i32]) {
        values.iter_mut().for_each(|x| *x = reduce(*x));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Panels of all bands cover a matrix once, whatever its tiles' ragged edges.
    #[test]
    fn panels_do_not_overlap() {
        for form in [Form::Pairs { group: 13 }, Form::Planes] {
            for n in [32, 96, 256, 288, 544, 1056, 2080] {
                let layout = Layout { n, form };
                let mut ranges: Vec<_> = layout
                    .bands()
                    .flat_map(|band| (0..n / PANEL).map(move |panel| layout.panel(panel, band)))
                    .collect();
                ranges.sort_by_key(|range| range.start);
                let ends = ranges.windows(2).all(|pair| pair[0].end == pair[1].start);
                assert!(ends && ranges[0].start == 0 && ranges.last().unwrap().end == layout.entries(), "{layout:?}");
            }
        }
    }
}
