//! A view of a server's memory in another process: the memory, mapped for reading.

use std::cell::Cell;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use larder_engine::{Engine, LookupResult, ReadableUntil};
use larder_item::{Deadline, Second};
use larder_protocol::local::Region;
use larder_region::file::cannot_shrink;
use larder_region::layout::FORMAT;
use larder_region::{Memory, boot};

use super::hit::Hit;
use crate::system::clock::{Clock, Time, is_wall_before};

/// Largest difference, in seconds, between the server's clock in the memory and the system's clock.
/// If the difference is larger, the server is gone, was stopped, or uses another time. The server
/// advances its clock every second, so the clock may lag by one second.
const CLOCK_SECS_OFF_MAX: u32 = 3;

/// Number of copies of the lock. Up to this many threads can read without sharing a cache line.
const PLACES: usize = 16;

/// Of the hits that are not worth a hint for the server itself, one in this many is worth one if
/// the memory has copies.
const READS_PER_COPY_HINT: u32 = 32;

thread_local! {
    static PLACE: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Random state that selects the reads to report: a thread that reads keys in a cycle must not
    /// always report the same keys.
    static DICE: Cell<u64> = const { Cell::new(0) };
}

/// Returns this thread's place. Threads take places in turn.
#[inline]
fn place() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    PLACE.try_with(Cell::get).map_or(0, |place| match place {
        usize::MAX => {
            let place = NEXT.fetch_add(1, Relaxed) % PLACES;
            PLACE.with(|mine| mine.set(place));
            place
        }
        place => place,
    })
}

/// True once in `chances` calls, on average.
#[inline]
fn is_drawn(chances: u32) -> bool {
    let thrown = DICE.try_with(|dice| {
        // Knuth's linear congruential generator; only its upper bits are random enough.
        let next = dice.get().wrapping_mul(6_364_136_223_846_793_005);
        dice.set(next.wrapping_add(1_442_695_040_888_963_407));
        (next >> 33) as u32
    });
    thrown.unwrap_or(0).is_multiple_of(chances)
}

/// The mapped memory of a server.
#[derive(Debug)]
struct View {
    engine: Engine,
    time: Time,
    reads_per_hint: u32,
}

impl View {
    /// Opens the memory that a server has passed; `None` if it does not match its description.
    fn open(region: &Region, file: &File) -> Option<Self> {
        // The server is another process, possibly of another user: it must not be able to crash
        // this process.
        if region.format != FORMAT || !cannot_shrink(file) {
            return None;
        }
        let memory = Memory::read_only(file).ok()?;
        if memory.bytes() as u64 != region.bytes {
            return None;
        }
        let engine = Engine::read_only(memory).ok()?;
        let birth = *engine.birth();
        let time = Time::beginning_at(Clock::System, birth.monotonic_secs, engine.epoch());
        let is_it = birth.identity == region.identity && Some(birth.boot) == boot();
        is_it.then_some(Self { engine, time, reads_per_hint: region.reads_per_hint })
    }

    /// Returns the current second, and until when the items may be used. Returns `None` if the
    /// server's clock stands still or that time has passed, so that the memory cannot be trusted.
    #[inline]
    fn now(&self) -> Option<(Second, Option<ReadableUntil>)> {
        // Rule: FreshBeforeLook
        let limit = self.engine.readable_until();
        let (system, monotonic_ms) = self.time.system_second_and_ms();
        let server = self.engine.now();
        let is_late = limit.is_some_and(|limit| monotonic_ms >= limit.monotonic_ms);
        let is_current = server.abs_diff(system) <= CLOCK_SECS_OFF_MAX && !is_late;
        is_current.then_some((server.max(system), limit))
    }
}

/// The current view, if any, for all threads. Each thread reads the copy at its own place.
#[derive(Debug, Default)]
pub(super) struct Views {
    places: [Place; PLACES],
}

/// A lock aligned to two cache lines, since the processor also fetches the adjacent line.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Place(RwLock<Option<Arc<View>>>);

