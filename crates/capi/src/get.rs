//! Exports that read items.

use std::ffi::c_void;

use crate::raw::{buffer, bytes, elements, elements_mut, guard, place, reference};
use crate::{Handle, Item, Status};

/// Copies the value of a key to `value`, which has `capacity` bytes, and writes its attributes to
/// `item`. The copy is a value that the item had at one moment, whatever other threads and
/// processes do. Returns `LARDER_TOO_SMALL` if the value is longer than `capacity`; then `item`
/// contains its length, and `value` is unchanged. Returns `LARDER_MISSING` if the key has no item.
/// `key`, `value` and `item` must not overlap. For an invalid key the function returns
/// `LARDER_MISSING` in memory, and `LARDER_KEY` on a server.
///
/// Cost: at most two cache misses of the processor, and a copy of the value. A connected cache
/// makes a round trip if it cannot read the item in the memory of the server. With a disk tier the
/// call reads the disk if the item is not in memory.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::get`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_get(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *mut c_void,
    capacity: usize,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `value` has `capacity` writable bytes that overlap nothing, `item` is null or
        // writable.
        let (cache, key, mut value, mut item) = unsafe {
            (reference(cache)?, bytes(key, key_bytes)?, buffer(value, capacity)?, place(item))
        };
        cache.get(key, &mut value, |found| item.put(found))
    })
}

/// Copies the value of a key as `larder_get` does, but counts the read neither in the statistics
/// nor for eviction. Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::look`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_look(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *mut c_void,
    capacity: usize,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `value` has `capacity` writable bytes that overlap nothing, `item` is null or
        // writable.
        let (cache, key, mut value, mut item) = unsafe {
            (reference(cache)?, bytes(key, key_bytes)?, buffer(value, capacity)?, place(item))
        };
        cache.look(key, &mut value, |found| item.put(found))
    })
}

/// Writes the attributes of an item to `item`, without its value: the first of two calls for a host
/// that must allocate a buffer. The second call is `larder_get`, which may find a different value.
/// The call does not count as a read, except on a server, where it costs as much as `larder_get`.
/// Returns `LARDER_MISSING` if the key has no item.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::peek`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_peek(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `item` is null or writable.
        let (cache, key, mut item) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, place(item)) };
        let found = cache.peek(key)?;
        item.put(found);
        Ok(found.status)
    })
}

/// Returns `LARDER_OK` if the key has an item, otherwise `LARDER_MISSING`. Counting and cost are
/// the same as for `larder_peek`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::peek`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_contains(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    // SAFETY: the C caller upholds the pointer contract of `larder_peek`, which accepts a null
    // `item`.
    unsafe { larder_peek(cache, key, key_bytes, std::ptr::null_mut()) }
}

/// Same as `larder_get`, but also sets the time to live of the item to `ttl_secs` seconds from now,
/// even if the value does not fit into the buffer; 0 means no expiry. The two steps are not atomic.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`Handle::get_and_touch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_get_and_touch(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    ttl_secs: u32,
    value: *mut c_void,
    capacity: usize,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: as in `larder_get`.
        let (cache, key, mut value, mut item) = unsafe {
            (reference(cache)?, bytes(key, key_bytes)?, buffer(value, capacity)?, place(item))
        };
        cache.get_and_touch(key, ttl_secs, &mut value, |found| item.put(found))
    })
}

/// Copies the values of `count` keys. `keys` contains the keys one after the other, and `key_bytes`
/// their lengths. The function writes the values that fit into `capacity` bytes to `values`, one
/// after the other. It writes the attributes of each item to `items`, in the order of the keys. The
/// `status` of an item is `LARDER_OK`, `LARDER_MISSING`, `LARDER_TOO_SMALL` or, with a disk tier,
/// the error of that key.
///
/// Cost: less than half the time of `count` calls of `larder_get` if the items are not in the
/// caches of the processor. On a server, one round trip for each 16 KiB of requests; a request
/// consists of 16 bytes and the key.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `key_bytes` and `items` have `count` elements,
/// and `keys` as many bytes as `key_bytes` adds up to. Behavior: [`Handle::get_many`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_get_many(
    cache: *const Handle,
    keys: *const c_void,
    key_bytes: *const u32,
    count: usize,
    values: *mut c_void,
    capacity: usize,
    items: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key_bytes` has
        // `count` elements, `values` has `capacity` writable bytes that overlap nothing.
        let (cache, lengths, mut values) =
            unsafe { (reference(cache)?, elements(key_bytes, count)?, buffer(values, capacity)?) };
        let total = lengths.iter().try_fold(0usize, |sum, len| sum.checked_add(*len as usize));
        let total = total.ok_or(Status::Invalid)?;
        // SAFETY: the C caller upholds the pointer contract: `keys` has `total` bytes, the sum of
        // `key_bytes`, and `items` has `count` writable elements that overlap nothing.
        let (mut rest, items) = unsafe { (bytes(keys, total)?, elements_mut(items, count)?) };
        if let Handle::Client(_) = cache {
            let split = |len: &u32| {
                let key;
                (key, rest) = rest.split_at(*len as usize);
                key
            };
            let keys: Vec<&[u8]> = lengths.iter().map(split).collect();
            // One call: a client sends as many keys together as it can.
            cache.get_many(&keys, &mut values, |at, found| {
                items[at].write(found);
            })?;
            return Ok(Status::Ok);
        }
        for (lengths, items) in lengths.chunks(KEYS_AT_ONCE).zip(items.chunks_mut(KEYS_AT_ONCE)) {
            let mut keys: [&[u8]; KEYS_AT_ONCE] = [&[]; KEYS_AT_ONCE];
            for (key, len) in keys.iter_mut().zip(lengths) {
                (*key, rest) = rest.split_at(*len as usize);
            }
            cache.get_many(&keys[..lengths.len()], &mut values, |at, found| {
                items[at].write(found);
            })?;
        }
        Ok(Status::Ok)
    })
}

/// Number of keys that the library looks up together in memory.
const KEYS_AT_ONCE: usize = 16;

/// Prefetches the part of the index that a store of this key needs, and does not wait for it. Call
/// it before you encode the value. Does nothing on a server, and with a null `cache`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::prefetch_group`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_prefetch_group(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
) {
    // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
    // bytes.
    let arguments = unsafe { (reference(cache), bytes(key, key_bytes)) };
    if let (Ok(Handle::Cache(cache) | Handle::Copy(cache)), Ok(key)) = arguments {
        cache.prefetch_group(key);
    }
}

/// A range of bytes: a key of `larder_prefetch`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The first byte.
    pub at: *const c_void,
    /// The number of bytes.
    pub bytes: usize,
}

/// Prefetches the items of several keys into the caches of the processor. Call it before getting
/// these keys one by one. About 16 keys at a time are best. The call is only useful if the items
/// are not yet in the caches of the processor. Does nothing on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `keys` has `count` elements, and each `at` has
/// `bytes` bytes. Behavior: [`larder::Cache::prefetch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_prefetch(
    cache: *const Handle,
    keys: *const Slice,
    count: usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `keys` has `count`
        // elements.
        let (cache, keys) = unsafe { (reference(cache)?, elements(keys, count)?) };
        let (Handle::Cache(cache) | Handle::Copy(cache)) = cache else { return Ok(Status::Ok) };
        cache.usable()?;
        cache.prefetch(keys.iter().map(|key| {
            // SAFETY: the C caller upholds the pointer contract: `at` has `bytes` bytes.
            unsafe { bytes(key.at, key.bytes) }.unwrap_or_default()
        }));
        Ok(Status::Ok)
    })
}
