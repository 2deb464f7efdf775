//! Exports that open, connect and close a cache.

use std::ffi::c_char;
use std::mem::size_of;
use std::ptr;
use std::time::Duration;

use larder::{Builder, Cache, Client, Clock};

use crate::raw::{close, guard, path_of, put_text, reference, required_place, sized, text};
use crate::tier::{self, Tier};
use crate::{Handle, Status};

/// Bits of `larder_options.flags`.
pub mod flag {
    /// Items carry cas tokens, which take 8 bytes each.
    pub const LARDER_CAS: u32 = 1;
    /// The cache does not evict items: a store fails if the cache is out of memory.
    pub const LARDER_NO_EVICTION: u32 = 2;
    /// The cache starts a thread that reclaims expired items within seconds and evicts items before
    /// stores need the memory.
    pub const LARDER_MAINTAINER: u32 = 4;
    /// Children of a later `fork` share this cache. Without the flag each child has its own copy.
    pub const LARDER_SHARED_WITH_CHILDREN: u32 = 8;
    /// A cache that already exists in the file must match the memory limit, the cas tokens and the
    /// eviction of the options.
    pub const LARDER_EXACTLY: u32 = 16;
    /// The call replaces an unusable cache in the file with an empty one, if no process uses it.
    pub const LARDER_REPLACES_UNUSABLE: u32 = 32;
    /// The call fails if another process uses the cache in the file.
    pub const LARDER_ALONE: u32 = 64;
    /// The memory consists of huge pages that the administrator has reserved.
    pub const LARDER_HUGE_PAGES: u32 = 128;
    /// In a forked child that cannot use the shared cache, functions return `LARDER_NOT_OPENED`. If
    /// the only reason is that too many processes use the cache, the child can still read it.
    /// Without the flag such a child uses an empty cache of 1 MiB. See `larder_usable`.
    pub const LARDER_NO_SUBSTITUTE: u32 = 256;
    /// Each handle can have a different time: see `larder_set_now`.
    pub const LARDER_HANDLE_TIME: u32 = 512;

    pub(crate) const ALL: u32 = 1023;
}

/// The settings for opening a cache. Zero is the default of every field except `struct_bytes`:
/// `larder_options options = {.struct_bytes = sizeof options, .memory_bytes = 64 << 20};`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `sizeof(larder_options)`. The library rejects a struct of another size.
    pub struct_bytes: usize,
    /// The memory limit in bytes, for everything that the cache needs: 1 MiB to 1 TiB; 0 means 64
    /// MiB.
    pub memory_bytes: u64,
    /// The highest limit for `larder_set_memory`, in bytes; 0 means `memory_bytes`.
    pub memory_bytes_max: u64,
    /// The size limit for items in bytes: key, value, and 51 bytes, 59 with cas tokens; 0 means 1
    /// MiB.
    pub item_bytes_max: u64,
    /// Bits: `LARDER_CAS` to `LARDER_HANDLE_TIME`.
    pub flags: u32,
    /// The permissions of the files that the call creates, as for `chmod`; 0 means 0600.
    pub permissions: u32,
    /// The file of a cache that processes share, preferably on a tmpfs such as `/dev/shm`; null for
    /// memory of this process. If the file already contains a cache, the call opens that cache with
    /// its limits, which must match the options if `LARDER_EXACTLY` is set.
    pub path: *const c_char,
    /// A directory on a disk for the items; null for a cache in memory only. Only the process that
    /// opens the cache can use it, so `tier` cannot be combined with `path` or
    /// `LARDER_SHARED_WITH_CHILDREN`. In a child of a `fork` the functions return `LARDER_FORKED`.
    pub tier: *const Tier,
    /// The number of processes, including this one, that can use a new shared cache at a time: at
    /// most 4096. 0 means 16 below 16 MiB of memory, 64 below 256 MiB, and 256 otherwise. Each
    /// process beyond this default needs about 1.7 KiB, plus 8 bytes per segment, in addition to
    /// `memory_bytes`: a file reserves this memory when it is created, other memory grows when the
    /// process joins. An existing cache keeps its number; with `LARDER_EXACTLY` the call fails if
    /// the number differs.
    pub processes_max: u32,
    /// Must be 0.
    pub reserved: u32,
}

/// Opens a cache and writes its handle to `cache`; `larder_close` closes it. If `options` is null,
/// all options have their defaults. On error the function writes null to `cache`, and the reason to
/// `why`: at most `why_bytes` bytes, including the zero at the end. Returns `LARDER_NOT_OPENED` if
/// the cache cannot be opened.
///
/// Cost: system calls that map the memory; the system allocates the pages at first use. With a disk
/// tier of `LARDER_MODE_STORE` the call reads the log, which takes about a second for each GiB. The
/// library starts threads for a disk tier; they end with `larder_close`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `options` and its `tier` have `struct_bytes`
/// bytes, `why` has `why_bytes`. Behavior: [`larder::Builder::open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_open(
    options: *const Options,
    cache: *mut *mut Handle,
    why: *mut c_char,
    why_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `options` is null or has
        // `struct_bytes` bytes, its `path` is null or a text, and its `tier` is null or has
        // `struct_bytes` bytes, with a valid `path` and `progress`.
        let opened = unsafe { builder(options) }
            .and_then(|builder| builder.open().map_err(|error| error.to_string()));
        // SAFETY: the C caller upholds the pointer contract: `cache` is null or writable, `why` is
        // null or has `why_bytes` writable bytes.
        unsafe { finish(cache, why, why_bytes, opened.map(Handle::Cache), Status::NotOpened) }
    })
}

