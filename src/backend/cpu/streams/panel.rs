//! From columns to panels: the order of the product's inner loop, and A·s on the way.
//!
//! Both are bound by shuffles and memory: a panel of 32 rows and columns is 64 registers of 512 bits.

use super::{
    super::{isa::Isa, kernel::PANEL},
    Column, MAX_HEIGHT, PanelRows,
};

/// Writes the first rows of 32 columns to `tile`. `streaming` as in [`super::Columns::store`].
pub(super) fn store(isa: Isa, columns: &[Column; PANEL], tile: &mut [PanelRows], streaming: bool) {
    assert!(32 * tile.len() <= MAX_HEIGHT);
    match (isa, streaming && is_aligned(tile)) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        (Isa::Avx512 | Isa::Amx, false) => unsafe { avx512::store::<false>(columns, tile) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, and `tile` is aligned.
        (Isa::Avx512 | Isa::Amx, true) => unsafe { avx512::store::<true>(columns, tile) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx2 | Isa::AvxVnni, false) => unsafe { avx2::store::<false>(columns, tile) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, and `tile` is aligned.
        (Isa::Avx2 | Isa::AvxVnni, true) => unsafe { avx2::store::<true>(columns, tile) },
        _ => portable::store(columns, tile),
    }
}

/// [`store`], and for each of the rows k adds Σ_j a_kj·s_j to its sum. Secret: `s`, which is only multiplied, and
/// `sums`.
pub(super) fn store_and_multiply(
    isa: Isa,
    columns: &[Column; PANEL],
    tile: &mut [PanelRows],
    streaming: bool,
    s: &[i16; PANEL],
    sums: &mut [[i32; 32]],
) {
    assert!(32 * tile.len() <= MAX_HEIGHT && tile.len() == sums.len());
    match (isa, streaming && is_aligned(tile)) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        (Isa::Avx512 | Isa::Amx, false) => unsafe { avx512::store_and_multiply::<false>(columns, tile, s, sums) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, and `tile` is aligned.
        (Isa::Avx512 | Isa::Amx, true) => unsafe { avx512::store_and_multiply::<true>(columns, tile, s, sums) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx2 | Isa::AvxVnni, false) => unsafe { avx2::store_and_multiply::<false>(columns, tile, s, sums) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above, and `tile` is aligned.
        (Isa::Avx2 | Isa::AvxVnni, true) => unsafe { avx2::store_and_multiply::<true>(columns, tile, s, sums) },
        _ => portable::store_and_multiply(columns, tile, s, sums),
    }
}

/// Whether stores past the caches, which want whole lines, can write `tile`.
fn is_aligned(tile: &[PanelRows]) -> bool {
    tile.as_ptr().addr().is_multiple_of(64)
}

mod portable {
    use super::*;

    pub(super) fn store(columns: &[Column; PANEL], tile: &mut [PanelRows]) {
        for (pair, entries) in tile.as_flattened_mut().chunks_exact_mut(2 * PANEL).enumerate() {
            for (entry, column) in entries.chunks_exact_mut(2).zip(columns) {
                entry.copy_from_slice(&column[2 * pair..][..2]);
            }
        }
    }

    pub(super) fn store_and_multiply(
        columns: &[Column; PANEL],
        tile: &mut [PanelRows],
        s: &[i16; PANEL],
        sums: &mut [[i32; 32]],
    ) {
        store(columns, tile);
        for (column, &s) in columns.iter().zip(s) {
            for (sum, &a) in sums.as_flattened_mut().iter_mut().zip(column) {
                *sum += i32::from(a) * i32::from(s);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    /// Four row pairs of 8 columns, from row `first` on: a transposition of row pairs.
    ///
    /// Loads put two columns, four apart, side by side, which leaves two steps inside the halves of registers.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn transpose(columns: &[Column; 8], first: usize) -> [__m256i; 4] {
        let load = |j: usize| {
            let rows: &[i16; 8] = columns[j][first..].first_chunk().expect("rows of a column");
            // SAFETY: 8 values.
            unsafe { _mm_loadu_si128(rows.as_ptr().cast()) }
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| _mm256_set_m128i(load(4 + j), load(j)));
        let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
        [
            _mm256_unpacklo_epi64(ab_low, cd_low),
            _mm256_unpackhi_epi64(ab_low, cd_low),
            _mm256_unpacklo_epi64(ab_high, cd_high),
            _mm256_unpackhi_epi64(ab_high, cd_high),
        ]
    }

    /// Stores 32 rows of the panel from row `first` on. Halves of cache lines are written together.
    ///
    /// # Safety
    /// `rows` is 64-byte aligned if STREAMING.
    #[target_feature(enable = "avx2")]
    #[inline]
    unsafe fn store_rows<const STREAMING: bool>(columns: &[Column; PANEL], first: usize, rows: &mut PanelRows) {
        let to: *mut __m256i = rows.as_mut_ptr().cast();
        for (half, [left, right]) in columns.as_chunks().0.as_chunks().0.iter().enumerate() {
            for q in 0..4 {
                let (left, right) = (transpose(left, first + 8 * q), transpose(right, first + 8 * q));
                for p in 0..4 {
                    // SAFETY: a pair of rows is 4 registers, and `rows` 16 pairs, aligned if needed.
                    unsafe {
                        let to = to.add(4 * (4 * q + p) + 2 * half);
                        if STREAMING {
                            _mm256_stream_si256(to, left[p]);
                            _mm256_stream_si256(to.add(1), right[p]);
                        } else {
                            _mm256_storeu_si256(to, left[p]);
                            _mm256_storeu_si256(to.add(1), right[p]);
                        }
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`store_rows`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn store<const STREAMING: bool>(columns: &[Column; PANEL], tile: &mut [PanelRows]) {
        for (i, rows) in tile.iter_mut().enumerate() {
            // SAFETY: rows are 2048 bytes: aligned where the first ones are.
            unsafe { store_rows::<STREAMING>(columns, 32 * i, rows) };
        }
        if STREAMING {
            _mm_sfence();
        }
    }

    /// Two coefficients, eight times. In assembly, as compilers keep copies. Secret: `s`.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn broadcast(s: &[i16; 2]) -> __m256i {
        let x;
        // SAFETY: reads the 4 bytes of `s`.
        unsafe {
            std::arch::asm!(
                "vpbroadcastd {}, dword ptr [{}]",
                lateout(ymm_reg) x,
                in(reg) s.as_ptr(),
                options(readonly, nostack, preserves_flags)
            );
        }
        x
    }

    /// # Safety
    /// As for [`store_rows`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn store_and_multiply<const STREAMING: bool>(
        columns: &[Column; PANEL],
        tile: &mut [PanelRows],
        s: &[i16; PANEL],
        sums: &mut [[i32; 32]],
    ) {
        for (i, (rows, sums)) in tile.iter_mut().zip(sums).enumerate() {
            // SAFETY: as in `store`.
            unsafe { store_rows::<STREAMING>(columns, 32 * i, rows) };
            for (half, sums) in sums.as_chunks_mut::<16>().0.iter_mut().enumerate() {
                let first = 32 * i + 16 * half;
                let [mut low, mut high] = [_mm256_setzero_si256(); 2];
                // Two columns side by side are the pairs that `vpmaddwd` adds.
                for (s, columns) in s.as_chunks::<2>().0.iter().zip(columns.as_chunks::<2>().0) {
                    let load = |j: usize| {
                        let rows: &[i16; 16] = columns[j][first..].first_chunk().expect("rows of a column");
                        // SAFETY: 16 values.
                        unsafe { _mm256_loadu_si256(rows.as_ptr().cast()) }
                    };
                    let (a, b) = (load(0), load(1));
                    let s = broadcast(s);
                    low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), s));
                    high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), s));
                }
                // Interleaving left four rows in each half of the one register, and the next four in the other's.
                let rows = [_mm256_permute2x128_si256::<0x20>(low, high), _mm256_permute2x128_si256::<0x31>(low, high)];
                for (sums, x) in sums.as_chunks_mut::<8>().0.iter_mut().zip(rows) {
                    let sums: *mut __m256i = sums.as_mut_ptr().cast();
                    // SAFETY: 8 sums.
                    unsafe { _mm256_storeu_si256(sums, _mm256_add_epi32(_mm256_loadu_si256(sums), x)) };
                }
            }
        }
        if STREAMING {
            _mm_sfence();
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use std::arch::x86_64::*;

    /// Four row pairs of 16 columns, from row `first` on: a transposition of row pairs.
    ///
    /// Loads put four columns, four apart, side by side, which leaves two steps inside the quarters of registers.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    fn transpose(columns: &[Column; 16], first: usize) -> [__m512i; 4] {
        let load = |j: usize| {
            let rows: &[i16; 8] = columns[j][first..].first_chunk().expect("rows of a column");
            // SAFETY: 8 values.
            unsafe { _mm_loadu_si128(rows.as_ptr().cast()) }
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(|j| {
            let x = _mm512_castsi128_si512(load(j));
            let x = _mm512_inserti32x4::<1>(x, load(4 + j));
            let x = _mm512_inserti32x4::<2>(x, load(8 + j));
            _mm512_inserti32x4::<3>(x, load(12 + j))
        });
        let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
        let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
        [
            _mm512_unpacklo_epi64(ab_low, cd_low),
            _mm512_unpackhi_epi64(ab_low, cd_low),
            _mm512_unpacklo_epi64(ab_high, cd_high),
            _mm512_unpackhi_epi64(ab_high, cd_high),
        ]
    }

    /// Stores 32 rows of the panel from row `first` on.
    ///
    /// # Safety
    /// `rows` is 64-byte aligned if STREAMING.
    #[target_feature(enable = "avx512f,avx512bw")]
    #[inline]
    unsafe fn store_rows<const STREAMING: bool>(columns: &[Column; PANEL], first: usize, rows: &mut PanelRows) {
        let to: *mut __m512i = rows.as_mut_ptr().cast();
        for (half, columns) in columns.as_chunks().0.iter().enumerate() {
            for q in 0..4 {
                for (p, x) in transpose(columns, first + 8 * q).into_iter().enumerate() {
                    // SAFETY: a pair of rows is 2 registers, and `rows` 16 pairs, aligned if needed.
                    unsafe {
                        let to = to.add(2 * (4 * q + p) + half);
                        if STREAMING { _mm512_stream_si512(to, x) } else { _mm512_storeu_si512(to, x) }
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`store_rows`].
    #[target_feature(enable = "avx512f,avx512bw")]
    pub(super) unsafe fn store<const STREAMING: bool>(columns: &[Column; PANEL], tile: &mut [PanelRows]) {
        for (i, rows) in tile.iter_mut().enumerate() {
            // SAFETY: rows are 2048 bytes: aligned where the first ones are.
            unsafe { store_rows::<STREAMING>(columns, 32 * i, rows) };
        }
        if STREAMING {
            _mm_sfence();
        }
    }

    /// `vpdpwssd` with two coefficients. In assembly, as compilers make two instructions of it, and keep `s` in copies.
    /// Secret: `s`.
    #[target_feature(enable = "avx512f,avx512vnni")]
    #[inline]
    fn multiply_add(mut sum: __m512i, a: __m512i, s: &[i16; 2]) -> __m512i {
        // SAFETY: reads the 4 bytes of `s`.
        unsafe {
            std::arch::asm!(
                "vpdpwssd {}, {}, dword ptr [{}]{{1to16}}",
                inout(zmm_reg) sum,
                in(zmm_reg) a,
                in(reg) s.as_ptr(),
                options(pure, readonly, nostack, preserves_flags)
            );
        }
        sum
    }

    /// Σ_j a_kj·s_j over the panel for 16 + 16 rows k from row `first` on. Secret: `s`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    #[inline]
    fn multiply_rows(columns: &[Column; PANEL], first: usize, s: &[i16; PANEL]) -> [__m512i; 2] {
        // Two columns side by side are the pairs that `vpdpwssd` adds. Sums of every other pair, as one sum would wait
        // for its own latency.
        let [mut low, mut high, mut low_2, mut high_2] = [_mm512_setzero_si512(); 4];
        for ([s, s_2], columns) in s.as_chunks().0.as_chunks().0.iter().zip(columns.as_chunks::<4>().0) {
            let load = |j: usize| {
                let rows: &[i16; 32] = columns[j][first..].first_chunk().expect("rows of a column");
                // SAFETY: 32 values.
                unsafe { _mm512_loadu_si512(rows.as_ptr().cast()) }
            };
            let [a, b, c, d] = [load(0), load(1), load(2), load(3)];
            low = multiply_add(low, _mm512_unpacklo_epi16(a, b), s);
            high = multiply_add(high, _mm512_unpackhi_epi16(a, b), s);
            low_2 = multiply_add(low_2, _mm512_unpacklo_epi16(c, d), s_2);
            high_2 = multiply_add(high_2, _mm512_unpackhi_epi16(c, d), s_2);
        }
        let (low, high) = (_mm512_add_epi32(low, low_2), _mm512_add_epi32(high, high_2));
        // Interleaving left four rows in each quarter of the one register, and the next four in the other's.
        let first_rows = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        let last_rows = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        [first_rows, last_rows].map(|order| _mm512_permutex2var_epi64(low, order, high))
    }

    /// # Safety
    /// As for [`store_rows`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(super) unsafe fn store_and_multiply<const STREAMING: bool>(
        columns: &[Column; PANEL],
        tile: &mut [PanelRows],
        s: &[i16; PANEL],
        sums: &mut [[i32; 32]],
    ) {
        for (i, (rows, sums)) in tile.iter_mut().zip(sums).enumerate() {
            // SAFETY: as in `store`.
            unsafe { store_rows::<STREAMING>(columns, 32 * i, rows) };
            for (sums, x) in sums.as_chunks_mut::<16>().0.iter_mut().zip(multiply_rows(columns, 32 * i, s)) {
                let sums: *mut __m512i = sums.as_mut_ptr().cast();
                // SAFETY: 16 sums.
                unsafe { _mm512_storeu_si512(sums, _mm512_add_epi32(_mm512_loadu_si512(sums), x)) };
            }
        }
        if STREAMING {
            _mm_sfence();
        }
    }
}
