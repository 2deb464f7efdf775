//! The disk tier of a cache: its options, and its exports.

use std::ffi::{c_char, c_void};
use std::mem::size_of;
use std::time::Duration;

use larder::{Admission, DiskTier, Durability, TierMode};

use crate::raw::{Callback, guard, path_of, place, put_text, reference, sized, text};
use crate::{Handle, Status};

/// Values of `larder_tier.mode`.
pub mod tier_mode {
    /// The directory holds all items: a durable store. Memory keeps the items in use.
    pub const LARDER_MODE_STORE: u32 = 0;
    /// The directory holds the items that memory evicts: a larger cache. `larder_close` keeps its
    /// content; after a crash it is empty.
    pub const LARDER_MODE_CACHE: u32 = 1;
}

/// Values of `larder_tier.durability`: when a change of a store survives a power loss.
pub mod durability {
    /// At most `2 * interval_ms` after the call has returned.
    pub const LARDER_DURABILITY_INTERVAL: u32 = 0;
    /// Before the call returns. The changes of all threads share a sync of the disk.
    pub const LARDER_DURABILITY_SYNC: u32 = 1;
    /// Some time later: usually within 100 ms.
    pub const LARDER_DURABILITY_ASYNC: u32 = 2;
}

/// Values of `larder_tier.admission`: which evicted items are written to the directory in
/// `LARDER_MODE_CACHE`.
pub mod admission {
    /// All evicted items.
    pub const LARDER_ADMIT_ALL: u32 = 0;
    /// Items that were read since they were stored, and items that were stored again soon after an
    /// eviction.
    pub const LARDER_ADMIT_REUSED: u32 = 1;
}

/// A function that `larder_open` calls while it reads the log. Its arguments are
/// `progress_context`, the number of segments read so far, and the number of all segments.
pub type Progress = Option<unsafe extern "C" fn(context: *mut c_void, done: usize, total: usize)>;

/// A directory on a disk for the items of a cache. One process at a time can use it. Zero is the
/// default of every field except `struct_bytes`, `path` and `bytes`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Tier {
    /// `sizeof(larder_tier)`. The library rejects a struct of another size.
    pub struct_bytes: usize,
    /// The directory. The call creates it if it does not exist.
    pub path: *const c_char,
    /// The size of the log in bytes: 32 MiB to 64 TiB. Live items can fill four fifths of it. A
    /// later call may specify a larger size, but not a smaller one.
    pub bytes: u64,
    /// The memory for changes that are not durable yet, in bytes, in addition to `memory_bytes`; 0
    /// means an eighth of `memory_bytes`, at most 64 MiB.
    pub dirty_bytes: u64,
    /// The content of the directory: `LARDER_MODE_STORE` or `LARDER_MODE_CACHE`. The mode of an
    /// existing directory cannot be changed.
    pub mode: u32,
    /// When a change is durable in `LARDER_MODE_STORE`: `LARDER_DURABILITY_INTERVAL` to
    /// `LARDER_DURABILITY_ASYNC`.
    pub durability: u32,
    /// The interval of `LARDER_DURABILITY_INTERVAL`, in milliseconds; 0 means 100.
    pub interval_ms: u32,
    /// Which evicted items are written to the directory in `LARDER_MODE_CACHE`: `LARDER_ADMIT_ALL`
    /// or `LARDER_ADMIT_REUSED`.
    pub admission: u32,
    /// How long a change waits for a disk that cannot keep up, in milliseconds; 0 means 1,000.
    pub wait_ms: u32,
    /// How long `larder_close` and `larder_stop` wait for the disk, in milliseconds; 0 means
    /// 60,000.
    pub stop_ms: u32,
    /// Called while `larder_open` reads the log, on the thread of that call; null for no calls. It
    /// must return normally.
    pub progress: Progress,
    /// The first argument of `progress`.
    pub progress_context: *mut c_void,
}

/// Makes all changes so far durable. Does nothing without a disk tier. Returns `LARDER_DISK_FAILED`
/// if the disk has failed, and `LARDER_UNSUPPORTED` on a server.
///
/// Cost: a write and a sync of the disk.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::sync`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_sync(cache: *const Handle) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        unsafe { reference(cache)? }.cache()?.sync()?;
        Ok(Status::Ok)
    })
}

