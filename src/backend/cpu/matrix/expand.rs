//! A from ρ: generator streams in bulk, and A·s on the way.
//!
//! Expected: bound by the generator, at about 4 G entries per second and thread on AVX-512; what is stored beyond the
//! second cache goes past the caches.

use super::{
    super::{
        codec,
        isa::vectorized,
        keccak,
        kernel::{self, Form, PANEL},
        memory::{Bytes, Shared, Small, seed},
        streams::{Columns, PanelRows},
        workspace::{ThreadSpace, Workspace},
    },
    BAND, Band, Entries, Layout, Matrices, centre_term, reduce, reduce_all,
};
use crate::{
    ops::{Rows, RowsMut},
    params::{COEFFICIENT_BITS, SEED_BYTES, max_terms_i32},
};

/// Matrices of more entries than this are stored past the caches: they do not fit the second one.
const CACHED_ENTRIES: usize = 1 << 20;

/// Begins the streams of a panel's columns.
pub(super) fn start(space: &Workspace, columns: &mut Columns, rho: &[u8; SEED_BYTES], panel: usize) {
    let mut entropy = [[0; keccak::STREAM_SEED_BYTES]; PANEL];
    keccak::stream_seeds(space.isa, rho, b'A', (panel * PANEL) as u32, &mut entropy);
    columns.start(&entropy);
}

/// A vector that a panel is multiplied by on the way, and the sums of its rows.
type OnTheWay<'a> = Option<(&'a [i16; PANEL], &'a mut [i32])>;

/// Draws a panel's entries in one band into `tile`. `rows` is work space.
pub(super) fn draw(
    space: &Workspace,
    columns: &mut Columns,
    rows: &mut [i16],
    layout: Layout,
    band: Band,
    tile: &mut [i16],
    streaming: bool,
    multiply: OnTheWay,
) {
    columns.advance(band.height);
    let store = |to: &mut [i16], streaming| {
        let (to, _): (&mut [PanelRows], _) = to.as_chunks_mut();
        match multiply {
            Some((s, sums)) => columns.store_and_multiply(to, streaming, s, sums.as_chunks_mut().0),
            None => columns.store(to, streaming),
        }
    };
    match layout.form {
        Form::Pairs { .. } => store(tile, streaming),
        #[cfg(target_arch = "x86_64")]
        Form::Planes => {
            let rows = &mut rows[..band.height * PANEL];
            store(rows, false);
            kernel::split_planes(space.isa, rows, tile, streaming);
        }
        #[cfg(not(target_arch = "x86_64"))]
        Form::Planes => unreachable!("only AMX multiplies planes"),
    }
}

/// Makes room in every thread's space for drawing `panels` panels at the same time, to `entries` places if they are not
/// stored.
pub(super) fn reserve(space: &Workspace, layout: Layout, panels: usize, entries: usize) {
    space.reserve(|thread| {
        thread.columns(space.isa, panels);
        thread.entries.grown(entries);
        if layout.form == Form::Planes {
            thread.rows.grown(BAND * PANEL);
        }
    });
}

pub(in super::super) fn expand(space: &Workspace, count: usize, rho: Rows<Bytes>, out: &mut Matrices) {
    assert!(out.capacity() >= count);
    let layout = out.layout;
    match &mut out.entries {
        Entries::Stored(entries) => {
            let entries = Shared::new(entries);
            reserve(space, layout, 1, 0);
            space.each(count * layout.panels(), |thread, task| {
                let (i, panel) = (task / layout.panels(), task % layout.panels());
                draw_panel(space, thread, layout, i, seed(&rho, i), panel, Some(&entries), None);
            });
        }
        Entries::Regenerated(seeds) => keep_seeds(count, rho, seeds),
    }
}

fn keep_seeds(count: usize, rho: Rows<Bytes>, seeds: &mut [[u8; SEED_BYTES]]) {
    seeds[..count].iter_mut().enumerate().for_each(|(i, to)| *to = *seed(&rho, i));
}

