//! The store of a cache: it contains the items that memory evicts, and is empty after a crash.
//!
//! ```text
//! eviction ─▶ head lock ─▶ record at the end of the log ─▶ catalog
//! change   ─▶ catalog forgets the key
//! ```
//!
//! A change needs no record: it removes the entry of the key from the catalog. The old record stays
//! in the log, but no start reads the log of a cache. After a clean stop, the next start reads the
//! catalog from the snapshot that the stop wrote (`rebuild/snapshot.rs`); after a crash, the cache
//! starts empty. A record to which the catalog points is therefore always current. An entry has
//! only a tag of its key, so a change removes the entries of all keys that share the tag.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::disk::Directory;
use crate::format::{Address, Item};
use crate::store::appender::{Appender, Purpose};
use crate::store::catalog::KeyBits;
use crate::store::error::Refusal;
use crate::store::shared::Shared;
use crate::store::space;
use crate::store::values::VALUE_BYTES_MAX;
use crate::store::{Change, KeyRecords, Store};

/// The result of demoting an evicted item to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demoted {
    /// The item will be written.
    Written,
    /// The disk already has the item.
    Present,
    /// The disk has no space for it at the moment.
    Busy,
    /// The disk does not accept the item: it is too long or was flushed, or the store has stopped.
    Dropped,
}

