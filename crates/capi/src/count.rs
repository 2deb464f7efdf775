//! Exports that count.

use std::ffi::c_void;

use crate::raw::{bytes, guard, place, reference};
use crate::{Handle, Status};

/// Adds `delta` to a counter, an item whose value is a decimal number, and writes the new value to
/// `number`. The counter wraps at 2^64 and keeps its time to live. `LARDER_MISSING` if the key has
/// no item: `larder_add` creates one. `LARDER_NOT_A_NUMBER` if the value is not a number.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::increment`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_increment(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    delta: u64,
    number: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `number` is null or writable.
        let (cache, key, mut number) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, place(number)) };
        number.put(cache.increment(key, delta)?);
        Ok(Status::Ok)
    })
}

/// Subtracts `delta` from a counter, which stops at 0: see `larder_increment`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::decrement`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_decrement(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    delta: u64,
    number: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: as in `larder_increment`.
        let (cache, key, mut number) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, place(number)) };
        number.put(cache.decrement(key, delta)?);
        Ok(Status::Ok)
    })
}
