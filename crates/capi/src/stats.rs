//! Exports that describe or change an entire cache. A server does not support them: they return
//! [`Status::Unsupported`].

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, PoisonError};

use crate::raw::{elements_mut, guard, place, reference};
use crate::{Handle, Status};

/// A statistic.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// The name, as larderd reports it. The text is valid as long as the library is loaded.
    pub name: *const c_char,
    /// The meaning, with the unit. The text is valid as long as the library is loaded.
    pub meaning: *const c_char,
    /// The value.
    pub value: u64,
}

/// The memory of a cache, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// The memory limit.
    pub limit: u64,
    /// Memory in use: items, index, bookkeeping, and free memory inside segments.
    pub used: u64,
    /// Memory of the items that readers can find.
    pub items: u64,
    /// Memory of the index.
    pub index: u64,
}

/// Writes the number of statistics to `count`, and the first `capacity` statistics to `stats`.
/// Returns `LARDER_TOO_SMALL` if there are more, and `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `stats` has `capacity` elements. Behavior:
/// [`larder::Cache::stats`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_stats(
    cache: *const Handle,
    stats: *mut Stat,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        let cache = unsafe { reference(cache)? }.cache()?;
        // SAFETY: the C caller upholds the pointer contract: `stats` has `capacity` writable
        // elements that overlap nothing, `count` is null or writable.
        let (stats, mut count) = unsafe { (elements_mut(stats, capacity)?, place(count)) };
        let mut found = 0;
        for stat in cache.stats() {
            if let Some(place) = stats.get_mut(found) {
                let (name, meaning) = (lasting(stat.name), lasting(stat.doc));
                place.write(Stat { name, meaning, value: stat.value });
            }
            found += 1;
        }
        count.put(found);
        Ok(if found <= capacity { Status::Ok } else { Status::TooSmall })
    })
}

/// Returns `text` with a terminating zero. Allocates a copy at the first call for each text, and
/// never frees it.
fn lasting(text: &'static str) -> *const c_char {
    static MADE: Mutex<BTreeMap<&str, CString>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    // The texts of the table do not contain zeros.
    made.entry(text).or_insert_with(|| CString::new(text).unwrap_or_default()).as_ptr()
}

/// Writes the number of items to `items`. It includes expired and cleared items until the cache
/// finds them. With a disk tier it is the number of items in memory; `tier_items` of `larder_stats`
/// is the number of items on the disk. Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::len`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_length(cache: *const Handle, items: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `items` is null or
        // writable.
        let (cache, mut items) = unsafe { (reference(cache)?, place(items)) };
        items.put(cache.cache()?.len());
        Ok(Status::Ok)
    })
}

/// Writes the memory of the cache to `memory`. Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::memory`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_memory_of(cache: *const Handle, memory: *mut Memory) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `memory` is null or
        // writable.
        let (cache, mut memory) = unsafe { (reference(cache)?, place(memory)) };
        let larder::Memory { limit, used, items, index } = cache.cache()?.memory();
        memory.put(Memory { limit, used, items, index });
        Ok(Status::Ok)
    })
}

/// Sets the memory limit, in bytes. Returns `LARDER_INVALID` unless it is from 1 MiB to
/// `memory_bytes_max` of the options. If the new limit is lower, the cache evicts items gradually.
/// Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::set_memory_limit`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_set_memory(cache: *const Handle, bytes: u64) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        let cache = unsafe { reference(cache)? }.cache()?;
        Ok(cache.set_memory_limit(bytes).map_or(Status::Invalid, |()| Status::Ok))
    })
}

/// Removes all items: reads that begin after the call do not find them. With a disk tier the call
/// can fail with the errors of a store; then all items are kept. Returns `LARDER_UNSUPPORTED` on a
/// server.
///
/// Cost: constant. The cache reclaims the memory later.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::try_clear`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_clear(cache: *const Handle) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        unsafe { reference(cache)? }.cache()?.try_clear()?;
        Ok(Status::Ok)
    })
}

/// Reclaims the memory of expired and cleared items. The cache also works without this call.
/// Returns `LARDER_UNSUPPORTED` on a server.
///
/// Cost: at most a few milliseconds.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::maintain`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_maintain(cache: *const Handle) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        unsafe { reference(cache)? }.cache()?.maintain();
        Ok(Status::Ok)
    })
}

/// Sets the counters of events, such as hits and misses, to 0, for all processes that share the
/// cache. If another thread counts an event at the same time, the event may be lost, or the counter
/// of that thread may keep its old value. Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::reset_counters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_reset_stats(cache: *const Handle) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        unsafe { reference(cache)? }.cache()?.reset_counters();
        Ok(Status::Ok)
    })
}
