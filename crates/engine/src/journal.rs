//! The journal: what records each change of an item, before the change can be seen.

use std::fmt;

use larder_item::{Deadline, Second};

/// An item as a journal records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The value, as clients see it.
    pub value: &'a [u8],
    /// The client flags.
    pub flags: u32,
    /// The deadline.
    pub deadline: Deadline,
    /// The cas token; 0 if the cache keeps none.
    pub version: u64,
    /// True if the value is out of date.
    pub stale: bool,
    /// True if a client holds the recache token.
    pub token_sent: bool,
    /// True if the value is a number that changes in place.
    pub number: bool,
}

/// The circumstances of a change.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The second of the operation.
    pub now: Second,
    /// True if memory has a live item of the key.
    pub is_resident: bool,
    /// Says whether a flush has hidden the change already, or a removal by prefix takes the item
    /// that is evicted. The journal asks under the lock that orders its records and its flushes.
    pub is_gone: &'a dyn Fn() -> bool,
}

impl fmt::Debug for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { now, is_resident, .. } = self;
        f.debug_struct("Change")
            .field("now", now)
            .field("is_resident", is_resident)
            .finish_non_exhaustive()
    }
}

/// Why a journal refuses a change. The engine then changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It depends on an item that memory does not have. The caller finds out and tries again.
    #[error("the disk must be asked for the item first")]
    NeedsDisk,
    /// There is no room at the moment. The caller waits and tries again.
    #[error("the disk does not keep up with the stores; try again later")]
    Busy,
    /// There is no room.
    #[error("out of disk space storing object")]
    Full,
    /// There is no memory for another key.
    #[error("out of memory for the index of the disk; give the cache more memory")]
    IndexFull,
    /// An earlier write failed: the journal takes no more changes.
    #[error("the disk has failed and the store takes no more changes; restart it")]
    Failed,
    /// The disk did not return the item that the change needs, or it was damaged.
    #[error("the disk did not return the item")]
    Unreadable,
    /// The journal is of the process that this one was forked from.
    #[error("the disk tier is of the process that opened the cache; open a cache after the fork")]
    Forked,
    /// The process could not join those that share the cache when it was forked.
    #[error("this forked process cannot use the cache; Cache::lost gives the reason")]
    Lost,
    /// The item was stored after the removal began that would take it.
    #[error("the item is newer than the removal")]
    Newer,
    /// The item is longer than a journal's record.
    #[error("the item is longer than a segment of the disk holds")]
    TooLarge,
}

/// Records the changes of a cache's items. The engine calls it under the lock of the item's group,
/// before the change: what it returns without an error happens. The calls of one key are in the
/// order of its changes.
///
/// A journal must not use the engine. Only one process may write a cache that has a journal.
pub trait Journal: fmt::Debug + Send + Sync {
    /// True if the journal gets each item when it is stored or changed. Otherwise it gets a
    /// [`Journal::removal`] then, for what it has of the key is out of date, and the item itself
    /// when eviction takes it.
    fn records_stores(&self) -> bool {
        true
    }

    /// Eviction takes a live item. `was_read` says whether it was read since it was stored, or has
    /// survived an eviction. Returns false if there is no room for it at the moment. Called only if
    /// [`Journal::records_stores`] is false.
    fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, was_read: bool) -> bool {
        let _ = (entry, change, was_read);
        true
    }

    /// The key has this item from now on.
    ///
    /// # Errors
    /// [`Refusal`].
    fn item(&self, entry: &Entry<'_>, change: &Change<'_>) -> Result<(), Refusal>;

    /// The key has no item from now on.
    ///
    /// # Errors
    /// [`Refusal`].
    fn removal(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal>;

    /// A load reserves a key of which memory has no item. Records nothing.
    ///
    /// # Errors
    /// [`Refusal::NeedsDisk`] if the key may have an item outside memory.
    fn absence(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal>;
}
