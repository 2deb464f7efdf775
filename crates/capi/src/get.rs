//! Getting values.

use std::ffi::c_void;
use std::time::Duration;

use larder::{Cache, Hit, Lent, Meta, Sink};

use crate::raw::{bytes, give, guard, handle, lent, numbers};
use crate::{Handle, Status};

/// What else is known of an item: bits of `larder_item.marks`.
pub mod mark {
    /// Somebody has said that the value is out of date; it may be shown until a new one comes.
    pub const LARDER_STALE: u32 = 1;
    /// The right to bring the new value has been given to somebody.
    pub const LARDER_WON: u32 = 2;
    /// The item has been read before.
    pub const LARDER_FETCHED: u32 = 4;
    /// A connected cache has read it in the server's memory.
    pub const LARDER_LOCAL: u32 = 8;
}

/// What is known of an item.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Bytes of the value.
    pub value_bytes: u64,
    /// Where the value begins in the memory given for the values of several keys.
    pub value_at: u64,
    /// The cas token; 0 where none are kept.
    pub cas: u64,
    /// Bits that were stored with it.
    pub flags: u32,
    /// Seconds it has to live, 1 at least; 0 is for ever.
    pub ttl_secs: u32,
    /// `LARDER_STALE` and its kin.
    pub marks: u32,
    /// What became of this one of several keys.
    pub status: Status,
}

impl Item {
    #[inline(always)] // What is told is written where C wants it, and nowhere before.
    fn of(cache: &Cache, meta: &Meta) -> Self {
        let marks = [
            (meta.stale, mark::LARDER_STALE),
            (meta.token_sent, mark::LARDER_WON),
            (meta.fetched, mark::LARDER_FETCHED),
        ];
        let left = || meta.deadline.0.saturating_sub(cache.now()).max(1);
        Self {
            value_bytes: meta.value_bytes as u64,
            value_at: 0,
            cas: meta.cas,
            flags: meta.flags,
            ttl_secs: if meta.deadline.0 == 0 { 0 } else { left() },
            marks: marks.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
            status: Status::Ok,
        }
    }

    fn of_hit(value_bytes: usize, hit: &Hit) -> Self {
        let marks = [
            (hit.stale, mark::LARDER_STALE),
            (hit.won, mark::LARDER_WON),
            (hit.is_local, mark::LARDER_LOCAL),
        ];
        Self {
            value_bytes: value_bytes as u64,
            value_at: 0,
            cas: hit.cas,
            flags: hit.flags,
            ttl_secs: hit.ttl_secs.map_or(0, |secs| secs.max(1)),
            marks: marks.iter().filter(|(is, _)| *is).map(|(_, bit)| bit).sum(),
            status: Status::Ok,
        }
    }

    /// As one of several, whose value is to be at `value_at` if it fits.
    fn at(self, value_at: usize, left: usize) -> Self {
        match self.status {
            Status::Ok if self.value_bytes > left as u64 => {
                Self { status: Status::TooSmall, ..self }
            }
            _ => Self { value_at: value_at as u64, ..self },
        }
    }

    const fn missing() -> Self {
        Self {
            value_bytes: 0,
            value_at: 0,
            cas: 0,
            flags: 0,
            ttl_secs: 0,
            marks: 0,
            status: Status::Missing,
        }
    }
}

/// How long an item is to live; 0 is for ever.
pub(crate) fn ttl(secs: u32) -> Option<Duration> {
    (secs != 0).then(|| Duration::from_secs(secs.into()))
}

/// Gets the value of a key: as it was at one time, whatever others do meanwhile. It is written to `value` where
/// `capacity` suffices; where it does not, nothing is, and the answer is `LARDER_TOO_SMALL`. `item` may be null; else it
/// is told what is known, the value's length in either case. `key`, `value` and `item` do not overlap.
///
/// Cost: two waits for the memory at most, and a copy of the value.
///
/// # Safety
/// Pointers are null or what they say.
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
        // SAFETY: the caller vouches for all of them.
        let (cache, key, mut room) =
            unsafe { (handle(cache)?, bytes(key, key_bytes)?, lent(value, capacity)?) };
        // SAFETY: as above.
        get(cache, key, &mut room, |known| unsafe { give(item, known) })
    })
}

/// Gets a value. `tell` is told what is known of it, at times more than once: the last time counts.
#[inline]
fn get(
    cache: &Handle,
    key: &[u8],
    room: &mut Lent<'_>,
    mut tell: impl FnMut(Item),
) -> Result<Status, Status> {
    let is_there = match cache {
        Handle::Cache(cache) => cache.get_to(key, room, |meta| tell(Item::of(cache, meta))),
        Handle::Client(client) => {
            let found = client.get_with(key, |value, hit| {
                tell(Item::of_hit(value.len(), hit));
                room.extend(value);
            });
            found?.is_some()
        }
    };
    if !is_there {
        tell(Item::missing());
        return Ok(Status::Missing);
    }
    Ok(if room.is_whole() { Status::Ok } else { Status::TooSmall })
}

