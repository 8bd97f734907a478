//! How a workload is cut: keys into groups, encapsulations into batches, batches into rounds that fit memory.
//!
//! All ranks follow one plan, so that a key's owner and its encapsulator cut the same batches. What it takes is
//! computed, and refused where it does not fit, before anything is allocated. Every share of memory below is of what
//! the host has free when the run starts, divided by the host's ranks.

use super::workload::{Exchange, Workload};
use crate::{
    comm::Comm,
    error::{Error, Result},
    schemes::Kem,
};

/// What `--batch auto` fills, in bytes: enough work for many threads, little enough to stay near the caches.
const BATCH_TARGET_BYTES: u64 = 64 << 20;
/// What the ciphertexts of a round fill, in bytes: enough to hide their messages, little beside a large matrix.
const ROUND_TARGET_BYTES: u64 = 128 << 20;
/// One in so many parts of a rank's memory may hold keys, where own ones stay resident, …
const RESIDENT_PART: u64 = 8;
/// …, the ciphertexts of a round, …
const ROUND_PART: u64 = 4;
/// … and the batch.
const BATCH_PART: u64 = 8;

/// The cut that all ranks follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Keys handled in one call.
    pub keys_per_group: usize,
    /// Encapsulations to each of them in one call.
    pub items_per_batch: usize,
    /// Batches between two barriers.
    pub batches_per_round: usize,
    /// Rounds of a pass.
    pub rounds: usize,
    /// Whether each rank's own keys stay on its device with their matrices.
    pub resident: bool,
}

/// Some encapsulations to some keys of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSpec {
    /// The group of keys, counted from the shard's start.
    pub group: usize,
    /// The first key, counted from the shard's start.
    pub first_key: usize,
    /// How many keys.
    pub keys: usize,
    /// The first encapsulation to each key.
    pub first_item: usize,
    /// How many encapsulations to each key.
    pub items: usize,
}

/// Host memory of one encapsulation's results: 64 bytes on either side, two for faults, and two tickets of 24 bytes
/// with their sorting.
const ITEM_BYTES: usize = 2 * 64 + 2 + 4 * 24;

fn short_of_memory<K: Kem>(kem: &K, what: &str, needed: u128, share: u64, advice: &str) -> Error {
    let gigabytes = |bytes: f64| bytes / 1e9;
    Error::Device {
        device: kem.device().name,
        operation: "plan memory",
        message: format!(
            "{what} take {:.2} GB; this rank's share of the free memory is {:.2} GB: {advice}",
            gigabytes(needed as f64),
            gigabytes(share as f64)
        ),
    }
}

/// What a cut may not exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Encapsulations in one call.
    pub batch: u64,
    /// Keys in one call.
    pub keys: u64,
    /// Ciphertexts of a round, where it is more than one batch.
    pub round_items: u64,
    /// Keys on the device at once, where own keys stay there.
    pub resident_keys: u64,
}

impl Limits {
    /// The limits of a rank whose share of memory is `share` bytes.
    fn new<K: Kem>(kem: &K, workload: &Workload, share: u64) -> Limits {
        let target = BATCH_TARGET_BYTES.min(share / BATCH_PART);
        // A batch has fixed costs too.
        let first_item = kem.batch_bytes(1);
        let next_item = (kem.batch_bytes(2) - first_item).max(1);
        let batch = 1 + target.saturating_sub(first_item) / next_item;
        let key_bytes = kem.keys_bytes(1);
        Limits {
            batch: workload.batch.map_or(batch, |batch| batch as u64),
            // Groups of keys fill the same target.
            keys: (target / key_bytes).max(1),
            round_items: ROUND_TARGET_BYTES.min(share / ROUND_PART) / kem.sizes().c as u64,
            resident_keys: share / RESIDENT_PART / key_bytes,
        }
    }

    /// The least of every rank's, so that all follow one plan.
    fn agree(self, comm: &Comm) -> Result<Limits> {
        let Limits { batch, keys, round_items, resident_keys } = self;
        let [batch, keys, round_items, resident_keys] = least_of_all(comm, [batch, keys, round_items, resident_keys])?;
        Ok(Limits { batch, keys, round_items, resident_keys })
    }
}

