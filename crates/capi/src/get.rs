//! Exports that read items.

use std::ffi::c_void;

use crate::raw::{buffer, bytes, elements, elements_mut, guard, place, reference};
use crate::{Handle, Item, Status};

/// Copies the value of a key to `value`, which has `capacity` bytes, and writes its attributes to
/// `item`. The copy is a value that the item had at one time, whatever other threads and processes
/// do. `LARDER_TOO_SMALL` if the value is longer than `capacity`: then `item` has its length, and
/// `value` is unchanged. `LARDER_MISSING` if the key has no item. `key`, `value` and `item` must
/// not overlap. An invalid key is `LARDER_MISSING` in memory, and `LARDER_KEY` on a server.
///
/// Cost: at most two cache misses of the processor, and a copy of the value. A connected cache that
/// cannot read the memory of the server makes a round trip. With a disk tier the call reads an item
/// that memory lacks from the disk.
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

/// Copies the value of a key as `larder_get` does, without counting: neither in the statistics nor
/// as a read for eviction. `LARDER_UNSUPPORTED` on a server.
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
/// `LARDER_MISSING` if the key has no item.
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

/// Returns `LARDER_OK` if the key has an item, `LARDER_MISSING` if it has none. Counts and costs as
/// `larder_peek` does.
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

/// Does what `larder_get` does, and sets the time to live of the item to `ttl_secs` from now, also
/// if the value does not fit; 0 is no expiry. The two steps are not atomic.
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

/// Copies the values of `count` keys. `keys` has the keys one behind the other, `key_bytes` their
/// lengths. The function writes the values to `values` one behind the other, as far as they fit
/// into `capacity` bytes, and writes to `items`, in the order of the keys, a `status` of
/// `LARDER_OK`, `LARDER_MISSING`, `LARDER_TOO_SMALL` or, with a disk tier, the error of that key,
/// and the other attributes.
///
/// Cost: less than half of the time of `count` calls of `larder_get`, if the items are not in the
/// caches of the processor. On a server, a round trip for each 16 KiB of requests, which have 16
/// bytes and the key.
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
            // One call: the client sends as many keys together as it can.
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

/// Keys that the library looks up together in memory.
const KEYS_AT_ONCE: usize = 16;

/// Bytes of the caller: a key of `larder_prefetch`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// The first byte.
    pub at: *const c_void,
    /// The number of bytes.
    pub bytes: usize,
}

/// Announces that the caller is about to get these keys, one by one: the processor loads their
/// items meanwhile. About 16 keys at a time are best, and pay if the items are not in the caches of
/// the processor. Does nothing on a server.
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