/// Checks whether this process uses the cache that was opened. A child of a `fork` joins the
/// processes that share the cache at its first call, and joining can fail. In this case the
/// function returns `LARDER_NOT_OPENED`, and writes the reason to `why` as `larder_open` does. One
/// possible reason is that `processes_max` processes already use the cache. The other is that the
/// file could not be opened again during the fork, because `/proc` was missing, the limit on open
/// files was reached, or the parent had changed its user since it opened the cache. Returns
/// `LARDER_FORKED` if the parent has opened a disk tier.
///
/// With `LARDER_NO_SUBSTITUTE` a process can still read a cache that `processes_max` other
/// processes use: `larder_get` and `larder_contains` find items, and changes return
/// `LARDER_NOT_OPENED`. A child of a `fork` joins within a second or two after another process has
/// left. A process that has opened a file must close the cache and open it again.
///
/// A child may change its user or its root directory between the fork and its first call.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `why` has `why_bytes` bytes. Behavior:
/// [`larder::Cache::lost`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_usable(
    cache: *const Handle,
    why: *mut c_char,
    why_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        let (status, reason) = unsafe { reference(cache)? }.usability();
        // SAFETY: the C caller upholds the pointer contract: `why` is null or has `why_bytes`
        // writable bytes.
        unsafe { put_text(why, why_bytes, &reason) };
        Ok(status)
    })
}

/// Connects to the cache of a larderd, or of any memcached, at a unix socket, and writes the handle
/// to `cache`; `larder_close` closes it. The handle reads hits in the memory of a larderd that runs
/// with `--local-readers`, and sends all other requests to the server. It waits at most
/// `timeout_ms` milliseconds for each response; 0 means 5 seconds. On error the function writes
/// null to `cache`, and the reason to `why`, as `larder_open` does. Returns `LARDER_UNREACHABLE` if
/// the server does not accept the connection.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `why` has `why_bytes` bytes. Behavior:
/// [`larder::Client::connect_within`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_connect(
    socket: *const c_char,
    timeout_ms: u32,
    cache: *mut *mut Handle,
    why: *mut c_char,
    why_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `socket` is null or a text.
        let socket = unsafe { text(socket) }.ok_or(Status::Invalid)?;
        let socket = path_of(socket).map_err(|_| Status::Invalid)?;
        let client = match timeout_ms {
            0 => Client::connect(socket),
            _ => Client::connect_within(socket, Duration::from_millis(timeout_ms.into())),
        };
        let opened = client.map(Handle::Client).map_err(|error| error.to_string());
        // SAFETY: the C caller upholds the pointer contract: `cache` is null or writable, `why` is
        // null or has `why_bytes` writable bytes.
        unsafe { finish(cache, why, why_bytes, opened, Status::Unreachable) }
    })
}

/// Opens another handle of a cache that is open in this process, and writes it to `copy`. The
/// handles share everything except the time that `larder_set_now` sets. Close each handle. Closing
/// the handle from `larder_open` stops a disk tier. Returns `LARDER_UNSUPPORTED` for a handle from
/// `larder_connect`.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_share(cache: *const Handle, copy: *mut *mut Handle) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        let (Handle::Cache(cache) | Handle::Copy(cache)) = (unsafe { reference(cache)? }) else {
            return Err(Status::Unsupported);
        };
        let opened = Ok(Handle::Copy(cache.clone()));
        // SAFETY: the C caller upholds the pointer contract: `copy` is null or writable.
        unsafe { finish(copy, ptr::null_mut(), 0, opened, Status::NotOpened) }
    })
}

/// Sets the time of a handle, in seconds of Unix time; 0 returns to the system's clock. Only for a
/// cache that was opened with `LARDER_HANDLE_TIME`. Calls with this handle use this time to expire
/// items and to compute deadlines from times to live, so a server can run a request with the same
/// time from beginning to end. The time should be close to the system's time, since every process
/// that uses a shared cache expires items. Leases do not depend on it. Does nothing with a handle
/// from `larder_connect`.
///
/// # Safety
/// `cache` is null or open. Behavior: [`larder::Cache::set_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_set_now(cache: *const Handle, unix_secs: i64) {
    guard(|| {
        // SAFETY: `cache` is null or open.
        if let Handle::Cache(cache) | Handle::Copy(cache) = unsafe { reference(cache)? } {
            cache.set_now(unix_secs);
        }
        Ok(Status::Ok)
    });
}

