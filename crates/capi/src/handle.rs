//! A cache, near or far.

use larder::{Cache, Client};

use crate::Status;

/// A cache in the process or in memory that processes share, or one that a server keeps. Any number of threads may use it.
#[derive(Debug)]
pub enum Handle {
    /// In memory that this process has mapped.
    Cache(Cache),
    /// Kept by a server on this machine.
    Client(Client),
}

impl Handle {
    /// The cache, where it is no server's.
    pub(crate) fn cache(&self) -> Result<&Cache, Status> {
        match self {
            Self::Cache(cache) => Ok(cache),
            Self::Client(_) => Err(Status::Unsupported),
        }
    }
}

/// Closes a cache; a null pointer is left alone. Nobody may be using it, or use it later, but what `larder_keys` and
/// `larder_subscribe` gave may still be used and closed. A shared cache stays for the others.
///
/// # Safety
/// `cache` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_close(cache: *mut Handle) {
    // SAFETY: the caller vouches that it is open, so it came from `Box::into_raw`, and is closed once.
    unsafe { close(cache) };
}

/// Gives back what [`Box::into_raw`] gave to C.
///
/// # Safety
/// `boxed` is null, or from there and nobody's any more.
pub(crate) unsafe fn close<T>(boxed: *mut T) {
    if !boxed.is_null() {
        // SAFETY: the caller vouches for it.
        let boxed = unsafe { Box::from_raw(boxed) };
        crate::raw::guard(|| {
            drop(boxed);
            Ok(Status::Ok)
        });
    }
}
