//! Exports for loads whose loader is the caller.

use std::ffi::c_void;

use larder::StoreMode;

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
