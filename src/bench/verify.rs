//! Both sides of every encapsulation compared, degenerate secrets found, and the fingerprint of all results.
//!
//! Each key's results have one digest on either side. Only digests travel, from the encapsulating rank to the owner;
//! item by item is compared where a key's digests differ.

use serde::{Deserialize, Serialize};
use sha3::{Digest, Sha3_256};
use zeroize::Zeroizing;

use super::{
    pass::{next, previous},
    plan::BatchSpec,
    workload::Exchange,
};
use crate::{comm::Comm, error::Result, hash::sha3_256};

const TAG_DIGESTS: u16 = 3;
const TAG_ASKED: u16 = 4;
const TAG_DETAILS: u16 = 5;
const DIGEST_BYTES: usize = 32;

/// D(c) and K of every encapsulation to the keys of one shard, key after key. Secret.
pub struct Records {
    per_key: usize,
    entries: Zeroizing<Vec<Entry>>,
}

/// D(c) ‖ K.
type Entry = [u8; 2 * DIGEST_BYTES];

impl Records {
    /// Empty records of `keys` keys with `per_key` encapsulations each.
    pub fn new(keys: usize, per_key: usize) -> Self {
        Records { per_key, entries: Zeroizing::new(vec![[0; 2 * DIGEST_BYTES]; keys * per_key]) }
    }

    /// Forgets everything, so that what a pass leaves out cannot pass for done.
    pub fn clear(&mut self) {
        self.entries.fill([0; 2 * DIGEST_BYTES]);
    }

    /// Stores a batch's digests and secrets, both in the batch's order.
    pub fn store(&mut self, spec: &BatchSpec, digests: &[u8], secrets: &[u8]) {
        assert_eq!((digests.len(), secrets.len()), (spec.keys * spec.items * DIGEST_BYTES, digests.len()));
        let both = digests.as_chunks::<DIGEST_BYTES>().0.iter().zip(secrets.as_chunks::<DIGEST_BYTES>().0);
        for ((key, item), (digest, secret)) in spec.items().zip(both) {
            let entry = &mut self.entries[key * self.per_key + item];
            entry[..DIGEST_BYTES].copy_from_slice(digest);
            entry[DIGEST_BYTES..].copy_from_slice(secret);
        }
    }

    fn of_key(&self, key: usize) -> &[Entry] {
        &self.entries[key * self.per_key..(key + 1) * self.per_key]
    }

    fn keys(&self) -> usize {
        self.entries.len() / self.per_key
    }

    /// SHA3-256 of each key's entries, key after key.
    pub fn digests(&self) -> Vec<u8> {
        (0..self.keys()).flat_map(|key| sha3_256(&[self.of_key(key).as_flattened()])).collect()
    }

    /// For each item of `keys`: D(c) ‖ SHA3-256(K), which tells two secrets apart and gives none away.
    fn details(&self, keys: &[u64]) -> Vec<u8> {
        let entries = keys.iter().flat_map(|&key| self.of_key(key as usize));
        entries.flat_map(|entry| [digest_of(entry), sha3_256(&[secret_of(entry)])]).flatten().collect()
    }
}

fn digest_of(entry: &Entry) -> [u8; DIGEST_BYTES] {
    entry[..DIGEST_BYTES].try_into().expect("half an entry")
}

fn secret_of(entry: &Entry) -> &[u8] {
    &entry[DIGEST_BYTES..]
}

/// What is wrong with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The two sides saw different ciphertexts.
    CiphertextDiffers,
    /// The two sides hold different secrets.
    SecretDiffers,
    /// A secret whose bytes are all the same.
    ConstantSecret,
    /// A secret that another item has too.
    RepeatedSecret,
}

impl Fault {
    /// In words.
    pub fn describe(self) -> &'static str {
        match self {
            Fault::CiphertextDiffers => "the two sides saw different ciphertexts",
            Fault::SecretDiffers => "the two sides hold different secrets",
            Fault::ConstantSecret => "a constant secret",
            Fault::RepeatedSecret => "a secret that another encapsulation has too",
        }
    }
}

