//! Exports that report the metadata of items.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use larder::{Cache, Cursor, Epoch, ItemReport, ItemReports, Lent, Sink};

use crate::item::mark;
use crate::raw::{buffer, bytes, elements_mut, guard, place, reference, required_place};
use crate::{Handle, Status};

/// The metadata of an item.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Offset of the key in `bytes_of_keys` of `larder_walk`; `larder_describe` writes 0.
    pub key_at: u64,
    /// Length of the value, in bytes.
    pub value_bytes: u64,
    /// The memory that the item uses, in bytes. The index uses about 13 more.
    pub memory_bytes: u64,
    /// The Unix time at which the item was stored or last changed. If `LARDER_STORED_ABOUT` is in
    /// `marks`, the time is approximate: it may be too late, or too early by minutes or, in a large
    /// cache, hours.
    pub stored_at: i64,
    /// The Unix time of the last store, read, change or touch. After a read it may be up to 58
    /// seconds too late.
    pub used_at: i64,
    /// The Unix time at which the item expires; 0 if it does not.
    pub expires_at: i64,
    /// Length of the key, in bytes.
    pub key_bytes: u32,
    /// The caller's flags, as stored with the value.
    pub flags: u32,
    /// How often the item was read recently, as counted for eviction: 0 to 3.
    pub reads: u32,
    /// Bits: `LARDER_STALE`, `LARDER_RECACHE_TOKEN`, `LARDER_FETCHED`, `LARDER_STORED_ABOUT`.
    pub marks: u32,
}

/// A position in a walk of `larder_walk`. A cursor of zeros begins a walk. It is plain data: it may
/// be copied, and does not have to be closed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WalkCursor {
    /// The position.
    pub words: [u64; 4],
}

/// Maximum number of groups of the index that one call of `larder_walk` visits.
const GROUPS_AT_ONCE: u32 = 1024;

impl Entry {
    /// Takes the epoch as an argument because [`Cache::epoch`] reads two clocks, which takes as
    /// long as the rest; a walk calls it once.
    fn of(epoch: Epoch, item: &ItemReport, key_at: usize) -> Self {
        let unix_of = |second| epoch.unix_of(second);
        let meta = &item.meta;
        let marks = [
            (meta.stale, mark::LARDER_STALE),
            (meta.token_sent, mark::LARDER_RECACHE_TOKEN),
            (meta.fetched, mark::LARDER_FETCHED),
            (item.is_stored_about, mark::LARDER_STORED_ABOUT),
        ];
        Self {
            key_at: key_at as u64,
            value_bytes: meta.value_bytes as u64,
            memory_bytes: item.memory_bytes as u64,
            stored_at: unix_of(item.stored),
            used_at: unix_of(meta.seen),
            expires_at: if meta.deadline.0 == 0 { 0 } else { unix_of(meta.deadline.0) },
            key_bytes: item.key_bytes as u32,
            flags: meta.flags,
            reads: item.reads,
            marks: marks.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
        }
    }
}

/// The output of a walk.
struct Found<'a> {
    entries: &'a mut [MaybeUninit<Entry>],
    count: usize,
    keys: Lent<'a>,
}

impl Found<'_> {
    /// Adds the items of a group. If there is not enough space for all of them, adds nothing and
    /// returns false.
    fn add(&mut self, epoch: Epoch, reports: &ItemReports) -> bool {
        let has_room = reports.items.len() <= self.entries.len() - self.count
            && reports.keys.len() <= self.keys.left();
        if has_room {
            let mut key_at = self.keys.filled();
            for item in &reports.items {
                self.entries[self.count].write(Entry::of(epoch, item, key_at));
                self.count += 1;
                key_at += item.key_bytes;
            }
            self.keys.extend(&reports.keys);
        }
        has_room
    }

    /// Adds the next groups. Returns false after the last group.
    ///
    /// # Errors
    /// [`Status::TooSmall`] if the first group with items does not fit.
    fn fill(&mut self, cache: &Cache, cursor: &mut Cursor, prefix: &[u8]) -> Result<bool, Status> {
        let (epoch, mut reports) = (cache.epoch(), ItemReports::default());
        for _ in 0..GROUPS_AT_ONCE {
            let mut next = *cursor;
            reports.clear();
            if !cache.report_group(&mut next, prefix, &mut reports) {
                return Ok(false);
            }
            if !self.add(epoch, &reports) {
                return if self.count == 0 { Err(Status::TooSmall) } else { Ok(true) };
            }
            *cursor = next;
        }
        Ok(true)
    }
}

