//! What is known of a cache as a whole, and what is done to it.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::{Mutex, PoisonError};

use crate::raw::{give, guard, handle};
use crate::{Handle, Status};

/// A statistic.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    /// Its name, the same as in the answers of larderd; it stays where it is.
    pub name: *const c_char,
    /// What it means, with its unit; it stays where it is.
    pub meaning: *const c_char,
    /// Its value.
    pub value: u64,
}

/// Where a cache's memory is, in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// What it may take.
    pub limit: u64,
    /// What it has taken: items, index, accounts, and what is free in its segments.
    pub used: u64,
    /// What the items that can be read take.
    pub items: u64,
    /// What the index takes.
    pub index: u64,
}

/// Tells the statistics: `count` how many there are, and as many of them as `capacity` allows in `stats`.
///
/// # Safety
/// Pointers are null or what they say; `stats` has room for `capacity` of them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_stats(
    cache: *const Handle,
    stats: *mut Stat,
    capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let cache = unsafe { handle(cache)? }.cache()?;
        if stats.is_null() && capacity > 0 {
            return Err(Status::Invalid);
        }
        let mut told = 0;
        for stat in cache.stats() {
            if told < capacity {
                let stat = Stat {
                    name: lasting(stat.name),
                    meaning: lasting(stat.doc),
                    value: stat.value,
                };
                // SAFETY: `told` is below the capacity, which the caller vouches for.
                unsafe { give(stats.add(told), stat) };
            }
            told += 1;
        }
        // SAFETY: as above.
        unsafe { give(count, told) };
        Ok(if told <= capacity { Status::Ok } else { Status::TooSmall })
    })
}

/// The same text with a zero behind it, made once for each of the table's.
fn lasting(text: &'static str) -> *const c_char {
    static MADE: Mutex<BTreeMap<&str, CString>> = Mutex::new(BTreeMap::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    // What is in the table has no zero in it.
    made.entry(text).or_insert_with(|| CString::new(text).unwrap_or_default()).as_ptr()
}

/// Tells how many items there are; those that expired or were cleared count until they are come across.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_length(cache: *const Handle, items: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for both.
        unsafe { give(items, handle(cache)?.cache()?.len()) };
        Ok(Status::Ok)
    })
}

/// Tells where the memory is.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_memory_of(cache: *const Handle, memory: *mut Memory) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let larder::Memory { limit, used, items, index } =
            unsafe { handle(cache)? }.cache()?.memory();
        // SAFETY: as above.
        unsafe { give(memory, Memory { limit, used, items, index }) };
        Ok(Status::Ok)
    })
}

/// Sets another memory limit, in bytes: up to `memory_bytes_max` of the options, and from 1 MiB. What is too much is
/// evicted. `LARDER_INVALID` where it cannot be.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_set_memory(cache: *const Handle, bytes: u64) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let cache = unsafe { handle(cache)? }.cache()?;
        Ok(cache.set_memory_limit(bytes).map_or(Status::Invalid, |()| Status::Ok))
    })
}

/// Makes everything that is stored so far invisible, at once.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_clear(cache: *const Handle) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        unsafe { handle(cache)? }.cache()?.clear();
        Ok(Status::Ok)
    })
}

/// Takes back memory of items that expired or were cleared, in some milliseconds at most. Nothing depends on it being
/// called.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_maintain(cache: *const Handle) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        unsafe { handle(cache)? }.cache()?.maintain();
        Ok(Status::Ok)
    })
}
