//! Where a rank's keys are: its own and those that it encapsulates to.
//!
//! What is large about keys on a device is their matrices. Own keys stay there where memory allows; otherwise they
//! wait as bytes, and one slot holds a group of own or of the peer's keys, whichever was used last.

use zeroize::Zeroizing;

use super::plan::Plan;
use crate::{error::Result, schemes::Kem};

/// A rank's own keys and, with an exchange, room for a group of its peer's.
pub(super) enum KeyStore<T> {
    /// The own keys are all on the device, group by group.
    Resident { own: Vec<T>, peer: Option<Slot<T>> },
    /// The own keys are bytes, group by group; the slot serves both sides.
    Loaded { dks: Vec<Zeroizing<Vec<u8>>>, slot: Slot<T> },
}

/// Room for a group of keys, and which one is there.
pub(super) struct Slot<T> {
    keys: T,
    holds: Option<Group>,
}

/// A group of keys, counted from the start of its shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Own(usize),
    Peer(usize),
}

impl<T> Slot<T> {
    fn new<K: Kem<Keys = T>>(kem: &K, plan: &Plan) -> Result<Self> {
        Ok(Slot { keys: kem.keys(plan.keys_per_group)?, holds: None })
    }

    /// The keys of `group`; `fill` puts them there where they are not.
    fn hold(&mut self, group: Group, fill: impl FnOnce(&mut T) -> Result<()>) -> Result<&T> {
        if self.holds != Some(group) {
            // What fails leaves nothing that is whole.
            self.holds = None;
            fill(&mut self.keys)?;
            self.holds = Some(group);
        }
        Ok(&self.keys)
    }
}

impl<T> KeyStore<T> {
    /// Room for `own` keys as `plan` cuts them, and for the peer's where there is a peer.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn new<K: Kem<Keys = T>>(kem: &K, plan: &Plan, own: usize, peer: bool) -> Result<Self> {
        let groups = plan.groups(own);
        if !plan.resident {
            return Ok(KeyStore::Loaded {
                dks: groups.map(|_| Zeroizing::default()).collect(),
                slot: Slot::new(kem, plan)?,
            });
        }
        let own = groups.map(|(_, keys)| kem.keys(keys)).collect::<Result<_>>()?;
        let peer = if peer { Some(Slot::new(kem, plan)?) } else { None };
        Ok(KeyStore::Resident { own, peer })
    }

    /// Makes a group of the own keys.
    ///
    /// # Errors
    /// The scheme's.
    pub(super) fn make<K: Kem<Keys = T>>(&mut self, kem: &K, group: usize, coins: &[u8]) -> Result<&T> {
        match self {
            KeyStore::Resident { own, .. } => {
                kem.keygen_derand(coins, &mut own[group])?;
                Ok(&own[group])
            }
            KeyStore::Loaded { dks, slot } => {
                slot.holds = None;
                let keys = slot.hold(Group::Own(group), |keys| kem.keygen_derand(coins, keys))?;
                dks[group] = kem.dk(keys)?;
                Ok(keys)
            }
        }
    }

    /// A group of the own keys.
    ///
    /// # Errors
    /// The scheme's.
    pub(super) fn own<K: Kem<Keys = T>>(&mut self, kem: &K, group: usize) -> Result<&T> {
        match self {
            KeyStore::Resident { own, .. } => Ok(&own[group]),
            KeyStore::Loaded { dks, slot } => slot.hold(Group::Own(group), |keys| kem.load_dk(&dks[group], keys)),
        }
    }

    /// A group of the peer's keys, which `eks` are.
    ///
    /// # Errors
    /// The scheme's.
    ///
    /// # Panics
    /// Where there is no peer.
    pub(super) fn peer<K: Kem<Keys = T>>(&mut self, kem: &K, group: usize, eks: &[u8]) -> Result<&T> {
        let slot = self.peer_slot().expect("there is a peer");
        slot.hold(Group::Peer(group), |keys| kem.load_ek(eks, keys))
    }

    /// The peer has made its keys anew: none of the former may be taken for them.
    pub(super) fn forget_peer(&mut self) {
        if let Some(slot) = self.peer_slot()
            && matches!(slot.holds, Some(Group::Peer(_)))
        {
            slot.holds = None;
        }
    }

    fn peer_slot(&mut self) -> Option<&mut Slot<T>> {
        match self {
            KeyStore::Resident { peer, .. } => peer.as_mut(),
            KeyStore::Loaded { slot, .. } => Some(slot),
        }
    }
}
