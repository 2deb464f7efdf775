//! Exports that report removals of items.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use larder::{Reason, Removed, Sink};

use crate::raw::{buffer, close, guard, place, reference, required_place};
use crate::walk::LARDER_KEY_BYTES_MAX;
use crate::{Handle, Status};

/// Reasons of a removal.
pub mod reason {
    /// A client deleted the item.
    pub const LARDER_DELETED: u32 = 1;
    /// A client stored another item under its key.
    pub const LARDER_REPLACED: u32 = 2;
    /// The item expired.
    pub const LARDER_EXPIRED: u32 = 3;
    /// The cache evicted the item to free memory.
    pub const LARDER_EVICTED: u32 = 4;
    /// A client cleared the cache.
    pub const LARDER_CLEARED: u32 = 5;
}

/// The `value_bytes` of a removed item whose value is not in the queue, because the cache had
/// stored it in pieces.
pub const LARDER_NO_VALUE: u64 = u64::MAX;

/// A queue of removed items. If threads share a queue, each item goes to one of the threads.
#[derive(Debug)]
pub struct Removals {
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    removals: larder::Removals,
    /// The last item, if its value did not fit into the caller's buffer.
    pending: Option<Removed>,
}

/// Opens a queue of at most `capacity` items; the limit is a million. From now on the cache puts
/// each removed item into the queue, with its key and value. If the queue is full, the item is
/// dropped and counted. `larder_removals_close` closes the queue. Returns `LARDER_UNSUPPORTED` on a
/// server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::subscribe`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_subscribe(
    cache: *const Handle,
    capacity: usize,
    removals: *mut *mut Removals,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `removals` is null or
        // writable.
        let (cache, mut removals) = unsafe { (reference(cache)?, required_place(removals)?) };
        let queue = Queue { removals: cache.cache()?.subscribe(capacity), pending: None };
        removals.put(Box::into_raw(Box::new(Removals { queue: Mutex::new(queue) })));
        Ok(Status::Ok)
    })
}

/// Takes the next item from the queue, and waits for it at most `wait_ms` milliseconds; returns
/// `LARDER_END` if no item arrives. Writes the key to `key`, which has `LARDER_KEY_BYTES_MAX`
/// bytes, and the value to `value`, which has `capacity` bytes. Returns `LARDER_TOO_SMALL` if the
/// value is longer; then the next call returns the same item again. `value_bytes` is
/// `LARDER_NO_VALUE` if the value is not in the queue. `reason` is one of `LARDER_DELETED` to
/// `LARDER_CLEARED`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Removals::next_within`].
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
        // SAFETY: the C caller upholds the pointer contract: `removals` is open, `key` has
        // `LARDER_KEY_BYTES_MAX` and `value` has `capacity` writable bytes, which overlap nothing.
        let (removals, mut key, mut value) = unsafe {
            (reference(removals)?, buffer(key, LARDER_KEY_BYTES_MAX)?, buffer(value, capacity)?)
        };
        // SAFETY: the C caller upholds the pointer contract: each of these outputs is null or
        // writable.
        let (mut key_bytes, mut value_bytes, mut reason) =
            unsafe { (place(key_bytes), place(value_bytes), place(reason)) };
        let mut queue = removals.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = Duration::from_millis(wait_ms.into());
        let next = queue.pending.take().or_else(|| queue.removals.next_within(wait));
        let removed = next.ok_or(Status::End)?;
        let kept = removed.value.as_deref();
        key.extend(&removed.key);
        key_bytes.put(removed.key.len());
        value_bytes.put(kept.map_or(LARDER_NO_VALUE, |kept| kept.len() as u64));
        reason.put(number(removed.reason));
        value.extend(kept.unwrap_or_default());
        if !value.is_whole() {
            queue.pending = Some(removed);
            return Ok(Status::TooSmall);
        }
        Ok(Status::Ok)
    })
}

/// Writes the number of items that were dropped because the queue was full to `lost`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Removals::lost`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_removals_lost(removals: *const Removals, lost: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `removals` is open, `lost` is null or
        // writable.
        let (removals, mut lost) = unsafe { (reference(removals)?, place(lost)) };
        let queue = removals.queue.lock().unwrap_or_else(PoisonError::into_inner);
        lost.put(queue.removals.lost());
        Ok(Status::Ok)
    })
}

/// Closes a queue and frees it. Does nothing if `removals` is null.
///
/// # Safety
/// `removals` is null or open, and no thread uses it now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_removals_close(removals: *mut Removals) {
    // SAFETY: `larder_subscribe` made `removals` with `Box::into_raw`; the C caller closes it once
    // and last.
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
