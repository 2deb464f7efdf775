//! The state that the threads of a store share.

use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::appender::{Appender, Purpose, SPARE_EXTENTS};
use super::catalog::{Catalog, KeyBits, Location};
use super::extents::Extents;
use super::lives::LifeLimit;
use super::removal::Removal;
use super::settings::{Durability, Settings};
use crate::format::{Address, KeyHasher, Record, SEGMENT_BYTES};
use crate::log::Log;
use crate::recovery::Place;
use crate::store::error::Refusal;
use crate::store::values::Values;

/// The limit of live records in percent of the log's size. Above it, reclaim would copy too much.
const LIVE_MAX_PERCENT: u64 = 80;

/// The number of words in which the addresses of the last records are stored. Several keys share a
/// word, so a response may wait for the record of another key.
const SEEN_WORDS: usize = 1 << 16;

/// A callback that runs after each sync.
type Wake = Box<dyn Fn() + Send + Sync>;

/// The state of a store. Its lock is the head lock.
pub(super) struct Shared<F> {
    pub(super) settings: Settings,
    pub(super) log: Arc<Log<F>>,
    pub(super) hasher: KeyHasher,
    pub(super) catalog: Catalog,
    pub(super) extents: Extents,
    head: Mutex<Appender>,
    /// The flusher waits for work on it.
    pub(super) work: Condvar,
    /// The space thread waits for work on it.
    pub(super) space: Condvar,
    /// Other threads wait on it for a sync or for space.
    pub(super) progress: Condvar,
    /// Everything below this address, as stored, is durable.
    synced: AtomicU64,
    /// Set to make the flusher write and sync immediately.
    pub(super) is_urgent: AtomicBool,
    pub(super) is_closing: AtomicBool,
    /// The memory limit for records that are not durable is reached.
    is_crowded: AtomicBool,
    pub(super) has_failed: AtomicBool,
    /// With [`Durability::Sync`]: the address of the last record for each group of keys. A response
    /// about a key waits until that address is durable.
    seen: Box<[AtomicU64]>,
    /// The address of the newest flush, whether it is due or not.
    flush: AtomicU64,
    /// When the delayed flush is due, as a Unix time; 0 if no flush is pending.
    due: AtomicU64,
    /// The latest time at which expired items were dropped from the catalog, as a Unix time.
    dropped_through: AtomicU64,
    /// The last estimate of the length of all live records.
    live_bytes: AtomicU64,
    /// The earliest deadline of an item whose expiry will free space, as a Unix time. It is kept
    /// only while the store is nearly full.
    next_deadline: AtomicU64,
    /// True if the live records were counted after the estimate reported a full store.
    is_surely_full: AtomicBool,
    /// True for a cache: items that do not fit are dropped, and nothing survives a crash.
    pub(super) is_cache: bool,
    /// A cache has dropped an item because the catalog was full.
    pub(super) is_catalog_full: AtomicBool,
    /// The highest version of any item.
    pub(super) version_max: AtomicU64,
    /// A limit on the lives of items from before the start.
    pub(super) lives: LifeLimit,
    /// The callbacks that run after each sync.
    wakes: Mutex<Vec<Wake>>,
    /// The removals in progress.
    pub(super) removals: Mutex<Vec<Weak<Removal>>>,
    pub(super) values: Values,
    pub(super) counts: Counts,
}

/// The items of a log: the catalog of their locations, the extents that contain them, and the
/// dictionaries of their values.
pub(super) struct Contents {
    pub(super) catalog: Catalog,
    pub(super) extents: Extents,
    pub(super) values: Values,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) written_bytes: AtomicU64,
    pub(super) zeroed_bytes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) sync_us: AtomicU64,
    pub(super) reads: AtomicU64,
    pub(super) read_bytes: AtomicU64,
    pub(super) begun_segments: AtomicU64,
    pub(super) reclaimed_segments: AtomicU64,
    pub(super) evicted_segments: AtomicU64,
    pub(super) evicted_items: AtomicU64,
    pub(super) evicted_bytes: AtomicU64,
    pub(super) copied_items: AtomicU64,
    pub(super) damaged_segments: AtomicU64,
    pub(super) retried_reads: AtomicU64,
    pub(super) kept_items: AtomicU64,
    pub(super) dropped_items: AtomicU64,
}

