//! `tdpbssd` on AMX's tiles: 16 × 16 sums of 64 products of signed bytes in 16 cycles.
//!
//! The compiler neither allocates tiles nor knows their instructions, so that whole loops are in assembly, and what one
//! piece of assembly leaves in the tiles the next one finds: nothing in between touches them, and the system saves them.

use std::arch::{asm, x86_64::*};

use super::{Ahead, PANEL, SUM_ROWS, TILE, TILE_DEPTH};
use crate::params::MESSAGE_BITS;

/// Bytes of a tile: 16 rows of 64.
const TILE_BYTES: usize = 1024;

/// Pairs of groups of 16 rows.
const PAIRS: usize = MESSAGE_BITS / TILE / 2;
/// Bytes of the next panel asked for at each step: in 16 calls all of it.
const A_AHEAD_BYTES: usize = 256;
/// Bytes of the next R asked for at each step: in 16 calls for each of 8 panels all of it.
const R_AHEAD_BYTES: usize = 128;

/// What `ldtilecfg` loads (Intel SDM, volume 1, 18.3).
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// Eight full tiles.
static FULL_TILES: Configuration = {
    let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
    let mut tile = 0;
    while tile < 8 {
        (row_bytes[tile], rows[tile]) = (64, TILE as u8);
        tile += 1;
    }
    Configuration { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
};

/// The sums of 32 rows and 16 columns: for each 16 rows the products with the low parts and with the high parts. Secret.
#[repr(align(64))]
struct Products([[[[i32; TILE]; TILE]; 2]; 2]);

/// # Safety
/// The machine has AMX-INT8 and AVX-512 and the system lends the tiles; the slices are as [`super::multiply_panel`]
/// asserts.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn multiply_panel(
    sums: &mut [[i32; PANEL]; SUM_ROWS],
    add: bool,
    r: &[i16],
    a: &[i16],
    ahead: Ahead,
) {
    let steps = a.len() / PANEL / TILE_DEPTH;
    // A request for memory never fails, so that it does not matter if it is less than a part for each call.
    let part =
        |slice: &[i16], call: usize, bytes: usize| slice.as_ptr().cast::<u8>().wrapping_add(call * steps * bytes);
    let (r, a) = (r.as_ptr().cast::<u8>(), a.as_ptr().cast::<u8>());
    let mut products = Products([[[[0; TILE]; TILE]; 2]; 2]);
    // SAFETY: a configuration of 64 bytes.
    unsafe {
        asm!(
            "ldtilecfg [{}]", in(reg) &FULL_TILES,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly),
        );
    }
    for half in 0..2 {
        for (pair, sums) in sums[..MESSAGE_BITS].chunks_exact_mut(2 * TILE).enumerate() {
            let call = PAIRS * half + pair;
            // SAFETY: R has two groups of `steps` tiles for each 32 rows, A `steps` pairs of tiles for each half.
            unsafe {
                let r = r.add(2 * pair * steps * TILE_BYTES);
                multiply_tiles(
                    r,
                    r.add(steps * TILE_BYTES),
                    a.add(2 * half * steps * TILE_BYTES),
                    steps,
                    [part(ahead.a, call, A_AHEAD_BYTES), part(ahead.r, call, R_AHEAD_BYTES)],
                    &mut products,
                );
            }
            for (sums, [low, high]) in sums.chunks_exact_mut(TILE).zip(&products.0) {
                for (sums, (low, high)) in sums.iter_mut().zip(low.iter().zip(high)) {
                    let sums = sums[half * TILE..][..TILE].as_mut_ptr().cast::<__m512i>();
                    // SAFETY: 16 sums are a register.
                    unsafe {
                        let low = _mm512_loadu_si512(low.as_ptr().cast());
                        let high = _mm512_slli_epi32::<7>(_mm512_loadu_si512(high.as_ptr().cast()));
                        let mut sum = _mm512_add_epi32(low, high);
                        if add {
                            sum = _mm512_add_epi32(sum, _mm512_loadu_si512(sums));
                        }
                        _mm512_storeu_si512(sums, sum);
                    }
                }
            }
        }
    }
    // Products without their noise are secret; the release wipes the tiles themselves.
    products = Products([[[[0; TILE]; TILE]; 2]; 2]);
    std::hint::black_box(&mut products);
    // SAFETY: the tiles are configured and their contents stored.
    unsafe {
        asm!(
            "tilerelease",
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nomem, nostack),
        );
    }
}

