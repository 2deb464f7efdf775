//! [`Cache`]: its clock, its limits and its checks.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use larder_engine::{
    Broken, CreateError, Engine, LimitError, Report, SegmentReport, StoreError, ThreadSlot,
};
use larder_item::{Deadline, Epoch, Second};
use larder_stats::Counter;

use crate::backend::Backend;
use crate::events::{Event, report};
use crate::process::registered;
use crate::process::shared::{Opening, Shared};
use crate::raw::Raw;
use crate::system::clock::{HandleTime, readable_until};
use crate::tier::Tier;
use crate::tier::wait::Wait;

/// A cache. Clones are cheap and share everything except the time set with [`Cache::set_now`].
/// There is no close operation: the memory is returned to the system once the last clone is
/// dropped, and with it every walk, upload and large value that still uses the cache.
///
/// Every operation costs a hash of the key and one or two cache misses. Writers whose keys share a
/// group of the index wait for each other for a few dozen instructions. Readers never wait.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
    pub(super) time: HandleTime,
}

impl Cache {
    pub(crate) fn of(mut shared: Shared, file: Option<File>, opening: Opening) -> Self {
        let replaced = match &opening {
            Opening::Replaced(reason) => Some(reason.as_str()),
            Opening::None | Opening::Created | Opening::Attached => None,
        };
        report(Event::Opened { replaced, memory_bytes: shared.engine.memory_limit() });
        (shared.file, shared.opening) = (file, opening);
        Self { shared: Arc::new(shared), time: HandleTime::default() }
    }