/// Writes the metadata of the next items of a walk to `entries`, and their keys, one after the
/// other, to `bytes_of_keys`, and moves the cursor. The walk returns the items whose keys begin
/// with a prefix, in no particular order. It returns an item that exists during the entire walk at
/// least once; it may skip an item that a client stores or removes during the walk. It does not
/// count as a read, and holds no resources between two calls.
///
/// Writes the number of entries to `count`; it may be 0 before the end of the walk. Returns
/// `LARDER_END` with a `count` of 0 at the end. Returns `LARDER_TOO_SMALL`, with the cursor
/// unchanged, if the items of one group of the index do not fit. A `capacity` of 64 and 16 KiB for
/// the keys are enough, except for rare overfull groups; in this case double both. Returns
/// `LARDER_UNSUPPORTED` on a server and with a disk tier.
///
/// Cost: at most the same as reading about 10,000 items without their values.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract): `entries` has `capacity` elements. Behavior:
/// [`larder::Cache::report_group`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_walk(
    cache: *const Handle,
    cursor: *mut WalkCursor,
    prefix: *const c_void,
    prefix_bytes: usize,
    entries: *mut Entry,
    capacity: usize,
    bytes_of_keys: *mut c_void,
    bytes_capacity: usize,
    count: *mut usize,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `cursor` is null or
        // readable, `prefix` has `prefix_bytes` bytes.
        let (cache, begun, prefix) =
            unsafe { (reference(cache)?, reference(cursor)?.words, bytes(prefix, prefix_bytes)?) };
        // SAFETY: the C caller upholds the pointer contract: `cursor` and `count` are null or
        // writable, `entries` has `capacity` elements and `bytes_of_keys` `bytes_capacity` bytes,
        // both writable, and they overlap nothing.
        let (mut cursor, entries, keys, mut count) = unsafe {
            (
                required_place(cursor)?,
                elements_mut(entries, capacity)?,
                buffer(bytes_of_keys, bytes_capacity)?,
                place(count),
            )
        };
        count.put(0);
        let cache = cache.cache()?;
        if cache.tier().is_some() {
            return Err(Status::Unsupported);
        }
        let mut at = Cursor::at(begun[0]);
        let mut found = Found { entries, count: 0, keys };
        let goes_on = found.fill(cache, &mut at, prefix)?;
        count.put(found.count);
        cursor.put(WalkCursor { words: [at.position(), 0, 0, 0] });
        Ok(if goes_on || found.count > 0 { Status::Ok } else { Status::End })
    })
}

/// Writes the metadata of an item in memory to `entry`. It does not count as a read. Returns
/// `LARDER_MISSING` if the key has no item in memory, and `LARDER_UNSUPPORTED` on a server.
///
/// # Safety
/// The [pointer contract](crate#pointer-contract). Behavior: [`larder::Cache::report_item`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_describe(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    entry: *mut Entry,
) -> Status {
    guard(|| {
        // SAFETY: the C caller upholds the pointer contract: `cache` is open, `key` has `key_bytes`
        // bytes, `entry` is null or writable.
        let (cache, key, mut entry) =
            unsafe { (reference(cache)?, bytes(key, key_bytes)?, place(entry)) };
        let cache = cache.cache()?;
        cache.usable()?;
        let report = cache.report_item(key).ok_or(Status::Missing)?;
        entry.put(Entry::of(cache.epoch(), &report, 0));
        Ok(Status::Ok)
    })
}
