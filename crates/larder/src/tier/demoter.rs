//! The journal of a cache whose disk has what memory evicts.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use larder_engine::{Change, Entry, Journal, Refusal};
use larder_item::Epoch;
use larder_tier::disk::real::RealDirectory;
use larder_tier::store::{Kept, Store};

use super::operate::Use;
use super::recorder::{change_of, item_of, refusal};
use super::{Admission, KNOWN};

thread_local! {
    /// True while this thread's operation depends on the item of its key.
    static NEEDS: Cell<bool> = const { Cell::new(true) };
}

/// Runs an operation that uses the item of its key so.
pub(super) fn using<T>(uses: Use, act: impl FnOnce() -> T) -> T {
    NEEDS.set(uses == Use::Needs);
    let result = act();
    NEEDS.set(true);
    result
}

/// Gives a store the items that the engine evicts.
pub(super) struct Demoter {
    store: Arc<Store<RealDirectory>>,
    epoch: Epoch,
    admission: Admission,
    /// The smallest size of key and value that the disk gets, in bytes.
    item_bytes_min: usize,
}

impl fmt::Debug for Demoter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demoter").field("admission", &self.admission).finish_non_exhaustive()
    }
}

impl Demoter {
    pub(super) fn new(
        store: Arc<Store<RealDirectory>>,
        epoch: Epoch,
        (admission, item_bytes_min): (Admission, usize),
    ) -> Self {
        Self { store, epoch, admission, item_bytes_min }
    }

    fn forget(&self, key: &[u8], change: &Change<'_>, needs: bool) -> Result<(), Refusal> {
        let change = change_of(change, self.epoch);
        let forgotten = KNOWN.with_borrow(|known| self.store.forget(key, &change, (needs, known)));
        forgotten.map_err(refusal)
    }
}

impl Journal for Demoter {
    fn records_stores(&self) -> bool {
        false
    }

    fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, was_read: bool) -> bool {
        if !was_read && self.admission == Admission::Reused {
            return true;
        }
        let change = change_of(change, self.epoch);
        let item = item_of(entry, self.epoch);
        if item.key.len() + item.value.len() < self.item_bytes_min {
            return true;
        }
        let is_expired = item.deadline_unix_secs.is_some_and(|at| at <= change.now_unix_secs);
        is_expired || self.store.keep(&item, &change) != Kept::Busy
    }

    fn item(&self, entry: &Entry<'_>, change: &Change<'_>) -> Result<(), Refusal> {
        self.removal(entry.key, change)
    }

    fn removal(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        self.forget(key, change, NEEDS.get())
    }

    fn absence(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        self.forget(key, change, true)
    }
}
