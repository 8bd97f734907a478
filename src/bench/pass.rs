//! One pass over the workload, phase after phase, timed.
//!
//! A barrier starts each phase on all ranks together. Of each phase a rank knows two times: its `busy_s`, the time at
//! the phase's own work, and its `window_s`, from the common start to its own end, in which staging and messages of
//! other phases overlap. Ciphertexts travel while later batches compute; what of the travelling is not hidden behind
//! computation counts as the exchange's.

use std::{ops::Range, time::Instant};

use serde::{Deserialize, Serialize};

use zeroize::Zeroizing;

use super::{
    drill::Drill,
    keys::KeyStore,
    plan::{BatchSpec, Plan},
    verify::Records,
    workload::{Exchange, Workload},
};
use crate::{
    comm::{Comm, Incoming, Outgoing},
    error::Result,
    schemes::{Kem, Sizes},
};

const TAG_EK: u16 = 1;
const TAG_C: u16 = 2;

/// A rank's times in one phase of one pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PhaseTime {
    /// At the phase's own work.
    pub busy_s: f64,
    /// From the common start to this rank's end, of each round in turn.
    pub windows_s: Vec<f64>,
}

impl PhaseTime {
    fn add_window(&mut self, start: Instant) {
        self.windows_s.push(start.elapsed().as_secs_f64());
    }

    /// Times `work` as the phase's own.
    fn busy<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = Instant::now();
        let result = work();
        self.busy_s += start.elapsed().as_secs_f64();
        result
    }
}

/// A rank's times of one pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PassTimes {
    /// Key generation. One operation: a key.
    pub keygen: PhaseTime,
    /// Encapsulation, with loading the keys encapsulated to where they are not resident.
    pub encaps: PhaseTime,
    /// Staging and messages that no computation hides, without waiting for slower ranks; the window is the same.
    pub exchange: PhaseTime,
    /// Decapsulation, with loading the keys where they are not resident.
    pub decaps: PhaseTime,
    /// The whole pass.
    pub total: PhaseTime,
    /// Bytes that this rank sent to another.
    pub sent_bytes: u64,
}

/// One rank's part in the passes, with every buffer that they need.
pub struct Runner<'a, K: Kem> {
    kem: &'a K,
    comm: &'a Comm,
    workload: &'a Workload,
    plan: Plan,
    drill: Option<&'a Drill>,
    sizes: Sizes,
    /// The keys that this rank owns and decapsulates with.
    own: Range<usize>,
    /// The keys that this rank encapsulates to.
    peer: Range<usize>,
    keys: KeyStore<K::Keys>,
    batch: K::Batch,
    /// The digests of the batch's ciphertexts, read back.
    digests: Vec<u8>,
    /// The batch's secrets, read back. Secret.
    secrets: Zeroizing<Vec<u8>>,
    /// Buffers that came back from messages.
    spare: Vec<Vec<u8>>,
    /// What encapsulation gave for the peer's keys.
    pub encapsulated: Records,
    /// What decapsulation gave for the own keys.
    pub decapsulated: Records,
}

impl<'a, K: Kem> Runner<'a, K> {
    /// Allocates everything.
    ///
    /// # Errors
    /// The device's.
    pub fn new(
        kem: &'a K,
        comm: &'a Comm,
        workload: &'a Workload,
        plan: Plan,
        drill: Option<&'a Drill>,
    ) -> Result<Self> {
        let (rank, ranks) = (comm.rank(), comm.size());
        let own = workload.shard(rank, ranks);
        let peer = match workload.exchange {
            Exchange::Ring => workload.shard(previous(comm), ranks),
            Exchange::None => own.clone(),
        };
        let keys = KeyStore::new(kem, &plan, own.len(), workload.exchange == Exchange::Ring)?;
        let per_key = workload.encaps_per_key;
        Ok(Runner {
            kem,
            comm,
            workload,
            plan,
            drill,
            sizes: kem.sizes(),
            encapsulated: Records::new(peer.len(), per_key),
            decapsulated: Records::new(own.len(), per_key),
            own,
            peer,
            keys,
            batch: kem.batch(plan.batch_items())?,
            digests: Vec::with_capacity(plan.batch_items() * kem.sizes().digest),
            secrets: Zeroizing::new(Vec::with_capacity(plan.batch_items() * kem.sizes().k)),
            spare: Vec::new(),
        })
    }

