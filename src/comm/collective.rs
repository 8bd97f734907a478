//! Operations in which every rank takes part. All ranks must call the same ones in the same order.
//!
//! They are made of point-to-point messages of at most [`PIECE_BYTES`] per call, so that sizes are unbounded and a
//! silent rank is noticed. Wherever the receiver cannot know a length, it goes first, as 8 bytes, little-endian.

use super::{Comm, Incoming, Outgoing, PIECE_BYTES, TAG_COLLECTIVE};
use crate::error::{Error, Result};

/// Each function fails with [`Error::Mpi`] where a message fails or a rank falls silent.
impl Comm {
    /// Waits until every rank is here.
    ///
    /// # Errors
    /// As all operations of the module.
    pub fn barrier(&self) -> Result<()> {
        self.wait(self.transport.barrier()?).map(drop)
    }

    /// Gives every rank the bytes that rank 0 passes; what others pass is ignored.
    ///
    /// # Errors
    /// As all operations of the module.
    pub fn broadcast(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>> {
        // Binomial tree: r's parent is r without its lowest set bit b; its children are r + b/2, r + b/4, … r + 1.
        let (rank, size) = (self.rank(), self.size());
        let lowest = if rank == 0 { size.next_power_of_two() } else { 1 << rank.trailing_zeros() };
        if rank > 0 {
            let parent = rank - lowest;
            let length = self.recv_length(parent)?;
            bytes = self.post_recv(parent, TAG_COLLECTIVE, vec![0; length])?.wait(self)?;
        }
        let mut step = lowest / 2;
        while step > 0 {
            if rank + step < size {
                self.send_length(rank + step, bytes.len())?.wait(self)?;
                bytes = self.post_send(rank + step, TAG_COLLECTIVE, bytes)?.wait(self)?;
            }
            step /= 2;
        }
        Ok(bytes)
    }

    /// Gives rank 0 the bytes of every rank, by rank; `None` elsewhere. Rank 0 must have room for all of them at once:
    /// [`Self::gather_stream`] needs none.
    ///
    /// # Errors
    /// As all operations of the module.
    pub fn gather(&self, mine: &[u8]) -> Result<Option<Vec<Vec<u8>>>> {
        let mut all = vec![Vec::new(); if self.rank() == 0 { self.size() } else { 0 }];
        self.gather_stream(mine, |rank, piece| {
            all[rank].extend_from_slice(piece);
            Ok(())
        })?;
        Ok((self.rank() == 0).then_some(all))
    }

    /// Gives rank 0 the bytes of every rank in order: it calls `on_piece(rank, bytes)` with rank 0's own bytes from
    /// the start, then rank 1's, and so on, at most [`PIECE_BYTES`] at a time. A rank without bytes gets no call.
    /// No rank holds more than two pieces besides `mine`. Other ranks never call `on_piece`.
    ///
    /// # Errors
    /// As all operations of the module, and what `on_piece` returns.
    pub fn gather_stream(&self, mine: &[u8], mut on_piece: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
        if self.rank() > 0 {
            return self.stream_to_root(mine);
        }
        mine.chunks(PIECE_BYTES).try_for_each(|piece| on_piece(0, piece))?;
        let mut spare = Vec::new();
        for from in 1..self.size() {
            let mut left = self.recv_length(from)?;
            let mut post = |mut buffer: Vec<u8>| -> Result<Option<Incoming>> {
                let length = left.min(PIECE_BYTES);
                left -= length;
                buffer.resize(length, 0);
                if length == 0 { Ok(None) } else { self.post_recv(from, TAG_COLLECTIVE, buffer).map(Some) }
            };
            // The next piece travels while this one is used.
            let mut next = post(std::mem::take(&mut spare))?;
            while let Some(incoming) = next {
                let piece = incoming.wait(self)?;
                next = post(std::mem::take(&mut spare))?;
                on_piece(from, &piece)?;
                spare = piece;
            }
        }
        Ok(())
    }

    fn stream_to_root(&self, mine: &[u8]) -> Result<()> {
        self.send_length(0, mine.len())?.wait(self)?;
        let mut before: Option<Outgoing> = None;
        let mut spare = Vec::new();
        for piece in mine.chunks(PIECE_BYTES) {
            let mut buffer = std::mem::take(&mut spare);
            buffer.clear();
            buffer.extend_from_slice(piece);
            let sent = self.post_send(0, TAG_COLLECTIVE, buffer)?;
            if let Some(outgoing) = before.replace(sent) {
                spare = outgoing.wait(self)?;
            }
        }
        before.map_or(Ok(()), |outgoing| outgoing.wait(self).map(drop))
    }

    /// Sends `outgoing[r]` to rank r, for all r, and returns what each rank sent here, by rank. Lengths are free.
    ///
    /// # Errors
    /// As all operations of the module.
    ///
    /// # Panics
    /// Where there is not one vector per rank.
    pub fn all_to_all(&self, mut outgoing: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let (rank, size) = (self.rank(), self.size());
        assert_eq!(outgoing.len(), size, "one vector per rank");
        let mut incoming = vec![Vec::new(); size];
        incoming[rank] = std::mem::take(&mut outgoing[rank]);
        for step in 1..size {
            let (to, from) = ((rank + step) % size, (rank + size - step) % size);
            let bytes = std::mem::take(&mut outgoing[to]);
            let length_sent = self.send_length(to, bytes.len())?;
            let sent = self.post_send(to, TAG_COLLECTIVE, bytes)?;
            let length = self.recv_length(from)?;
            incoming[from] = self.post_recv(from, TAG_COLLECTIVE, vec![0; length])?.wait(self)?;
            length_sent.wait(self)?;
            sent.wait(self)?;
        }
        Ok(incoming)
    }

    /// The largest value that any rank passes; the same on every rank.
    pub(super) fn max_i32(&self, mine: i32) -> Result<i32> {
        let mut most = mine;
        self.gather_stream(&mine.to_le_bytes(), |_, piece| {
            most = most.max(i32::from_le_bytes(fixed(piece)?));
            Ok(())
        })?;
        Ok(i32::from_le_bytes(fixed(&self.broadcast(most.to_le_bytes().to_vec())?)?))
    }

    fn send_length(&self, to: usize, length: usize) -> Result<Outgoing> {
        self.post_send(to, TAG_COLLECTIVE, (length as u64).to_le_bytes().to_vec())
    }

    fn recv_length(&self, from: usize) -> Result<usize> {
        let bytes = self.post_recv(from, TAG_COLLECTIVE, vec![0; 8])?.wait(self)?;
        let length = u64::from_le_bytes(fixed(&bytes)?);
        usize::try_from(length).map_err(|_| Error::Mpi(format!("rank {from} announces {length} bytes")))
    }
}

fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N]> {
    bytes.try_into().map_err(|_| Error::Mpi(format!("a message of {} bytes where {N} are due", bytes.len())))
}