/// Closes a cache and frees its handle. Does nothing if `cache` is null. No thread may use the
/// handle during the call or later. A walk from `larder_keys` and a queue from `larder_subscribe`
/// remain usable until they are closed. Other processes can continue to use a shared cache. Unless
/// the handle is from `larder_share`, the call stops a disk tier; to find out how many bytes are
/// not durable, call `larder_stop` first.
///
/// # Safety
/// `cache` is null or open, and no thread uses it now or later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_close(cache: *mut Handle) {
    guard(|| {
        // SAFETY: `cache` is null or open.
        if let Handle::Cache(cache) = unsafe { reference(cache)? } {
            // Walks and queues that are still open keep the cache in memory. They must not also
            // keep its directory in use, so that it can be opened again.
            cache.stop_tier();
        }
        Ok(Status::Ok)
    });
    // SAFETY: `finish` made `cache` with `Box::into_raw`; the C caller closes it once and last.
    unsafe { close(cache) };
}

/// Writes the outputs of `larder_open` and `larder_connect`: the handle, or the reason for the
/// failure.
///
/// # Safety
/// `cache` is null or writable; `why` is null or has `why_bytes` writable bytes.
unsafe fn finish(
    cache: *mut *mut Handle,
    why: *mut c_char,
    why_bytes: usize,
    opened: Result<Handle, String>,
    failure: Status,
) -> Result<Status, Status> {
    // SAFETY: the caller guarantees that `cache` is null or writable.
    let mut cache = unsafe { required_place(cache)? };
    let (handle, message, status) = match opened {
        Ok(handle) => (Box::into_raw(Box::new(handle)), String::new(), Status::Ok),
        Err(message) => (ptr::null_mut(), message, failure),
    };
    cache.put(handle);
    // SAFETY: the caller guarantees that `why` has `why_bytes` writable bytes.
    unsafe { put_text(why, why_bytes, &message) };
    Ok(status)
}

/// Converts the options. Uses the defaults if `options` is null.
///
/// # Safety
/// `options` is null or has `struct_bytes` bytes, its `path` is null or a text, and its `tier`
/// upholds the contract of [`tier::disk`].
unsafe fn builder(options: *const Options) -> Result<Builder, String> {
    if options.is_null() {
        return Ok(Cache::builder());
    }
    // SAFETY: `Options` is `repr(C)` and begins with `struct_bytes`; the caller guarantees that as
    // many bytes are readable.
    let options = unsafe { sized(options) }.map_err(|struct_bytes| {
        let expected = size_of::<Options>();
        format!(
            "larder_options.struct_bytes is {struct_bytes}, expected sizeof(larder_options), which is {expected}"
        )
    })?;
    if options.flags & !flag::ALL != 0 {
        let unknown = options.flags & !flag::ALL;
        return Err(format!("larder_options.flags has unknown bits: {unknown:#x}"));
    }
    if options.reserved != 0 {
        return Err(format!("larder_options.reserved is {}, expected 0", options.reserved));
    }
    let has = |flag: u32| options.flags & flag != 0;
    let mut builder = Cache::builder()
        .memory_bytes_max(options.memory_bytes_max)
        .cas(has(flag::LARDER_CAS))
        .evict(!has(flag::LARDER_NO_EVICTION))
        .maintainer(has(flag::LARDER_MAINTAINER))
        .huge_pages(has(flag::LARDER_HUGE_PAGES))
        .exactly(has(flag::LARDER_EXACTLY))
        .replaces_unusable(has(flag::LARDER_REPLACES_UNUSABLE))
        .alone(has(flag::LARDER_ALONE))
        .substitute(!has(flag::LARDER_NO_SUBSTITUTE))
        .processes_max(options.processes_max);
    if has(flag::LARDER_HANDLE_TIME) {
        builder = builder.clock(Clock::Handle);
    }
    if options.memory_bytes != 0 {
        builder = builder.memory_bytes(options.memory_bytes);
    }
    if options.item_bytes_max != 0 {
        builder = builder.item_bytes_max(options.item_bytes_max);
    }
    if options.permissions != 0 {
        builder = builder.permissions(options.permissions);
    }
    if has(flag::LARDER_SHARED_WITH_CHILDREN) {
        builder = builder.anonymous_shared(true);
    }
    // SAFETY: the caller upholds the contract of `disk` for `tier`.
    if let Some(disk) = unsafe { tier::disk(options.tier)? } {
        builder = builder.tier(disk);
    }
    // SAFETY: the caller guarantees that `path` is null or a text.
    match unsafe { text(options.path) } {
        Some(_) if has(flag::LARDER_SHARED_WITH_CHILDREN) => {
            Err("LARDER_SHARED_WITH_CHILDREN and a path exclude each other: a cache in a file is always shared".into())
        }
        Some(path) => Ok(builder.shared(path_of(path)?)),
        None => Ok(builder),
    }
}
