//! The sponge (FIPS 202, section 4) over several messages of equal length at a time.

use std::{array, ops::Range};

use zeroize::Zeroize;

use super::{Function, MAX_RATE_BYTES, STREAM_SEED_BYTES, portable};

impl Function {
    /// (1600 − capacity)/8.
    fn rate_bytes(self) -> usize {
        match self {
            Function::Sha3_256 | Function::Shake256 => 136,
            Function::Sha3_512 => 72,
        }
    }

    /// The byte after the message: the bits that tell SHA-3 from SHAKE, then the first 1 of the padding
    /// (FIPS 202, B.2).
    fn suffix(self) -> u8 {
        match self {
            Function::Sha3_256 | Function::Sha3_512 => 0x06,
            Function::Shake256 => 0x1f,
        }
    }
}

/// `W` Keccak states, zeroized when dropped: lane x + 5y of state j is `lanes[x + 5y][j]`.
#[repr(align(64))]
pub(super) struct States<const W: usize> {
    pub(super) lanes: [[u64; W]; 25],
}

impl<const W: usize> States<W> {
    /// All zero.
    fn new() -> Self {
        States { lanes: [[0; W]; 25] }
    }

    /// Makes all zero.
    fn clear(&mut self) {
        // In place: an assignment would build the array elsewhere and copy it.
        self.lanes.as_flattened_mut().fill(0);
    }

    /// Writes the first bytes of each state, at most 200, to as many outputs as there are.
    fn squeeze<O: AsMut<[u8]>>(&self, outs: &mut [O]) {
        for (j, out) in outs.iter_mut().enumerate() {
            let (words, rest) = out.as_mut().as_chunks_mut();
            let mut lanes = self.lanes.iter().map(|lane| lane[j].to_le_bytes());
            for (word, lane) in words.iter_mut().zip(&mut lanes) {
                *word = lane;
            }
            if !rest.is_empty() {
                rest.copy_from_slice(&lanes.next().expect("an output of at most 25 lanes")[..rest.len()]);
            }
        }
    }
}

impl<const W: usize> Drop for States<W> {
    fn drop(&mut self) {
        self.lanes.as_flattened_mut().zeroize();
    }
}

/// Keccak-f[1600] on `W` states at a time.
pub(super) trait Engine<const W: usize>: Copy {
    /// Permutes each state.
    fn permute(self, states: &mut States<W>);

    /// For each `rate_bytes` in the `range` of the messages: adds them to the states and permutes.
    fn absorb(self, states: &mut States<W>, rate_bytes: usize, messages: &[&[u8]; W], range: Range<usize>);
}

/// The sponges of `W` messages. Zeroized when dropped.
struct Sponges<E, const W: usize> {
    engine: E,
    function: Function,
    states: States<W>,
    /// What is not absorbed yet of each message: `filled` bytes, less than a block.
    buffers: [[u8; MAX_RATE_BYTES]; W],
    filled: usize,
}

impl<E: Engine<W>, const W: usize> Sponges<E, W> {
    fn new(engine: E, function: Function) -> Self {
        Sponges { engine, function, states: States::new(), buffers: [[0; MAX_RATE_BYTES]; W], filled: 0 }
    }

    /// Appends a part to each message; all are as long as the first.
    fn update(&mut self, parts: &[&[u8]; W]) {
        let (rate_bytes, len) = (self.function.rate_bytes(), parts[0].len());
        let mut at = 0;
        if self.filled > 0 {
            at = len.min(rate_bytes - self.filled);
            self.fill(parts, 0..at);
            if self.filled == rate_bytes {
                self.absorb_buffers();
            }
        }
        let whole = (len - at) / rate_bytes * rate_bytes;
        self.engine.absorb(&mut self.states, rate_bytes, parts, at..at + whole);
        self.fill(parts, at + whole..len);
    }

    /// Appends to the buffers, which have room for it.
    fn fill(&mut self, parts: &[&[u8]; W], range: Range<usize>) {
        let end = self.filled + range.len();
        for (buffer, part) in self.buffers.iter_mut().zip(parts) {
            buffer[self.filled..end].copy_from_slice(&part[range.clone()]);
        }
        self.filled = end;
    }

    fn absorb_buffers(&mut self) {
        let rate_bytes = self.function.rate_bytes();
        let buffers = self.buffers.each_ref().map(<[u8; _]>::as_slice);
        self.engine.absorb(&mut self.states, rate_bytes, &buffers, 0..rate_bytes);
        self.filled = 0;
    }

    /// Pads (FIPS 202, 5.1), writes as many digests as there are outputs, and starts anew.
    fn finish(&mut self, outs: &mut [&mut [u8]]) {
        let rate_bytes = self.function.rate_bytes();
        for buffer in &mut self.buffers {
            buffer[self.filled..rate_bytes].fill(0);
            buffer[self.filled] = self.function.suffix();
            buffer[rate_bytes - 1] |= 0x80;
        }
        self.absorb_buffers();
        self.states.squeeze(outs);
        self.states.clear();
    }
}

impl<E, const W: usize> Drop for Sponges<E, W> {
    fn drop(&mut self) {
        self.buffers.as_flattened_mut().zeroize();
    }
}

/// See [`super::hash_many`].
pub(super) fn hash<'m, 'o, E: Engine<W>, const W: usize, const PARTS: usize>(
    engine: E,
    function: Function,
    messages: impl Iterator<Item = ([&'m [u8]; PARTS], &'o mut [u8])>,
) {
    let mut messages = messages.peekable();
    let mut sponges = Sponges::new(engine, function);
    while let Some((first, out)) = messages.next() {
        let lengths = first.map(<[u8]>::len);
        // Lanes without a message of their own repeat the first.
        let mut group = [first; W];
        let mut outs: [&mut [u8]; W] = array::from_fn(|_| Default::default());
        outs[0] = out;
        let mut count = 1;
        while count < W
            && let Some((parts, out)) = messages.next_if(|(parts, _)| parts.map(<[u8]>::len) == lengths)
        {
            (group[count], outs[count]) = (parts, out);
            count += 1;
        }
        if count == 1 {
            // One state alone is permuted faster in general registers.
            portable::hash(function, &first, outs[0]);
            continue;
        }
        for part in 0..PARTS {
            sponges.update(&group.map(|parts| parts[part]));
        }
        sponges.finish(&mut outs[..count]);
    }
}

/// See [`super::stream_seeds_of`].
pub(super) fn stream_seeds<'a, E: Engine<W>, const W: usize>(
    engine: E,
    tag: u8,
    mut next: impl FnMut() -> (&'a [u8; 32], u32),
    out: &mut [[u8; STREAM_SEED_BYTES]],
) {
    let mut states = States::new();
    for out in out.chunks_mut(W) {
        if out.len() == 1 {
            portable::stream_seeds(tag, &mut next, out);
            continue;
        }
        // A message of 37 bytes and its padding are lanes 0 to 4 and the end of the block.
        states.clear();
        for j in 0..out.len() {
            let (seed, index) = next();
            for (lane, bytes) in states.lanes.iter_mut().zip(seed.as_chunks().0) {
                lane[j] = u64::from_le_bytes(*bytes);
            }
            states.lanes[4][j] = u64::from(tag) | u64::from(index) << 8 | u64::from(Function::Shake256.suffix()) << 40;
        }
        states.lanes[Function::Shake256.rate_bytes() / 8 - 1] = [1 << 63; W];
        engine.permute(&mut states);
        states.squeeze(out);
    }
}
