//! The journals of a disk tier: one for the cache, and one for each operation on it.

use std::fmt;
use std::sync::Arc;

use larder_engine::{Change, Entry, Journal, Refusal};
use larder_tier::store::{Known, Removal};

use super::eviction_journal::EvictionJournal;
use super::store_journal::StoreJournal;

/// The part of an operation that its journal needs.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    /// The records of its key and of other keys that were found on the disk.
    pub(super) known: &'a Known,
    /// True if it depends on the item of its key.
    pub(super) needs: bool,
    /// The removal that it belongs to.
    pub(super) removal: Option<&'a Arc<Removal>>,
}

static NOTHING: Known = Known { own: None, others: Vec::new() };

impl Default for Terms<'_> {
    fn default() -> Self {
        Self { known: &NOTHING, needs: true, removal: None }
    }
}

/// The journal of a cache with a disk tier.
#[derive(Debug)]
pub(super) enum TierJournal {
    /// The disk has all items.
    Store(StoreJournal),
    /// The disk has evicted items.
    Cache(EvictionJournal),
}

impl TierJournal {
    /// Returns the journal of one operation.
    pub(super) fn on<'a>(&'a self, terms: Terms<'a>) -> Recording<'a> {
        Recording { journal: self, terms }
    }
}

/// The journal of one operation.
pub(super) struct Recording<'a> {
    journal: &'a TierJournal,
    terms: Terms<'a>,
}

impl fmt::Debug for Recording<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recording").field(self.journal).finish()
    }
}

impl Journal for Recording<'_> {
    fn records_stores(&self) -> bool {
        matches!(self.journal, TierJournal::Store(_))
    }

    fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, was_read: bool) -> bool {
        match self.journal {
            TierJournal::Store(_) => true,
            TierJournal::Cache(eviction_journal) => {
                eviction_journal.eviction(entry, change, was_read)
            }
        }
    }

    fn item(&self, entry: &Entry<'_>, change: &Change<'_>) -> Result<(), Refusal> {
        match self.journal {
            TierJournal::Store(store_journal) => store_journal.item(entry, change, &self.terms),
            TierJournal::Cache(eviction_journal) => {
                eviction_journal.removal(entry.key, change, &self.terms)
            }
        }
    }

    fn removal(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        match self.journal {
            TierJournal::Store(store_journal) => store_journal.removal(key, change, &self.terms),
            TierJournal::Cache(eviction_journal) => {
                eviction_journal.removal(key, change, &self.terms)
            }
        }
    }

    fn absence(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        match self.journal {
            TierJournal::Store(store_journal) => store_journal.absence(key, change, &self.terms),
            TierJournal::Cache(eviction_journal) => {
                eviction_journal.absence(key, change, &self.terms)
            }
        }
    }
}

/// The journal for changes without terms.
impl Journal for TierJournal {
    fn records_stores(&self) -> bool {
        self.on(Terms::default()).records_stores()
    }

    fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, was_read: bool) -> bool {
        self.on(Terms::default()).eviction(entry, change, was_read)
    }

    fn item(&self, entry: &Entry<'_>, change: &Change<'_>) -> Result<(), Refusal> {
        self.on(Terms::default()).item(entry, change)
    }

    fn removal(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        self.on(Terms::default()).removal(key, change)
    }

    fn absence(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        self.on(Terms::default()).absence(key, change)
    }
}
