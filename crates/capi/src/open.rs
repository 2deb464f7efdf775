//! Opening a cache.

use std::ffi::{OsStr, c_char};
use std::mem::size_of;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::time::Duration;

use larder::{Builder, Cache, Client};

use crate::raw::{give, guard, tell, text};
use crate::{Handle, Status};

/// What a cache can be beside its sizes: bits of `larder_options.flags`.
pub mod flag {
    /// Items carry cas tokens, 8 bytes each.
    pub const LARDER_CAS: u32 = 1;
    /// Items are not evicted: where memory runs out, stores fail.
    pub const LARDER_NO_EVICTION: u32 = 2;
    /// A thread of the cache's own takes back what expired within seconds, and evicts ahead of the writers.
    pub const LARDER_MAINTAINER: u32 = 4;
    /// Children of a later `fork` use this cache too. Else each has a copy, and goes its own way.
    pub const LARDER_SHARED_WITH_CHILDREN: u32 = 8;
    /// A cache that is in the file must have the memory, cas tokens and eviction that are asked for.
    pub const LARDER_EXACTLY: u32 = 16;
    /// A cache in the file that cannot be used makes way for an empty one, if no process uses it.
    pub const LARDER_REPLACES_UNUSABLE: u32 = 32;
    /// It is an error that another process uses the cache that is in the file.
    pub const LARDER_ALONE: u32 = 64;
    /// The memory is of huge pages that the system has set aside.
    pub const LARDER_HUGE_PAGES: u32 = 128;

    pub(crate) const ALL: u32 = 255;
}

/// How a cache is to be opened. Zero is the default everywhere but in `struct_bytes`:
/// `larder_options options = {.struct_bytes = sizeof options, .memory_bytes = 64 << 20};`
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `sizeof(larder_options)`, by which the library knows which fields the program knows.
    pub struct_bytes: usize,
    /// All memory of the cache, everything included, in bytes: 1 MiB to 1 TiB; 0 is 64 MiB.
    pub memory_bytes: u64,
    /// What `larder_set_memory` can raise it to later; 0 is `memory_bytes`.
    pub memory_bytes_max: u64,
    /// The largest item in bytes: key, value, and 51 bytes, 59 with cas tokens; 0 is 1 MiB.
    pub item_bytes_max: u64,
    /// `LARDER_CAS` and its kin.
    pub flags: u32,
    /// Who may use the files that are made: bits as for `chmod`; 0 is 0600.
    pub permissions: u32,
    /// The file that the cache is in, for all processes that open it, best on a tmpfs such as `/dev/shm`; null is memory
    /// of this process. A cache that is there is used as it is, unless `LARDER_EXACTLY` asks for more.
    pub path: *const c_char,
}

/// Opens a cache. Null options are all defaults. Where it fails, and `why` is not null, the reason is written there in at
/// most `why_bytes` bytes, the zero at its end included.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_open(
    options: *const Options,
    cache: *mut *mut Handle,
    why: *mut c_char,
    why_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for both.
        let opened = unsafe { builder(options) }
            .and_then(|builder| builder.open().map_err(|error| error.to_string()));
        // SAFETY: as above.
        unsafe { open(cache, why, why_bytes, opened.map(Handle::Cache), Status::NotOpened) }
    })
}

/// Uses the cache of a larderd, or of any memcached, at a unix socket. Hits are read in the server's memory where it was
/// started with `--local-readers`; all else is asked for, and an answer waited for `timeout_ms` at most; 0 is five seconds.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_connect(
    socket: *const c_char,
    timeout_ms: u32,
    cache: *mut *mut Handle,
    why: *mut c_char,
    why_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for it.
        let socket = unsafe { text(socket) }.ok_or(Status::Invalid)?;
        let socket = Path::new(OsStr::from_bytes(socket.to_bytes()));
        let client = match timeout_ms {
            0 => Client::connect(socket),
            _ => Client::connect_within(socket, Duration::from_millis(timeout_ms.into())),
        };
        let opened = client.map(Handle::Client).map_err(|error| error.to_string());
        // SAFETY: as above.
        unsafe { open(cache, why, why_bytes, opened, Status::Unreachable) }
    })
}

/// What both give: the cache, or the reason why there is none.
///
/// # Safety
/// Pointers are null or what they say.
unsafe fn open(
    cache: *mut *mut Handle,
    why: *mut c_char,
    why_bytes: usize,
    opened: Result<Handle, String>,
    failure: Status,
) -> Result<Status, Status> {
    if cache.is_null() {
        return Err(Status::Invalid);
    }
    let (handle, message, status) = match opened {
        Ok(handle) => (Box::into_raw(Box::new(handle)), String::new(), Status::Ok),
        Err(message) => (ptr::null_mut(), message, failure),
    };
    // SAFETY: the caller vouches for them.
    unsafe {
        give(cache, handle);
        tell(why, why_bytes, &message);
    }
    Ok(status)
}

/// # Safety
/// `options` is null, or has `struct_bytes` bytes.
unsafe fn builder(options: *const Options) -> Result<Builder, String> {
    if options.is_null() {
        return Ok(Cache::builder());
    }
    // SAFETY: the caller vouches for the first field at least.
    let struct_bytes = unsafe { ptr::addr_of!((*options).struct_bytes).read() };
    if struct_bytes != size_of::<Options>() {
        let expected = size_of::<Options>();
        return Err(format!(
            "larder_options.struct_bytes is {struct_bytes}, expected sizeof(larder_options), which is {expected}"
        ));
    }
    // SAFETY: it has the length of all fields.
    let options = unsafe { options.read() };
    if options.flags & !flag::ALL != 0 {
        let unknown = options.flags & !flag::ALL;
        return Err(format!("larder_options.flags has bits that mean nothing: {unknown:#x}"));
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
        .alone(has(flag::LARDER_ALONE));
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
    // SAFETY: the caller vouches for it.
    match unsafe { text(options.path) } {
        Some(_) if has(flag::LARDER_SHARED_WITH_CHILDREN) => {
            Err("LARDER_SHARED_WITH_CHILDREN and a path exclude each other: a cache in a file is shared with all".into())
        }
        Some(path) => Ok(builder.shared(Path::new(OsStr::from_bytes(path.to_bytes())))),
        None => Ok(builder),
    }
}