impl Views {
    #[inline]
    fn mine(&self) -> RwLockReadGuard<'_, Option<Arc<View>>> {
        self.places[place()].0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up an item. If the client should report the read to the server, also returns the
    /// second of the read. Returns `None` if the client must request the item from the server: it
    /// is not in the memory or is stale, or the memory cannot be trusted.
    #[inline]
    pub(super) fn look_up(&self, key: &[u8], out: &mut Vec<u8>) -> Option<(Hit, Option<Second>)> {
        let mine = self.mine();
        let view = mine.as_ref()?;
        let ((now, limit), start) = (view.now()?, out.len());
        let LookupResult { meta, is_worth_noting } = view.engine.look_up(key, now, out)?;
        // Rule: ClockAfterCopy
        let is_late = limit.is_some_and(|limit| !is_wall_before(limit));
        // If the item is stale, the server decides which caller receives the recache token.
        if meta.stale || is_late {
            out.truncate(start);
            return None;
        }
        let ttl_secs =
            (meta.deadline != Deadline::NEVER).then(|| meta.deadline.0.saturating_sub(now));
        let hit =
            Hit { flags: meta.flags, cas: meta.cas, ttl_secs, is_local: true, ..Hit::default() };
        // The near cache reports reads of copies to its origin, also of those that it needs no
        // hints about.
        let is_worth_telling = is_worth_noting || limit.is_some() && is_drawn(READS_PER_COPY_HINT);
        let is_told = is_worth_telling && is_drawn(view.reads_per_hint);
        Some((hit, is_told.then_some(now)))
    }

    /// Prefetches the memory that the following lookups will read.
    pub(super) fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        if let Some(view) = &*self.mine() {
            view.engine.prefetch(keys);
        }
    }

    pub(super) fn is_live(&self) -> bool {
        let is_before = |limit: Option<ReadableUntil>| limit.is_none_or(is_wall_before);
        self.mine().as_ref().and_then(|view| view.now()).is_some_and(|(_, limit)| is_before(limit))
    }

    /// Opens the memory that a server has passed, unless it is the current view.
    pub(super) fn open(&self, region: &Region, file: &File) {
        let is_known = |view: &Arc<View>| view.engine.birth().identity == region.identity;
        if !self.mine().as_ref().is_some_and(is_known) {
            self.put(View::open(region, file).map(Arc::new).as_ref());
        }
    }

    /// Drops the view.
    pub(super) fn close(&self) {
        self.put(None);
    }

    fn put(&self, view: Option<&Arc<View>>) {
        for place in &self.places {
            *place.0.write().unwrap_or_else(PoisonError::into_inner) = view.cloned();
        }
    }
}

#[cfg(test)]
mod tests {
    use larder_region::file::open_again;

    use super::*;
    use crate::Cache;

    /// Returns the description of a cache's memory that a server sends.
    fn region(cache: &Cache) -> Region {
        let bytes = cache.reading_file().unwrap().metadata().unwrap().len();
        Region { identity: cache.identity().0, bytes, format: FORMAT, reads_per_hint: 2 }
    }

    /// The monotonic clock stands still while the machine sleeps, unlike the wall clock.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn items_are_found_only_before_the_limits_of_both_clocks() {
        let cache = Cache::builder().memory_bytes(1 << 20).readable(true).open().unwrap();
        cache.set("k", "v", None).unwrap();
        let views = Views::default();
        views.open(&region(&cache), cache.reading_file().unwrap());
        let finds = || (views.look_up(b"k", &mut Vec::new()).is_some(), views.is_live());
        assert_eq!(finds(), (true, true), "without a limit");
        let limit = |monotonic_ms, unix_ms| {
            cache.shared().engine.limit_readers(ReadableUntil { monotonic_ms, unix_ms });
        };
        let never = u64::MAX;
        for (monotonic_ms, unix_ms, is_found) in
            [(never, never, true), (1, never, false), (never, 1, false), (0, 0, false)]
        {
            limit(monotonic_ms, unix_ms);
            assert_eq!(finds(), (is_found, is_found), "{monotonic_ms} {unix_ms}");
        }
        let mut out = b"before".to_vec();
        assert!(views.look_up(b"k", &mut out).is_none());
        assert_eq!(out, b"before", "a value that was too old is left in the output");
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no memfd")]
    fn memory_that_the_server_can_truncate_is_not_used() {
        for cache in [Cache::builder().readable(true), Cache::builder().inheritable(true)] {
            let cache = cache.memory_bytes(1 << 20).open().unwrap();
            assert!(View::open(&region(&cache), cache.reading_file().unwrap()).is_some());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache");
        let cache = Cache::builder().memory_bytes(1 << 20).shared(&path).open().unwrap();
        let passed = File::from(open_again(cache.reading_file().unwrap()).unwrap());
        assert!(
            View::open(&region(&cache), &passed).is_none(),
            "a named file that can be truncated was accepted"
        );
        std::fs::remove_file(&path).unwrap();
        assert!(
            View::open(&region(&cache), &passed).is_none(),
            "an unlinked file that can be truncated was accepted"
        );
    }
}
