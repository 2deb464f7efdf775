//! Storing, changing and removing.

use std::ffi::c_void;

use larder::{Cache, Client, Deadline, StoreMode, StoreRequest, Stored, Swap};

use crate::get::ttl;
use crate::raw::{bytes, give, guard, handle};
use crate::{Handle, Status};

/// What is to be stored.
struct Store<'a> {
    key: &'a [u8],
    mode: StoreMode,
    value: &'a [u8],
    ttl_secs: u32,
    flags: u32,
    cas: Option<u64>,
}

impl Store<'_> {
    /// Stores it, and gives the cas token that it has now.
    fn carry_out(&self, cache: &Handle) -> Result<(Status, u64), Status> {
        match cache {
            Handle::Cache(cache) => self.in_cache(cache),
            Handle::Client(client) => self.by_server(client),
        }
    }

    fn in_cache(&self, cache: &Cache) -> Result<(Status, u64), Status> {
        let Self { key, mode, value, flags, cas, .. } = *self;
        let deadline = ttl(self.ttl_secs).map_or(Deadline::NEVER, |ttl| cache.deadline_after(ttl));
        let request = StoreRequest { deadline, flags, cas, ..StoreRequest::new(key, mode) };
        Ok(match cache.store_counted(&request, value)? {
            Stored::Stored { cas, .. } => (Status::Ok, cas),
            Stored::Exists => (Status::Changed, 0),
            Stored::NotStored if mode == StoreMode::Add => (Status::Exists, 0),
            Stored::NotStored | Stored::NotFound => (Status::Missing, 0),
        })
    }

    fn by_server(&self, client: &Client) -> Result<(Status, u64), Status> {
        let Self { key, mode, value, flags, cas, .. } = *self;
        // A client's stores carry no flags.
        if flags != 0 {
            return Err(Status::Unsupported);
        }
        let ttl = ttl(self.ttl_secs);
        if let Some(cas) = cas {
            return Ok(match client.compare_and_set(key, value, ttl, cas)? {
                Swap::Stored { cas } => (Status::Ok, cas),
                Swap::Changed => (Status::Changed, 0),
                Swap::Missing => (Status::Missing, 0),
            });
        }
        let (is_stored, otherwise) = match mode {
            StoreMode::Set => (client.set(key, value, ttl).map(|()| true)?, Status::Ok),
            StoreMode::Add => (client.add(key, value, ttl)?, Status::Exists),
            StoreMode::Replace => (client.replace(key, value, ttl)?, Status::Missing),
            StoreMode::Append => (client.append(key, value)?, Status::Missing),
            StoreMode::Prepend => (client.prepend(key, value)?, Status::Missing),
        };
        Ok((if is_stored { Status::Ok } else { otherwise }, 0))
    }
}

/// A pointer and a length.
type Slice = (*const c_void, usize);

/// # Safety
/// Pointers are null or what they say.
unsafe fn store(
    cache: *const Handle,
    key: Slice,
    mode: StoreMode,
    value: Slice,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key, value) =
            unsafe { (handle(cache)?, bytes(key.0, key.1)?, bytes(value.0, value.1)?) };
        let store = Store { key, mode, value, ttl_secs, flags, cas: None };
        Ok(store.carry_out(cache)?.0)
    })
}

/// Stores a value, in place of the one that is there. The item lives for `ttl_secs`; 0 is for ever. `flags` are bits of the
/// caller's, 0 where the cache is a server's.
///
/// Where it fails, but for a wrong key, the item that was there is gone: nobody reads what was to be replaced.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_set(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    // SAFETY: the caller vouches for all of them.
    unsafe { store(cache, (key, key_bytes), StoreMode::Set, (value, value_bytes), ttl_secs, flags) }
}

/// As `larder_set`, where there is no item; `LARDER_EXISTS` where there is one, which stays.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_add(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    // SAFETY: the caller vouches for all of them.
    unsafe { store(cache, (key, key_bytes), StoreMode::Add, (value, value_bytes), ttl_secs, flags) }
}

/// As `larder_set`, where there is an item; `LARDER_MISSING` where there is none.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_replace(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
) -> Status {
    // SAFETY: the caller vouches for all of them.
    unsafe {
        store(cache, (key, key_bytes), StoreMode::Replace, (value, value_bytes), ttl_secs, flags)
    }
}

/// Puts bytes behind the value of an item, which keeps its time and flags; `LARDER_MISSING` where there is none.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_append(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    // SAFETY: the caller vouches for all of them.
    unsafe { store(cache, (key, key_bytes), StoreMode::Append, (value, value_bytes), 0, 0) }
}

/// Puts bytes before the value of an item: see `larder_append`.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_prepend(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
) -> Status {
    // SAFETY: the caller vouches for all of them.
    unsafe { store(cache, (key, key_bytes), StoreMode::Prepend, (value, value_bytes), 0, 0) }
}

/// Stores a value over the item that has this cas token, and no other: of several that read a value and store what they
/// made of it, one succeeds. `LARDER_CHANGED` says to read it again. `new_cas` may be null; else it is told the new token.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_compare_and_set(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    value: *const c_void,
    value_bytes: usize,
    ttl_secs: u32,
    flags: u32,
    cas: u64,
    new_cas: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key, value) =
            unsafe { (handle(cache)?, bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        if let Handle::Cache(cache) = cache
            && !cache.keeps_cas()
        {
            return Err(Status::NoTokens);
        }
        let mode = StoreMode::Set;
        let store = Store { key, mode, value, ttl_secs, flags, cas: Some(cas) };
        let (status, cas) = store.carry_out(cache)?;
        // SAFETY: as above.
        unsafe { give(new_cas, cas) };
        Ok(status)
    })
}

/// Removes an item; `LARDER_MISSING` where there is none.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_delete(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key) = unsafe { (handle(cache)?, bytes(key, key_bytes)?) };
        let is_done = match cache {
            Handle::Cache(cache) => cache.delete(key)?,
            Handle::Client(client) => client.delete(key)?,
        };
        Ok(done_or_missing(is_done))
    })
}

/// Gives an item another time to live, from now; 0 is for ever. `LARDER_MISSING` where there is none.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_touch(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    ttl_secs: u32,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key) = unsafe { (handle(cache)?, bytes(key, key_bytes)?) };
        let is_done = match cache {
            Handle::Cache(cache) => cache.touch(key, ttl(ttl_secs))?,
            Handle::Client(client) => client.touch(key, ttl(ttl_secs))?,
        };
        Ok(done_or_missing(is_done))
    })
}

/// Removes every item whose key begins with a prefix, one by one; `removed` may be null, else it is told how many there
/// were. An empty prefix removes everything, which `larder_clear` does at once.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_remove_prefix(
    cache: *const Handle,
    prefix: *const c_void,
    prefix_bytes: usize,
    removed: *mut u64,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, prefix) = unsafe { (handle(cache)?, bytes(prefix, prefix_bytes)?) };
        let count = cache.cache()?.remove_prefix(prefix)?;
        // SAFETY: as above.
        unsafe { give(removed, count) };
        Ok(Status::Ok)
    })
}

fn done_or_missing(is_done: bool) -> Status {
    if is_done { Status::Ok } else { Status::Missing }
}
