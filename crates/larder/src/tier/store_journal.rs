//! The journal of a store: it records each change of the engine in the log, before the change
//! becomes visible to readers.

use std::fmt;
use std::sync::Arc;

use larder_engine::{Change, Entry, Refusal};
use larder_item::{Deadline, Epoch};
use larder_tier::disk::platform::RealDirectory;
use larder_tier::format::Item;
use larder_tier::store::{self, Store};

use super::recording::JournalContext;

/// Records the engine's changes in a store.
pub(super) struct StoreJournal {
    store: Arc<Store<RealDirectory>>,
    epoch: Epoch,
}

impl fmt::Debug for StoreJournal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreJournal").finish_non_exhaustive()
    }
}

impl StoreJournal {
    pub(super) fn new(store: Arc<Store<RealDirectory>>, epoch: Epoch) -> Self {
        Self { store, epoch }
    }
}

fn unix_of(epoch: Epoch, second: u32) -> u64 {
    u64::try_from(epoch.unix_of(second)).unwrap_or(0)
}

/// Converts the context of a change.
pub(super) fn change_of<'a>(change: &Change<'a>, epoch: Epoch) -> store::Change<'a> {
    store::Change {
        now_unix_secs: unix_of(epoch, change.now),
        is_resident: change.is_resident,
        is_gone: change.is_gone,
    }
}

/// Returns the context of a change of an item that memory does not have, and that no flush has
/// hidden.
pub(super) fn unconditional(now_unix_secs: u64) -> store::Change<'static> {
    store::Change { now_unix_secs, is_resident: false, is_gone: &|| false }
}

/// Records the removal of a key.
pub(super) fn remove(
    store: &Store<RealDirectory>,
    key: &[u8],
    change: &store::Change<'_>,
    terms: &JournalContext<'_>,
) -> Result<(), store::Refusal> {
    match terms.removal {
        Some(removal) => store.remove_covered(key, change, terms.known, removal),
        None => store.remove(key, change, terms.known),
    }
}

/// Converts an item of the engine to an item of the store.
pub(super) fn item_of<'a>(entry: &Entry<'a>, epoch: Epoch) -> Item<'a> {
    let deadline_unix_secs = match entry.deadline {
        Deadline::NEVER => None,
        // 0 means never in the log.
        Deadline(second) => Some(unix_of(epoch, second).max(1)),
    };
    Item {
        key: entry.key,
        value: entry.value,
        flags: entry.flags,
        version: entry.version,
        deadline_unix_secs,
        stale: entry.stale,
        token_sent: entry.token_sent,
        number: entry.number,
    }
}

impl StoreJournal {
    /// See [`larder_engine::Journal::item`].
    pub(super) fn item(
        &self,
        entry: &Entry<'_>,
        change: &Change<'_>,
        terms: &JournalContext<'_>,
    ) -> Result<(), Refusal> {
        let (item, change) = (item_of(entry, self.epoch), change_of(change, self.epoch));
        self.store.put(&item, &change, terms.known).map_err(refusal)
    }

    /// See [`larder_engine::Journal::removal`].
    pub(super) fn removal(
        &self,
        key: &[u8],
        change: &Change<'_>,
        terms: &JournalContext<'_>,
    ) -> Result<(), Refusal> {
        remove(&self.store, key, &change_of(change, self.epoch), terms).map_err(refusal)
    }

    /// See [`larder_engine::Journal::absence`].
    pub(super) fn absence(
        &self,
        key: &[u8],
        change: &Change<'_>,
        terms: &JournalContext<'_>,
    ) -> Result<(), Refusal> {
        let change = change_of(change, self.epoch);
        self.store.check_absence(key, &change, terms.known).map_err(refusal)
    }
}

/// Converts a refusal of the store.
pub(crate) fn refusal(refusal: store::Refusal) -> Refusal {
    match refusal {
        store::Refusal::NeedsDisk => Refusal::NeedsDisk,
        store::Refusal::Busy => Refusal::Busy,
        store::Refusal::Full => Refusal::Full,
        store::Refusal::Newer => Refusal::Newer,
        store::Refusal::CatalogFull => Refusal::IndexFull,
        store::Refusal::Failed => Refusal::Failed,
        store::Refusal::TooLarge => Refusal::TooLarge,
    }
}
