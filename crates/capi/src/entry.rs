//! Exports that report what is known of items.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use larder::{Cache, Cursor, Epoch, ItemReport, ItemReports, Lent, Sink};

use crate::item::mark;
use crate::raw::{buffer, bytes, elements_mut, guard, place, reference, required_place};
use crate::{Handle, Status};

/// What is known of an item.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Offset of the key in `bytes_of_keys` of `larder_walk`; 0 by `larder_describe`.
    pub key_at: u64,
    /// Length of the value, in bytes.
    pub value_bytes: u64,
    /// The memory that the item takes, in bytes, without about 13 in the index.
    pub memory_bytes: u64,
    /// The Unix time at which the item was stored or last changed. About that time if
    /// `LARDER_STORED_ABOUT` is in `marks`: minutes or hours early in a large cache, or late.
    pub stored_at: i64,
    /// The Unix time of the last store, read, change or touch; that of a read may be up to 58
    /// seconds later.
    pub used_at: i64,
    /// The Unix time at which the item expires; 0 if it does not.
    pub expires_at: i64,
    /// Length of the key, in bytes.
    pub key_bytes: u32,
    /// The caller's flags, as stored with the value.
    pub flags: u32,
    /// How often the item was read lately, as eviction counts: 0 to 3.
    pub reads: u32,
    /// Bits: `LARDER_STALE`, `LARDER_RECACHE_TOKEN`, `LARDER_FETCHED`, `LARDER_STORED_ABOUT`.
    pub marks: u32,
}

/// A position in a walk of `larder_walk`. Zero begins a walk. It is plain data: it needs no close,
/// and may be copied.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct WalkCursor {
    /// The position.
    pub words: [u64; 4],
}

/// Groups of the index that one call of `larder_walk` looks at.
const GROUPS_AT_ONCE: u32 = 1024;

impl Entry {
    /// Cost: [`Cache::epoch`] reads two clocks, as long as the rest takes; a walk calls it once.
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

/// Where a walk puts what it finds.
struct Found<'a> {
    entries: &'a mut [MaybeUninit<Entry>],
    count: usize,
    keys: Lent<'a>,
}

impl Found<'_> {
    /// Adds the items of a group. Returns false, and adds none, if there is no room for all.
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

    /// Adds the next groups. Returns false at the end.
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

/// Writes what is known of the next items of a walk to `entries`, and their keys, one behind the
/// other, to `bytes_of_keys`, and moves the cursor. The walk has the items whose keys begin with a
/// prefix, in no particular order. It returns an item that exists all the time at least once; it
/// may skip an item that a client stores or removes meanwhile. It counts no read, and holds nothing
/// between two calls.
///
/// Writes the number of entries to `count`: it may be 0 although the walk goes on. `LARDER_END`
/// with a `count` of 0 at the end. `LARDER_TOO_SMALL`, with the cursor unchanged, if the items of
/// one group of the index do not fit: a `capacity` of 64 and 16 KiB for the keys are enough for all
/// groups that are not overfull, so double both then. `LARDER_UNSUPPORTED` on a server and with a
/// disk tier.
///
/// Cost: that of reading about 10,000 items without their values, at most.
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

/// Writes what is known of an item in memory to `entry`. It counts no read. `LARDER_MISSING` if the
/// key has no item there. `LARDER_UNSUPPORTED` on a server.
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
