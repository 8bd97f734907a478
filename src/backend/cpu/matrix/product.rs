//! R·A: 256 rows of small coefficients a message, all messages to a key together.
//!
//! A task is a block of 256 columns and some messages: A's tile, R's part and the sums stay in the second cache while
//! the inner loop reads them, and the sums are reduced and encoded while they are there.

use std::ops::Range;

use super::{
    super::{
        codec,
        kernel::{self, Ahead, PANEL, SUM_ROWS},
        memory::{Bytes, Shared, Small, rows_mut},
        streams::Columns,
        workspace::{ThreadSpace, Workspace},
    },
    BAND, BLOCK, Band, Entries, Layout, Matrices, centre_term,
    expand::{draw, reserve, start},
    reduce_all,
};
use crate::{
    hash::LEAF_BYTES,
    ops::RowsMut,
    params::{COEFFICIENT_BITS, MESSAGE_BITS, max_terms_i32},
};

/// Messages of a task where A is stored: their sums fill half the second cache.
const STORED_MESSAGES: usize = 4;
/// Messages of a task that expands its block of A for them.
const REGENERATED_MESSAGES: usize = 16;
/// Tasks for each thread, at least, where there are as many: the last ones end at nearly the same time.
const TASKS_PER_THREAD: usize = 4;

/// A product as all its tasks see it.
struct Product<'a> {
    space: &'a Workspace,
    layout: Layout,
    a: &'a Matrices,
    /// Secret.
    packed: &'a [i16],
    /// What centring took from each row. Secret.
    centre_terms: &'a [i32],
    /// Secret.
    e1: &'a Small,
    /// The most terms that a sum holds.
    max_terms: usize,
}

/// One task: some items of one matrix in one block of columns.
struct Task {
    matrix: usize,
    block: usize,
    first_item: usize,
    items: usize,
}

/// What the operations take beside their arguments for `count` keys and as many items, at most, in bytes.
pub(in super::super) fn scratch_bytes(space: &Workspace, count: usize, n: usize) -> u64 {
    let layout = Layout::new(n, space.isa);
    let items = REGENERATED_MESSAGES.min(count) * (BLOCK / PANEL);
    // Sums, a block of A and its streams, rows on their way to planes, A·s of every key.
    let each_thread = items * SUM_ROWS * PANEL * size_of::<i32>()
        + (BLOCK + PANEL) * BAND * size_of::<i16>()
        + (BLOCK / PANEL) * size_of::<Columns>()
        + count * n * size_of::<i32>();
    // R in the order of the inner loop, its centre's terms, A·s, t or a row of u, leaf digests.
    let each_item = layout.form.packed_len(n) * size_of::<i16>()
        + (MESSAGE_BITS + n) * size_of::<i32>()
        + n * size_of::<i16>()
        + (MESSAGE_BITS + 1) * LEAF_BYTES;
    (space.team.threads() * each_thread + count * each_item) as u64
}

pub(in super::super) fn multiply(
    space: &Workspace,
    count: usize,
    r: &Small,
    r_max: u8,
    a: &Matrices,
    per_matrix: usize,
    e1: &Small,
    out: RowsMut<Bytes>,
) {
    let layout = a.layout;
    let n = layout.n;
    let row_bytes = n * COEFFICIENT_BITS / 8;
    assert!(r.n == n && e1.n == n && count.div_ceil(per_matrix) <= a.capacity());
    let call = &mut *space.call();
    let centre_terms = call.centre_terms.grown(count * MESSAGE_BITS);
    let packed = call.packed.grown(count * layout.form.packed_len(n));
    pack(space, layout, count, r, packed, centre_terms);

    // What a reduced sum, e1 and the centre's term add is less than 5 terms' worth.
    let max_terms = max_terms_i32(r_max) - 5;
    let product = Product { space, layout, a, packed, centre_terms, e1, max_terms };
    let chunk = product.chunk(count, per_matrix);
    let chunks = per_matrix.div_ceil(chunk);
    let tasks = count.div_ceil(per_matrix) * layout.blocks() * chunks;
    space.reserve(|thread| _ = thread.sums.grown(chunk * BLOCK / PANEL));
    if matches!(a.entries, Entries::Regenerated(_)) {
        reserve(space, layout, BLOCK / PANEL, BLOCK * BAND);
    }
    let stride = out.stride;
    let out = Shared::new(rows_mut(count, MESSAGE_BITS * row_bytes, out));
    space.each(tasks, |thread, task| {
        let (matrix, task) = (task / (layout.blocks() * chunks), task % (layout.blocks() * chunks));
        // Consecutive tasks share a block of A.
        let (block, first) = (task / chunks, task % chunks * chunk);
        let first_item = matrix * per_matrix + first;
        let items = chunk.min(per_matrix - first).min(count.saturating_sub(first_item));
        let columns = layout.block_panels(block).start * PANEL;
        let width = layout.block_panels(block).len() * PANEL;
        product.run(thread, &Task { matrix, block, first_item, items }, |item, j| {
            let start = item * stride + j * row_bytes + columns * COEFFICIENT_BITS / 8;
            // SAFETY: tasks write the columns of their own block of their own items, 7 bytes for 4 columns.
            unsafe { out.range(start..start + width * COEFFICIENT_BITS / 8) }
        });
    });
}

