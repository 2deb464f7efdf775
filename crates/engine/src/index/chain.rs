//! The length limit of a group's chain: the group and the overflow groups that are linked after it.
//!
//! The hash is seeded, but a process that maps the region can read the seed from the superblock and
//! choose keys that all belong to one group, even with equal tags. A search of that group visits
//! every group of its chain and every record whose slot has the key's tag. A chain is therefore
//! limited to [`CHAIN_GROUPS_MAX`] groups. Beyond that, a new item evicts the item of the chain
//! that was read least.
//!
//! Keys that hash at random never reach the limit: groups are split before they hold 15 items on
//! average.

use larder_stats::Counter;

use crate::index::Index;
use crate::index::group::{Locked, SLOTS};
use crate::index::removal::Reason;
use crate::process::thread_slot::ThreadSlot;

/// The reason why a full chain has no slot for another item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainFull {
    /// No overflow group is free.
    NoOverflowGroup,
    /// The chain has its maximal length, and the cache must not evict items.
    Full,
}

/// The maximal number of groups of a chain, the first included: 480 slots.
pub(crate) const CHAIN_GROUPS_MAX: usize = 32;

impl Index {
    /// Returns a free slot for a full chain: a slot in a new overflow group or, at the length
    /// limit, the slot of an item that this evicts.
    #[cold]
    pub(crate) fn make_slot(
        &self,
        thread: &ThreadSlot,
        locked: &Locked<'_>,
    ) -> Result<usize, ChainFull> {
        if locked.chain().take(CHAIN_GROUPS_MAX).count() < CHAIN_GROUPS_MAX {
            return self.extend_chain(thread, locked).ok_or(ChainFull::NoOverflowGroup);
        }
        if !self.segments().evicts() {
            return Err(ChainFull::Full);
        }
        let slots = locked.slots(0).take(CHAIN_GROUPS_MAX * SLOTS);
        let filled = slots.filter(|at| !locked.slot(*at).is_empty());
        // Of the items that were read least, evicts the first one. A new item was never read, so
        // new items that collide displace each other.
        let slot_at = filled.min_by_key(|at| locked.slot(*at).freq()).ok_or(ChainFull::Full)?;
        let found = self.named_by(slot_at, locked.slot(slot_at));
        self.report_removal(&found, Reason::Evicted);
        self.peers().bump(thread, Counter::EvictedUnfetched, u64::from(!found.is_fetched()));
        self.peers().bump(thread, Counter::EvictedActive, u64::from(found.slot.freq() > 0));
        self.peers().bump(thread, Counter::Evictions, 1);
        self.unlink(thread, &found);
        Ok(slot_at)
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests {
    use larder_item::StoreMode;

    use super::*;
    use crate::engine::Engine;
    use crate::error::StoreError;
    use crate::fixtures::SMALL;
    use crate::open::Config;
    use crate::ops::read::Read;
    use crate::ops::request::StoreRequest;
    use crate::process::operation::Operation;

    const NOW: u32 = 2;

    fn engine(evicts: bool) -> Engine {
        Engine::create(&Config {
            memory_bytes: 4 << 20,
            memory_bytes_max: 4 << 20,
            evicts,
            ..SMALL
        })
        .unwrap()
    }

    /// Returns keys that share the group of `first`.
    fn colliding(engine: &Engine, first: &[u8], count: usize) -> Vec<Vec<u8>> {
        let group = engine.index().group_of(engine.index().hash(first));
        let keys = (0_u64..).map(|number| format!("c{number}").into_bytes());
        keys.filter(|key| engine.index().group_of(engine.index().hash(key)) == group)
            .take(count)
            .collect()
    }

    fn chain_of(engine: &Engine, key: &[u8]) -> usize {
        engine
            .index()
            .chain(engine.index().group_at(engine.index().group_of(engine.index().hash(key))))
            .count()
    }

    #[test]
    fn a_chain_has_a_limit_and_colliding_keys_displace_each_other() {
        let engine = engine(true);
        let thread = engine.register().unwrap();
        let store = |key: &[u8]| {
            engine.store(
                &Operation::new(&thread, NOW),
                &StoreRequest::new(key, StoreMode::Set),
                b"value",
            )
        };
        let is_there = |key: &[u8]| {
            matches!(engine.read(&thread, key, NOW, &mut Vec::new(), |_, _| ()), Read::Hit(_))
        };
        store(b"wanted").unwrap();
        assert!(is_there(b"wanted") && is_there(b"wanted"));
        let keys = colliding(&engine, b"wanted", 700);
        for key in &keys {
            store(key).unwrap();
            assert!(is_there(key), "the key that was just stored is missing");
        }
        assert_eq!(chain_of(&engine, b"wanted"), CHAIN_GROUPS_MAX);
        let places = CHAIN_GROUPS_MAX * SLOTS;
        assert_eq!(engine.items(), places as u64);
        assert_eq!(engine.counter(Counter::Evictions), (keys.len() + 1 - places) as u64);
        assert!(is_there(b"wanted"), "an item that was read was displaced");
        engine.validate().unwrap();
    }

    #[test]
    fn without_eviction_a_full_chain_refuses_keys_and_other_groups_accept_them() {
        let engine = engine(false);
        let thread = engine.register().unwrap();
        let store = |key: &[u8]| {
            engine.store(
                &Operation::new(&thread, NOW),
                &StoreRequest::new(key, StoreMode::Set),
                b"value",
            )
        };
        let keys = colliding(&engine, b"k", CHAIN_GROUPS_MAX * SLOTS + 1);
        let (last, keys) = keys.split_last().unwrap();
        for key in keys {
            store(key).unwrap();
        }
        assert_eq!(store(last).unwrap_err(), StoreError::NoMemory);
        store(&keys[0]).unwrap();
        let elsewhere = (0..).map(|number| format!("e{number}").into_bytes());
        let group = engine.index().group_of(engine.index().hash(b"k"));
        let other = |key: &Vec<u8>| engine.index().group_of(engine.index().hash(key)) != group;
        for key in elsewhere.filter(other).take(100) {
            store(&key).unwrap();
        }
        engine.validate().unwrap();
    }
}
