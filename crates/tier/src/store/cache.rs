//! The store of a cache: the disk has what memory evicts, and nothing survives a crash.
//!
//! ```text
//! eviction ─▶ lock of the head ─▶ record at the end of the log ─▶ catalog
//! change   ─▶ catalog forgets the key
//! ```
//!
//! A change needs no record: after a crash the cache is empty, and a clean stop writes the catalog
//! (`rebuild/snapshot.rs`). So a record of the key that the catalog names is current. Keys that
//! share a tag are forgotten together.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::disk::Directory;
use crate::format::{Address, Item, Record};
use crate::store::catalog::Filed;
use crate::store::error::Refusal;
use crate::store::head::Share;
use crate::store::shared::Shared;
use crate::store::space;
use crate::store::{Change, Known, Store};

/// What has become of an evicted item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The disk gets it.
    Written,
    /// The disk has it already.
    Present,
    /// The disk has no room for it at the moment.
    Busy,
    /// The disk does not take it: it is too long or flushed, or the disk takes nothing more.
    Dropped,
}

impl<D: Directory + 'static> Store<D> {
    /// Keeps an item that memory is about to lose, under the lock that orders the key's changes.
    ///
    /// Cost: a copy of the item under the lock of the head, unless the disk has it; no I/O.
    pub fn keep(&self, item: &Item<'_>, change: &Change<'_>) -> Kept {
        let kept = self.try_keep(item, change);
        let counts = &self.shared.counts;
        match kept {
            Kept::Written => &counts.kept_items,
            Kept::Present => return kept,
            Kept::Busy | Kept::Dropped => &counts.dropped_items,
        }
        .fetch_add(1, Relaxed);
        kept
    }

    fn try_keep(&self, item: &Item<'_>, change: &Change<'_>) -> Kept {
        let shared = &*self.shared;
        let filed = shared.filed(item.key);
        let mut head = shared.head();
        if shared.is_over() || (change.is_gone)() || shared.is_flush_due(change.now_unix_secs) {
            return Kept::Dropped;
        }
        let mut candidates = Vec::new();
        shared.catalog.candidates(filed, &mut candidates);
        // Every change of the key has removed them: they have this very item, or another key's.
        let (wanted, soon) = (space::wanted(shared), shared.extents.count() as usize / 4);
        let is_old = |number| head.is_reclaimed_soon(number, wanted, soon);
        let number = |location| shared.extents.address(location).map(Address::number);
        if candidates.iter().filter_map(|location| number(*location)).any(|number| !is_old(number))
        {
            return Kept::Present;
        }
        if !shared.has_room(&head) {
            return Kept::Busy;
        }
        if candidates.is_empty() && !shared.catalog.has_room(filed) {
            shared.is_catalog_full.store(true, Relaxed);
            shared.space.notify_one();
            return Kept::Busy;
        }
        // Nothing else needs extents.
        let record = Record::Item(*item);
        match shared.append(&mut head, &record, Share::Copy) {
            Ok(place) => {
                // Early enough that the next evictions find room.
                if head.dirty_bytes() * 4 >= shared.settings.dirty_bytes_max {
                    shared.is_urgent.store(true, Release);
                    shared.work.notify_one();
                }
                forget_all(shared, filed);
                shared.file(filed, None, place, &record);
                shared.note_version(item.version);
                Kept::Written
            }
            Err(_) if !candidates.is_empty() => Kept::Present,
            Err(Refusal::Busy | Refusal::Full) => Kept::Busy,
            Err(_) => Kept::Dropped,
        }
    }

    /// Forgets the item of a key that is about to change, under the lock that orders the key's
    /// changes. `needs` says that the change depends on the item: if memory has none, the disk is
    /// asked first.
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
        known: &Known,
    ) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let filed = shared.filed(key);
        // Only an eviction of this key could add one, and that waits for the caller's lock.
        if !self.may_have(key) {
            return Ok(());
        }
        if needs && !change.is_resident {
            self.check_absence(key, change, known)?;
        }
        let _head = shared.head();
        if shared.is_closing.load(Acquire) {
            // The snapshot may have it already.
            return Err(Refusal::Failed);
        }
        forget_all(shared, filed);
        Ok(())
    }

    /// Forgets what the disk has of a key and does not return.
    pub fn give_up(&self, key: &[u8]) {
        let _head = self.shared.head();
        if !self.shared.is_closing.load(Acquire) {
            forget_all(&self.shared, self.shared.filed(key));
        }
    }

    /// Hides everything in the caller's memory, and forgets all items. A delayed flush that was
    /// pending is cancelled.
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

    /// Forgets all items at a later second, and has `schedule` do so in the caller's memory.
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

/// Forgets the keys of a tag. The caller holds the lock of the head.
fn forget_all<F>(shared: &Shared<F>, filed: Filed) {
    forget_where(shared, filed, |_| true);
}

/// Forgets those keys of a tag whose records have these addresses. Returns false if there are none.
/// The caller holds the lock of the head.
pub(in crate::store) fn forget_where<F>(
    shared: &Shared<F>,
    filed: Filed,
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
