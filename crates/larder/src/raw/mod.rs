//! The operations for servers and bindings: explicit flags, deadlines and cas tokens, and values
//! that arrive in parts; no value is copied twice. Programs use [`get`](crate::get) and
//! [`set`](crate::set), which are built on these operations.

mod change;
mod lookup;
mod read;
mod store;
pub(crate) mod upload;

use crate::backend::Backend;

/// A cache for operations whose caller chooses how to wait for the disk tier
/// ([`Cache::raw`](crate::Cache::raw)). The operations use the second at which it was created.
///
/// An operation that returns [`Poll::Pending`](std::task::Poll::Pending) has changed nothing.
/// Operations return it only with [`Wait::Ask`](crate::Wait::Ask) and a disk tier.
///
/// ```
/// use larder::{Cache, Deferred, StoreMode, StoreRequest, Stored, Wait};
/// use std::task::Poll;
/// let (cache, deferred) = (Cache::builder().open()?, Deferred::default());
/// let raw = cache.raw(Wait::Ask(&deferred));
/// let Poll::Ready(stored) = raw.store(&StoreRequest::new(b"k", StoreMode::Set), b"v")? else {
///     return Err("the disk is to be asked".into());
/// };
/// assert!(matches!(stored, Stored::Stored { .. }));
/// assert_eq!(deferred.take_awaited(), None, "nothing has to be durable first");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    pub(crate) backend: Backend<'a>,
}

impl Raw<'_> {
    /// Returns the same operations, but the change listener does not learn beforehand that one
    /// begins ([`ChangeListener::expect`](crate::ChangeListener::expect)). For a caller that is the
    /// listener itself and holds a lock.
    #[must_use]
    pub fn unannounced(self) -> Self {
        Self { backend: Backend { announces: false, ..self.backend } }
    }
}
