//! Signs of life. Every rank tells rank 0 that it lives, and rank 0 tells every rank: an empty message every eighth of
//! the time-out, sent from inside waits and `progress`. A rank that shows none for longer than the time-out is given
//! up, whether it is stopped, killed or cut off: a dead link alone shows no error for minutes.
//!
//! A rank judges others by a clock that runs only while it looks: a gap between two looks, however long, counts as at
//! most a quarter of the time-out, and what has arrived is taken before judging. So a rank that was busy or suspended
//! itself raises no false alarm.

use std::time::{Duration, Instant};

use super::{Pending, TAG_PULSE, Transport};
use crate::error::Result;

/// What one rank knows of the lives of others.
pub(super) struct Pulse {
    rank: usize,
    /// Rank 0's peers are all others, in order; everyone else's is rank 0 alone.
    peers: Vec<Peer>,
    period: Duration,
    /// Silence beyond this is death.
    patience: Duration,
    last_round: Instant,
    /// The clock that runs only while this rank looks.
    watched: Duration,
    /// This rank says goodbye instead of giving further signs.
    leaving: bool,
}

struct Peer {
    rank: usize,
    /// Time of `Pulse::watched` at which it last showed a sign of life.
    heard: Duration,
    /// The last sign that went to it: there is never more than one on its way.
    sign: Option<Box<dyn Pending>>,
    /// It has received this rank's goodbye, or will.
    told: bool,
    /// It has said goodbye: nothing more will come from it.
    gone: bool,
}

impl Pulse {
    pub(super) fn new(rank: usize, size: usize, timeout: Duration) -> Pulse {
        let peers = if rank == 0 { 1..size } else { 0..1 };
        Pulse {
            rank,
            peers: peers
                .map(|rank| Peer { rank, heard: Duration::ZERO, sign: None, told: false, gone: false })
                .collect(),
            period: timeout / 8,
            // Where rank 0 falls silent, rank 1 says so, and the others only if rank 1 does not.
            patience: if rank < 2 { timeout } else { timeout.saturating_mul(5) / 4 },
            last_round: Instant::now(),
            watched: Duration::ZERO,
            leaving: false,
        }
    }

    /// A message from `rank` arrived.
    pub(super) fn heard(&mut self, rank: usize) {
        let now = self.watched;
        if let Some(peer) = self.peer(rank) {
            peer.heard = now;
        }
    }

    fn peer(&mut self, rank: usize) -> Option<&mut Peer> {
        let index = if self.rank == 0 { rank.checked_sub(1)? } else { rank };
        self.peers.get_mut(index)
    }

    /// Takes what has come, sends what is due, and returns a peer that has been silent for too long.
    pub(super) fn poll(&mut self, transport: &dyn Transport) -> Result<Option<usize>> {
        let elapsed = self.last_round.elapsed();
        let due = elapsed >= self.period;
        if due {
            self.watched += elapsed.min(2 * self.period);
            self.last_round += elapsed;
        }
        while let Some((rank, bytes)) = transport.take_pulse()? {
            self.heard(rank);
            if let Some(peer) = self.peer(rank)
                && bytes > 0
            {
                peer.gone = true;
            }
        }
        if !due {
            return Ok(None);
        }
        if !self.leaving {
            for peer in &mut self.peers {
                if peer.sent()? {
                    peer.sign = Some(transport.send(peer.rank, TAG_PULSE, Vec::new())?);
                }
            }
        }
        let silent = |peer: &&Peer| !peer.gone && self.watched - peer.heard > self.patience;
        Ok(self.peers.iter().find(silent).map(|peer| peer.rank))
    }

    /// From here on this rank gives no further signs of life, only one goodbye to each peer.
    pub(super) fn say_goodbye(&mut self) {
        self.leaving = true;
    }

    /// Moves the goodbyes along. True once every peer's has come and every one of this rank's is sent: then no sign
    /// of life is on its way any more.
    pub(super) fn is_over(&mut self, transport: &dyn Transport) -> Result<bool> {
        let mut over = true;
        for peer in &mut self.peers {
            if peer.sent()? && !peer.told {
                peer.sign = Some(transport.send(peer.rank, TAG_PULSE, vec![1])?);
                peer.told = true;
            }
            over &= peer.sent()? && peer.told && peer.gone;
        }
        Ok(over)
    }
}

impl Peer {
    /// Whether nothing is on its way to this peer.
    fn sent(&mut self) -> Result<bool> {
        if let Some(sign) = &mut self.sign {
            if !sign.test()? {
                return Ok(false);
            }
            self.sign = None;
        }
        Ok(true)
    }
}
