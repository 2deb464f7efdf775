//! The journal of a cache whose disk contains the items that memory evicts. The engine calls its
//! *journal* before a change or an eviction takes effect.

use std::fmt;
use std::sync::Arc;

use larder_engine::{Change, Entry, Refusal};
use larder_item::Epoch;
use larder_tier::disk::platform::RealDirectory;
use larder_tier::store::{Demoted, Store};

use super::Admission;
use super::recording::JournalContext;
use super::store_journal::{change_of, item_of, refusal};

/// Writes the items that the engine evicts to the store.
pub(super) struct EvictionJournal {
    store: Arc<Store<RealDirectory>>,
    epoch: Epoch,
    admission: Admission,
    /// The minimum size of an item's key and value on the disk, in bytes.
    item_bytes_min: usize,
}

impl fmt::Debug for EvictionJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvictionJournal")
            .field("admission", &self.admission)
            .finish_non_exhaustive()
    }
}

impl EvictionJournal {
    pub(super) fn new(
        store: Arc<Store<RealDirectory>>,
        epoch: Epoch,
        admission: Admission,
        item_bytes_min: usize,
    ) -> Self {
        Self { store, epoch, admission, item_bytes_min }
    }

    /// See [`larder_engine::Journal::eviction`].
    pub(super) fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, was_read: bool) -> bool {
        if !was_read && self.admission == Admission::Reused {
            return true;
        }
        let change = change_of(change, self.epoch);
        let item = item_of(entry, self.epoch);
        if item.key.len() + item.value.len() < self.item_bytes_min {
            return true;
        }
        let is_expired = item.deadline_unix_secs.is_some_and(|at| at <= change.now_unix_secs);
        is_expired || self.store.keep(&item, &change) != Demoted::Busy
    }

    /// See [`larder_engine::Journal::removal`].
    pub(super) fn removal(
        &self,
        key: &[u8],
        change: &Change<'_>,
        terms: &JournalContext<'_>,
    ) -> Result<(), Refusal> {
        let change = change_of(change, self.epoch);
        self.store.forget(key, &change, terms.needs, terms.known).map_err(refusal)
    }

    /// See [`larder_engine::Journal::absence`].
    pub(super) fn absence(
        &self,
        key: &[u8],
        change: &Change<'_>,
        terms: &JournalContext<'_>,
    ) -> Result<(), Refusal> {
        self.removal(key, change, &JournalContext { needs: true, ..*terms })
    }
}