    /// The keys that this rank owns.
    pub fn own(&self) -> Range<usize> {
        self.own.clone()
    }

    /// The keys that this rank encapsulates to.
    pub fn peer(&self) -> Range<usize> {
        self.peer.clone()
    }

    /// One pass: fills both records.
    ///
    /// # Errors
    /// The device's, the scheme's and MPI's.
    pub fn pass(&mut self) -> Result<PassTimes> {
        let mut times = PassTimes::default();
        self.encapsulated.clear();
        self.decapsulated.clear();
        self.enter("keygen")?;
        let start = Instant::now();
        let eks = self.keygen(&mut times)?;
        times.keygen.add_window(start);

        self.enter("exchange")?;
        let peer_eks = self.exchange_keys(eks, &mut times)?;
        for round in 0..self.plan.rounds {
            self.enter("encaps")?;
            let phase_start = Instant::now();
            let messages = self.encaps(round, &peer_eks, &mut times)?;
            times.encaps.add_window(phase_start);

            // The wait for a slower rank is not the exchange's.
            self.comm.set_phase("exchange");
            self.comm.barrier()?;
            let received = self.arrive(messages, &mut times)?;

            self.enter("decaps")?;
            let phase_start = Instant::now();
            self.decaps(round, received, &mut times)?;
            times.decaps.add_window(phase_start);
        }
        times.total.add_window(start);
        times.total.busy_s = times.total.windows_s[0];
        times.exchange.windows_s = vec![times.exchange.busy_s];
        Ok(times)
    }

    /// Names the phase, meets all ranks, and fails where the drill says so.
    fn enter(&mut self, phase: &'static str) -> Result<()> {
        self.comm.set_phase(phase);
        self.drill.map_or(Ok(()), |drill| drill.strike(phase, self.comm.rank()))?;
        self.comm.barrier()
    }

    /// Makes the own keys and returns their encapsulation keys where they are to be sent.
    fn keygen(&mut self, times: &mut PassTimes) -> Result<Vec<u8>> {
        let ring = self.workload.exchange == Exchange::Ring;
        let mut eks = Vec::with_capacity(if ring { self.own.len() * self.sizes.ek } else { 0 });
        for (group, (first, keys)) in self.plan.groups(self.own.len()).enumerate() {
            let range = self.own.start + first..self.own.start + first + keys;
            let kem = self.kem;
            let coins = self.workload.keygen_coins(range, self.sizes.keygen_coins);
            let made = times.keygen.busy(|| self.keys.make(kem, group, &coins))?;
            times.exchange.busy(|| {
                if ring {
                    eks.extend_from_slice(&kem.ek(made)?);
                }
                Ok(())
            })?;
            self.comm.progress()?;
        }
        Ok(eks)
    }

    /// Sends the own encapsulation keys on and receives the peer's.
    fn exchange_keys(&mut self, eks: Vec<u8>, times: &mut PassTimes) -> Result<Vec<u8>> {
        if self.workload.exchange == Exchange::None {
            return Ok(eks);
        }
        let next = next(self.comm);
        times.sent_bytes += if next == self.comm.rank() { 0 } else { eks.len() as u64 };
        self.keys.forget_peer();
        times.exchange.busy(|| {
            let peer_eks = vec![0; self.peer.len() * self.sizes.ek];
            let incoming = self.comm.recv(previous(self.comm), TAG_EK, peer_eks)?;
            let outgoing = self.comm.send(next, TAG_EK, eks)?;
            let peer_eks = incoming.wait(self.comm)?;
            outgoing.wait(self.comm)?;
            Ok(peer_eks)
        })
    }