impl<D: Directory + 'static> Store<D> {
    /// Writes an item that memory is about to evict. The caller holds the lock that orders changes
    /// of the key.
    ///
    /// Cost: a copy of the item under the head lock, unless the disk already has it; no I/O.
    pub fn keep(&self, item: &Item<'_>, change: &Change<'_>) -> Demoted {
        let kept = self.try_keep(item, change);
        let counts = &self.shared.counts;
        match kept {
            Demoted::Written => &counts.kept_items,
            Demoted::Present => return kept,
            Demoted::Busy | Demoted::Dropped => &counts.dropped_items,
        }
        .fetch_add(1, Relaxed);
        kept
    }

    fn try_keep(&self, item: &Item<'_>, change: &Change<'_>) -> Demoted {
        let shared = &*self.shared;
        let filed = shared.filed(item.key);
        let (mut frame, mut candidates) = (None, Vec::new());
        if shared.values.compression().is_some() && self.is_present(&shared.head(), filed) {
            // Most items that memory evicts again are still on the disk.
            return Demoted::Present;
        }
        let record = shared.values.encode(item, &mut frame, VALUE_BYTES_MAX);
        let mut head = shared.head();
        if shared.is_over() || (change.is_gone)() || shared.is_flush_due(change.now_unix_secs) {
            return Demoted::Dropped;
        }
        if self.is_present(&head, filed) {
            return Demoted::Present;
        }
        shared.catalog.candidates(filed, &mut candidates);
        if !shared.has_room(&head) {
            return Demoted::Busy;
        }
        if candidates.is_empty() && !shared.catalog.has_room(filed) {
            shared.is_catalog_full.store(true, Relaxed);
            shared.space.notify_one();
            return Demoted::Busy;
        }
        // Only evictions append records to the log of a cache, so no extents need to be left.
        match shared.append(&mut head, &record, Some(filed), Purpose::Copy) {
            Ok(place) => {
                // Starts a write early enough that the next evictions find space.
                if head.dirty_bytes() * 4 >= shared.settings.dirty_bytes_max {
                    shared.is_urgent.store(true, Release);
                    shared.work.notify_one();
                }
                forget_all(shared, filed);
                shared.file(filed, None, place, &record);
                shared.values.note_appended(&record, item.value.len());
                shared.note_version(item.version);
                Demoted::Written
            }
            Err(_) if !candidates.is_empty() => Demoted::Present,
            Err(Refusal::Busy | Refusal::Full) => Demoted::Busy,
            Err(_) => Demoted::Dropped,
        }
    }

    /// True if the disk has an item with this tag whose segment is not reclaimed soon.
    fn is_present(&self, head: &Appender, filed: KeyBits) -> bool {
        let (shared, mut candidates) = (&*self.shared, Vec::new());
        shared.catalog.candidates(filed, &mut candidates);
        // Every change of the key removes all entries with its tag, so a remaining candidate is
        // this item or belongs to another key.
        let (wanted, soon) = (space::wanted(shared), shared.extents.count() as usize / 4);
        let is_old = |number| head.is_reclaimed_soon(number, wanted, soon);
        let number = |location| shared.extents.address(location).map(Address::number);
        candidates.iter().filter_map(|location| number(*location)).any(|number| !is_old(number))
    }

    /// Removes the item of a key that is about to change from the catalog. The caller holds the
    /// lock that orders changes of the key. `needs` is true if the change depends on the item: if
    /// memory does not have it, the disk must be read first.
    ///
    /// Cost: a hash of the key and one or two cache misses.
    ///
    /// # Errors
    ///
    /// [`Refusal::NeedsDisk`], and [`Refusal::Failed`] after the stop has begun.
    pub fn forget(
        &self,
        key: &[u8],
        change: &Change<'_>,
        needs: bool,
        known: &KeyRecords,
    ) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let filed = shared.filed(key);
        // Only an eviction of this key could add an entry. It would have to wait for the lock that
        // the caller holds.
        if !self.may_have(key) {
            return Ok(());
        }
        if needs && !change.is_resident {
            self.check_absence(key, change, known)?;
        }
        let _head = shared.head();
        if shared.is_closing.load(Acquire) {
            // The snapshot that the stop writes may already contain the item.
            return Err(Refusal::Failed);
        }
        forget_all(shared, filed);
        Ok(())
    }

    /// Removes all records of a key from the catalog because the disk failed to return them.
    pub fn give_up(&self, key: &[u8]) {
        let _head = self.shared.head();
        if !self.shared.is_closing.load(Acquire) {
            forget_all(&self.shared, self.shared.filed(key));
        }
    }

    /// Hides everything in the caller's memory, and removes all items from the catalog. Cancels a
    /// pending delayed flush.
    pub(in crate::store) fn forget_everything(&self, hide: impl FnOnce()) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let _head = shared.head();
        if shared.is_closing.load(Acquire) {
            return Err(Refusal::Failed);
        }
        hide();
        shared.note_due(None, 0);
        shared.catalog.clear();
        shared.extents.note_all_dead();
        Ok(())
    }

    /// Schedules the removal of all items from the catalog. Calls `schedule` to do the same in the
    /// caller's memory.
    pub(in crate::store) fn forget_everything_at(
        &self,
        due_unix_secs: u64,
        schedule: impl FnOnce(),
    ) -> Result<(), Refusal> {
        let _head = self.shared.head();
        if self.shared.is_closing.load(Acquire) {
            return Err(Refusal::Failed);
        }
        self.shared.note_due(None, due_unix_secs.max(1));
        schedule();
        Ok(())
    }
}

/// Removes all keys with a tag from the catalog. The caller holds the head lock.
fn forget_all<F>(shared: &Shared<F>, filed: KeyBits) {
    forget_where(shared, filed, |_| true);
}

/// Removes the keys with a tag whose records `is_meant` selects. Returns false if there are none.
/// The caller holds the head lock.
pub(in crate::store) fn forget_where<F>(
    shared: &Shared<F>,
    filed: KeyBits,
    is_meant: impl Fn(Option<Address>) -> bool,
) -> bool {
    let (mut candidates, mut is_forgotten) = (Vec::new(), false);
    shared.catalog.candidates(filed, &mut candidates);
    for location in candidates {
        if is_meant(shared.extents.address(location)) && shared.catalog.remove(filed, location) {
            shared.extents.note_dead(location);
            is_forgotten = true;
        }
    }
    is_forgotten
}