impl<F> fmt::Debug for Shared<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl<F> Shared<F> {
    pub(super) fn new(
        settings: Settings,
        log: Arc<Log<F>>,
        hasher: KeyHasher,
        contents: Contents,
        head: Appender,
        is_cache: bool,
    ) -> Self {
        let Contents { catalog, extents, values } = contents;
        let words = if settings.durability == Durability::Sync { SEEN_WORDS } else { 0 };
        let due = head.delay().map_or(0, |delay| delay.due_unix_secs);
        Self {
            settings,
            log,
            hasher,
            catalog,
            extents,
            head: Mutex::new(head),
            work: Condvar::new(),
            space: Condvar::new(),
            progress: Condvar::new(),
            synced: AtomicU64::new(0),
            is_urgent: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_crowded: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
            seen: (0..words).map(|_| AtomicU64::new(0)).collect(),
            flush: AtomicU64::new(0),
            due: AtomicU64::new(due),
            dropped_through: AtomicU64::new(0),
            live_bytes: AtomicU64::new(0),
            next_deadline: AtomicU64::new(u64::MAX),
            is_surely_full: AtomicBool::new(false),
            is_cache,
            is_catalog_full: AtomicBool::new(false),
            version_max: AtomicU64::new(0),
            lives: LifeLimit::default(),
            wakes: Mutex::default(),
            removals: Mutex::default(),
            values,
            counts: Counts::default(),
        }
    }

