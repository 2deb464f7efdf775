//! Exports for loads that the caller performs, and for leases.

use std::ffi::c_void;

use larder::{Lease, StoreMode};

use crate::handle::Store;
use crate::raw::{bytes, guard, reference, required_place};
use crate::{Handle, Status};

/// The state of a load. The caller keeps it unchanged from `larder_begin_load` to the end of the
/// load.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Identifies the item that the load found, or its reservation.
    pub words: [u64; 4],
}

/// Begins a load of the value of a key: call it before you read the value from its source. If the
/// key has no item, the load reserves the key for `timeout_secs` seconds. Readers do not see the
/// reservation, which uses the memory of a small item. `larder_end_load` or `larder_cancel_load`
/// ends the load. Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::begin_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_begin_load(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    timeout_secs: u32,
    load: *mut Load,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `load` is null or writable.
        let (cache, key, mut load) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, required_place(load)?) };
        load.put(cache.begin_load(key, timeout_secs)?);
        Ok(Status::Ok)
    })
}

/// Ends a load and stores its value as `larder_set` does. If any process has stored, deleted or
/// otherwise changed the item since the load began, stores nothing and returns `LARDER_CHANGED`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::end_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_end_load(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    load: *const Load,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `value` has `value_bytes` bytes, `load` is null or from `larder_begin_load`.
        let (cache, key, load, value) = unsafe {
            (
                reference(cache)?,
                bytes(key, key_bytes)?,
                reference(load)?,
                bytes(value, value_bytes)?,
            )
        };
        let mode = StoreMode::Set;
        cache.end_load(&Store { key, mode, value, ttl_secs, flags, cas: None }, load)
    })
}

/// Ends a load without a value, and removes its reservation.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::cancel_load`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_cancel_load(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    load: *const Load,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `load` is null or from `larder_begin_load`.
        let (cache, key, load) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, reference(load)?) };
        cache.cancel_load(key, load)
    })
}

/// A lease. The caller keeps it unchanged from `larder_lease` to `larder_release`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LeaseToken {
    /// Identifies the lease.
    pub words: [u64; 4],
}

/// Takes the lease of a key for `ms` milliseconds, so that only one process at a time computes the
/// value of the key. Returns `LARDER_BUSY` if any process, including this one, holds the lease: try
/// again later, or continue without it.
///
/// The lease ends with `larder_release`, when its time is over, or when its process dies, which the
/// next caller notices. It also ends with `larder_clear`, or when it is evicted: a lease uses the
/// memory of a small item. It has no effect on the item of the key. A forked child does not inherit
/// the leases of its parent.
///
/// On a server the lease excludes the other clients of the server. It is an item on the server
/// whose key begins with `larder.lease.`. Its time is rounded up to seconds, and it does not end
/// when its process dies.
///
/// Cost: about the same as a store; if the lease is held, a delete and a system call.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::lease`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_lease(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    ms: u32,
    lease: *mut LeaseToken,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `lease` is null or writable.
        let (cache, key, mut lease) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, required_place(lease)?) };
        let taken = cache.lease(key, ms)?;
        let words = taken.map(Lease::words);
        lease.put(LeaseToken { words: words.unwrap_or_default() });
        Ok(if words.is_some() { Status::Ok } else { Status::Busy })
    })
}

/// Ends a lease. Returns `LARDER_MISSING` if it had already ended, or belongs to another process.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::release`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_release(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    lease: *const LeaseToken,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `lease` is null or from `larder_lease`.
        let (cache, key, lease) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, reference(lease)?) };
        cache.release(key, Lease::of_words(lease.words))
    })
}
