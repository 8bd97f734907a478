//! The matrix A: its expansion from ρ, A·s on the way, and R·A.
//!
//! A is kept centred (x − 6144, so that |a| ≤ 6144 fits 16 bits) in contiguous tiles of 256 columns × 512 rows; inside
//! a tile lie panels of 32 columns, in a panel pairs of rows, in a pair the 32 columns' two entries: the order in
//! which the inner loop reads it. Tiles keep strides between panels off powers of two, which collide in caches.

use rayon::prelude::*;
use zeroize::Zeroizing;

use super::{
    Bytes, Matrices, Small,
    arith::{CENTRE, reduce},
    encode::encode14,
    kernel::{self, GROUP, Isa, PANEL},
    row,
};
use crate::{
    drbg::Stream,
    ops::{Rows, RowsMut},
    params::{COEFFICIENT_BITS, DIMENSION_STEP, MESSAGE_BITS, Q, max_terms_i32},
};

const TILE_COLUMNS: usize = 256;
const TILE_ROWS: usize = 512;

/// Where the entries of an n × n matrix lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    n: usize,
}

impl Layout {
    pub(super) fn new(n: usize) -> Self {
        assert!(n > 0 && n.is_multiple_of(DIMENSION_STEP), "n is a multiple of {DIMENSION_STEP}");
        Layout { n }
    }

    /// Entries of one matrix.
    pub(super) fn entries(self) -> usize {
        self.n * self.n
    }

    fn panels(self) -> usize {
        self.n / PANEL
    }

    /// Rows of the tiles, from top to bottom: each tile's first row and height.
    fn tile_rows(self) -> impl Iterator<Item = (usize, usize)> {
        (0..self.n).step_by(TILE_ROWS).map(move |first| (first, TILE_ROWS.min(self.n - first)))
    }

    /// The entries of a panel in the tile that begins at row `first` and is `height` rows high.
    fn panel(self, panel: usize, first: usize, height: usize) -> std::ops::Range<usize> {
        let column = panel * PANEL;
        let tile_column = column / TILE_COLUMNS * TILE_COLUMNS;
        let width = TILE_COLUMNS.min(self.n - tile_column);
        let start = tile_column * self.n + width * first + (column - tile_column) * height;
        start..start + PANEL * height
    }
}

/// A mutable slice that several threads write at once, each to places of its own.
struct Shared<T> {
    start: *mut T,
    len: usize,
}

// SAFETY: a `Shared` only hands out what its callers promise to be disjoint, and T itself may move between threads.
unsafe impl<T: Send> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The slice stays borrowed for as long as its owner keeps `slice`'s lifetime, which every caller here does by
    /// joining its threads first.
    fn new(slice: &mut [T]) -> Self {
        Shared { start: slice.as_mut_ptr(), len: slice.len() }
    }

    /// # Safety
    /// No two ranges in use at the same time overlap, and the slice outlives them.
    #[expect(clippy::mut_from_ref, reason = "disjoint by the caller's promise")]
    unsafe fn range(&self, range: std::ops::Range<usize>) -> &mut [T] {
        assert!(range.start <= range.end && range.end <= self.len, "a range leaves its slice");
        // SAFETY: inside the slice by the assertion, alone by the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(range.start), range.len()) }
    }
}

/// Words read from a stream at a time.
const PIECE_WORDS: usize = 1024;

/// Fills `out` with the next values of uniform(seed, "A", j), centred: words below 5q, reduced mod q.
fn uniform_column(rho: &[u8; 32], j: usize, out: &mut [i16]) {
    let mut stream = Stream::new(rho, b'A', j as u32);
    let mut bytes = [0u8; 2 * PIECE_WORDS];
    let mut filled = 0;
    while filled < out.len() {
        // 15/16 of the words are kept: one piece more than the rest of the column needs is seldom read.
        let words = ((out.len() - filled) * 17 / 16 + 8).min(PIECE_WORDS);
        let bytes = &mut bytes[..2 * words];
        stream.read(bytes);
        for word in bytes.chunks_exact(2) {
            let word = u16::from_le_bytes([word[0], word[1]]);
            if filled == out.len() {
                break;
            }
            out[filled] = (word % Q) as i16 - CENTRE;
            filled += usize::from(word < 5 * Q);
        }
    }
}

/// Scratch of one thread: 32 columns, each n entries long.
fn columns_scratch(n: usize) -> Vec<i16> {
    vec![0; PANEL * n]
}

fn expand_panel(rho: &[u8; 32], panel: usize, columns: &mut [i16]) {
    let n = columns.len() / PANEL;
    for (j, column) in columns.chunks_exact_mut(n).enumerate() {
        uniform_column(rho, panel * PANEL + j, column);
    }
}

