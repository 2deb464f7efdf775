//! The cache.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use larder_engine::{Broken, Config, CreateError, Engine, LimitError, Report, ThreadSlot};
use larder_item::{Epoch, Second};
use larder_region::file::{is_length_sealed, open_again};
use larder_region::{FileError, forks};
use larder_stats::Counter;

use crate::clock::Time;
use crate::load::flight::Flights;
use crate::open::builder::random;
use crate::removals::Queues;
use crate::thread::maintainer::Maintainer;
use crate::thread::slots::ThreadSlots;
use crate::{Builder, Clock, Inheritance, OpenError, Opening, SharedError, thread::slots};

/// A cache. Clones are cheap and share everything. There is nothing to close: the memory is given back when the
/// last clone is dropped, with the walks, uploads and large values that are under way.
///
/// Every operation costs a hash of the key and a cache miss or two. Writers of keys that share one of the
/// index's groups wait for each other for a few dozen instructions; readers wait for nobody.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(crate) shared: Arc<Shared>,
}

/// The cache of a process that cannot use the one it was forked with.
const SUBSTITUTE: Config = Config {
    memory_bytes: 1 << 20,
    memory_bytes_max: 1 << 20,
    item_bytes_max: 1 << 19,
    huge_pages: false,
    keeps_versions: true,
    evicts: true,
    hash_seed: 0,
    epoch: Epoch { unix_secs: 0 },
};

/// What the clones of a cache share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    time: Time,
    pub(crate) thread_slots: ThreadSlots,
    pub(crate) queues: Queues,
    /// Set once, where there is one.
    pub(crate) maintainer: OnceLock<Maintainer>,
    /// Held by the maintainer while it works, and by who must not be disturbed by it.
    pub(crate) tidying: Mutex<()>,
    pub(crate) flights: Flights,
    /// How many forks had led to the process that this is of.
    forks: u32,
    /// The same in a process that was forked from it, where it was used there.
    in_child: OnceLock<Arc<Self>>,
    /// Why the cache of before could not be used in this process any more, if it could not.
    lost: Option<CreateError>,
    /// The region's file, where it has one.
    file: Option<File>,
    opening: Opening,
}

impl Shared {
    #[inline]
    pub(crate) fn now(&self) -> Second {
        match self.time.clock {
            Clock::System => self.time.system_second(),
            Clock::Ticked => self.engine.now(),
        }
    }

