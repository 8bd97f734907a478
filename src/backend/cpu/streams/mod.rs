//! Generator streams in bulk: the matrix's columns, panel by panel, and small vectors.
//!
//! A stream starts from its entropy input, the 48 bytes of SHAKE256 that [`crate::drbg::Stream`] computes for itself,
//! and gives the same bytes. Its blocks stay in registers from the counter to the finished values; between two calls
//! lie the expanded key, V and the place in the request.
//!
//! Expected: bound by AES. A 512-bit `vaesenc` issues once per cycle, so that 32 words take 14 cycles; what is done to
//! the words is chosen to issue beside it.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod panel;
mod portable;

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{isa::Isa, kernel::PANEL};
use crate::{drbg::MAX_REQUEST_BYTES, noise::Cdt, params::Q};

/// The most rows of a panel at hand at a time: a tile's height.
pub(super) const MAX_HEIGHT: usize = 512;

/// Blocks of a request.
const REQUEST_BLOCKS: u32 = (MAX_REQUEST_BYTES / 16) as u32;
/// The most values that are drawn beyond the rows at hand. Streams are read in chunks, of 128 words or fewer; they
/// divide a request, so that requests end where chunks do.
const MAX_BEYOND: usize = 128;

/// Words from here on are rejected.
const REJECTED: u16 = 5 * Q;

/// Round keys of AES-256.
const ROUND_KEYS: usize = 15;

/// E₀(1), E₀(2) and E₀(3) of AES-256 under the all-zero key, as the native integers of their bytes: what Update adds to
/// the entropy input at instantiation (SP 800-90A, 10.2.1.3.1).
static ZERO_KEY_BLOCKS: [u128; 3] = [
    u128::from_be(0x530f8afbc74536b9a963b4f1c4cb738b),
    u128::from_be(0xcea7403d4d606b6e074ec5d3baf39d18),
    u128::from_be(0x726003ca37a62a74d1a2f58e7506358e),
];

/// The entropy input that a stream starts from: SHAKE256(seed ‖ tag ‖ LE32(index)).
pub(super) type Entropy = [u8; 48];

/// V after instantiation.
fn initial_v(entropy: &Entropy) -> u128 {
    u128::from_be_bytes(entropy.as_chunks().0[2]) ^ u128::from_be(ZERO_KEY_BLOCKS[2])
}

/// A stream between two chunks. Wiped when dropped.
#[derive(Default, Zeroize, ZeroizeOnDrop)]
struct Generator {
    /// The expanded key, each round key as the native integer of its bytes. The portable twin keeps the first two, which
    /// are the key.
    round_keys: [u128; ROUND_KEYS],
    /// The last counter used.
    v: u128,
    /// Blocks left of the request in progress. Where none is left the next read begins with Update.
    blocks_left: u32,
}

impl Generator {
    fn begin_request(&mut self, v: u128) {
        (self.v, self.blocks_left) = (v, REQUEST_BLOCKS);
    }

    fn advance(&mut self, blocks: u32) {
        self.v = self.v.wrapping_add(u128::from(blocks));
        self.blocks_left -= blocks;
    }
}

/// The values of a column at hand, and after them those that were drawn beyond. An odd number of cache lines spreads the
/// columns over the cache's sets.
type Column = [i16; MAX_HEIGHT + MAX_BEYOND + 32];
const _: () = assert!(size_of::<Column>() / 64 % 2 == 1);

/// 32 rows of a panel in the order of the product's inner loop: for each pair of rows, the 32 columns' two entries.
pub(super) type PanelRows = [i16; 32 * PANEL];

/// Columns that begin at cache lines.
#[repr(align(64))]
struct Lines([Column; PANEL]);

/// The streams of a panel's 32 columns, uniform(ρ, "A", j), read by blocks of rows. Values are centred (x − 6144).
/// Public.
pub(super) struct Columns {
    isa: Isa,
    generators: [Generator; PANEL],
    columns: Lines,
    /// Values that each column holds.
    filled: [usize; PANEL],
    /// Rows at hand.
    height: usize,
}

impl Columns {
    /// No rows yet. 60 KB.
    pub(super) fn new(isa: Isa) -> Box<Self> {
        Box::new(Columns {
            isa,
            generators: Default::default(),
            columns: Lines([[0; _]; PANEL]),
            filled: [0; PANEL],
            height: 0,
        })
    }