/// Moves 32 columns to their places in the tiles of one matrix.
fn store_panel(layout: Layout, panel: usize, columns: &[i16], matrix: &Shared<i16>, matrix_start: usize) {
    let n = layout.n;
    for (first, height) in layout.tile_rows() {
        let range = layout.panel(panel, first, height);
        // SAFETY: panels of matrices are disjoint, and each is stored by one thread.
        let tile = unsafe { matrix.range(matrix_start + range.start..matrix_start + range.end) };
        for (pair, entries) in tile.chunks_exact_mut(2 * PANEL).enumerate() {
            let k = first + 2 * pair;
            for (j, entry) in entries.chunks_exact_mut(2).enumerate() {
                entry.copy_from_slice(&columns[j * n + k..][..2]);
            }
        }
    }
}

fn seed<'a>(rho: &Rows<'a, Bytes>, i: usize) -> &'a [u8; 32] {
    row(rho, i).try_into().expect("a seed has 32 bytes")
}

pub(super) fn expand(count: usize, rho: Rows<Bytes>, out: &mut Matrices) {
    let layout = out.layout;
    assert!(out.entries.len() >= count * layout.entries());
    let entries = Shared::new(&mut out.entries);
    (0..count * layout.panels()).into_par_iter().for_each_init(
        || columns_scratch(layout.n),
        |columns, task| {
            let (i, panel) = (task / layout.panels(), task % layout.panels());
            expand_panel(seed(&rho, i), panel, columns);
            store_panel(layout, panel, columns, &entries, i * layout.entries());
        },
    );
}

pub(super) fn expand_multiply(
    count: usize,
    rho: Rows<Bytes>,
    s: &Small,
    s_max: u8,
    e: &Small,
    out: &mut Matrices,
    t: RowsMut<Bytes>,
) {
    let layout = out.layout;
    let n = layout.n;
    assert!(s.n == n && e.n == n && out.entries.len() >= count * layout.entries());
    let entries = Shared::new(&mut out.entries);
    // A partial sum is reduced before its terms could leave 32 bits.
    let panels_per_reduction = (max_terms_i32(s_max) - 2) / PANEL;
    super::for_each_row(count, n * COEFFICIENT_BITS / 8, t, |i, t| {
        let (s, e) = (s.row(i), e.row(i));
        let sums = (0..layout.panels())
            .into_par_iter()
            .fold(
                || (columns_scratch(n), Zeroizing::new(vec![0i32; n]), 0),
                |(mut columns, mut sums, panels), panel| {
                    expand_panel(seed(&rho, i), panel, &mut columns);
                    store_panel(layout, panel, &columns, &entries, i * layout.entries());
                    for (column, &s) in columns.chunks_exact(n).zip(&s[panel * PANEL..]) {
                        add_multiple(&mut sums, column, s);
                    }
                    let reduced = panels + 1 == panels_per_reduction;
                    if reduced {
                        sums.iter_mut().for_each(|sum| *sum = reduce(*sum));
                    }
                    (columns, sums, if reduced { 0 } else { panels + 1 })
                },
            )
            .map(|(_, mut sums, _)| {
                sums.iter_mut().for_each(|sum| *sum = reduce(*sum));
                sums
            })
            .reduce(
                || Zeroizing::new(vec![0; n]),
                |mut a, b| {
                    a.iter_mut().zip(b.iter()).for_each(|(a, b)| *a = reduce(*a + b));
                    a
                },
            );
        // Σ_j (a_ij + 6144)·s_j = Σ_j a_ij·s_j + 6144·Σ_j s_j.
        let centre = centre_term(s);
        let t_i: Vec<i32> = sums.iter().zip(e).map(|(sum, &e)| reduce(sum + centre + i32::from(e))).collect();
        encode14(&t_i, t);
    });
}

/// `sums += column·s`. Secret: s, which is only multiplied.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn add_multiple(sums: &mut [i32], column: &[i16], s: i16) {
    for (sum, &a) in sums.iter_mut().zip(column) {
        *sum += i32::from(a) * i32::from(s);
    }
}

/// 6144·Σ x mod q: what centring took from ⟨a, x⟩.
fn centre_term(x: &[i16]) -> i32 {
    // |Σ x| ≤ 127·32768 < 2²³.
    let sum = reduce(x.iter().map(|&x| i32::from(x)).sum());
    reduce(sum * i32::from(CENTRE))
}

