//! The disk tier: a log on disk that stores all items of a cache, or the items that memory evicts.
//!
//! ```text
//! change ─▶ engine ─▶ journal ─▶ log on disk        miss in memory ─▶ log on disk ─▶ back into memory
//! ```
//!
//! The engine calls its *journal* before a change becomes visible to readers. In a directory of
//! mode [`TierMode::Store`], the journal records every change in the log, so the disk has all
//! items. Memory keeps the items in use.
//!
//! In a directory of mode [`TierMode::Cache`] the disk contains only the items that memory evicts
//! (`eviction_journal.rs`).
//!
//! To *promote* an item is to copy it from the disk into memory. A change that needs an item that
//! is only on the disk promotes it first; a read may leave it there (`promotion.rs`).

mod eviction_journal;
mod gauges;
pub(crate) mod inspection;
pub(crate) mod lookup;
mod promotion;
mod recent_reads;
mod recording;
mod settings;
pub(crate) mod store_journal;
pub(crate) mod ticket;
pub(crate) mod wait;
pub(crate) mod walking;

use std::fmt;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use larder_engine::{Cursor, Engine, Journal, LimitError, Refusal, StoreError, ThreadSlot};
use larder_item::{Deadline, Epoch, Second};
use larder_region::forks;
use larder_tier::compression::Compression;
use larder_tier::disk::platform::{Caution, RealDirectory};
use larder_tier::format::Uuid;
use larder_tier::store::{FindError, Settings, StartReport, Statistics, Store};
use larder_tier::{Entropy, Tier as Directory};

use crate::system::clock::{Clock, Time, unix_secs};
use crate::system::random::{random, random_bytes};
use eviction_journal::EvictionJournal;
pub use promotion::PromotionPolicy;
pub(crate) use promotion::{Dependency, NotPerformed, Promotion, Target};
use recent_reads::RecentReads;
use recording::TierJournal;
pub use settings::{Admission, DiskTier, Durability, TierError, TierMode};
use store_journal::StoreJournal;
use walking::Walks;

pub use larder_tier::disk::platform::Caution as TierCaution;
pub use larder_tier::store::{StartReport as TierStarted, Statistics as TierStatistics};

/// The disk tier of a cache in one process.
pub(crate) struct Tier {
    store: Arc<Store<RealDirectory>>,
    mode: TierMode,
    /// The journal of the engine.
    journal: Arc<TierJournal>,
    /// The epoch of the cache's seconds in the log's time. The log's time never goes back, unlike
    /// the wall clock.
    epoch: Epoch,
    /// How long a change waits for a slow disk before it fails.
    wait: Duration,
    /// How long a stop waits for the disk.
    stop: Duration,
    /// The current second of the log's time, for a cache whose clock the caller advances.
    now_unix_secs: Arc<AtomicU64>,
    started: StartReport,
    caution: Option<Caution>,
    /// The memory of engine and catalog together, in bytes.
    memory_bytes: AtomicU64,
    /// The second at which engine and catalog last divided it.
    shared_at: AtomicU32,
    /// The number of forks before this process. A child has a higher number, and must not use the
    /// tier.
    forks: u32,
    /// The time until which a stop waits for the disk; set when the stop begins.
    stop_by: OnceLock<Instant>,
    /// True once memory was written to the disk of a cache.
    is_memory_kept: AtomicBool,
    /// The number of items that the disk failed to return.
    unreadable: AtomicU64,
    /// The reason for the last such failure.
    last_unreadable: Mutex<Option<String>>,
    walks: Walks,
    recent_reads: RecentReads,
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tier").field("store", &self.store).finish_non_exhaustive()
    }
}

impl Drop for Tier {
    fn drop(&mut self) {
        let is_own = self.forks == forks();
        if is_own {
            self.stop();
        }
        // A forked child must not drop the store: its threads and its lock belong to the process
        // that opened it. In that process, a hanging disk blocks the threads of the store, and must
        // not block this thread as well.
        if !is_own || !self.store.is_stopped() {
            std::mem::forget(Arc::clone(&self.store));
        }
    }
}

