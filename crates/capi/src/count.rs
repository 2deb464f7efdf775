//! Exports that change counters.

use std::ffi::c_void;

use larder::Signed;

use crate::handle::ttl;
use crate::raw::{bytes, guard, place, reference};
use crate::{Handle, Status};

/// Adds `delta` to a counter, an item whose value is a decimal number, and writes the new value to
/// `number`. The counter wraps at 2^64 and keeps its time to live. Returns `LARDER_MISSING` if the
/// key has no item, which `larder_add` can create, and `LARDER_NOT_A_NUMBER` if the value is not a
/// number.
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

/// Subtracts `delta` from a counter, down to 0. See `larder_increment`.
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

/// Adds `delta` to a signed counter, and writes the new value to `number`. A signed counter is an
/// item with the tag `LARDER_TAG_LONG` whose value is a decimal number. It wraps at 2^63 and keeps
/// its time to live. If the key has no item, the counter starts at `delta`, with the time to live
/// `ttl_secs_if_new`. Returns `LARDER_NOT_A_NUMBER` if the item has another tag, or if its value is
/// not a decimal number from -2^63 to 2^63 - 1. Returns `LARDER_UNSUPPORTED` on a server.
///
/// Cost: same as `larder_increment` if the number is not negative and keeps its length; otherwise
/// same as a store.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::add_signed`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_add_i64(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    delta: i64,
    ttl_secs_if_new: u32,
    number: *mut i64,
) -> Status {
    guard(|| {
        // SAFETY: as in `larder_increment`.
        let (cache, key, mut number) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, place(number)) };
        number.put(cache.cache()?.add_signed(key, delta, ttl(ttl_secs_if_new))?);
        Ok(Status::Ok)
    })
}

/// Stores `new_number` in a signed counter if its value is `old`. See `larder_add_i64`. The counter
/// keeps its time to live. Returns `LARDER_CHANGED` if the counter has another value,
/// `LARDER_MISSING` if the key has no item, and `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::swap_signed`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_cas_i64(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    old: i64,
    new_number: i64,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes.
        let (cache, key) = unsafe { (reference(cache)?, bytes(key, key_bytes)?) };
        Ok(match cache.cache()?.swap_signed(key, old, new_number)? {
            Signed::Number(_) => Status::Ok,
            Signed::Differs(_) => Status::Changed,
            Signed::NotFound | Signed::NonNumeric => Status::Missing,
        })
    })
}