/// How a panel adds to A·s.
#[derive(Clone, Copy)]
struct Multiply<'a> {
    /// The panel's part of s.
    s: &'a [i16; PANEL],
    /// Whether sums are reduced after a panel.
    reduces: bool,
}

/// Draws a panel of matrix i, to its places in `stored` if there are any, and adds its part of A·s to the thread's sums.
fn draw_panel(
    space: &Workspace,
    thread: &mut ThreadSpace,
    layout: Layout,
    i: usize,
    rho: &[u8; SEED_BYTES],
    panel: usize,
    stored: Option<&Shared<i16>>,
    multiply: Option<Multiply>,
) {
    let columns = &mut *thread.columns[0];
    let rows = &mut *thread.rows;
    let mut key_sums = multiply.map(|_| &mut thread.key_sums[i * layout.n..(i + 1) * layout.n]);
    start(space, columns, rho, panel);
    for band in layout.bands() {
        let (tile, streaming) = match stored {
            Some(entries) => {
                let (start, range) = (i * layout.entries(), layout.panel(panel, band));
                // SAFETY: panels of matrices are disjoint, and each is drawn by one task.
                let tile = unsafe { entries.range(start + range.start..start + range.end) };
                (tile, layout.entries() > CACHED_ENTRIES)
            }
            None => (&mut thread.entries[..PANEL * band.depth], false),
        };
        let sums = key_sums.as_mut().map(|sums| &mut sums[band.first..][..band.height]);
        let on_the_way = multiply.map(|multiply| multiply.s).zip(sums);
        draw(space, columns, rows, layout, band, tile, streaming, on_the_way);
    }
    if let (Some(sums), Some(Multiply { reduces: true, .. })) = (key_sums, multiply) {
        reduce_all(space.isa, sums);
    }
}

pub(in super::super) fn expand_multiply(
    space: &Workspace,
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
    assert!(s.n == n && e.n == n && out.capacity() >= count);
    // The threads' sums are this call's until they are totals.
    let call = &mut *space.call();
    let stored = match &mut out.entries {
        Entries::Stored(entries) => Some(Shared::new(entries)),
        Entries::Regenerated(seeds) => {
            keep_seeds(count, rho, seeds);
            None
        }
    };
    // Every thread sums the panels that it draws. What e and the centre's term add is less than 5 terms' worth; sums of
    // wide noise, which could leave 32 bits, are reduced after every panel.
    let reduces = n + 5 > max_terms_i32(s_max);
    reserve(space, layout, 1, PANEL * BAND);
    space.reserve(|thread| thread.key_sums.grown(count * n).fill(0));
    space.each(count * layout.panels(), |thread, task| {
        let (i, panel) = (task / layout.panels(), task % layout.panels());
        let s = s.row(i)[panel * PANEL..].first_chunk().expect("32 coefficients a panel");
        draw_panel(space, thread, layout, i, seed(&rho, i), panel, stored.as_ref(), Some(Multiply { s, reduces }));
    });

    let totals = call.totals.grown(count * n);
    totals.fill(0);
    for thread in space.threads() {
        totals.iter_mut().zip(&thread.key_sums[..count * n]).for_each(|(total, sum)| *total += sum);
    }
    let totals = Shared::new(totals);
    space.each_row(count, n * COEFFICIENT_BITS / 8, t, |_, i, t| {
        // SAFETY: each key is one task's.
        let totals = unsafe { totals.range(i * n..(i + 1) * n) };
        // Σ_j (a_ij + 6144)·s_j = Σ_j a_ij·s_j + 6144·Σ_j s_j.
        finish(space.isa, totals, centre_term(space.isa, s.row(i)), e.row(i));
        codec::encode14(space.isa, totals, t);
    });
}

vectorized! {
    /// `sums = sums + centre_term + e mod q`. Secret: everything, which is only added and reduced.
    fn finish(sums: &mut [i32], centre_term: i32, e: &[i16]) {
        for (sum, &e) in sums.iter_mut().zip(e) {
            *sum = reduce(*sum + centre_term + i32::from(e));
        }
    }
}