/// What is known of an item, without its value: the first of two calls for who has to find memory for it. It does not
/// count as a read. The second is `larder_get`, which may find another value there.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_peek(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
    item: *mut Item,
) -> Status {
    guard(|| {
        // SAFETY: the caller vouches for all of them.
        let (cache, key) = unsafe { (handle(cache)?, bytes(key, key_bytes)?) };
        let found = match cache {
            Handle::Cache(cache) => cache.peek(key).map(|meta| Item::of(cache, &meta)),
            Handle::Client(client) => {
                client.get_with(key, |value, hit| Item::of_hit(value.len(), hit))?
            }
        };
        let known = found.unwrap_or(Item::missing());
        // SAFETY: as above.
        unsafe { give(item, known) };
        Ok(known.status)
    })
}

/// `LARDER_OK` where there is an item, `LARDER_MISSING` where there is none. It does not count as a read.
///
/// # Safety
/// Pointers are null or what they say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn larder_contains(
    cache: *const Handle,
    key: *const c_void,
    key_bytes: usize,
) -> Status {
    // SAFETY: the caller vouches for all of them.
    unsafe { larder_peek(cache, key, key_bytes, std::ptr::null_mut()) }
}

/// As `larder_get`, and the item lives for `ttl_secs` from now, also where the value did not fit; 0 is for ever.
///
/// # Safety
/// Pointers are null or what they say.
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
        // SAFETY: the caller vouches for all of them.
        let (cache, key, mut room) =
            unsafe { (handle(cache)?, bytes(key, key_bytes)?, lent(value, capacity)?) };
        // SAFETY: as above.
        let tell = |known| unsafe { give(item, Item { ttl_secs, ..known }) };
        let status = get(cache, key, &mut room, tell)?;
        if status != Status::Missing {
            match cache {
                Handle::Cache(cache) => cache.touch(key, ttl(ttl_secs))?,
                Handle::Client(client) => client.touch(key, ttl(ttl_secs))?,
            };
        }
        Ok(status)
    })
}

/// Gets the values of several keys, which takes less than half of the time of as many `larder_get`s where the memory is
/// what takes the time. `keys` are the keys one behind the other, `key_bytes` their lengths. The values are written to
/// `values` one behind the other, as far as they fit; `items` tells of each key in turn, by its `status`, whether it is
/// there (`LARDER_OK`), is not (`LARDER_MISSING`), or did not fit (`LARDER_TOO_SMALL`).
///
/// # Safety
/// Pointers are null or what they say; `key_bytes` and `items` have `count` elements, and `keys` as many bytes as
/// `key_bytes` adds up to.
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
        // SAFETY: the caller vouches for all of them.
        let (cache, lengths, mut room) =
            unsafe { (handle(cache)?, numbers(key_bytes, count)?, lent(values, capacity)?) };
        let total = lengths.iter().try_fold(0usize, |sum, len| sum.checked_add(*len as usize));
        // SAFETY: as above.
        let mut rest = unsafe { bytes(keys, total.ok_or(Status::Invalid)?)? };
        if items.is_null() && count > 0 {
            return Err(Status::Invalid);
        }
        for (chunk, first) in lengths.chunks(KEYS_AT_ONCE).zip((0..).step_by(KEYS_AT_ONCE)) {
            let mut together: [&[u8]; KEYS_AT_ONCE] = [&[]; KEYS_AT_ONCE];
            for (key, len) in together.iter_mut().zip(chunk) {
                (*key, rest) = rest.split_at(*len as usize);
            }
            get_together(cache, &together[..chunk.len()], &mut room, |place, item| {
                // SAFETY: `first + place` is below `count`.
                unsafe { give(items.add(first + place), item) };
            })?;
        }
        Ok(Status::Ok)
    })
}

fn get_together(
    cache: &Handle,
    keys: &[&[u8]],
    room: &mut Lent<'_>,
    mut tell: impl FnMut(usize, Item),
) -> Result<(), Status> {
    match cache {
        Handle::Cache(near) => {
            near.prefetch(keys.iter().copied());
            for (place, key) in keys.iter().enumerate() {
                let (value_at, left) = (room.filled(), room.left());
                get(cache, key, room, |item| tell(place, item.at(value_at, left)))?;
                leave_out_unless_whole(room, value_at);
            }
        }
        Handle::Client(client) => {
            for (place, found) in client.get_many(keys)?.iter().enumerate() {
                let (value_at, left) = (room.filled(), room.left());
                let item_of = |value: &Vec<u8>| Item::of_hit(value.len(), &Hit::default());
                let item = found.as_ref().map_or(Item::missing(), item_of);
                tell(place, item.at(value_at, left));
                room.extend(found.as_deref().unwrap_or_default());
                leave_out_unless_whole(room, value_at);
            }
        }
    }
    Ok(())
}

/// The next value may be a smaller one, and fit.
fn leave_out_unless_whole(room: &mut Lent<'_>, value_at: usize) {
    if !room.is_whole() {
        room.truncate(value_at);
    }
}

/// So many keys are looked up together.
const KEYS_AT_ONCE: usize = 16;
