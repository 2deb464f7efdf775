//! The removals by prefix that are in progress in this process. Operations that move or change
//! items must respect them.
//!
//! A removal by prefix removes the items whose keys begin with the prefix and that were stored
//! before the removal began. It recognizes them by the position of their records. By this position,
//! an item that was moved since looks younger than it is, and an item that was changed in place
//! since looks older. So if a removal in progress will remove an item, a thread that would move the
//! item removes it instead, and a thread that would change the item in place writes a new record.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::index::Index;
use crate::index::find::Found;
use crate::index::removal::Reason;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::moment::Moment;

/// The removals by prefix in progress.
#[derive(Debug, Default)]
pub(crate) struct PrefixRemovals {
    /// True if there is at least one removal. Otherwise a thread that moves an item only loads this
    /// flag.
    are_any: AtomicBool,
    targets: RwLock<Vec<Arc<Target>>>,
}

/// The items that one removal by prefix removes.
#[derive(Debug)]
pub(crate) struct Target {
    prefix: Vec<u8>,
    /// The moment when the removal began; empty until the moment is determined.
    began: OnceLock<Moment>,
    removed: AtomicU64,
}

impl Target {
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Sets the moment before which the removed items were stored.
    pub(crate) fn begin(&self, moment: Moment) {
        self.began.set(moment).expect("a removal begins once");
    }

    /// Returns how many items were removed.
    pub(crate) fn removed(&self) -> u64 {
        self.removed.load(Relaxed)
    }
}

impl PrefixRemovals {
    /// Adds a removal that is about to begin.
    pub(crate) fn add(&self, prefix: &[u8]) -> Arc<Target> {
        let prefix = prefix.to_vec();
        let target =
            Arc::new(Target { prefix, began: OnceLock::new(), removed: AtomicU64::new(0) });
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        targets.push(Arc::clone(&target));
        // Pairs with the claim of an appender: the next holder of the appender observes this store.
        self.are_any.store(true, Release);
        target
    }

    /// Removes a finished removal from the list.
    pub(crate) fn remove(&self, target: &Arc<Target>) {
        let mut targets = self.targets.write().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|other| !Arc::ptr_eq(other, target));
        self.are_any.store(!targets.is_empty(), Release);
    }

    fn targets(&self) -> Vec<Arc<Target>> {
        self.targets.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Index {
    /// True if a removal by prefix in progress will remove a found item. The caller holds the lock
    /// of its group. A caller that moves the item has also claimed the appender that it moves to:
    /// either it finds the removal here, or the removal finds the moved item in its new place.
    #[inline]
    pub(crate) fn is_being_removed(&self, found: &Found) -> bool {
        self.prefix_removals.are_any.load(Relaxed) && self.target_of(found).is_some()
    }

    /// Same as [`Self::is_being_removed`], but also removes such an item.
    #[inline]
    pub(crate) fn remove_condemned(&self, thread: &ThreadSlot, found: &Found) -> bool {
        self.prefix_removals.are_any.load(Relaxed)
            && self.target_of(found).is_some_and(|target| {
                self.remove_target(thread, found, &target);
                true
            })
    }

    #[cold]
    fn target_of(&self, found: &Found) -> Option<Arc<Target>> {
        let mut targets = self.prefix_removals.targets().into_iter();
        targets.find(|target| self.is_target(found, target))
    }

    /// True if a found item has the prefix of a removal and was stored before the removal began.
    /// While the beginning is being determined, every existing item may count as stored before it.
    pub(crate) fn is_target(&self, found: &Found, target: &Target) -> bool {
        let prefix = target.prefix();
        target.began.get().is_none_or(|began| began.is_after(found.slot, found.sequence))
            && found.header.key_bytes() >= prefix.len()
            && self.region().memory().equals(found.record_at + found.header.key_at(), prefix)
    }

    /// Removes a found item that belongs to a removal by prefix. The caller holds the lock of its
    /// group.
    pub(crate) fn remove_target(&self, thread: &ThreadSlot, found: &Found, target: &Target) {
        self.report_removal(found, Reason::Deleted);
        let listener = self.segments().listener();
        let key = listener.map(|_| self.key(found));
        self.unlink(thread, found);
        if let (Some(listener), Some(key)) = (listener, key) {
            listener.changed(&key);
        }
        target.removed.fetch_add(1, Relaxed);
    }

    pub(crate) fn prefix_removals(&self) -> &Arc<PrefixRemovals> {
        &self.prefix_removals
    }
}