    pub(super) fn head(&self) -> MutexGuard<'_, Appender> {
        self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits on a condition variable, at most this long.
    pub(super) fn wait<'h>(
        &self,
        condition: &Condvar,
        head: MutexGuard<'h, Appender>,
        at_most: Duration,
    ) -> MutexGuard<'h, Appender> {
        condition.wait_timeout(head, at_most).unwrap_or_else(PoisonError::into_inner).0
    }

    pub(super) fn filed(&self, key: &[u8]) -> KeyBits {
        KeyBits::of(self.hasher.identity(key))
    }

    pub(super) fn now(&self) -> u64 {
        (self.settings.clock)()
    }

    /// Returns the address below which everything is durable, or `None` for an empty log.
    pub(super) fn synced(&self) -> Option<Address> {
        Address::from_stored(self.synced.load(Acquire))
    }

    /// Marks everything below the address as durable. `None` changes nothing: no segment was begun.
    pub(super) fn note_synced(&self, through: Option<Address>) {
        self.synced.fetch_max(through.map_or(0, Address::stored), Release);
    }

    /// True if the record at the address is durable.
    pub(super) fn is_synced(&self, at: Address) -> bool {
        at.stored() < self.synced.load(Acquire)
    }

    /// Appends a record. `filed` is the hash of its key, if it has one. The caller holds the head
    /// lock.
    pub(super) fn append(
        &self,
        head: &mut Appender,
        record: &Record<'_>,
        filed: Option<KeyBits>,
        share: Purpose,
    ) -> Result<Place, Refusal> {
        if self.is_closing.load(Acquire) {
            // The flusher may have ended, and the snapshot may already contain the catalog.
            return Err(Refusal::Failed);
        }
        let had_jobs = head.has_jobs();
        let appended = head.append(record, filed, share, self.synced(), self.now());
        let (extent, at, begins) = match appended {
            // Only items are refused as full. The extents left for removals and copies run out only
            // while reclaim uses them.
            Err(Refusal::Busy) if share == Purpose::Item && self.has_no_room(head) => {
                return Err(Refusal::Full);
            }
            appended => appended?,
        };
        if !self.has_room(head) && !self.is_crowded.swap(true, Relaxed) {
            self.is_urgent.store(true, Release);
            self.work.notify_one();
        }
        if begins {
            self.extents.begin(extent, at.number());
            self.space.notify_one();
        }
        if self.settings.durability == Durability::Sync || !had_jobs && head.has_jobs() {
            self.work.notify_one();
        }
        Ok(Place { extent, at })
    }

    /// Adds an item, or the record of a lost one, to the catalog and replaces the earlier record of
    /// the key. The caller holds the head lock.
    pub(super) fn file(
        &self,
        filed: KeyBits,
        own: Option<Location>,
        place: Place,
        record: &Record<'_>,
    ) {
        self.extents.note_named(place.extent, record.bytes(), record.deadline_unix_secs());
        let location = Location::new(place.extent, place.at.offset());
        if matches!(record, Record::Lost { .. }) {
            self.extents.note_lost(location);
        }
        match own {
            Some(own) if self.catalog.replace(filed, own, location) => self.extents.note_dead(own),
            _ => self.catalog.insert(filed, location),
        }
    }

    /// Updates the highest version. The caller holds the head lock.
    pub(super) fn note_version(&self, version: u64) {
        // Only holders of the head lock store it.
        if version > self.version_max.load(Relaxed) {
            self.version_max.store(version, Relaxed);
        }
    }

    /// Makes responses about the key wait until this record is durable.
    pub(super) fn note_seen(&self, filed: KeyBits, at: Address) {
        if let Some(word) = self.seen.get(filed.word(SEEN_WORDS)) {
            word.fetch_max(at.stored(), Release);
        }
    }

    /// Returns the address that must be durable before a response about the key is sent.
    pub(super) fn awaited(&self, filed: KeyBits) -> Option<Address> {
        let word = self.seen.get(filed.word(SEEN_WORDS))?;
        // Rule: AnswerWaitsForKey
        // Rule: AnswerWaitsForFlush
        Address::from_stored(word.load(Acquire).max(self.flush.load(Acquire)))
    }

    pub(super) fn note_flush(&self, at: Address) {
        self.flush.store(at.stored(), Release);
        self.due.store(0, Release);
    }

    /// Sets when a flush is due, as a Unix time; 0: no flush is pending. `at` is the address of its
    /// record, if it has one.
    pub(super) fn note_due(&self, at: Option<Address>, due_unix_secs: u64) {
        if let Some(at) = at {
            self.flush.store(at.stored(), Release);
        }
        self.due.store(due_unix_secs, Release);
    }

    /// Returns when the delayed flush is due, as a Unix time, or 0 if no flush is pending.
    pub(super) fn due_unix_secs(&self) -> u64 {
        self.due.load(Acquire)
    }

    /// True if a delayed flush is due.
    pub(super) fn is_flush_due(&self, now_unix_secs: u64) -> bool {
        let due = self.due.load(Acquire);
        due != 0 && due <= now_unix_secs
    }

    /// Called before expired items are dropped. The caller holds the head lock.
    pub(super) fn note_dropping(&self, now_unix_secs: u64) {
        self.dropped_through.fetch_max(now_unix_secs, Relaxed);
    }

    /// True if an item that is alive in memory at this time is certainly in the catalog. An item
    /// may be missing if this time is before the latest drop of expired items.
    pub(super) fn is_surely_filed(&self, now_unix_secs: u64) -> bool {
        now_unix_secs >= self.dropped_through.load(Relaxed)
    }

    pub(super) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Relaxed)
    }

    pub(super) fn estimate_live_bytes(&self) {
        self.live_bytes.store(self.extents.live_bytes(), Relaxed);
        if !self.is_full() {
            self.set_surely_full(false);
        }
    }

    /// Returns the limit of live records, in bytes. Above it a store accepts no more items.
    pub(super) fn live_bytes_max(&self) -> u64 {
        live_bytes_max(self.extents.count())
    }

    pub(super) fn note_next_deadline(&self, unix_secs: u64) {
        self.next_deadline.store(unix_secs, Relaxed);
    }

    /// True if the catalog still has expired items. Dropping them will soon free space.
    pub(super) fn has_expired(&self, now_unix_secs: u64) -> bool {
        self.next_deadline.load(Relaxed) <= now_unix_secs
    }

    pub(super) fn set_surely_full(&self, is_surely_full: bool) {
        self.is_surely_full.store(is_surely_full, Relaxed);
    }

    /// True if the store is full and only deletes, deadlines and overwrites can free space. False
    /// until the live records were counted.
    pub(super) fn is_surely_full(&self) -> bool {
        self.is_surely_full.load(Relaxed)
    }

    /// True if the live records have reached their limit.
    pub(super) fn is_full(&self) -> bool {
        self.live_bytes() > self.live_bytes_max()
    }

    /// True if the live records have reached the limit of a log with this many extents.
    pub(super) fn is_full_of(&self, extents: u32) -> bool {
        self.live_bytes() > live_bytes_max(extents)
    }

    /// True if no extent becomes ready until an item is removed, replaced or expires.
    fn has_no_room(&self, head: &Appender) -> bool {
        let is_full = |all: usize| self.is_full_of(all as u32);
        let is_vain = || !head.can_allocate() && head.is_reclaim_vain(self.live_bytes());
        head.all_that_the_disk_gives().is_some_and(is_full) || is_vain()
    }

    /// True if the memory for records that are not durable has space for another record.
    pub(super) fn has_room(&self, head: &Appender) -> bool {
        head.dirty_bytes() < self.settings.dirty_bytes_max
    }

    /// True if a change has to wait for that memory. The last change or sync updated this.
    pub(super) fn is_crowded(&self) -> bool {
        self.is_crowded.load(Relaxed)
    }

    pub(super) fn add_wake(&self, wake: Wake) {
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// Notifies all waiters that more records are durable, or that the log has failed.
    pub(super) fn report_progress(&self) {
        let is_crowded = !self.is_over() && !self.has_room(&self.head());
        self.is_crowded.store(is_crowded, Relaxed);
        self.progress.notify_all();
        self.wakes.lock().unwrap_or_else(PoisonError::into_inner).iter().for_each(|wake| wake());
    }

    /// Marks the log as failed. Records that are not known to be durable may or may not be.
    pub(super) fn fail(&self, reason: &impl fmt::Display) {
        self.head().fail(&reason.to_string());
        self.has_failed.store(true, Release);
        self.report_progress();
        self.notify_threads();
    }

    /// Wakes the threads of the store.
    pub(super) fn notify_threads(&self) {
        self.work.notify_all();
        self.space.notify_all();
        self.values.due.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.has_failed.load(Acquire) || self.is_closing.load(Acquire)
    }
}

/// Returns the limit of live records for a log of this many extents, in bytes.
fn live_bytes_max(extents: u32) -> u64 {
    let bytes = u64::from(extents.saturating_sub(SPARE_EXTENTS)) * SEGMENT_BYTES as u64;
    bytes / 100 * LIVE_MAX_PERCENT
}