    /// Is this the process that opened it, or else took it over after a fork?
    #[inline]
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.forks == forks()
    }

    /// What takes its place in this process, which was forked from the one that it is of.
    ///
    /// Whatever a thread held at the fork, of locks or of the region, is held for ever in the child, where that thread is
    /// not: so the child begins with new ones. Where it cannot use the region it goes on with a small cache of its own.
    #[cold]
    fn in_this_process(&self) -> &Arc<Self> {
        let mut last = self;
        loop {
            let next = last.in_child.get_or_init(|| Arc::new(last.forked()));
            if next.is_of_this_process() {
                return next;
            }
            last = next;
        }
    }

    fn forked(&self) -> Self {
        // One is the thread slot that is always lent.
        let own_thread_slots = 1 + slots::of_this_thread(self);
        match self.engine.in_child(own_thread_slots) {
            Ok(engine) => Self::new(engine, self.time),
            Err(error) => {
                let (hash_seed, epoch) = (random(), self.engine.epoch());
                let config = Config { hash_seed, epoch, ..SUBSTITUTE };
                let engine = Engine::create(&config).expect("a megabyte can be had");
                engine.tick(self.engine.now());
                Self { lost: Some(error), ..Self::new(engine, self.time) }
            }
        }
    }

    fn new(engine: Engine, time: Time) -> Self {
        Self {
            thread_slots: ThreadSlots::new(&engine),
            engine,
            time,
            queues: Queues::default(),
            maintainer: OnceLock::new(),
            tidying: Mutex::default(),
            flights: Flights::default(),
            forks: forks(),
            in_child: OnceLock::new(),
            lost: None,
            file: None,
            opening: Opening::None,
        }
    }

    /// Keeps the maintainer waiting, or all who wait for it.
    pub(crate) fn tidying(&self) -> MutexGuard<'_, ()> {
        self.tidying.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    /// The settings of a cache that is to be opened.
    ///
    /// ```
    /// let cache = larder::Cache::builder().memory_bytes(16 << 20).cas(true).open()?;
    /// assert_eq!(cache.memory_limit(), 16 << 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn new(engine: Engine, time: Time, file: Option<File>, opening: Opening) -> Self {
        Self { shared: Arc::new(Shared { file, opening, ..Shared::new(engine, time) }) }
    }

    /// What the clones of this cache share in this process.
    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        if self.shared.is_of_this_process() { &self.shared } else { self.shared.in_this_process() }
    }

    /// Opens the cache in a file, for all processes that open it: what is there as it is, or an empty one with the
    /// settings that [`Builder`] has by default. [`Builder::shared`] says more.
    ///
    /// Cost: that of a few system calls, and of what processes left that were killed, which is put in order; a file that is
    /// made has all of its memory at once.
    ///
    /// # Errors
    /// [`OpenError`] names the file and what is wrong with it.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cache");
    /// use larder::Cache;
    /// let (one, other) = (Cache::open_shared(&path)?, Cache::open_shared(&path)?);
    /// one.set("k", "v", None)?;
    /// assert_eq!(other.get("k").as_deref(), Some(&b"v"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_shared(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        Self::builder().shared(path).open()
    }

    /// What became of the file when the cache was opened.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert_eq!(cache.opening(), &larder::Opening::None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn opening(&self) -> &Opening {
        &self.shared.opening
    }

    /// A number that the memory of no other cache has, and the process ids of those that share it, this one among them.
    /// 0 for memory that is not shared.
    pub fn identity(&self) -> (u128, Vec<u64>) {
        let engine = &self.shared().engine;
        (engine.birth().identity, engine.peer_process_ids())
    }

    /// The file of a [`Builder::readable`] or [`Builder::shared`] cache. Through a descriptor of a readable one others can
    /// only read, through one of a shared one as they opened it.
    pub fn reading_file(&self) -> Option<&File> {
        self.shared.file.as_ref()
    }

    /// What another process needs to use this cache with this one, or in its place ([`Builder::open_inherited`]); none where
    /// the cache was not opened with [`Builder::inheritable`]. Descriptors go through a unix socket.
    ///
    /// # Errors
    /// The memory or the lock file cannot be opened once more.
    pub fn inheritance(&self) -> Option<Result<Inheritance, SharedError>> {
        let region = self.shared.file.as_ref().filter(is_length_sealed)?;
        let locks = self.shared.engine.lock_file_to_pass()?;
        let region = open_again(region)
            .map_err(|source| FileError::System {
                doing: "open again",
                path: "memfd:larder".into(),
                source,
            })
            .map_err(SharedError::from);
        Some(region.and_then(|region| Ok(Inheritance { region, locks: locks? })))
    }

    /// Why this process has a small cache of its own in place of the one it was forked with, if that is so: it could not
    /// become one more of those that share it.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.lost().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lost(&self) -> Option<&CreateError> {
        self.shared().lost.as_ref()
    }

    /// Do items carry cas tokens?
    ///
    /// ```
    /// assert!(larder::Cache::builder().cas(true).open()?.keeps_cas());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keeps_cas(&self) -> bool {
        self.shared().engine.keeps_versions()
    }

    /// Makes everything stored so far invisible, in constant time. [`Cache::maintain`] takes its memory back;
    /// so do stores that need it.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// cache.clear();
    /// assert_eq!(cache.get("k"), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clear(&self) {
        self.shared().flights.detach_all(|_| true);
        self.shared().engine.flush();
    }

    /// Takes back memory of items that expired or were cleared. Nothing depends on it being called; a server
    /// does so every second. A call does a bounded amount of work, a few milliseconds.
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

    /// How many items are stored. Those that expired or were cleared count until they are read or their
    /// memory is taken back.
    ///
    /// Cost: a look at every segment's account.
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

    /// Is nothing stored?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The current second of the cache's clock.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert_eq!(cache.now(), 2, "the first second");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn now(&self) -> Second {
        self.shared().now()
    }

    /// The second of the cache's life by the system's clock, for whoever ticks the cache in real time.
    pub fn system_second(&self) -> Second {
        self.shared().time.system_second()
    }

    /// Moves a [`Clock::Ticked`] clock forward; it never goes back.
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
        self.shared().engine.tick(now);
    }

    /// The tie between the cache's seconds and Unix time.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.epoch().unix_of(cache.now()) > 1_700_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn epoch(&self) -> Epoch {
        self.shared().engine.epoch()
    }

    /// One of the counters that the engine keeps, summed over threads.
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

    /// Sets the counters that count events back to 0.
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

    /// Changes how much memory the cache may use, up to [`Builder::memory_bytes_max`]. More can be used at once.
    /// Less than is in use takes effect little by little with [`Builder::maintainer`], without it with the next stores and
    /// calls of [`Cache::maintain`]: what is wanted least is evicted and its memory goes back to the system.
    ///
    /// # Errors
    /// [`LimitError`] names the bounds.
    pub fn set_memory_limit(&self, bytes: u64) -> Result<(), LimitError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.with_thread_slot(|engine, thread| engine.set_memory_limit(thread, bytes))
    }

    /// How much memory the cache may use, in bytes.
    pub fn memory_limit(&self) -> u64 {
        self.shared().engine.memory_limit() as u64
    }

    /// The sizes of the cache's parts.
    ///
    /// Cost: a look at every segment's account.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// assert!(cache.report().segments_free > 200);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report(&self) -> Report {
        self.shared().engine.report()
    }

    /// How many items there are of each size, rounded up to 32 bytes. Walks the whole index.
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

    /// Checks every invariant of the cache's memory. For tests and fuzzers: no other operation may be under
    /// way (the cache's own maintainer waits), and it walks everything.
    ///
    /// # Errors
    /// The first invariant found broken.
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

    /// As [`Cache::validate`], while other processes and threads use the cache: what the index names is checked group by
    /// group, each while nobody else changes it. Gives the number of items.
    ///
    /// # Errors
    /// The first invariant found broken.
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

    /// Counts again what processes that were killed may have left counted: see [`Cache::validate`]. [`Cache::maintain`] does
    /// it a little at a time.
    ///
    /// Cost: a look at each item of the segments in question.
    pub fn settle_accounts(&self) {
        self.with_thread_slot(|engine, thread| engine.recount_suspects(thread, usize::MAX));
    }

    #[inline]
    pub(crate) fn with_thread_slot<T>(&self, f: impl FnOnce(&Engine, &ThreadSlot) -> T) -> T {
        slots::with_thread_slot(self.shared(), f)
    }
}
