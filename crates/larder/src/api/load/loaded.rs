//! The result of a load: a value, or an error.

use std::sync::Arc;
use std::time::Duration;

use larder_item::KeyError;

use crate::process::codec_error::CodecError;

/// The result of a loader: a value, and optionally a time to live and client flags for it. Bytes
/// and text convert into it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub(super) value: Vec<u8>,
    pub(super) ttl: Option<Duration>,
    pub(super) flags: u32,
}

impl Loaded {
    /// Returns a value with the time to live of the options.
    pub fn new(value: impl Into<Vec<u8>>) -> Self {
        Self { value: value.into(), ttl: None, flags: 0 }
    }

    /// Sets a time to live for this value in place of the options' ttl; the options' stale period
    /// is added.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets the client flags of the item. Without them they are 0.
    #[must_use]
    pub fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }
}

impl<V: Into<Vec<u8>>> From<V> for Loaded {
    fn from(value: V) -> Self {
        Self::new(value)
    }
}

/// The reason why a value could be neither found nor loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// The caller's loader, or the loader that the caller waited for, returned this error. All
    /// waiting callers receive the same error.
    #[error("the loader failed: {0}")]
    Failed(#[source] Arc<E>),
    /// The loader that this caller waited for panicked. The panic continues in the loader's own
    /// thread.
    #[error("the loader, called by another thread, panicked")]
    Panicked,
    /// The loader that this caller waited for took longer than the timeout. The next caller loads
    /// again.
    #[error("the loader, called by another thread, took longer than {0:?}")]
    TimedOut(Duration),
    /// A loader requested the same key that it is loading.
    #[error("the loader waits for itself: it requests the key that it is loading")]
    Recursive,
    /// The key is invalid; the loader was not called.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The codec of a [`TypedCache`](crate::TypedCache) failed.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// The reason why a loader has no bytes to store.
pub(crate) enum LoaderError<E> {
    /// The loader failed.
    Failed(E),
    /// The codec could not encode the loader's value.
    Codec(CodecError),
}
