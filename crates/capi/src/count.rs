//! Counting.

use std::ffi::c_void;

use crate::raw::{bytes, give, guard, handle};
use crate::{Handle, Status};

/// Adds to a counter, an item whose value is a decimal number; it wraps at 2^64 and keeps its time. `number` may be null;
/// else it is told the new state. `LARDER_MISSING` where there is no item: `larder_add` makes one.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_increment(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    delta: u64,
    number: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key) = unsafe { (handle(cache)?, bytes(key, key_bytes)?) };
        let moved = match cache {
            Handle::Cache(cache) => cache.increment(key, delta)?,
            Handle::Client(client) => client.increment(key, delta)?,
        };
        // SAFETY: as above.
        Ok(unsafe { tell(moved, number) })
    })
}

/// Takes from a counter, which stops at 0: see `larder_increment`.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_decrement(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    delta: u64,
    number: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key) = unsafe { (handle(cache)?, bytes(key, key_bytes)?) };
        let moved = match cache {
            Handle::Cache(cache) => cache.decrement(key, delta)?,
            Handle::Client(client) => client.decrement(key, delta)?,
        };
        // SAFETY: as above.
        Ok(unsafe { tell(moved, number) })
    })
}

/// # Safety
/// `number` is null, or can be written to.
unsafe fn tell(moved: Option<u64>, number: *mut u64) -> Status {
    let Some(moved) = moved else {
        return Status::Missing;
    };
    // SAFETY: the caller vouches for it.
    unsafe { give(number, moved) };
    Status::Ok
}