impl Tier {
    /// Opens the directory and recovers its log.
    pub(crate) fn open(disk: &DiskTier, memory_bytes: u64, time: Time) -> Result<Self, TierError> {
        let directory = RealDirectory::open(&disk.path).map_err(larder_tier::OpenError::from)?;
        let caution = directory.caution().map_err(larder_tier::OpenError::from)?;
        let system_unix_secs = u64::try_from(time.started_unix_secs()).unwrap_or(0);
        let wanted = disk.wanted();
        let tier = Directory::open(directory, wanted, entropy(), system_unix_secs)?;
        let now_unix_secs = Arc::new(AtomicU64::new(system_unix_secs));
        let settings = Settings {
            durability: match disk.mode {
                TierMode::Store => disk.durability.of_store(),
                TierMode::Cache => larder_tier::store::Durability::Async,
            },
            dirty_bytes_max: disk.dirty_bytes.unwrap_or(memory_bytes / 8).min(DIRTY_BYTES_MAX),
            catalog_bytes_max: match disk.mode {
                TierMode::Store => memory_bytes / 4 * CATALOG_QUARTERS_MAX,
                TierMode::Cache => memory_bytes / 2,
            },
            clock: clock(time, &now_unix_secs),
            wall: Arc::new(|| u64::try_from(unix_secs()).unwrap_or(0)),
            before_change: disk.before_change.clone().unwrap_or_else(|| Arc::new(|| ())),
            accept_loss: disk.accept_loss.clone(),
            compression: disk.compress.then(Compression::default),
        };
        let mut progress = disk.progress.clone();
        let mut report = |done: usize, total: usize| {
            if let Some(progress) = &mut progress {
                progress(done, total);
            }
        };
        let (store, started) = Store::start(tier, settings, &mut report)?;
        let begun_unix_secs = time.started_unix_secs().saturating_add(started.time.ahead_secs);
        let (store, epoch) = (Arc::new(store), Epoch::starting_at(begun_unix_secs));
        let tier = Self {
            journal: Arc::new(journal(disk, &store, epoch)),
            store,
            mode: disk.mode,
            epoch,
            wait: disk.wait,
            stop: disk.stop,
            now_unix_secs,
            started,
            caution,
            memory_bytes: AtomicU64::new(memory_bytes),
            shared_at: AtomicU32::new(0),
            forks: forks(),
            stop_by: OnceLock::new(),
            is_memory_kept: AtomicBool::new(false),
            unreadable: AtomicU64::new(0),
            last_unreadable: Mutex::default(),
            walks: Walks::default(),
            recent_reads: RecentReads::within(memory_bytes),
        };
        tier.tick(Epoch::FIRST_SECOND);
        Ok(tier)
    }

    /// Checks whether the directory could be opened. Another process may use it.
    pub(crate) fn rehearse(disk: &DiskTier) -> Result<(), TierError> {
        let directory = RealDirectory::open(&disk.path).map_err(larder_tier::OpenError::from)?;
        Ok(Directory::rehearse(&directory, disk.wanted())?)
    }

    /// Returns the journal for the engine.
    pub(crate) fn journal(&self) -> Arc<dyn Journal> {
        Arc::clone(&self.journal) as Arc<dyn Journal>
    }

    /// Returns a lower bound of the versions (cas tokens) of new items, which is above all versions
    /// on the disk. It leaves a margin, because clients may have chosen the highest version.
    pub(crate) fn versions_past(&self) -> u64 {
        self.started.version_max.saturating_add(1 << 32)
    }

    pub(crate) fn started(&self) -> &StartReport {
        &self.started
    }

    /// Returns the limitations of the file system, if there are known ones.
    pub(crate) fn caution(&self) -> Option<Caution> {
        self.caution
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.store.statistics()
    }

    pub(crate) fn tick(&self, now: Second) {
        self.now_unix_secs.store(self.unix_of(now), Release);
    }

    fn unix_of(&self, second: Second) -> u64 {
        u64::try_from(self.epoch.unix_of(second)).unwrap_or(0)
    }

    /// Converts a deadline of the log to the seconds of the engine.
    fn deadline(&self, unix_secs: Option<u64>) -> Deadline {
        let Some(unix_secs) = unix_secs.and_then(|secs| i64::try_from(secs).ok()) else {
            return Deadline::NEVER;
        };
        let second = unix_secs.saturating_sub(self.epoch.unix_of(0));
        match u32::try_from(second) {
            Ok(second) if Deadline(second) != Deadline::NEVER => Deadline(second),
            _ if second < 0 => Deadline::PAST,
            _ => Deadline::NEVER,
        }
    }

