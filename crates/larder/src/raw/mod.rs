//! The operations in the form that servers and bindings need: explicit flags, deadlines and cas
//! tokens, values that arrive in parts, no value copied twice. Programs use [`get`](crate::get) and
//! [`set`](crate::set), which are built on these operations.

mod change;
mod lookup;
mod read;
mod store;

use std::task::Poll;

use larder_engine::{Refusal, StoreError};

use crate::cache::Cache;
use crate::large::Read;
use crate::tier::wait::Wait;

/// A cache as a caller uses it who says how its operations wait for the disk tier.
///
/// An operation that is [`Poll::Pending`] has changed nothing. Under another wait than
/// [`Wait::Ask`], and without a disk tier, none is.
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
    pub(crate) cache: &'a Cache,
    pub(crate) wait: Wait<'a>,
}

impl Cache {
    /// Returns the cache for operations that wait in this way.
    #[inline]
    pub fn raw<'a>(&'a self, wait: Wait<'a>) -> Raw<'a> {
        Raw { cache: self, wait }
    }

    /// Returns the cache for operations that wait themselves.
    #[inline]
    pub(crate) fn blocking(&self) -> Raw<'_> {
        self.raw(Wait::Block)
    }
}

/// Returns the outcome of an operation that reads the disk itself, which is never pending.
#[inline]
pub fn waited<T>(outcome: Poll<Result<T, StoreError>>) -> Result<T, StoreError> {
    match outcome {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => Err(Refusal::AskDisk.into()),
    }
}

/// Returns the outcome of a read that reads the disk itself.
#[inline]
pub(crate) fn waited_read(read: Poll<Read>) -> Read {
    match read {
        Poll::Ready(read) => read,
        Poll::Pending => Read::Failed(Refusal::AskDisk.into()),
    }
}
