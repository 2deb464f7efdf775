//! The operations in the form that servers and bindings need: explicit flags, deadlines and cas
//! tokens, values that arrive in parts, no value copied twice. Programs use [`get`](crate::get) and
//! [`set`](crate::set), which are built on these operations.

mod change;
mod lookup;
mod read;
mod store;
pub(crate) mod upload;

use crate::backend::Backend;

/// A cache for an operation of a caller, who decides how it waits for the disk tier
/// ([`Cache::raw`](crate::Cache::raw)). Its operations take place in the second of that call.
///
/// An operation that is [`Poll::Pending`](std::task::Poll::Pending) has changed nothing. Under
/// another wait than [`Wait::Ask`](crate::Wait::Ask), and without a disk tier, none is.
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