/// `products` = the sums of `steps` tiles of R's two groups with A's two planes.
///
/// # Safety
/// The tiles are configured as [`FULL_TILES`]; `r0` and `r1` have `steps` tiles, `a` has `steps` pairs of tiles.
unsafe fn multiply_tiles(
    r0: *const u8,
    r1: *const u8,
    a: *const u8,
    steps: usize,
    ahead: [*const u8; 2],
    products: &mut Products,
) {
    // SAFETY: by the caller's promise; `products` takes four tiles.
    unsafe {
        asm!(
            "tilezero tmm0",
            "tilezero tmm1",
            "tilezero tmm2",
            "tilezero tmm3",
            "2:",
            "tileloadd tmm6, [{a} + {stride}]",
            "tileloadd tmm4, [{r0} + {stride}]",
            "tdpbssd tmm0, tmm4, tmm6",
            "tileloadd tmm7, [{a} + {stride} + 1024]",
            "tdpbssd tmm1, tmm4, tmm7",
            "tileloadd tmm5, [{r1} + {stride}]",
            "tdpbssd tmm2, tmm5, tmm6",
            "tdpbssd tmm3, tmm5, tmm7",
            "prefetcht1 [{next_a}]",
            "prefetcht1 [{next_a} + 64]",
            "prefetcht1 [{next_a} + 128]",
            "prefetcht1 [{next_a} + 192]",
            "prefetcht1 [{next_r}]",
            "prefetcht1 [{next_r} + 64]",
            "add {next_a}, 256",
            "add {next_r}, 128",
            "add {a}, 2048",
            "add {r0}, 1024",
            "add {r1}, 1024",
            "dec {steps}",
            "jnz 2b",
            "tilestored [{products} + {stride}], tmm0",
            "tilestored [{products} + {stride} + 1024], tmm1",
            "tilestored [{products} + {stride} + 2048], tmm2",
            "tilestored [{products} + {stride} + 3072], tmm3",
            a = inout(reg) a => _,
            r0 = inout(reg) r0 => _,
            r1 = inout(reg) r1 => _,
            steps = inout(reg) steps => _,
            next_a = inout(reg) ahead[0] => _,
            next_r = inout(reg) ahead[1] => _,
            products = in(reg) products,
            stride = in(reg) 64_usize,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack),
        );
    }
}

/// A row of a tile: of each column, two bytes of the first pair of rows and two of the second.
const QUADS: [u8; 64] = {
    let mut indices = [0; 64];
    let mut i = 0;
    while i < 64 {
        indices[i] = [0, 2, 64, 66][i % 4] + 4 * (i / 4) as u8;
        i += 1;
    }
    indices
};

/// # Safety
/// The machine has AVX-512 with BW and VBMI; the slices are as [`super::split_planes`] asserts, and `planes` begins at a
/// cache line if `streaming`.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(super) unsafe fn split_planes(pairs: &[i16], planes: &mut [i16], streaming: bool) {
    // SAFETY: 64 bytes.
    let quads = unsafe { _mm512_loadu_si512(QUADS.as_ptr().cast()) };
    let half = _mm512_set1_epi16(64);
    let to = planes.as_mut_ptr().cast::<__m512i>();
    let store = |place: usize, row: __m512i| {
        // SAFETY: places are below the registers that `planes` has; aligned if streaming.
        unsafe {
            if streaming { _mm512_stream_si512(to.add(place), row) } else { _mm512_storeu_si512(to.add(place), row) }
        }
    };
    let steps = planes.len() / PANEL / TILE_DEPTH;
    for quad in 0..steps * TILE {
        let (step, tile_row) = (quad / TILE, quad % TILE);
        for side in 0..2 {
            // Pairs beyond the last are padding.
            let entries =
                [2 * quad, 2 * quad + 1].map(|pair| match pairs.get(2 * PANEL * pair..2 * PANEL * (pair + 1)) {
                    // SAFETY: one half of the 64 entries.
                    Some(entries) => unsafe { _mm512_loadu_si512(entries[PANEL * side..].as_ptr().cast()) },
                    None => _mm512_setzero_si512(),
                });
            // lo = ((a + 64) mod 128) − 64 and hi = (a − lo)/128 = ⌊(a + 64)/128⌋; of lo only the byte is kept.
            let high = entries.map(|a| _mm512_srai_epi16::<7>(_mm512_add_epi16(a, half)));
            let low = [0, 1].map(|i| _mm512_sub_epi16(entries[i], _mm512_slli_epi16::<7>(high[i])));
            let place = 2 * TILE * (side * steps + step) + tile_row;
            store(place, _mm512_permutex2var_epi8(low[0], quads, low[1]));
            store(place + TILE, _mm512_permutex2var_epi8(high[0], quads, high[1]));
        }
    }
    if streaming {
        // Stores past the caches are seen by other threads only after it.
        _mm_sfence();
    }
}

/// Products of tiles and nothing else; returns the 14-bit multiply-adds done, two products of 8 bits each.
///
/// # Safety
/// The machine has AMX-INT8 and the system lends the tiles.
pub(super) unsafe fn multiply_registers(passes: u64) -> u64 {
    // SAFETY: a configuration of 64 bytes, after which the tiles are zero; the loop names tiles alone.
    unsafe {
        asm!(
            "ldtilecfg [{configuration}]",
            "2:",
            "tdpbssd tmm0, tmm4, tmm6",
            "tdpbssd tmm1, tmm4, tmm7",
            "tdpbssd tmm2, tmm5, tmm6",
            "tdpbssd tmm3, tmm5, tmm7",
            "dec {passes}",
            "jnz 2b",
            "tilerelease",
            configuration = in(reg) &FULL_TILES,
            passes = inout(reg) passes => _,
            out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
            out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
            options(nostack, readonly),
        );
    }
    passes * 2 * (TILE * TILE * TILE_DEPTH) as u64
}