    /// Removes all items, in memory and on disk.
    pub(crate) fn clear(&self, hide: impl Fn()) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.wait;
        loop {
            match self.store.flush(&hide) {
                Err(larder_tier::store::Refusal::Busy) => self.wait_for_progress(deadline)?,
                done => return Ok(done.map_err(store_journal::refusal)?),
            }
        }
    }

    /// Schedules a clear of the disk. Calls `schedule` to do the same in memory, so that readers of
    /// the memory find no items from that second on.
    pub(crate) fn clear_at(&self, at: Second, schedule: impl Fn()) -> Result<(), StoreError> {
        let deadline = Instant::now() + self.wait;
        loop {
            match self.store.flush_at(self.unix_of(at), &schedule) {
                Err(larder_tier::store::Refusal::Busy) => self.wait_for_progress(deadline)?,
                done => return Ok(done.map_err(store_journal::refusal)?),
            }
        }
    }

    /// Schedules the clear in memory that was pending when the log was closed.
    pub(crate) fn schedule_clear(&self, engine: &Engine) {
        let (now, at) = (engine.now(), self.deadline(self.store.flush_due_unix_secs()));
        // A clear that is already due happens before the first operation.
        if at != Deadline::NEVER && at.0 > now {
            engine.flush_at(at.0, now);
        }
    }

    fn wait_for_progress(&self, deadline: Instant) -> Result<(), Refusal> {
        self.store.wait_for_progress(deadline).map_err(store_journal::refusal)
    }

    /// Once per second, gives the engine the part of the memory that the disk's catalog does not
    /// use.
    #[inline]
    pub(crate) fn share_memory_if_due(&self, engine: &Engine, thread: &ThreadSlot, now: Second) {
        if self.shared_at.load(Relaxed) != now && self.shared_at.swap(now, Relaxed) != now {
            self.share_memory(engine, thread);
        }
    }

    #[cold]
    fn share_memory(&self, engine: &Engine, thread: &ThreadSlot) {
        let memory_bytes = self.memory_bytes();
        let catalog_bytes = self.store.statistics().catalog_bytes;
        let left = memory_bytes.saturating_sub(catalog_bytes).max(memory_bytes / 4);
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        if engine.memory_limit().abs_diff(left) > left / 64 {
            // If that is below the engine's minimum, use the minimum.
            if let Err(LimitError { min, max, .. }) = engine.set_memory_limit(thread, left) {
                let _ = engine.set_memory_limit(thread, left.clamp(min, max));
            }
        }
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Relaxed)
    }

    pub(crate) fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Relaxed);
    }

    fn note_unreadable(&self, error: &FindError) {
        self.unreadable.fetch_add(1, Relaxed);
        let mut last = self.last_unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(error.to_string());
    }

    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable.load(Relaxed)
    }

    /// Returns why the tier does not work correctly, or `None` if it does.
    pub(crate) fn trouble(&self) -> Option<String> {
        let unreadable =
            || self.last_unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.store.failure().map(|why| why.to_string()).or_else(unreadable)
    }

    pub(crate) fn store(&self) -> &Store<RealDirectory> {
        &self.store
    }

    pub(crate) fn mode(&self) -> TierMode {
        self.mode
    }

    /// True if the disk contains only the items that memory evicts.
    pub(crate) fn is_cache(&self) -> bool {
        self.mode == TierMode::Cache
    }

    /// Writes the items in memory to the disk of a cache, so that the next start finds them.
    /// Concurrent changes of other threads are not included.
    pub(crate) fn keep_memory(&self, engine: &Engine, thread: &ThreadSlot, now: Second) {
        if !self.is_cache() || self.is_memory_kept.swap(true, Relaxed) {
            return;
        }
        let (deadline, mut cursor) = (self.stop_by(), Cursor::default());
        let mut demoted = cursor;
        while engine.demote_group(thread, &mut cursor, now) {
            // If the cursor did not advance, the disk had no space for an item: wait for it.
            let is_over = cursor == demoted && self.store.wait_for_progress(deadline).is_err();
            if is_over || Instant::now() >= deadline {
                return;
            }
            demoted = cursor;
        }
    }

    /// Returns the time until which the stop waits for the disk, in all of its steps.
    fn stop_by(&self) -> Instant {
        *self.stop_by.get_or_init(|| Instant::now() + self.stop)
    }

    /// Stops the store. Returns the bytes that are not durable.
    pub(crate) fn stop(&self) -> u64 {
        self.store.stop(self.stop_by().saturating_duration_since(Instant::now()))
    }
}

fn journal(disk: &DiskTier, store: &Arc<Store<RealDirectory>>, epoch: Epoch) -> TierJournal {
    let store = Arc::clone(store);
    match disk.mode {
        TierMode::Store => TierJournal::Store(StoreJournal::new(store, epoch)),
        TierMode::Cache => {
            let (admission, bytes_min) = (disk.admission, disk.item_bytes_min);
            TierJournal::Cache(EvictionJournal::new(store, epoch, admission, bytes_min))
        }
    }
}

fn clock(time: Time, now_unix_secs: &Arc<AtomicU64>) -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let ticked = Arc::clone(now_unix_secs);
    match time.clock {
        Clock::Ticked => Arc::new(move || ticked.load(Relaxed)),
        Clock::System | Clock::Handle => {
            let first = u64::from(Epoch::FIRST_SECOND);
            let begun = move |secs: u64| ticked.load(Relaxed).saturating_add(secs);
            Arc::new(move || begun(u64::from(time.system_second()).saturating_sub(first)))
        }
    }
}

fn entropy() -> Entropy {
    let (uuid, hash_key) = (Uuid(random_bytes()), random_bytes());
    Entropy { uuid, index_seed: random(), hash_key }
}

/// The default limit of memory for changes that are not durable, in bytes.
const DIRTY_BYTES_MAX: u64 = 64 << 20;

/// The catalog may use this many quarters of the memory.
const CATALOG_QUARTERS_MAX: u64 = 3;
