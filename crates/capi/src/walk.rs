//! Exports that walk over the keys.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use larder::{KEY_BYTES_MAX, Sink};

use crate::raw::{buffer, bytes, close, guard, place, reference, required_place};
use crate::{Handle, Status};

/// The longest key, in bytes.
pub const LARDER_KEY_BYTES_MAX: usize = 250;
const _: () = assert!(LARDER_KEY_BYTES_MAX == KEY_BYTES_MAX);

/// A walk over the keys of a cache. If threads share a walk, each key goes to one of the threads.
#[derive(Debug)]
pub struct Keys(Mutex<larder::Keys>);

/// Begins a walk over all keys that begin with a prefix, in no particular order. The walk returns
/// the key of an item that exists during the entire walk at least once; it may skip an item that a
/// client stores or removes during the walk. The library holds no lock between two steps.
/// `larder_keys_close` ends the walk. Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::keys_with_prefix`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_keys(
    cache: *const Handle,
    prefix: *const c_void,
    prefix_bytes: usize,
    keys: *mut *mut Keys,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `prefix` has
        // `prefix_bytes` bytes, `keys` is null or writable.
        let (cache, prefix, mut keys) =
            unsafe { (reference(cache)?, bytes(prefix, prefix_bytes)?, required_place(keys)?) };
        let walk = Keys(Mutex::new(cache.cache()?.keys_with_prefix(prefix)));
        keys.put(Box::into_raw(Box::new(walk)));
        Ok(Status::Ok)
    })
}

/// Writes the next key to `key`, which has `LARDER_KEY_BYTES_MAX` bytes, and its length to
/// `key_bytes`. Returns `LARDER_END` at the end of the walk.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Keys`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_keys_next(
    keys: *const Keys,
    key: *mut c_void,
    key_bytes: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `keys` is open, `key` has
        // `LARDER_KEY_BYTES_MAX` writable bytes, `key_bytes` is null or writable.
        let (keys, mut key, mut key_bytes) =
            unsafe { (reference(keys)?, buffer(key, LARDER_KEY_BYTES_MAX)?, place(key_bytes)) };
        let next = keys.0.lock().unwrap_or_else(PoisonError::into_inner).next();
        let found = next.ok_or(Status::End)?;
        key_bytes.put(found.len());
        key.extend(&found);
        Ok(Status::Ok)
    })
}

/// Ends a walk and frees it. Does nothing if `keys` is null.
///
/// # Safety
/// `keys` is null or open, and no thread uses it now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_keys_close(keys: *mut Keys) {
    // SAFETY: `larder_keys` made `keys` with `Box::into_raw`; the C caller closes it once and last.
    unsafe { close(keys) };
}