/// An item that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The rank that owns the key and decapsulated.
    pub rank: usize,
    /// The key, counted over all ranks.
    pub key: usize,
    /// The encapsulation to that key.
    pub item: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What the passes so far showed on this rank.
pub struct Verdict {
    first_key: usize,
    per_key: usize,
    /// By item of the own keys: what was wrong first.
    faults: Vec<Option<Fault>>,
    /// Rank 0: the fingerprint of the first pass.
    fingerprint: Option<String>,
    /// Rank 0: whether every later pass had the same.
    reproducible: bool,
}

impl Verdict {
    /// For a rank that owns `keys`.
    pub fn new(keys: std::ops::Range<usize>, per_key: usize) -> Self {
        let faults = vec![None; keys.len() * per_key];
        Verdict { first_key: keys.start, per_key, faults, fingerprint: None, reproducible: true }
    }

    /// Compares one pass's results on all ranks.
    ///
    /// # Errors
    /// MPI's.
    pub fn check(
        &mut self,
        comm: &Comm,
        exchange: Exchange,
        encapsulated: &Records,
        decapsulated: &Records,
    ) -> Result<()> {
        let mine = decapsulated.digests();
        match exchange {
            Exchange::Ring => self.compare_with_next(comm, encapsulated, decapsulated, &mine)?,
            Exchange::None => {
                let keys = differing(&mine, &encapsulated.digests());
                self.compare_details(&keys, &decapsulated.details(&keys), &encapsulated.details(&keys));
            }
        }
        for (index, entry) in decapsulated.entries.iter().enumerate() {
            let secret = secret_of(entry);
            if secret.iter().all(|&byte| byte == secret[0]) {
                self.fault(index, Fault::ConstantSecret);
            }
        }
        self.find_repeats(comm, decapsulated)?;
        self.fingerprint(comm, &mine)
    }

    fn fault(&mut self, index: usize, fault: Fault) {
        self.faults[index].get_or_insert(fault);
    }

    /// Compares the own keys' digests with those of the rank that encapsulated to them, and answers for the keys that
    /// this rank encapsulated to.
    fn compare_with_next(
        &mut self,
        comm: &Comm,
        encapsulated: &Records,
        decapsulated: &Records,
        mine: &[u8],
    ) -> Result<()> {
        let (next, previous) = (next(comm), previous(comm));
        let theirs = trade(comm, TAG_DIGESTS, previous, encapsulated.digests(), next)?;
        let keys = differing(mine, &theirs);
        let asked = trade(comm, TAG_ASKED, next, keys.iter().flat_map(|key| key.to_le_bytes()).collect(), previous)?;
        let asked: Vec<u64> = asked.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let theirs = trade(comm, TAG_DETAILS, previous, encapsulated.details(&asked), next)?;
        self.compare_details(&keys, &decapsulated.details(&keys), &theirs);
        Ok(())
    }

    fn compare_details(&mut self, keys: &[u64], mine: &[u8], theirs: &[u8]) {
        let items = keys.iter().flat_map(|&key| (0..self.per_key).map(move |item| (key as usize, item)));
        let mut found = Vec::new();
        for ((key, item), (mine, theirs)) in items.zip(mine.chunks(64).zip(theirs.chunks(64))) {
            let index = key * self.per_key + item;
            if mine[..DIGEST_BYTES] != theirs[..DIGEST_BYTES] {
                found.push((index, Fault::CiphertextDiffers));
            } else if mine != theirs {
                found.push((index, Fault::SecretDiffers));
            }
        }
        found.into_iter().for_each(|(index, fault)| self.fault(index, fault));
    }

