//! How a workload is cut: keys into groups, encapsulations into batches, batches into rounds that fit memory.
//!
//! All ranks follow one plan, so that a key's owner and its encapsulator cut the same batches. Every share of memory
//! below is of what the host has free when the run starts, divided by the host's ranks.

use super::workload::Workload;
use crate::{
    comm::Comm,
    error::{Error, Result},
    schemes::Kem,
};

/// What `--batch auto` fills, in bytes: enough work for many threads, little enough to stay near the caches.
const BATCH_TARGET_BYTES: u64 = 64 << 20;
/// One in so many parts of a rank's memory may hold the keys that stay resident, …
const RESIDENT_PART: u64 = 3;
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

impl Plan {
    /// The plan for `workload` that every rank can follow.
    ///
    /// # Errors
    /// [`Error::Device`] where not even one key and one encapsulation fit this rank's memory; MPI's.
    pub fn agree<K: Kem>(kem: &K, comm: &Comm, workload: &Workload) -> Result<Plan> {
        let sizes = kem.sizes();
        let own = workload.shard(comm.rank(), comm.size()).len();
        let share = kem.device().available_bytes / comm.local_size() as u64;
        let least_needed = 2 * kem.keys_bytes(1) + kem.batch_bytes(1) + 2 * sizes.c as u64;
        if least_needed > share {
            let advice = "use a smaller n or fewer ranks on this host";
            return Err(short_of_memory(kem, "one key and one encapsulation", least_needed.into(), share, advice));
        }
        // What every item and key takes on the host: results of both sides, faults, tickets of the search for repeats;
        // keys of both sides.
        let items = own as u128 * workload.encaps_per_key as u128;
        let bookkeeping = items * ITEM_BYTES as u128 + own as u128 * (3 * sizes.ek + 2 * sizes.dk) as u128;
        let target = BATCH_TARGET_BYTES.min(share / BATCH_PART);
        let (item_bytes, key_bytes) = (kem.batch_bytes(1), kem.keys_bytes(1));
        // Groups of keys fill the same target.
        let fitting_keys = (target / key_bytes).max(1);
        let batch = workload.batch.map_or((target / item_bytes).max(1), |batch| batch as u64);
        let round_bytes = share / ROUND_PART;
        let resident = own as u128 * u128::from(key_bytes) <= u128::from(share / RESIDENT_PART);

        // The least of every rank, so that all follow one plan.
        let mine = [batch, fitting_keys, round_bytes, u64::from(resident)];
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
        let &[batch, fitting_keys, round_bytes, resident] = &agreed[..] else {
            return Err(Error::Mpi("a plan of another length came from rank 0".into()));
        };
        let most_keys = workload.keys.div_ceil(comm.size());
        let round_items = round_bytes / sizes.c as u64;
        let plan = Plan::new(workload, most_keys, batch as usize, fitting_keys as usize, round_items, resident == 1);
        let batch_bytes = plan.batch_items() as u128 * u128::from(item_bytes + 2 * sizes.c as u64);
        let needed = u128::from(least_needed) + bookkeeping + batch_bytes;
        if needed > u128::from(share) {
            let encaps = workload.encaps_per_key;
            return Err(short_of_memory(
                kem,
                &format!("{own} keys with {encaps} encapsulations each, in batches of {},", plan.batch_items()),
                needed,
                share,
                "use fewer keys or encapsulations, a smaller --batch, or more hosts",
            ));
        }
        Ok(plan)
    }

    /// The cut where no rank owns more than `most_keys` keys, a call takes at most `batch` encapsulations and
    /// `fitting_keys` keys, and a round at most `round_items` ciphertexts (or one batch).
    pub fn new(
        workload: &Workload,
        most_keys: usize,
        batch: usize,
        fitting_keys: usize,
        round_items: u64,
        resident: bool,
    ) -> Plan {
        let per_key = workload.encaps_per_key;
        let keys_per_group = (batch / per_key).clamp(1, fitting_keys.max(1)).min(most_keys.max(1));
        let items_per_batch = per_key.min((batch / keys_per_group).max(1));
        let batches = most_keys.div_ceil(keys_per_group).saturating_mul(per_key.div_ceil(items_per_batch));
        let per_round = (round_items / (keys_per_group * items_per_batch) as u64).max(1);
        let batches_per_round = usize::try_from(per_round).unwrap_or(batches).min(batches.max(1));
        Plan {
            keys_per_group,
            items_per_batch,
            batches_per_round,
            rounds: batches.div_ceil(batches_per_round),
            resident,
        }
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
            keys in 0usize..20, extra in 0usize..3, per_key in 1usize..20, batch in 1usize..50,
            fitting in 1usize..30, round_items in 0u64..200,
        ) {
            let workload = Workload {
                keys: 100, encaps_per_key: per_key, exchange: Exchange::Ring, warmup: 0, repeat: 1, batch: None, seed: [0; 32],
            };
            let plan = Plan::new(&workload, keys + extra, batch, fitting, round_items, true);
            let mut seen = vec![0; keys * per_key];
            for round in 0..plan.rounds {
                let batches = plan.round(round, keys, per_key);
                prop_assert!(batches.len() <= plan.batches_per_round);
                for spec in batches {
                    prop_assert!(spec.keys * spec.items <= plan.batch_items() && plan.batch_items() <= batch.max(1));
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
