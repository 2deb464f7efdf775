//! Loads whose loader is the caller's: the store at their end is made only if nothing happened to the key meanwhile.

use std::ffi::c_void;
use std::time::Duration;

use larder::{Basis, Deadline, StoreMode, StoreRequest, Stored};

use crate::get::ttl;
use crate::raw::{bytes, give, guard, handle};
use crate::{Handle, Status};

/// What a load is based on: the caller keeps it from `larder_begin_load` to the end of the load, and changes nothing in it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Which item was there, or which reservation.
    pub words: [u64; 4],
}

/// Begins a load of a key's value: to be called before the value is read wherever it comes from. A key without an item is
/// reserved for `timeout_secs`; readers do not see that, and it takes the memory of a small item. `larder_end_load` or
/// `larder_cancel_load` ends the load. `LARDER_UNSUPPORTED` where the cache is a server's.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_begin_load(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    timeout_secs: u32,
    load: *mut Load,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key) = unsafe { (handle(cache)?, bytes(key, key_bytes)?) };
        if load.is_null() {
            // The caller could not end the load: the key would stay reserved until the timeout.
            return Err(Status::Invalid);
        }
        let timeout = Duration::from_secs(timeout_secs.into());
        let basis = cache.cache()?.begin_load(key, timeout)?;
        // SAFETY: as above.
        unsafe { give(load, Load { words: basis.words() }) };
        Ok(Status::Ok)
    })
}

/// Stores the value that a load has brought, as `larder_set` does, unless any process stored, deleted or otherwise changed
/// the item since the load began: then the answer is `LARDER_CHANGED`, and what is there stays.
///
/// # Safety
/// Pointers are null or what they say.
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
        // SAFETY: the caller vouches for all of them.
        let (cache, key, load, value) = unsafe {
            (handle(cache)?, bytes(key, key_bytes)?, handle(load)?, bytes(value, value_bytes)?)
        };
        let cache = cache.cache()?;
        let deadline = ttl(ttl_secs).map_or(Deadline::NEVER, |ttl| cache.deadline_after(ttl));
        let request = StoreRequest { deadline, flags, ..StoreRequest::new(key, StoreMode::Set) };
        Ok(match cache.end_load(&request, Basis::of_words(load.words), value)? {
            Stored::Stored { .. } => Status::Ok,
            Stored::Exists | Stored::NotStored | Stored::NotFound => Status::Changed,
        })
    })
}

/// Ends a load that brought nothing.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_cancel_load(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    load: *const Load,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key, load) = unsafe { (handle(cache)?, bytes(key, key_bytes)?, handle(load)?) };
        cache.cache()?.cancel_load(key, Basis::of_words(load.words))?;
        Ok(Status::Ok)
    })
}