    /// Finds secrets that two items share, on whatever ranks they are: each rank judges a part of all hashes of
    /// secrets.
    fn find_repeats(&mut self, comm: &Comm, records: &Records) -> Result<()> {
        const TICKET_BYTES: usize = 16 + 8;
        let ranks = comm.size() as u64;
        let mut outgoing = vec![Vec::new(); comm.size()];
        for (index, entry) in records.entries.iter().enumerate() {
            let hash = sha3_256(&[secret_of(entry)]);
            let judge = u64::from_le_bytes(hash[16..24].try_into().expect("eight bytes")) % ranks;
            let ticket = &mut outgoing[judge as usize];
            ticket.extend_from_slice(&hash[..16]);
            ticket.extend_from_slice(&(index as u64).to_le_bytes());
        }
        let incoming = comm.all_to_all(outgoing)?;
        let mut tickets: Vec<(&[u8], usize, &[u8])> = Vec::new();
        for (rank, bytes) in incoming.iter().enumerate() {
            tickets.extend(bytes.chunks_exact(TICKET_BYTES).map(|ticket| (&ticket[..16], rank, &ticket[16..])));
        }
        tickets.sort_unstable();
        let mut answers = vec![Vec::new(); comm.size()];
        for same in tickets.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            for (_, rank, index) in same {
                answers[*rank].extend_from_slice(index);
            }
        }
        for repeated in comm.all_to_all(answers)?.iter().flat_map(|bytes| bytes.as_chunks::<8>().0) {
            self.fault(u64::from_le_bytes(*repeated) as usize, Fault::RepeatedSecret);
        }
        Ok(())
    }

    /// Rank 0 hashes all keys' digests in the order of keys.
    fn fingerprint(&mut self, comm: &Comm, mine: &[u8]) -> Result<()> {
        let mut hasher = Sha3_256::new();
        comm.gather_stream(mine, |_, piece| {
            hasher.update(piece);
            Ok(())
        })?;
        if comm.rank() == 0 {
            let fingerprint = hex::encode(hasher.finalize());
            self.reproducible &= self.fingerprint.get_or_insert_with(|| fingerprint.clone()) == &fingerprint;
        }
        Ok(())
    }

    /// Items of the own keys without a fault.
    pub fn agreed(&self) -> usize {
        self.faults.iter().filter(|fault| fault.is_none()).count()
    }

    /// The first `most` failures.
    pub fn failures(&self, rank: usize, most: usize) -> Vec<Failure> {
        let faults = self.faults.iter().enumerate().filter_map(|(index, fault)| Some((index, (*fault)?)));
        faults
            .take(most)
            .map(|(index, fault)| Failure {
                rank,
                key: self.first_key + index / self.per_key,
                item: index % self.per_key,
                fault,
            })
            .collect()
    }

    /// Rank 0: the first pass's fingerprint, and whether every other pass had the same.
    pub fn into_fingerprint(self) -> Option<(String, bool)> {
        self.fingerprint.map(|fingerprint| (fingerprint, self.reproducible))
    }
}

/// Sends `bytes` to one rank and receives what another sends, its length first.
fn trade(comm: &Comm, tag: u16, to: usize, bytes: Vec<u8>, from: usize) -> Result<Vec<u8>> {
    let lengths = comm.recv(from, tag, vec![0; 8])?;
    let length = comm.send(to, tag, (bytes.len() as u64).to_le_bytes().to_vec())?;
    let outgoing = comm.send(to, tag, bytes)?;
    let len = lengths.wait(comm)?;
    let len = u64::from_le_bytes(len.try_into().expect("the receiver asked for eight bytes"));
    let received = comm.recv(from, tag, vec![0; len as usize])?.wait(comm)?;
    length.wait(comm)?;
    outgoing.wait(comm)?;
    Ok(received)
}

/// The keys, counted from the shard's start, whose digests differ.
fn differing(mine: &[u8], theirs: &[u8]) -> Vec<u64> {
    assert_eq!(mine.len(), theirs.len(), "both sides know the shard");
    let pairs = mine.chunks(DIGEST_BYTES).zip(theirs.chunks(DIGEST_BYTES));
    pairs.enumerate().filter(|(_, (a, b))| a != b).map(|(key, _)| key as u64).collect()
}
