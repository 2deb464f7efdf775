//! The journals of a disk tier. The engine calls a *journal* before a change becomes visible to
//! readers, to record the change in the log. A cache has one journal, and each operation has one
//! that adds the context of the operation.

use std::fmt;
use std::sync::Arc;

use larder_engine::{Change, Entry, Journal, Refusal};
use larder_tier::store::{KeyRecords, Removal};

use super::eviction_journal::EvictionJournal;
use super::store_journal::StoreJournal;

/// The context of an operation, for its journal.
#[derive(Clone, Copy)]
pub(super) struct JournalContext<'a> {
    /// The records that a lookup of the operation's key has found on the disk: the records of this
    /// key, and of other keys with the same tag.
    pub(super) known: &'a KeyRecords,
    /// True if the operation depends on the current item of its key.
    pub(super) needs: bool,
    /// The removal by prefix of which the operation is a part, if any.
    pub(super) removal: Option<&'a Arc<Removal>>,
}

static NOTHING: KeyRecords = KeyRecords { own: None, others: Vec::new() };

impl Default for JournalContext<'_> {
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
    pub(super) fn on<'a>(&'a self, terms: JournalContext<'a>) -> OperationJournal<'a> {
        OperationJournal { journal: self, terms }
    }
}

/// The journal of one operation.
pub(super) struct OperationJournal<'a> {
    journal: &'a TierJournal,
    terms: JournalContext<'a>,
}

impl fmt::Debug for OperationJournal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Recording").field(self.journal).finish()
    }
}

impl Journal for OperationJournal<'_> {
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

/// The journal for changes without a context.
impl Journal for TierJournal {
    fn records_stores(&self) -> bool {
        self.on(JournalContext::default()).records_stores()
    }

    fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, was_read: bool) -> bool {
        self.on(JournalContext::default()).eviction(entry, change, was_read)
    }

    fn item(&self, entry: &Entry<'_>, change: &Change<'_>) -> Result<(), Refusal> {
        self.on(JournalContext::default()).item(entry, change)
    }

    fn removal(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        self.on(JournalContext::default()).removal(key, change)
    }

    fn absence(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal> {
        self.on(JournalContext::default()).absence(key, change)
    }
}
