//! Hearing of items that leave a cache.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use larder::{Reason, Removed, Sink};

use crate::handle::close;
use crate::raw::{give, guard, handle, lent};
use crate::walk::LARDER_KEY_BYTES_MAX;
use crate::{Handle, Status};

/// Why an item left.
pub mod reason {
    /// Somebody deleted it.
    pub const LARDER_DELETED: u32 = 1;
    /// Another one was stored in its place.
    pub const LARDER_REPLACED: u32 = 2;
    /// Its time was over.
    pub const LARDER_EXPIRED: u32 = 3;
    /// Its memory was needed for others.
    pub const LARDER_EVICTED: u32 = 4;
    /// It was there when the cache was cleared.
    pub const LARDER_CLEARED: u32 = 5;
}

/// The value of an item that was removed is not told where it was kept in pieces: it is then this long.
pub const LARDER_NO_VALUE: u64 = u64::MAX;

/// A queue of items that have left a cache. Threads may share one, and each item is given to one of them.
#[derive(Debug)]
pub struct Removals {
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    removals: larder::Removals,
    /// The last one, where its value did not fit.
    pending: Option<Removed>,
}

/// Puts each item that leaves from now on, with its key and value, into a queue with room for `capacity` of them, a million
/// at most; what comes while it is full is lost, and counted. `larder_removals_close` ends it.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_subscribe(
    cache: *const Handle,
    capacity: usize,
    removals: *mut *mut Removals,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let cache = unsafe { handle(cache)? }.cache()?;
        if removals.is_null() {
            return Err(Status::Invalid);
        }
        let queue = Queue { removals: cache.subscribe(capacity), pending: None };
        let queue = Removals { queue: Mutex::new(queue) };
        // SAFETY: as above.
        unsafe { give(removals, Box::into_raw(Box::new(queue))) };
        Ok(Status::Ok)
    })
}

/// Takes the next item from the queue, for which it waits `wait_ms` at most; `LARDER_END` where none has come. The key is
/// written to `key`, which has room for `LARDER_KEY_BYTES_MAX` bytes, the value to `value`; where that does not suffice the
/// answer is `LARDER_TOO_SMALL`, and the item comes again. A `value_bytes` of `LARDER_NO_VALUE` says that it is not told.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_removals_next(
    removals: *const Removals,
    wait_ms: u32,
    key: *mut c_void,
    key_bytes: *mut usize,
    value: *mut c_void,
    capacity: usize,
    value_bytes: *mut u64,
    reason: *mut u32,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (removals, mut key_room, mut room) = unsafe {
            (handle(removals)?, lent(key, LARDER_KEY_BYTES_MAX)?, lent(value, capacity)?)
        };
        let mut queue = removals.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = Duration::from_millis(wait_ms.into());
        let next = queue.pending.take().or_else(|| queue.removals.next_within(wait));
        let removed = next.ok_or(Status::End)?;
        let told = removed.value.as_deref();
        key_room.extend(&removed.key);
        // SAFETY: as above.
        unsafe {
            give(key_bytes, removed.key.len());
            give(value_bytes, told.map_or(LARDER_NO_VALUE, |value| value.len() as u64));
            give(reason, number(removed.reason));
        }
        room.extend(told.unwrap_or_default());
        if !room.is_whole() {
            queue.pending = Some(removed);
            return Ok(Status::TooSmall);
        }
        Ok(Status::Ok)
    })
}

/// How many items were lost because the queue was full.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_removals_lost(removals: *const Removals, lost: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for both.
        let removals = unsafe { handle(removals)? };
        let count = removals.queue.lock().unwrap_or_else(PoisonError::into_inner).removals.lost();
        // SAFETY: as above.
        unsafe { give(lost, count) };
        Ok(Status::Ok)
    })
}

/// Ends a subscription; a null pointer is left alone.
///
/// # Safety
/// `removals` is null or open, and nobody uses it, or will.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_removals_close(removals: *mut Removals) {
    // SAFETY: the caller vouches for it; it came from `Box::into_raw`.
    unsafe { close(removals) };
}

fn number(reason: Reason) -> u32 {
    match reason {
        Reason::Deleted => reason::LARDER_DELETED,
        Reason::Replaced => reason::LARDER_REPLACED,
        Reason::Expired => reason::LARDER_EXPIRED,
        Reason::Evicted => reason::LARDER_EVICTED,
        Reason::Cleared => reason::LARDER_CLEARED,
    }
}