    /// Encapsulates a round's batches to the peer's keys and sends each as soon as it is there.
    fn encaps(&mut self, round: usize, peer_eks: &[u8], times: &mut PassTimes) -> Result<Messages> {
        let per_key = self.workload.encaps_per_key;
        let mut messages = Messages::default();
        let (previous, next) = (previous(self.comm), next(self.comm));
        if self.workload.exchange == Exchange::Ring {
            for spec in self.plan.round(round, self.own.len(), per_key) {
                let mut buffer = self.spare.pop().unwrap_or_default();
                buffer.resize(spec.keys * spec.items * self.sizes.c, 0);
                messages.incoming.push(self.comm.recv(next, TAG_C, buffer)?);
            }
        }
        for spec in self.plan.round(round, self.peer.len(), per_key) {
            let first = self.peer.start + spec.first_key;
            let items = spec.first_item..spec.first_item + spec.items;
            let coins = self.workload.encaps_coins(first..first + spec.keys, items, self.sizes.encaps_coins);
            times.encaps.busy(|| {
                let keys = match self.workload.exchange {
                    Exchange::Ring => {
                        let eks = &peer_eks[spec.first_key * self.sizes.ek..][..spec.keys * self.sizes.ek];
                        self.keys.peer(self.kem, spec.group, eks)?
                    }
                    Exchange::None => self.keys.own(self.kem, spec.group)?,
                };
                self.kem.encaps_derand(keys, &coins, &mut self.batch)?;
                self.kem.read_digests(&self.batch, &mut self.digests)?;
                self.kem.read_secrets(&self.batch, &mut self.secrets)?;
                self.encapsulated.store(&spec, &self.digests, &self.secrets);
                Ok(())
            })?;
            times.exchange.busy(|| {
                let mut c = self.spare.pop().unwrap_or_default();
                self.kem.c(&self.batch, &mut c)?;
                match self.workload.exchange {
                    Exchange::Ring => {
                        times.sent_bytes += if previous == self.comm.rank() { 0 } else { c.len() as u64 };
                        messages.outgoing.push(self.comm.send(previous, TAG_C, c)?);
                    }
                    Exchange::None => messages.kept.push(c),
                }
                self.comm.progress()
            })?;
        }
        Ok(messages)
    }

    /// Waits for a round's messages and gives the ciphertexts for the own keys, batch by batch.
    fn arrive(&mut self, messages: Messages, times: &mut PassTimes) -> Result<Vec<Vec<u8>>> {
        times.exchange.busy(|| {
            let mut received = messages.kept;
            for incoming in messages.incoming {
                received.push(incoming.wait(self.comm)?);
            }
            for outgoing in messages.outgoing {
                self.spare.push(outgoing.wait(self.comm)?);
            }
            Ok(received)
        })
    }

    /// Decapsulates a round's ciphertexts.
    fn decaps(&mut self, round: usize, received: Vec<Vec<u8>>, times: &mut PassTimes) -> Result<()> {
        let specs = self.plan.round(round, self.own.len(), self.workload.encaps_per_key);
        for (spec, c) in specs.iter().zip(received) {
            times.exchange.busy(|| self.kem.load_c(&c, &mut self.batch))?;
            self.spare.push(c);
            times.decaps.busy(|| {
                let keys = self.keys.own(self.kem, spec.group)?;
                self.kem.decaps(keys, &mut self.batch)?;
                self.kem.read_digests(&self.batch, &mut self.digests)?;
                self.kem.read_secrets(&self.batch, &mut self.secrets)?;
                let flips = self.drill.is_some_and(|drill| drill.flips(self.comm.rank()));
                if flips && (spec.first_key, spec.first_item) == (0, 0) {
                    self.secrets[0] ^= 1;
                }
                self.decapsulated.store(spec, &self.digests, &self.secrets);
                Ok(())
            })?;
            self.comm.progress()?;
        }
        Ok(())
    }
}

/// The ciphertexts of a round on their way.
#[derive(Default)]
struct Messages {
    incoming: Vec<Incoming>,
    outgoing: Vec<Outgoing>,
    /// Those that stay on this rank.
    kept: Vec<Vec<u8>>,
}

/// The rank that this rank's keys go to.
pub(super) fn next(comm: &Comm) -> usize {
    (comm.rank() + 1) % comm.size()
}

/// The rank whose keys come to this rank.
pub(super) fn previous(comm: &Comm) -> usize {
    (comm.rank() + comm.size() - 1) % comm.size()
}

impl BatchSpec {
    /// The key and encapsulation of each item of the batch, counted from the shard's start, in the batch's order.
    pub fn items(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let BatchSpec { first_key, keys, first_item, items, .. } = *self;
        (first_key..first_key + keys).flat_map(move |key| (first_item..first_item + items).map(move |item| (key, item)))
    }
}