/// The least of what all ranks pass, number by number.
fn least_of_all<const N: usize>(comm: &Comm, mine: [u64; N]) -> Result<[u64; N]> {
    let least = comm.gather(&mine.map(u64::to_le_bytes).concat())?.map(|all| {
        let mut least = mine;
        for other in &all {
            for (least, other) in least.iter_mut().zip(other.as_chunks::<8>().0) {
                *least = (*least).min(u64::from_le_bytes(*other));
            }
        }
        least.map(u64::to_le_bytes).concat()
    });
    let agreed = comm.broadcast(least.unwrap_or_default())?;
    let agreed: Vec<u64> = agreed.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    agreed.try_into().map_err(|_| Error::Mpi("a plan of another length came from rank 0".into()))
}

/// This rank's share of its host's free memory, in bytes.
fn memory_share<K: Kem>(kem: &K, comm: &Comm) -> u64 {
    kem.device().available_bytes / comm.local_size() as u64
}

/// What one key and one encapsulation take, in bytes, with the ciphertext on its way out and in.
fn least_bytes<K: Kem>(kem: &K) -> u64 {
    kem.keys_bytes(1) + kem.batch_bytes(1) + 2 * kem.sizes().c as u64
}

impl Plan {
    /// Whether every rank has the memory for the whole workload; all ranks learn the same.
    ///
    /// # Errors
    /// MPI's.
    pub fn fits<K: Kem>(kem: &K, comm: &Comm, workload: &Workload) -> Result<bool> {
        let (_, shortage) = Plan::cut(kem, comm, workload)?;
        least_of_all(comm, [u64::from(shortage.is_none())]).map(|[all]| all == 1)
    }

    /// The plan for `workload` that every rank can follow.
    ///
    /// # Errors
    /// [`Error::Device`] where not even one key and one encapsulation fit this rank's memory, or the workload's keys,
    /// batches and results do not; MPI's.
    pub fn agree<K: Kem>(kem: &K, comm: &Comm, workload: &Workload) -> Result<Plan> {
        let (plan, shortage) = Plan::cut(kem, comm, workload)?;
        shortage.map_or(Ok(plan), Err)
    }

    /// The plan that all ranks agree on, and what this one lacks to follow it.
    fn cut<K: Kem>(kem: &K, comm: &Comm, workload: &Workload) -> Result<(Plan, Option<Error>)> {
        let share = memory_share(kem, comm);
        let limits = Limits::new(kem, workload, share).agree(comm)?;
        let plan = Plan::new(workload, workload.keys.div_ceil(comm.size()), &limits);
        let least = least_bytes(kem);
        if least > share {
            let advice = "use a smaller n, --matrix regenerated, or fewer ranks on this host";
            let shortage = short_of_memory(kem, "one key and one encapsulation", least.into(), share, advice);
            return Ok((plan, Some(shortage)));
        }
        let own = workload.shard(comm.rank(), comm.size()).len();
        let needed = plan.bytes(kem, workload, own, share);
        let shortage = (needed > u128::from(share)).then(|| {
            let encaps = workload.encaps_per_key;
            short_of_memory(
                kem,
                &format!("{own} keys with {encaps} encapsulations each, in batches of {},", plan.batch_items()),
                needed,
                share,
                "use fewer keys or encapsulations, a smaller --batch, --matrix regenerated, or more hosts",
            )
        });
        Ok((plan, shortage))
    }

    /// The cut where no rank owns more than `most_keys` keys.
    pub fn new(workload: &Workload, most_keys: usize, limits: &Limits) -> Plan {
        let per_key = workload.encaps_per_key;
        let batch = usize::try_from(limits.batch).unwrap_or(usize::MAX);
        let fitting_keys = usize::try_from(limits.keys).unwrap_or(usize::MAX);
        let keys_per_group = (batch / per_key).clamp(1, fitting_keys.max(1)).min(most_keys.max(1));
        let items_per_batch = per_key.min((batch / keys_per_group).max(1));
        let batches = most_keys.div_ceil(keys_per_group).saturating_mul(per_key.div_ceil(items_per_batch));
        let per_round = (limits.round_items / (keys_per_group * items_per_batch) as u64).max(1);
        let batches_per_round = usize::try_from(per_round).unwrap_or(batches).min(batches.max(1));
        let resident = match workload.exchange {
            Exchange::Ring => most_keys as u128 + keys_per_group as u128 <= u128::from(limits.resident_keys),
            // One group takes as much where it stays as where it is loaded.
            Exchange::None => most_keys as u64 <= limits.resident_keys || most_keys <= keys_per_group,
        };
        Plan {
            keys_per_group,
            items_per_batch,
            batches_per_round,
            rounds: batches.div_ceil(batches_per_round),
            resident,
        }
    }