    /// Begins a panel: the streams of its columns start from `entropy`.
    pub(super) fn start(&mut self, entropy: &[Entropy; PANEL]) {
        (self.filled, self.height) = ([0; PANEL], 0);
        match self.isa {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: an `Isa` is used only where the machine has its instructions.
            Isa::Avx512 | Isa::Amx => unsafe { avx512::start_all(entropy, &mut self.generators) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Isa::Avx2 | Isa::AvxVnni => unsafe { avx2::start_all(entropy, &mut self.generators) },
            _ => portable::start_all(entropy, &mut self.generators),
        }
    }

    /// Draws the next `height` rows, which replace those at hand.
    ///
    /// # Panics
    /// Where `height` is not a multiple of 32 up to [`MAX_HEIGHT`].
    pub(super) fn advance(&mut self, height: usize) {
        assert!(height <= MAX_HEIGHT && height.is_multiple_of(32));
        let last = std::mem::replace(&mut self.height, height);
        let columns = self.generators.iter_mut().zip(&mut self.columns.0).zip(&mut self.filled);
        for ((generator, column), filled) in columns {
            *filled = match self.isa {
                #[cfg(target_arch = "x86_64")]
                // SAFETY: an `Isa` is used only where the machine has its instructions.
                Isa::Avx512 | Isa::Amx => unsafe { avx512::uniform(generator, column, last, *filled, height) },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: as above.
                Isa::Avx2 | Isa::AvxVnni => unsafe { avx2::uniform(generator, column, last, *filled, height) },
                _ => portable::uniform(generator, column, last, *filled, height),
            };
        }
    }

    /// Writes the rows at hand to `tile`.
    ///
    /// `streaming` writes past the caches where `tile` begins at a cache line: for a matrix larger than they are, half
    /// the traffic, as lines are not read before they are written.
    ///
    /// # Panics
    /// Where `tile` has not their length.
    pub(super) fn store(&self, tile: &mut [PanelRows], streaming: bool) {
        assert!(32 * tile.len() == self.height);
        panel::store(self.isa, &self.columns.0, tile, streaming);
    }

    /// [`Self::store`], and for each row k at hand adds Σ_j a_kj·s_j over the 32 columns to its sum, of which there
    /// are 32 in a row of `sums`.
    ///
    /// The caller bounds the sums. Secret: `s`, which is only multiplied, and `sums`.
    ///
    /// # Panics
    /// Where `tile` or `sums` has not the length of the rows at hand.
    pub(super) fn store_and_multiply(
        &self,
        tile: &mut [PanelRows],
        streaming: bool,
        s: &[i16; PANEL],
        sums: &mut [[i32; 32]],
    ) {
        assert!(32 * tile.len() == self.height && sums.len() == tile.len());
        panel::store_and_multiply(self.isa, &self.columns.0, tile, streaming, s, sums);
    }
}

/// Fills `out` with [`Cdt::sample`] of the stream's 16-bit words. Any length.
///
/// Secret: the stream. No branch or index depends on its words, which are only compared and counted.
pub(super) fn sample_table(isa: Isa, entropy: &Entropy, table: &Cdt, out: &mut [i16]) {
    let thresholds = table.thresholds();
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        Isa::Avx512 | Isa::Amx => unsafe { avx512::sample_table(entropy, thresholds, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 | Isa::AvxVnni => unsafe { avx2::sample_table(entropy, thresholds, out) },
        _ => portable::sample_table(entropy, thresholds, out),
    }
}

/// Fills `out` with [`crate::noise::cbd3`] of the stream's bytes. Any length.
///
/// Secret: the stream. No branch or index depends on its bytes.
pub(super) fn cbd3(isa: Isa, entropy: &Entropy, out: &mut [i16]) {
    match isa {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: an `Isa` is used only where the machine has its instructions.
        Isa::Avx512 | Isa::Amx => unsafe { avx512::cbd3(entropy, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx2 | Isa::AvxVnni => unsafe { avx2::cbd3(entropy, out) },
        _ => portable::cbd3(entropy, out),
    }
}

/// Calls `fill` with all whole chunks of `out`, and with one more for the rest of it.
fn in_chunks<const N: usize>(out: &mut [i16], mut fill: impl FnMut(&mut [[i16; N]])) {
    let (chunks, rest) = out.as_chunks_mut();
    fill(chunks);
    if !rest.is_empty() {
        let mut chunk = Zeroizing::new([0; N]);
        fill(std::slice::from_mut(&mut *chunk));
        rest.copy_from_slice(&chunk[..rest.len()]);
    }
}

#[cfg(test)]
mod tests;
