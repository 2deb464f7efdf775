//! Walking through the keys.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use larder::{KEY_BYTES_MAX, Sink};

use crate::handle::close;
use crate::raw::{bytes, give, guard, handle, lent};
use crate::{Handle, Status};

/// The longest key, in bytes.
pub const LARDER_KEY_BYTES_MAX: usize = 250;
const _: () = assert!(LARDER_KEY_BYTES_MAX == KEY_BYTES_MAX);

/// A walk through the keys of a cache. Threads may share one, and each key is given to one of them.
#[derive(Debug)]
pub struct Keys(Mutex<larder::Keys>);

/// Begins a walk through all keys that begin with a prefix, in no particular order. An item that is there all the time is
/// shown at least once; one that is stored or removed meanwhile may be shown or not. Nothing is held between two steps.
/// `larder_keys_close` ends it.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_keys(
    cache: *const Handle,
    prefix: *const c_void,
    prefix_bytes: usize,
    keys: *mut *mut Keys,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, prefix) = unsafe { (handle(cache)?, bytes(prefix, prefix_bytes)?) };
        if keys.is_null() {
            return Err(Status::Invalid);
        }
        let walk = Keys(Mutex::new(cache.cache()?.keys_with_prefix(prefix)));
        // SAFETY: as above.
        unsafe { give(keys, Box::into_raw(Box::new(walk))) };
        Ok(Status::Ok)
    })
}

/// Gives the next key: writes it to `key`, which has room for `LARDER_KEY_BYTES_MAX` bytes, and its length to `key_bytes`.
/// `LARDER_END` where all have been shown.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_keys_next(
    keys: *const Keys,
    key: *mut c_void,
    key_bytes: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (keys, mut room) = unsafe { (handle(keys)?, lent(key, LARDER_KEY_BYTES_MAX)?) };
        let next = keys.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        let found = next.ok_or(Status::End)?;
        // SAFETY: as above.
        unsafe { give(key_bytes, found.len()) };
        room.extend(&found);
        Ok(Status::Ok)
    })
}

/// Ends a walk; a null pointer is left alone.
///
/// # Safety
/// `keys` is null or open, and nobody uses it, or will.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_keys_close(keys: *mut Keys) {
    // SAFETY: the caller vouches for it; it came from `Box::into_raw`.
    unsafe { close(keys) };
}