    /// Returns the shared state of this process.
    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.shared.here()
    }

    /// Returns how the file was opened: created, attached or replaced.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert_eq!(cache.opening(), &larder::Opening::None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn opening(&self) -> &Opening {
        &self.shared.opening
    }

    /// Returns a number unique to this cache's memory, and the ids of all processes that share it,
    /// including this process. The number is 0 for memory that is not shared.
    pub fn identity(&self) -> (u128, Vec<u64>) {
        let engine = &self.shared().engine;
        (engine.birth().identity, engine.peer_process_ids())
    }

    /// True if no other process can change the items of this cache at the moment.
    ///
    /// Cost: a load for each process that the cache has room for. If other processes use the cache,
    /// also a system call for each.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cache");
    /// use larder::Cache;
    /// let cache = Cache::open_shared(&path)?;
    /// let other = Cache::open_shared(&path)?;
    /// assert!(!cache.is_alone());
    /// drop(other);
    /// assert!(cache.is_alone());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_alone(&self) -> bool {
        self.shared().engine.is_alone()
    }

    /// Returns the file of a [`Builder::readable`](crate::Builder::readable) or
    /// [`Builder::shared`](crate::Builder::shared) cache. The descriptor of a readable cache only
    /// allows reading. The descriptor of a shared cache can be opened again with any access that
    /// the file's permissions allow.
    pub fn reading_file(&self) -> Option<&File> {
        self.shared.file.as_ref()
    }

    /// Returns the reason why this process could not join the processes that share the cache, for
    /// example after a fork. Depending on [`Builder::substitute`](crate::Builder::substitute) such
    /// a process uses its own small cache, only reads the shared one, or fails each operation.
    /// Returns `None` if the process uses the shared cache. The first call in a forked child tries
    /// to join.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.lost().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lost(&self) -> Option<&CreateError> {
        self.shared().lost.as_ref()
    }

    /// True if the shared cache had no free slot for this process and
    /// [`Builder::substitute`](crate::Builder::substitute) is off. The process can read; its
    /// changes fail. A forked child joins within a second or two after another process has left. A
    /// process that opened a file must open it again.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(!cache.only_reads());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only_reads(&self) -> bool {
        self.shared().outside.is_some()
    }

    /// Checks that operations on items do not fail in this process because it was forked.
    ///
    /// # Errors
    /// [`StoreError::Journal`]: [`Refusal::Forked`](crate::Refusal::Forked) in a child of the
    /// process that opened a disk tier, [`Refusal::Lost`](crate::Refusal::Lost) in a child that
    /// could not join and has no [`Builder::substitute`](crate::Builder::substitute).
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.usable()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn usable(&self) -> Result<(), StoreError> {
        self.shared().tier.usable().map(|_| ())
    }

    /// True if items carry cas tokens.
    ///
    /// ```
    /// assert!(larder::Cache::builder().cas(true).open()?.keeps_cas());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keeps_cas(&self) -> bool {
        self.shared().engine.keeps_versions()
    }

    /// Makes everything stored so far invisible, in constant time. [`Cache::maintain`] and stores
    /// that need memory reclaim it.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// cache.clear();
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) {
        // Without a disk tier nothing fails.
        let _ = self.try_clear();
    }

    /// Same as [`Cache::clear`], but reports errors of the disk tier.
    ///
    /// # Errors
    /// [`StoreError::Journal`] if the log does not accept changes; then nothing is cleared.
    pub fn try_clear(&self) -> Result<(), StoreError> {
        self.blocking().clear()
    }

    /// Reclaims the memory of expired and cleared items. Calling it is optional; a server calls it
    /// every second. A call does a bounded amount of work, about ten milliseconds.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// cache.clear();
    /// cache.maintain();
    /// assert_eq!(cache.memory().items, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn maintain(&self) {
        let now = self.now();
        self.with_thread_slot(|engine, thread| engine.maintain(thread, now));
    }

    /// Returns the number of stored items. Expired and cleared items count until they are read or
    /// their memory is reclaimed.
    ///
    /// Cost: reads the counters of every segment.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// assert_eq!((cache.len(), cache.is_empty()), (1, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> u64 {
        self.shared().engine.items()
    }

    /// True if no item is stored.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the current second of the cache's clock.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert_eq!(cache.now(), 2, "the first second");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn now(&self) -> Second {
        self.shared().now_of(&self.time)
    }

    /// Sets the time of this handle to a Unix time in seconds. Only for a cache that was opened
    /// with [`Clock::Handle`](crate::Clock::Handle). With 0 the handle uses the system's time
    /// again. Operations through the handle use this time to expire items and to compute deadlines
    /// from times to live, so a server can run a request with the same time from beginning to end.
    /// A clone starts with the time of its original. The cache stores the difference to the
    /// system's time at the moment of the call, so setting the wall clock later moves no deadline.
    /// The time should be close to the system's time, since every process that uses the cache
    /// expires items.
    ///
    /// ```
    /// use larder::{Cache, Clock};
    /// use std::time::Duration;
    /// let cache = Cache::builder().clock(Clock::Handle).open()?;
    /// let (request, now) = (cache.clone(), cache.epoch().unix_of(cache.now()));
    /// cache.set("k", "v", Some(Duration::from_secs(60)))?;
    /// assert!(cache.contains("k"));
    /// request.set_now(now + 61);
    /// assert_eq!(request.get("k"), None, "and the read has removed it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_now(&self, unix_secs: i64) {
        self.time.set(unix_secs);
    }

    /// Returns the cache's second according to the system's clock, for callers that tick the cache
    /// in real time.
    pub fn system_second(&self) -> Second {
        self.shared().time.system_second()
    }

    /// Same as [`Cache::system_second`], but in milliseconds.
    pub fn system_ms(&self) -> u64 {
        self.shared().time.system_ms()
    }

    /// Moves a [`Clock::Ticked`](crate::Clock::Ticked) clock forward. An earlier second has no
    /// effect.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().clock(larder::Clock::Ticked).open()?;
    /// use std::time::Duration;
    /// cache.set("k", "v", Some(Duration::from_secs(60)))?;
    /// cache.tick(cache.now() + 60);
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick(&self, now: Second) {
        let shared = self.shared();
        shared.engine.tick(now);
        if let Some(tier) = shared.tier.own() {
            tier.tick(shared.engine.now());
        }
    }

    /// Limits until when clients that read this cache's memory ([`Client`](crate::Client)) may use
    /// the items that they find there: a time of the system's boot clock, in milliseconds. After it
    /// they request every item from the server. A server that keeps copies of items calls this,
    /// since its copies may be out of date later, and it may be stopped. Two threads must not call
    /// it at the same time. A cache for which it was never called has no limit.
    pub fn limit_readers(&self, boot_ms: u64) {
        self.shared().engine.limit_readers(readable_until(boot_ms));
    }

    /// Returns the relation between the cache's seconds and Unix time, according to the current
    /// wall clock. The cache's seconds follow the monotonic clock: when the wall clock is set,
    /// deadlines do not move, and this relation changes.
    ///
    /// Cost: two reads of a clock, without a system call.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.epoch().unix_of(cache.now()) > 1_700_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn epoch(&self) -> Epoch {
        let shared = self.shared();
        shared.wall.epoch(&shared.time)
    }

    /// Converts an exptime of the protocol to a deadline: 0 means never, a negative value is in the
    /// past, values up to 30 days are seconds from now, and larger values are Unix times according
    /// to the current wall clock.
    ///
    /// Cost: for a Unix time, the cost of [`Cache::epoch`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// let in_a_minute = cache.deadline(60);
    /// let by_unix_time = cache.deadline(cache.epoch().unix_of(cache.now()) + 60);
    /// assert!(in_a_minute.0.abs_diff(by_unix_time.0) <= 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deadline(&self, exptime: i64) -> Deadline {
        let epoch = match exptime {
            ..=Epoch::RELATIVE_SECS_MAX => self.shared().engine.epoch(),
            _ => self.epoch(),
        };
        epoch.deadline(exptime, self.now())
    }

    /// Returns one of the engine's counters, summed over all threads.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// assert_eq!(cache.counter(larder::Counter::ItemsTotal), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn counter(&self, counter: Counter) -> u64 {
        self.shared().engine.counter(counter)
    }

    /// Resets the counters of events to 0.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.get("missing");
    /// cache.reset_counters();
    /// assert_eq!(cache.counter(larder::Counter::GetMisses), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reset_counters(&self) {
        self.shared().engine.reset_counters();
    }

    /// Changes the memory limit, up to
    /// [`Builder::memory_bytes_max`](crate::Builder::memory_bytes_max). A higher limit takes effect
    /// immediately. A limit below the memory in use takes effect gradually: in the background with
    /// [`Builder::maintainer`](crate::Builder::maintainer), otherwise with the next stores and
    /// calls of [`Cache::maintain`]. Shrinking evicts the least valuable items and returns their
    /// memory to the system.
    ///
    /// # Errors
    /// [`LimitError`] states the valid range.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), LimitError> {
        let limit = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.with_thread_slot(|engine, thread| engine.set_memory_limit(thread, limit))?;
        if let Some(tier) = self.shared().tier.own() {
            tier.set_memory_bytes(bytes);
        }
        Ok(())
    }

    /// Returns the memory limit, in bytes.
    pub fn memory_limit(&self) -> u64 {
        let shared = self.shared();
        let limit = || shared.engine.memory_limit() as u64;
        shared.tier.own().map_or_else(limit, Tier::memory_bytes)
    }

    /// Returns the sizes of the cache's parts.
    ///
    /// Cost: reads the counters of every segment.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.report().segments_free > 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report(&self) -> Report {
        self.shared().engine.report()
    }

    /// Returns a report on segment `number`; `None` unless it is below `report().segments`. Cost: a
    /// few loads.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// let segments = 0..cache.report().segments as u32;
    /// let items: u64 = segments.filter_map(|n| cache.segment(n)).map(|segment| segment.items).sum();
    /// assert_eq!(items, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn segment(&self, number: u32) -> Option<SegmentReport> {
        let engine = &self.shared().engine;
        engine.has_segment(number).then(|| engine.segment_report(number))
    }

    /// Returns the number of items of each size, rounded up to 32 bytes. Cost: a walk over the
    /// entire index.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("key", "value", None)?;
    /// assert_eq!(cache.sizes().into_iter().collect::<Vec<_>>(), [(32, 1)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sizes(&self) -> BTreeMap<u64, u64> {
        self.shared().engine.sizes()
    }

    /// Checks every invariant of the cache's memory, for tests and fuzzers. The caller ensures that
    /// no other operation runs during the check; the cache's own maintainer waits. Cost: a walk
    /// over all of the memory.
    ///
    /// # Errors
    /// The first broken invariant.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// cache.validate()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn validate(&self) -> Result<(), Broken> {
        let _undisturbed = self.shared().tidying();
        self.shared().engine.validate()
    }

    /// Checks the invariants as [`Cache::validate`] does, but while other processes and threads use
    /// the cache: locks one group of the index at a time and checks the items that it refers to.
    /// Returns the number of items.
    ///
    /// # Errors
    /// The first broken invariant.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// assert_eq!(cache.validate_in_use()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn validate_in_use(&self) -> Result<u64, Broken> {
        self.with_thread_slot(Engine::validate_in_use)
    }

    /// Recounts the segments whose counters may be wrong because a process was killed. Call it
    /// before [`Cache::validate`] in this case. [`Cache::maintain`] does the same work in small
    /// steps.
    ///
    /// Cost: reads each item of the affected segments.
    pub fn settle_accounts(&self) {
        self.with_thread_slot(|engine, thread| engine.recount_suspects(thread, usize::MAX));
    }

    /// Returns the interface for operations with an explicit way to wait for the disk.
    #[inline(always)] // A call that returns it through memory costs a tenth of a get.
    pub fn raw<'a>(&'a self, wait: Wait<'a>) -> Raw<'a> {
        let (shared, now) = (self.shared(), self.now());
        Raw { backend: Backend { shared, now, wait, announces: true } }
    }

    /// Returns the interface for operations that wait for the disk themselves.
    #[inline(always)]
    pub(crate) fn blocking(&self) -> Raw<'_> {
        self.raw(Wait::Block)
    }

    #[inline]
    pub(crate) fn with_thread_slot<T>(&self, f: impl FnOnce(&Engine, &ThreadSlot) -> T) -> T {
        registered::with_thread_slot(self.shared(), f)
    }
}
