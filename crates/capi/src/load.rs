//! Exports for loads whose loader is the caller.

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
/// key has no item, the load reserves it for `timeout_secs`; readers do not see the reservation,
/// which takes the memory of a small item. `larder_end_load` or `larder_cancel_load` ends the load.
/// `LARDER_UNSUPPORTED` on a server.
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

/// Ends a load and stores its value as `larder_set` does, unless any process has stored, deleted or
/// otherwise changed the item since the load began: then it returns `LARDER_CHANGED`, and the item
/// stays.
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

/// A lease, from `larder_lease` to `larder_release`. The caller keeps it unchanged.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LeaseToken {
    /// Identifies the lease.
    pub words: [u64; 4],
}

/// Takes the lease of a key for `ms` milliseconds, so that one process at a time computes what
/// belongs to the key. `LARDER_BUSY` if it is held, also by this process: try again later, or go on
/// without.
///
/// The lease ends with `larder_release`, with its time, or when its process dies: the next caller
/// notices that. It also ends with `larder_clear`, and if eviction needs its memory, which is that
/// of a small item. It does not matter to the item of the key. A forked child does not have the
/// leases of its parent.
///
/// On a server the lease excludes the other clients of the server. It is an item of the server,
/// with a key that begins with `larder.lease.`: its time is rounded up to seconds, and it does not
/// end with its process.
///
/// Cost: that of a store; if the lease is held, that of a delete and a system call.
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

/// Ends a lease. `LARDER_MISSING` if it had ended before, or is that of another process.
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