/// Brings R into the order of the inner loop, item after item, band after band, and sums what centring took.
fn pack(space: &Workspace, layout: Layout, count: usize, r: &Small, packed: &mut [i16], centre_terms: &mut [i32]) {
    let (packed, centre_terms) = (Shared::new(packed), Shared::new(centre_terms));
    let bands = layout.bands().count();
    // The sums of a message's rows are one task more.
    space.each(count * (bands + 1), |_, task| {
        let (item, band) = (task / (bands + 1), layout.bands().nth(task % (bands + 1)));
        let row = |j| r.row(MESSAGE_BITS * item + j);
        // SAFETY: bands of items are disjoint, and so are the items' terms.
        unsafe {
            match band {
                Some(band) => {
                    let packed = packed.range(packed_range(layout, item, band));
                    kernel::pack(space.isa, band.first, band.height, row, packed);
                }
                None => {
                    let terms = centre_terms.range(MESSAGE_BITS * item..MESSAGE_BITS * (item + 1));
                    terms.iter_mut().enumerate().for_each(|(j, term)| *term = centre_term(space.isa, row(j)));
                }
            }
        }
    });
}

/// Where the coefficients of a band of an item lie.
fn packed_range(layout: Layout, item: usize, band: Band) -> Range<usize> {
    let form = layout.form;
    let start = item * form.packed_len(layout.n) + form.packed_len(band.first);
    start..start + form.packed_len(band.height)
}

impl Product<'_> {
    /// Items of a task: many share a block of A, but all threads get tasks.
    fn chunk(&self, count: usize, per_matrix: usize) -> usize {
        let most = match self.a.entries {
            Entries::Stored(_) => STORED_MESSAGES,
            Entries::Regenerated(_) => REGENERATED_MESSAGES,
        };
        let (matrices, wanted) = (count.div_ceil(per_matrix), TASKS_PER_THREAD * self.space.team.threads());
        let tasks = |chunk: &usize| matrices * self.layout.blocks() * per_matrix.div_ceil(*chunk);
        (1..=per_matrix.min(most)).rev().find(|chunk| tasks(chunk) >= wanted).unwrap_or(1)
    }

    /// The first panel of what lies behind a stored tile: of the same block, the next tile.
    fn after(&self, task: &Task, band: Band) -> &[i16] {
        let Entries::Stored(entries) = &self.a.entries else { return &[] };
        let entries = &entries[task.matrix * self.layout.entries()..][..self.layout.entries()];
        let end = self.layout.tile(task.block, band).end;
        &entries[end..entries.len().min(end + PANEL * BAND)]
    }

    /// The coefficients that are multiplied after an item's in a band: the next item's, or the first one's in the next
    /// band.
    fn next_r(&self, task: &Task, item: usize, band: Band) -> &[i16] {
        let range = |item, band| packed_range(self.layout, item, band);
        if item + 1 < task.first_item + task.items {
            return &self.packed[range(item + 1, band)];
        }
        let next = self.layout.bands().nth(band.first / BAND + 1);
        next.map_or(&[], |band| &self.packed[range(task.first_item, band)])
    }

    /// Does one task; `out(item, j)` is where row j of an item goes, as far as the block reaches.
    fn run<'o>(&self, thread: &mut ThreadSpace, task: &Task, out: impl Fn(usize, usize) -> &'o mut [u8]) {
        let (space, layout) = (self.space, self.layout);
        let panels = layout.block_panels(task.block);
        let ThreadSpace { sums, columns, entries, rows, .. } = thread;
        let sums = &mut sums[..task.items * panels.len()];
        if let Entries::Regenerated(seeds) = &self.a.entries {
            for (columns, panel) in columns.iter_mut().zip(panels.clone()) {
                start(space, columns, &seeds[task.matrix], panel);
            }
        }
        let mut terms = 0;
        for band in layout.bands() {
            let tile = match &self.a.entries {
                Entries::Stored(entries) => &entries[task.matrix * layout.entries()..][layout.tile(task.block, band)],
                Entries::Regenerated(_) => {
                    let tile = &mut entries[..layout.tile(task.block, band).len()];
                    for (columns, tile) in columns.iter_mut().zip(tile.chunks_exact_mut(PANEL * band.depth)) {
                        draw(space, columns, rows, layout, band, tile, false, None);
                    }
                    &*tile
                }
            };
            if terms + band.height > self.max_terms {
                sums.iter_mut().for_each(|sums| reduce_all(space.isa, sums.as_flattened_mut()));
                terms = 0;
            }
            terms += band.height;
            for (item, sums) in (task.first_item..).zip(sums.chunks_exact_mut(panels.len())) {
                let r = &self.packed[packed_range(layout, item, band)];
                // What the first item's panels have fetched of A is there for the others.
                let next_tile = if item == task.first_item { self.after(task, band) } else { &[] };
                let next_r = self.next_r(task, item, band);
                let tiles = tile.chunks_exact(PANEL * band.depth);
                for (i, (sums, a)) in sums.iter_mut().zip(tiles.clone()).enumerate() {
                    let next_a = tiles.clone().nth(i + 1).unwrap_or(next_tile);
                    let part = next_r.len() / panels.len();
                    let ahead = Ahead { a: next_a, r: &next_r[i * part..(i + 1) * part] };
                    kernel::multiply_panel(space.isa, sums, band.first > 0, r, a, ahead);
                }
            }
        }
        let columns = panels.start * PANEL..panels.end * PANEL;
        for (item, sums) in (task.first_item..).zip(sums.chunks_exact(panels.len())) {
            let rows = item * MESSAGE_BITS..(item + 1) * MESSAGE_BITS;
            let e1 = |j| &self.e1.row(rows.start + j)[columns.clone()];
            codec::finish(space.isa, sums, &self.centre_terms[rows.clone()], e1, |j| out(item, j));
        }
    }
}
