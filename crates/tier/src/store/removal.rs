//! Removal by prefix: removes the items whose keys begin with a prefix and that were recorded
//! before the removal began.
//!
//! In mode store, the removal appends a tombstone for each of these items. In mode cache, it
//! removes their entries from the catalog. Until then, [`Store::is_being_removed`] returns true for
//! an item, and the caller treats it as absent.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::appender::Appender;
use super::cache::forget_where;
use super::error::Refusal;
use super::shared::Shared;
use super::{Change, KeyRecords, Store};
use crate::disk::Directory;
use crate::format::{Address, SEGMENT_BYTES};

/// A removal of the items whose keys begin with a prefix and that were recorded before it began. It
/// distinguishes old records from new ones. [`Store::remove_covered`] removes the old ones.
#[derive(Debug)]
pub struct Removal {
    prefix: Box<[u8]>,
    /// The highest possible record address when the removal began; `None` for an empty log.
    began: Option<Address>,
    /// The addresses to which reclaim has copied records that existed before. Without this set they
    /// would look newer than the removal.
    moved: Mutex<HashSet<Address>>,
}

impl Removal {
    fn moved(&self) -> MutexGuard<'_, HashSet<Address>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the record at this address existed when the removal began.
    pub(super) fn covers(&self, at: Address) -> bool {
        Some(at) <= self.began || self.moved().contains(&at)
    }

    /// True if the removal applies to a key's record at this address.
    fn takes(&self, key: &[u8], at: Address) -> bool {
        key.starts_with(&self.prefix) && self.covers(at)
    }

    /// Called after reclaim has copied a record. The caller holds the head lock.
    pub(super) fn note_copy(&self, key: &[u8], from: Address, to: Address) {
        if self.takes(key, from) {
            let mut moved = self.moved();
            moved.remove(&from);
            moved.insert(to);
        }
    }
}

impl<D: Directory + 'static> Store<D> {
    /// Begins a removal of the items with a prefix. Items recorded later are not removed.
    ///
    /// Cost: up to 18 bytes of memory for each of its items that reclaim moves during the removal.
    pub fn begin_removal(&self, prefix: &[u8]) -> Arc<Removal> {
        let head = self.shared.head();
        let (prefix, moved) = (prefix.into(), Mutex::default());
        let removal = Arc::new(Removal { prefix, began: last_address(&head), moved });
        self.shared.add_removal(&removal);
        removal
    }

    /// Same as [`Store::remove`], for an item that was recorded before a removal began.
    ///
    /// # Errors
    ///
    /// Same as [`Store::remove`], and [`Refusal::Newer`].
    pub fn remove_covered(
        &self,
        key: &[u8],
        change: &Change<'_>,
        known: &KeyRecords,
        removal: &Removal,
    ) -> Result<(), Refusal> {
        self.remove_if(key, change, known, |at| removal.covers(at))
    }

    /// True if a running removal applies to the item of a key at an address.
    ///
    /// Cost: a lock, and a check per running removal.
    pub fn is_being_removed(&self, key: &[u8], at: Address) -> bool {
        self.shared
            .removals()
            .iter()
            .filter_map(Weak::upgrade)
            .any(|removal| removal.takes(key, at))
    }

    /// Removes the item of a key from the catalog if it was recorded before a removal began.
    /// Returns false if it was recorded later. Only for a cache.
    ///
    /// # Errors
    ///
    /// [`Refusal::Failed`] once the stop has begun.
    pub fn forget_covered(&self, key: &[u8], removal: &Removal) -> Result<bool, Refusal> {
        self.forget_where(key, |at| removal.takes(key, at))
    }

    /// Removes the item of a key at an address from the catalog because a removal applies to it.
    /// Only for a cache.
    pub fn forget_being_removed(&self, key: &[u8], at: Address) {
        // Once the stop has begun, lookups find nothing more.
        let _ = self.forget_where(key, |place| place == at);
    }

    fn forget_where(&self, key: &[u8], is_old: impl Fn(Address) -> bool) -> Result<bool, Refusal> {
        let shared = &*self.shared;
        let _head = shared.head();
        if shared.is_closing.load(Acquire) {
            return Err(Refusal::Failed);
        }
        Ok(forget_where(shared, shared.filed(key), |at| at.is_some_and(&is_old)))
    }
}

/// Returns the highest possible address of a record.
fn last_address(head: &Appender) -> Option<Address> {
    let recovered = || head.segments().back().copied();
    head.end().or_else(|| Some(Address::new(recovered()?.1, SEGMENT_BYTES - 8)))
}

impl<F> Shared<F> {
    fn removals(&self) -> MutexGuard<'_, Vec<Weak<Removal>>> {
        self.removals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_removal(&self, removal: &Arc<Removal>) {
        let mut removals = self.removals();
        removals.retain(|removal| removal.strong_count() > 0);
        removals.push(Arc::downgrade(removal));
    }

    /// Called after reclaim has copied the item of a key. The caller holds the head lock.
    pub(super) fn note_copy(&self, key: &[u8], from: Address, to: Address) {
        for removal in self.removals().iter().filter_map(Weak::upgrade) {
            removal.note_copy(key, from, to);
        }
    }
}