    /// What a rank with `own` keys takes that follows the plan, in bytes; what is far above `share` is not exact.
    fn bytes<K: Kem>(&self, kem: &K, workload: &Workload, own: usize, share: u64) -> u128 {
        let sizes = kem.sizes();
        let slot = if self.resident && workload.exchange == Exchange::None { 0 } else { self.keys_per_group };
        let keys = if self.resident { own } else { 0 } as u128 + slot as u128;
        // Its ciphertexts alone may be more than any memory, and more than the scheme can count.
        let batch = self.batch_items() as u128 * sizes.c as u128;
        let batch = if batch > u128::from(share) { batch } else { kem.batch_bytes(self.batch_items()).into() };
        // The ciphertexts of a round go both ways.
        let items = own as u128 * workload.encaps_per_key as u128;
        let round = items.min(self.batches_per_round as u128 * self.batch_items() as u128) * 2 * sizes.c as u128;
        // Results of both sides, faults, tickets of the search for repeats; keys of both sides as bytes.
        let host = items * ITEM_BYTES as u128 + own as u128 * (3 * sizes.ek + 2 * sizes.dk) as u128;
        keys * u128::from(kem.keys_bytes(1)) + batch + round + host
    }

    /// Encapsulations in a full batch.
    pub fn batch_items(&self) -> usize {
        self.keys_per_group * self.items_per_batch
    }

    /// The groups of a shard of `keys` keys: first key and number of keys.
    pub fn groups(&self, keys: usize) -> impl Iterator<Item = (usize, usize)> + use<> {
        let size = self.keys_per_group;
        (0..keys).step_by(size).map(move |first| (first, size.min(keys - first)))
    }

    /// The batches of a round over a shard of `keys` keys with `per_key` encapsulations each.
    pub fn round(&self, round: usize, keys: usize, per_key: usize) -> Vec<BatchSpec> {
        let size = self.items_per_batch;
        self.groups(keys)
            .enumerate()
            .flat_map(|(group, (first_key, keys))| {
                (0..per_key).step_by(size).map(move |first_item| {
                    let items = size.min(per_key - first_item);
                    BatchSpec { group, first_key, keys, first_item, items }
                })
            })
            .skip(round * self.batches_per_round)
            .take(self.batches_per_round)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::workload::Exchange;
    use proptest::prelude::*;

    proptest! {
        /// Every item of every shard is in exactly one batch of one round, whatever the cut.
        #[test]
        fn rounds_cover_every_item_once(
            keys in 0usize..20, extra in 0usize..3, per_key in 1usize..20, batch in 1u64..50,
            fitting in 1u64..30, round_items in 0u64..200,
        ) {
            let workload = Workload {
                keys: 100, encaps_per_key: per_key, exchange: Exchange::Ring, warmup: 0, repeat: 1, batch: None, seed: [0; 32],
            };
            let limits = Limits { batch, keys: fitting, round_items, resident_keys: 0 };
            let plan = Plan::new(&workload, keys + extra, &limits);
            let mut seen = vec![0; keys * per_key];
            for round in 0..plan.rounds {
                let batches = plan.round(round, keys, per_key);
                prop_assert!(batches.len() <= plan.batches_per_round);
                for spec in batches {
                    prop_assert!(spec.keys * spec.items <= plan.batch_items() && plan.batch_items() as u64 <= batch);
                    prop_assert_eq!(spec.first_key, spec.group * plan.keys_per_group);
                    for key in spec.first_key..spec.first_key + spec.keys {
                        for item in spec.first_item..spec.first_item + spec.items {
                            seen[key * per_key + item] += 1;
                        }
                    }
                }
            }
            prop_assert!(seen.iter().all(|&times| times == 1));
        }
    }
}