pub(super) fn multiply(
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
    assert!(r.n == n && e1.n == n && count.div_ceil(per_matrix) * layout.entries() <= a.entries.len());
    assert!(out.stride >= MESSAGE_BITS * row_bytes);
    let packed: Vec<_> = (0..count).into_par_iter().map(|item| Packed::new(r, item)).collect();
    let blocks = n.div_ceil(TILE_COLUMNS);
    let shared = Shared::new(&mut out.buffer.0);
    (0..count * blocks).into_par_iter().for_each_init(
        || Zeroizing::new(vec![0i32; ROWS_PADDED * TILE_COLUMNS]),
        |sums, task| {
            // Consecutive tasks share a block of A.
            let (block, item) = (task / count, task % count);
            let matrix = a.matrix(item / per_matrix);
            let first_column = block * TILE_COLUMNS;
            let width = TILE_COLUMNS.min(n - first_column);
            let sums = &mut sums[..ROWS_PADDED * width];
            multiply_block(&packed[item], r_max, layout, matrix, first_column, sums);
            for (j, sums) in sums.chunks_exact_mut(width).take(MESSAGE_BITS).enumerate() {
                let e1 = &e1.row(MESSAGE_BITS * item + j)[first_column..][..width];
                finish_row(sums, packed[item].centre_terms[j], e1);
                let start = out.offset + item * out.stride + j * row_bytes + first_column * COEFFICIENT_BITS / 8;
                // SAFETY: tasks write the columns of their own block of their own item, 7 bytes for 4 columns.
                encode14(sums, unsafe { shared.range(start..start + width * COEFFICIENT_BITS / 8) });
            }
        },
    );
}

/// 256 rows in groups of 13, the last one padded with zero rows.
const ROW_GROUPS: usize = MESSAGE_BITS.div_ceil(GROUP);
const ROWS_PADDED: usize = ROW_GROUPS * GROUP;

/// One message's R in the order of the inner loop: for each group of 13 rows, for each pair of k, 13 pairs. Secret.
struct Packed {
    pairs: Zeroizing<Vec<[i16; 2]>>,
    centre_terms: Zeroizing<Vec<i32>>,
}

impl Packed {
    fn new(r: &Small, item: usize) -> Self {
        let mut pairs = Zeroizing::new(vec![[0; 2]; ROWS_PADDED * r.n / 2]);
        let mut centre_terms = Zeroizing::new(vec![0; MESSAGE_BITS]);
        for (j, centre_term_j) in centre_terms.iter_mut().enumerate() {
            let row = r.row(MESSAGE_BITS * item + j);
            let group = &mut pairs[j / GROUP * (GROUP * r.n / 2)..][..GROUP * r.n / 2];
            for (pair, to) in row.chunks_exact(2).zip(group.iter_mut().skip(j % GROUP).step_by(GROUP)) {
                *to = [pair[0], pair[1]];
            }
            *centre_term_j = centre_term(row);
        }
        Packed { pairs, centre_terms }
    }

    /// The pairs of a group of rows for `height` values of k from `first` on.
    fn group(&self, n: usize, group: usize, first: usize, height: usize) -> &[[i16; 2]] {
        &self.pairs[GROUP * (group * n + first) / 2..][..GROUP * height / 2]
    }
}

/// `sums[j][c] = Σ_k r[j][k]·a[k][first_column + c]`, up to multiples of q, in [−2³¹ + 2q, 2³¹ − 2q].
fn multiply_block(r: &Packed, r_max: u8, layout: Layout, matrix: &[i16], first_column: usize, sums: &mut [i32]) {
    let isa = Isa::detect();
    let width = sums.len() / ROWS_PADDED;
    // What a reduced sum, e1 and the centre term add are less than 5 terms' worth.
    let max_terms = max_terms_i32(r_max) - 5;
    let mut terms = 0;
    sums.fill(0);
    for (first, height) in layout.tile_rows() {
        if terms + height > max_terms {
            sums.iter_mut().for_each(|sum| *sum = reduce(*sum));
            terms = 0;
        }
        terms += height;
        for panel in 0..width / PANEL {
            let a = &matrix[layout.panel(first_column / PANEL + panel, first, height)];
            let (a, _) = a.as_chunks::<2>();
            for group in 0..ROW_GROUPS {
                let sums = &mut sums[group * GROUP * width + panel * PANEL..];
                kernel::multiply_panel(isa, sums, width, r.group(layout.n, group, first, height), a);
            }
        }
    }
}

/// `sums = sums + centre_term + e1 mod q`. Secret: everything, which is only added and reduced.
#[multiversion::multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn finish_row(sums: &mut [i32], centre_term: i32, e1: &[i16]) {
    for (sum, &e1) in sums.iter_mut().zip(e1) {
        *sum = reduce(*sum + centre_term + i32::from(e1));
    }
}
