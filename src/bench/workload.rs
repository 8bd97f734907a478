//! What a run does, and the coins of every item of it.

use std::ops::Range;

use zeroize::Zeroizing;

use crate::hash::shake256;

/// How encapsulations meet their keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Exchange {
    /// Rank r's keys go to rank r + 1, which encapsulates to them and sends the ciphertexts back.
    #[default]
    Ring,
    /// Every rank encapsulates to its own keys; nothing is sent.
    None,
}

/// A workload: the same items, and so the same results, for any number of ranks, threads and batches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Keys of all ranks together; at least 1.
    pub keys: usize,
    /// Encapsulations to each key; at least 1.
    pub encaps_per_key: usize,
    /// How encapsulations meet their keys.
    pub exchange: Exchange,
    /// Passes before the measured ones.
    pub warmup: usize,
    /// Measured passes; at least 1.
    pub repeat: usize,
    /// Encapsulations in one call of the scheme; none: chosen by memory.
    pub batch: Option<usize>,
    /// All coins derive from this.
    pub seed: [u8; 32],
}

impl Workload {
    /// The keys that `rank` of `ranks` owns: contiguous shards in the order of ranks, their sizes differing by one at
    /// most.
    pub fn shard(&self, rank: usize, ranks: usize) -> Range<usize> {
        let bound = |rank: usize| (self.keys as u128 * rank as u128 / ranks as u128) as usize;
        bound(rank)..bound(rank + 1)
    }

    /// The coins of key generation for some keys, `len` bytes each: SHAKE256(seed ‖ "key" ‖ LE64(key)). Secret.
    pub fn keygen_coins(&self, keys: Range<usize>, len: usize) -> Zeroizing<Vec<u8>> {
        let mut coins = Zeroizing::new(vec![0; keys.len() * len]);
        for (key, coins) in keys.zip(coins.chunks_exact_mut(len)) {
            shake256(&[&self.seed, b"key", &(key as u64).to_le_bytes()], coins);
        }
        coins
    }

    /// The coins of the encapsulations `items` to each of `keys`, key after key, `len` bytes each:
    /// SHAKE256(seed ‖ "encaps" ‖ LE64(key) ‖ LE64(item)). Secret.
    pub fn encaps_coins(&self, keys: Range<usize>, items: Range<usize>, len: usize) -> Zeroizing<Vec<u8>> {
        let mut coins = Zeroizing::new(vec![0; keys.len() * items.len() * len]);
        let pairs = keys.flat_map(|key| items.clone().map(move |item| (key as u64, item as u64)));
        for ((key, item), coins) in pairs.zip(coins.chunks_exact_mut(len)) {
            shake256(&[&self.seed, b"encaps", &key.to_le_bytes(), &item.to_le_bytes()], coins);
        }
        coins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(keys: usize) -> Workload {
        Workload { keys, encaps_per_key: 3, exchange: Exchange::Ring, warmup: 0, repeat: 1, batch: None, seed: [7; 32] }
    }

    #[test]
    fn shards_cover_all_keys_in_order() {
        for (keys, ranks) in [(1, 5), (5, 1), (7, 3), (8, 8), (1000, 7), (usize::MAX, 3)] {
            let shards: Vec<_> = (0..ranks).map(|rank| workload(keys).shard(rank, ranks)).collect();
            assert!(shards[0].start == 0 && shards[ranks - 1].end == keys);
            assert!(shards.windows(2).all(|pair| pair[0].end == pair[1].start));
            let (least, most) = (keys / ranks, keys.div_ceil(ranks));
            assert!(shards.iter().all(|shard| (least..=most).contains(&shard.len())));
        }
    }

    #[test]
    fn coins_depend_on_the_item_alone() {
        let workload = workload(10);
        let all = workload.encaps_coins(0..10, 0..3, 32);
        assert_eq!(workload.encaps_coins(4..6, 1..2, 32)[32..], all[(5 * 3 + 1) * 32..][..32]);
        let mut distinct: Vec<_> =
            all.chunks(32).chain(workload.keygen_coins(0..10, 32).chunks(32)).map(Vec::from).collect();
        distinct.sort();
        distinct.dedup();
        assert_eq!(distinct.len(), 40);
    }
}
