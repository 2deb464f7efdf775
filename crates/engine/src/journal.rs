//! The journal: the interface through which the engine reports changes of items to a cache's disk
//! tier. A change is reported before other threads can read it.

use std::fmt;

use larder_item::{Deadline, Second};

/// An item in the form that a journal records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The item's key.
    pub key: &'a [u8],
    /// The value that clients read.
    pub value: &'a [u8],
    /// The client flags.
    pub flags: u32,
    /// The deadline.
    pub deadline: Deadline,
    /// The cas token; 0 if the cache has no cas tokens.
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
    /// True if memory contains a live item with this key.
    pub is_resident: bool,
    /// Returns true if the change no longer matters, because a flush has hidden it, or because the
    /// item that is being evicted belongs to a removal by prefix that is in progress. The journal
    /// calls this under the lock that orders its records and its flushes.
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

/// The reason why a journal refuses a change. The engine then changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The change depends on an item that is not in memory. The caller looks it up on the disk and
    /// tries again.
    #[error("the item must first be looked up on the disk")]
    NeedsDisk,
    /// The journal has no space at the moment, but will have some soon. The caller waits and tries
    /// again.
    #[error("the disk does not keep up with the stores; try again later")]
    Busy,
    /// The journal has no space.
    #[error("out of disk space storing object")]
    Full,
    /// The journal has no memory for another key.
    #[error("out of memory for the index of the disk; give the cache more memory")]
    IndexFull,
    /// An earlier write failed: the journal takes no more changes.
    #[error("the disk has failed and the store takes no more changes; restart it")]
    Failed,
    /// The disk did not return the item that the change needs, or it was damaged.
    #[error("the disk did not return the item")]
    Unreadable,
    /// The journal belongs to the process that this one was forked from.
    #[error(
        "the disk tier belongs to the process that opened the cache; open a cache after the fork"
    )]
    Forked,
    /// The process was forked and could not join the processes that share the cache.
    #[error("this forked process cannot use the cache; Cache::lost gives the reason")]
    Lost,
    /// The item was stored after the start of the removal that would remove it.
    #[error("the item is newer than the removal")]
    Newer,
    /// The item exceeds the longest record of the journal.
    #[error("the item does not fit in a segment of the disk tier")]
    TooLarge,
}

/// Records the changes of a cache's items. The engine calls it under the lock of the item's group,
/// before the change. If a method returns no error, the engine makes the change. For one key, the
/// order of the calls is the order of the changes.
///
/// A journal must not use the engine. Only one process may write a cache that has a journal.
pub trait Journal: fmt::Debug + Send + Sync {
    /// True if the journal records each item when it is stored or changed. If false, the engine
    /// passes an item to the journal only when it evicts the item ([`Journal::eviction`]). When an
    /// item is stored or changed, the engine then calls [`Journal::removal`], because an item that
    /// the journal has for the same key is now out of date.
    fn records_stores(&self) -> bool {
        true
    }

    /// Records a live item that eviction is about to remove from memory. `was_read` is true if the
    /// item was read since it was stored, or has survived an eviction. Returns false if the journal
    /// has no space for it at the moment. Called only if [`Journal::records_stores`] is false.
    fn eviction(&self, entry: &Entry<'_>, change: &Change<'_>, was_read: bool) -> bool {
        let _ = (entry, change, was_read);
        true
    }

    /// Records that the key has this item from now on.
    ///
    /// # Errors
    /// [`Refusal`].
    fn item(&self, entry: &Entry<'_>, change: &Change<'_>) -> Result<(), Refusal>;

    /// Records that the key has no item from now on.
    ///
    /// # Errors
    /// [`Refusal`].
    fn removal(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal>;

    /// Called when a caller is about to load the value of a key that has no item in memory. The
    /// journal records nothing, but refuses the load if there may be an item with this key on the
    /// disk.
    ///
    /// # Errors
    /// [`Refusal::NeedsDisk`] if the key may have an item outside memory.
    fn absence(&self, key: &[u8], change: &Change<'_>) -> Result<(), Refusal>;
}