/// Stops the disk tier, as `larder_close` does: makes all changes durable, writes the items in
/// memory to the directory in `LARDER_MODE_CACHE`, and releases the directory. Writes the number of
/// bytes that are not durable to `left`, and returns `LARDER_DISK_FAILED` if it is not 0: the disk
/// has failed, or has not responded for longer than `stop_ms`. In this case a directory of
/// `LARDER_MODE_CACHE` will be empty when it is opened again. Later changes fail with
/// `LARDER_DISK_FAILED`, and the only useful call is `larder_close`. Does nothing without a disk
/// tier. Returns `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::stop_tier`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_stop(cache: *const Handle, left: *mut u64) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `left` is null or
        // writable.
        let (cache, mut left) = unsafe { (reference(cache)?, place(left)) };
        let left_bytes = cache.cache()?.stop_tier();
        left.put(left_bytes);
        Ok(if left_bytes == 0 { Status::Ok } else { Status::DiskFailed })
    })
}

/// Writes a description of the problem of the disk tier to `why`, or an empty text if there is no
/// problem: at most `why_bytes` bytes, including the zero at the end. The problem is the cause of
/// `LARDER_DISK_FAILED`, or otherwise of the last `LARDER_DISK_UNREADABLE`. Returns
/// `LARDER_UNSUPPORTED` on a server and without a disk tier.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `why` has `why_bytes` bytes. Behavior:
/// [`larder::TierStatus::trouble`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_tier_trouble(
    cache: *const Handle,
    why: *mut c_char,
    why_bytes: usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open.
        let cache = unsafe { reference(cache)? }.cache()?;
        let tier = cache.tier().ok_or(Status::Unsupported)?;
        let trouble = tier.trouble.unwrap_or_default();
        // SAFETY: the C caller upholds the pointer contract: `why` is null or has `why_bytes`
        // writable bytes.
        unsafe { put_text(why, why_bytes, &trouble) };
        Ok(Status::Ok)
    })
}

/// Converts the settings of a disk tier; `None` if `tier` is null.
///
/// # Safety
/// `tier` is null or has `struct_bytes` bytes, its `path` is null or a text, and its `progress` is
/// null or a function that may be called with `progress_context` until `larder_open` returns.
pub(crate) unsafe fn disk(tier: *const Tier) -> Result<Option<DiskTier>, String> {
    if tier.is_null() {
        return Ok(None);
    }
    // SAFETY: `Tier` is `repr(C)` and begins with `struct_bytes`; the caller guarantees that as
    // many bytes are readable.
    let tier = unsafe { sized(tier) }.map_err(|struct_bytes| {
        let expected = size_of::<Tier>();
        format!(
            "larder_tier.struct_bytes is {struct_bytes}, expected sizeof(larder_tier), which is {expected}"
        )
    })?;
    // SAFETY: the caller guarantees that `path` is null or a text.
    let path = unsafe { text(tier.path) }.filter(|path| !path.is_empty());
    let path = path.ok_or("larder_tier.path is missing: expected the path of a directory")?;
    let path = path_of(path)?;
    let millis =
        |ms: u32, default: u32| Duration::from_millis(if ms == 0 { default } else { ms }.into());
    let mut disk = DiskTier::new(path, tier.bytes)
        .mode(mode(tier.mode)?)
        .durability(match tier.durability {
            durability::LARDER_DURABILITY_INTERVAL => {
                Durability::Interval(millis(tier.interval_ms, 100))
            }
            durability::LARDER_DURABILITY_SYNC => Durability::Sync,
            durability::LARDER_DURABILITY_ASYNC => Durability::Async,
            other => return Err(unknown("durability", other, "LARDER_DURABILITY_")),
        })
        .admission(match tier.admission {
            admission::LARDER_ADMIT_ALL => Admission::All,
            admission::LARDER_ADMIT_REUSED => Admission::Reused,
            other => return Err(unknown("admission", other, "LARDER_ADMIT_")),
        })
        .wait(millis(tier.wait_ms, 1_000))
        .stop(millis(tier.stop_ms, 60_000));
    if tier.dirty_bytes != 0 {
        disk = disk.dirty_bytes(tier.dirty_bytes);
    }
    if let Some(function) = tier.progress {
        // SAFETY: the caller guarantees that the function may be called with this argument.
        let callback = unsafe { Callback::new(function, tier.progress_context) };
        disk = disk.progress(move |done, total| callback.call(done, total));
    }
    Ok(Some(disk))
}

fn mode(mode: u32) -> Result<TierMode, String> {
    match mode {
        tier_mode::LARDER_MODE_STORE => Ok(TierMode::Store),
        tier_mode::LARDER_MODE_CACHE => Ok(TierMode::Cache),
        other => Err(unknown("mode", other, "LARDER_MODE_")),
    }
}

fn unknown(field: &str, value: u32, prefix: &str) -> String {
    format!("larder_tier.{field} is {value}: expected a constant that begins with {prefix}")
}
