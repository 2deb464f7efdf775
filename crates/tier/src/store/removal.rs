//! A removal of the items that were recorded before it began.
//!
//! In mode store each is removed by a record. In mode cache the catalog forgets them, and until
//! then none of them is found current.

use std::collections::HashSet;
use std::sync::atomic::Ordering::Acquire;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::cache::forget_where;
use super::error::Refusal;
use super::head::Head;
use super::shared::Shared;
use super::{Change, Known, Store};
use crate::disk::Directory;
use crate::format::{Address, SEGMENT_BYTES};

/// A removal of the items whose keys begin with a prefix and that were recorded before it began. It
/// tells old records from new ones; [`Store::remove_covered`] removes the old ones.
#[derive(Debug)]
pub struct Removal {
    prefix: Box<[u8]>,
    /// The last address that a record may have had when it began; `None` in an empty log.
    began: Option<Address>,
    /// Where reclaim has copied old records to since.
    moved: Mutex<HashSet<Address>>,
}

impl Removal {
    fn moved(&self) -> MutexGuard<'_, HashSet<Address>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the record at this address was there when the removal began.
    pub(super) fn covers(&self, at: Address) -> bool {
        Some(at) <= self.began || self.moved().contains(&at)
    }

    /// True if it takes a key's record at this address.
    fn takes(&self, key: &[u8], at: Address) -> bool {
        key.starts_with(&self.prefix) && self.covers(at)
    }

    /// Reclaim has copied a record. The caller holds the lock of the head.
    pub(super) fn note_copy(&self, key: &[u8], from: Address, to: Address) {
        if self.takes(key, from) {
            let mut moved = self.moved();
            moved.remove(&from);
            moved.insert(to);
        }
    }
}

impl<D: Directory + 'static> Store<D> {
    /// Begins a removal of the items with a prefix. What is recorded from now on stays.
    ///
    /// Cost: memory of up to 18 bytes for each of its items that reclaim moves meanwhile.
    pub fn begin_removal(&self, prefix: &[u8]) -> Arc<Removal> {
        let head = self.shared.head();
        let (prefix, moved) = (prefix.into(), Mutex::default());
        let removal = Arc::new(Removal { prefix, began: last_address(&head), moved });
        self.shared.add_removal(&removal);
        removal
    }

    /// As [`Store::remove`], for a key whose item was recorded before a removal began.
    ///
    /// # Errors
    ///
    /// Those of [`Store::remove`], and [`Refusal::Newer`].
    pub fn remove_covered(
        &self,
        key: &[u8],
        change: &Change<'_>,
        known: &Known,
        removal: &Removal,
    ) -> Result<(), Refusal> {
        self.remove_if(key, change, known, |at| removal.covers(at))
    }

    /// True if a removal that is under way takes the item of a key that was found at an address.
    ///
    /// Cost: a lock, and a look at each removal.
    pub fn is_being_removed(&self, key: &[u8], at: Address) -> bool {
        self.shared
            .removals()
            .iter()
            .filter_map(Weak::upgrade)
            .any(|removal| removal.takes(key, at))
    }

    /// Forgets the item of a key if it was recorded before a removal began. Returns false if it was
    /// not. For a cache.
    ///
    /// # Errors
    ///
    /// [`Refusal::Failed`] after the stop has begun.
    pub fn forget_covered(&self, key: &[u8], removal: &Removal) -> Result<bool, Refusal> {
        self.forget_where(key, |at| removal.takes(key, at))
    }

    /// Forgets the item of a key that was found at an address, and that a removal takes. For a
    /// cache.
    pub fn forget_being_removed(&self, key: &[u8], at: Address) {
        // After the stop has begun, nothing more is found.
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

/// The last address that a record may have.
fn last_address(head: &Head) -> Option<Address> {
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

    /// Reclaim has copied the item of a key. The caller holds the lock of the head.
    pub(super) fn note_copy(&self, key: &[u8], from: Address, to: Address) {
        for removal in self.removals().iter().filter_map(Weak::upgrade) {
            removal.note_copy(key, from, to);
        }
    }
}
