//! Errors that operations of several modules return.

use larder_item::KeyError;

use crate::journal::Refusal;

/// A stopped process holds a group of the index, or all appenders. The operation waited for it for
/// a second or two and changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a process that shares the cache has been stopped in the middle of a change; continue it, or end it"
)]
pub struct Stuck;

/// The reason why a store failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The item is larger than the cache accepts.
    #[error("the item is larger than the cache accepts; store less, or raise the item size limit")]
    TooLarge,
    /// No memory is available.
    #[error("no memory is free for the item; allow eviction, or give the cache more memory")]
    NoMemory,
    /// The key is invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The cache's journal refused the change.
    #[error(transparent)]
    Journal(#[from] Refusal),
    /// A stopped process holds a lock that the operation needs: see [`Stuck`].
    #[error(transparent)]
    Stuck(#[from] Stuck),
}
