//! Exports that store, change and remove items.

use std::ffi::c_void;

use larder::StoreMode;

use crate::handle::Store;
use crate::raw::{bytes, guard, place, reference};
use crate::{Handle, Status};

/// A pointer, and the length of its bytes.
type Slice = (*const c_void, usize);

/// Converts the arguments that all stores have in common.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `key` and `value` have their lengths.
#[inline]
unsafe fn store(
    cache: *const Handle,
    key: Slice,
    mode: StoreMode,
    value: Slice,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` and `value`
        // have `key_bytes` and `value_bytes` bytes.
        let (cache, key, value) =
            unsafe { (reference(cache)?, bytes(key.0, key.1)?, bytes(value.0, value.1)?) };
        let (status, _) = cache.store(&Store { key, mode, value, ttl_secs, flags, cas: None })?;
        Ok(status)
    })
}

/// Stores a value, and replaces the item of the key. The item expires after `ttl_secs` seconds; 0
/// means no expiry. The caller chooses `flags`. By convention their low four bits are the tag of
/// the value, such as `LARDER_TAG_STRING`, for programs in several languages. On a server, other
/// clients read and write the same flags. Returns `LARDER_TOO_LARGE` or `LARDER_NO_MEMORY` if the
/// item does not fit. The old item is then removed, so that readers do not find an outdated value.
/// After `LARDER_KEY`, and after every error of a cache with a disk tier of `LARDER_MODE_STORE`,
/// the old item is kept.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::store`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_set(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    // SAFETY: the C caller upholds the pointer contract, which is the contract of `store`.
    unsafe { store(cache, (key, key_bytes), StoreMode::Set, (value, value_bytes), ttl_secs, flags) }
}

/// Stores a value as `larder_set` does if the key has no item; otherwise returns `LARDER_EXISTS`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::store`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_add(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    // SAFETY: the C caller upholds the pointer contract, which is the contract of `store`.
    unsafe { store(cache, (key, key_bytes), StoreMode::Add, (value, value_bytes), ttl_secs, flags) }
}

/// Stores a value as `larder_set` does if the key has an item; otherwise returns `LARDER_MISSING`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::store`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_replace(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    // SAFETY: the C caller upholds the pointer contract, which is the contract of `store`.
    unsafe {
        store(cache, (key, key_bytes), StoreMode::Replace, (value, value_bytes), ttl_secs, flags)
    }
}

/// Appends bytes to the value of an item. The item keeps its time to live and flags. Returns
/// `LARDER_MISSING` if the key has no item.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::store`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_append(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    // SAFETY: the C caller upholds the pointer contract, which is the contract of `store`.
    unsafe { store(cache, (key, key_bytes), StoreMode::Append, (value, value_bytes), 0, 0) }
}

/// Prepends bytes to the value of an item. See `larder_append`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::store`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_prepend(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    // SAFETY: the C caller upholds the pointer contract, which is the contract of `store`.
    unsafe { store(cache, (key, key_bytes), StoreMode::Prepend, (value, value_bytes), 0, 0) }
}

/// Stores a value as `larder_set` does if the item still has the token `cas`, and writes the new
/// token to `new_cas`. If several callers read a value and store their changes, one of them
/// succeeds. For the others the function returns `LARDER_CHANGED`, and they should read the value
/// again. Returns `LARDER_MISSING` if the key has no item, and `LARDER_NO_TOKENS` if the cache was
/// opened without cas tokens.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::store`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_compare_and_set(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
    cas: u64,
    new_cas: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // and `value` has `value_bytes` bytes, `new_cas` is null or writable.
        let (cache, key, value, mut new_cas) = unsafe {
            (reference(cache)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?, place(new_cas))
        };
        let (mode, cas) = (StoreMode::Set, Some(cas));
        let (status, cas) = cache.store(&Store { key, mode, value, ttl_secs, flags, cas })?;
        new_cas.put(cas);
        Ok(status)
    })
}

/// Removes an item. Returns `LARDER_MISSING` if the key has no item.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::delete`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_delete(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes.
        let (cache, key) = unsafe { (reference(cache)?, bytes(key, key_bytes)?) };
        cache.delete(key)
    })
}

/// Sets the time to live of an item to `ttl_secs` seconds from now; 0 means no expiry. Returns
/// `LARDER_MISSING` if the key has no item.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::touch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_touch(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    ttl_secs: u32,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes.
        let (cache, key) = unsafe { (reference(cache)?, bytes(key, key_bytes)?) };
        cache.touch(key, ttl_secs)
    })
}

/// Removes every item whose key begins with a prefix, one by one, and writes the number of removed
/// items to `removed`. An empty prefix removes all items; `larder_clear` does this in constant
/// time. Returns `LARDER_UNSUPPORTED` on a server.
///
/// Cost: a walk over all keys. With a disk tier, also reads of the disk.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::remove_prefix`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_remove_prefix(
    cache: *const Handle,
    prefix: *const c_void,
    prefix_bytes: usize,
    removed: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `prefix` has
        // `prefix_bytes` bytes, `removed` is null or writable.
        let (cache, prefix, mut removed) =
            unsafe { (reference(cache)?, bytes(prefix, prefix_bytes)?, place(removed)) };
        removed.put(cache.cache()?.remove_prefix(prefix)?);
        Ok(Status::Ok)
    })
}
