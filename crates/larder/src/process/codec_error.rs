//! [`CodecError`]: the error of a codec. Callers that wait for a load receive copies of it.

use std::error::Error;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

/// The error of a codec of a [`TypedCache`](crate::TypedCache). Copies share their cause.
#[derive(Clone, Debug)]
pub struct CodecError {
    codec: &'static str,
    key: Box<[u8]>,
    is_decode: bool,
    cause: Arc<dyn Error + Send + Sync>,
}

// Nothing changes the cause, so a panic cannot leave it half changed.
impl UnwindSafe for CodecError {}
impl RefUnwindSafe for CodecError {}

impl CodecError {
    pub(crate) fn new(
        codec: &'static str,
        key: &[u8],
        is_decode: bool,
        cause: Box<dyn Error + Send + Sync>,
    ) -> Self {
        Self { codec, key: key.into(), is_decode, cause: Arc::from(cause) }
    }

    /// Returns the name of the codec.
    pub fn codec(&self) -> &'static str {
        self.codec
    }

    /// Returns the key of the item in the cache, with the prefix of the typed cache.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// True if the codec could not decode the value of an item, false if it could not encode a
    /// value.
    pub fn is_decode(&self) -> bool {
        self.is_decode
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { codec, cause, .. } = self;
        let key = self.key.escape_ascii();
        if self.is_decode {
            write!(
                f,
                "the codec {codec} cannot decode the value of {key}, which another program may \
                 have stored: {cause}; remove the key, or let TypedCache::skip_undecodable count \
                 such values as misses"
            )
        } else {
            write!(f, "the codec {codec} cannot encode the value of {key}: {cause}")
        }
    }
}

impl Error for CodecError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.cause)
    }
}
