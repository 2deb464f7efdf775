//! The state that all threads of a larderd share: the cache, and the service around it.

pub(crate) mod access;
mod connections;
pub(crate) mod credentials;
pub(crate) mod disk_tier;
pub(crate) mod disk_trouble;
pub(crate) mod drain;
pub(crate) mod error;
pub(crate) mod heartbeats;
pub(crate) mod leases;
mod life;
pub(crate) mod memory_file;
pub(crate) mod open;
pub(crate) mod progress;
pub(crate) mod statistics;
mod upkeep;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder::{Cache, LimitError, StoreError, Wait};
use larder_item::{Deadline, Second};
use larder_options::{AnswersAs, Options, Tuning};
use larder_protocol::{ClientError, Refusal, WarmEnd};
use larder_stats::{Counter, Counters};

use crate::clock::Clock;
use crate::discovery::Discovery;
use crate::followers::Followers;
use crate::log::{self, Level, Log};
use crate::memory::control::MemoryControl;
use crate::near::{self, Near};
use crate::observe::census::Censuses;
use crate::observe::crawler::Crawler;
use crate::observe::prefix_removal::PrefixRemovals;
use crate::observe::readers::Readers;
use crate::observe::watch::{self, Watchers};
use crate::restore::LifeLimit;
use crate::stop::Stop;
use crate::succession::Succession;
use crate::users::Users;
use crate::warming::{Changes, Warming};
use access::Access;
use connections::Connections;
use credentials::Credentials;
use error::{ServerError, UsersError};
use leases::Leases;
use life::Life;
use statistics::Statistics;
use statistics::threads::Thread;
use upkeep::Upkeep;

/// The cache, and everything else of a server that does not belong to a single thread.
#[derive(Debug)]
pub struct Server {
    pub(crate) cache: Cache,
    pub(crate) options: Options,
    pub(crate) memory: MemoryControl,
    /// Settings that clients have changed.
    tuning: Mutex<Tuning>,
    pub(crate) log: Arc<Log>,
    pub(crate) access: Access,
    pub(crate) leases: Leases,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) followers: Arc<Followers>,
    pub(crate) warming: Arc<Warming>,
    pub(crate) succession: Arc<Succession>,
    pub(crate) connections: Connections,
    pub(crate) statistics: Statistics,
    pub(crate) upkeep: Upkeep,
    pub(crate) life: Life,
    /// The limit on the lives of items that this start has restored.
    pub(crate) life_limit: Option<LifeLimit>,
    /// The state of a near cache; `None` if this server owns its items.
    pub(crate) near: Option<Arc<Near>>,
    /// The servers that clients discover; `None` if clients cannot discover servers.
    pub(crate) discovery: Option<Arc<Discovery>>,
}

impl Server {
    /// Creates a server with an empty cache, or with the existing cache of `-e`. It has no sockets
    /// and no threads yet.
    ///
    /// # Errors
    /// Fails if the cache could not be opened, if the users could not be read, or if no file
    /// descriptors are left.
    pub fn new(options: Options) -> Result<Self, ServerError> {
        let credentials =
            Credentials::load(&options).map_err(|error| UsersError::new(&options, error))?;
        let cache = open::prepare(&options, None, disk_tier::Observer::default())?.open()?;
        Self::with(options, credentials, cache)
    }

    /// Same as [`Server::new`], but with an open cache.
    pub(crate) fn with(
        options: Options,
        credentials: Option<Credentials>,
        cache: Cache,
    ) -> Result<Self, ServerError> {
        cache.tick(cache.system_second());
        let readers = Readers::new(&options, &cache)?;
        let users = options.users.clone().map(Users::open).transpose()?.map(Arc::new);
        let disk_threads = if options.disk_tier.is_some() { DISK_THREADS } else { 0 };
        let statistics = Statistics::new(&options, &cache, disk_threads);
        let bytes_max = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let log = new_log(&options);
        let succession = Arc::new(Succession::default());
        let near = Near::new(&options, &cache, &log, &succession, |origin| {
            statistics.counters(Thread::Near(origin))
        })?;
        let watchers = Arc::new(Watchers::new(
            Arc::clone(&log),
            Arc::clone(statistics.counters(Thread::Watchers)),
            // The workers, the listener, the maintainer, the crawler, the admin listener and the
            // threads that wait for the disk.
            options.worker_count + 4 + disk_threads,
            bytes_max(options.worker_log_bytes),
            bytes_max(options.watcher_log_bytes),
        ));
        let classes = &statistics.classes;
        let eviction_counters = Arc::clone(statistics.class_tally.eviction_counters());
        let evictions = watch::evictions(&watchers, Arc::clone(classes));
        let departures = near.as_ref().map(near::departures);
        cache.set_departure_hook(move |leaving| {
            eviction_counters.count(leaving);
            evictions(leaving);
            if let Some(note) = &departures {
                note(leaving);
            }
        });
        let (warming, followers) = Changes::observe(&cache, &options, &succession);
        let censuses = Censuses::new(&options, cache.clone(), Arc::clone(classes));
        let stop = Arc::new(Stop::new()?);
        let crawler = Arc::new(Crawler::new(
            options.lru_crawler,
            cache.clone(),
            Arc::clone(classes),
            Arc::clone(&stop),
            Arc::clone(statistics.counters(Thread::Crawler)),
        ));
        let prefix_removals =
            Arc::new(PrefixRemovals::new(options.flush_all, cache.clone(), Arc::clone(&stop)));
        let warp = options.debug_time.then(Arc::default);
        Ok(Self {
            memory: MemoryControl::default(),
            tuning: Mutex::new(options.tuning.clone()),
            log,
            access: Access {
                certificates: None,
                refreshes: Arc::default(),
                credentials,
                users,
                readers,
            },
            leases: Leases::default(),
            watchers,
            followers,
            warming,
            succession,
            connections: Connections::new(&options),
            statistics,
            upkeep: Upkeep { crawler, prefix_removals, censuses },
            life: Life::new(cache.now(), warp, options.worker_count, stop),
            cache,
            discovery: Discovery::of(&options)?,
            options,
            life_limit: None,
            near,
        })
    }

    /// Returns the counters of a thread.
    pub(crate) fn counters(&self, thread: Thread) -> &Arc<Counters> {
        self.statistics.counters(thread)
    }

    /// Returns the value of a counter since the last reset, summed over all threads.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.statistics.counter(&self.cache, counter)
    }

    /// Resets the counters that count events to 0.
    pub(crate) fn reset_counters(&self) {
        self.statistics.reset(&self.cache);
    }

    /// Returns a clock of the cache's time.
    pub(crate) fn clock(&self) -> Clock {
        Clock::new(self.cache.clone(), self.life.warp.clone())
    }

    /// Returns the time of the cache in milliseconds. The cache's clock, which counts seconds, is
    /// not ahead of it.
    pub(crate) fn now_ms(&self) -> u64 {
        let system_ms = self.cache.system_ms();
        let (second, ms) =
            (Second::try_from(system_ms / 1000).unwrap_or(Second::MAX), system_ms % 1000);
        let second = self.life.warp.as_ref().map_or(second, |warp| warp.of(second));
        u64::from(second.max(self.cache.now())) * 1000 + ms
    }

    /// Returns the options in effect, including changes by clients.
    pub(crate) fn current_options(&self) -> Options {
        let mut options = self.options.clone();
        options.verbosity = self.log.verbosity();
        options.memory_bytes = self.cache.memory_limit();
        options.tuning = self.tuning().clone();
        options.tuning.detail = self.log.counts_prefixes();
        options.lru_crawler = self.upkeep.crawler.is_enabled();
        options
    }

    /// Locks the settings that clients have changed.
    pub(crate) fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.tuning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of open connections.
    pub(crate) fn connection_count(&self) -> usize {
        self.statistics.sum(&self.cache, Counter::ConnectionsCurrent) as usize
    }

    /// Sets the memory limit of an inherited cache to `-m`. A limit set by `cache_memlimit` does
    /// not outlive the process that executed it.
    pub(crate) fn apply_memory_limit(&self) {
        let bytes = self.options.cache_bytes();
        if let Err(error) = self.memory.set_at_start(&self.cache, bytes) {
            log::warn(format_args!(
                "larderd: option -m: the inherited cache keeps its limit: {error}"
            ));
        }
    }

    /// Removes all items, like `flush_all`, for an admin request.
    ///
    /// # Errors
    /// Fails if `-F` forbids it, or if the disk tier refuses changes.
    pub(crate) fn clear_all(&self) -> Result<(), NotCleared> {
        if !self.options.flush_all {
            return Err(NotCleared::Forbidden(ClientError::FlushNotAllowed));
        }
        Ok(self.flush(Deadline::PAST, Wait::Block)?)
    }

    /// Removes all items that exist at the second `deadline`. Removes them immediately if there is
    /// no deadline, or if it has passed.
    ///
    /// # Errors
    /// Fails if the disk tier refuses changes.
    pub(crate) fn flush(&self, deadline: Deadline, wait: Wait<'_>) -> Result<(), StoreError> {
        self.warming.interrupt(WarmEnd::Removal);
        self.leases.revoke_all(self.cache.now());
        let options = &self.options;
        match deadline {
            // Without cas tokens, 1.6.18 cannot distinguish items stored before and after the flush
            // within the same second.
            Deadline::NEVER | Deadline::PAST
                if options.answers_as == AnswersAs::V1_6_18 && !options.cas =>
            {
                self.cache.raw(wait).clear_second()
            }
            Deadline::NEVER | Deadline::PAST => self.cache.raw(wait).clear(),
            Deadline(second) => self.cache.raw(wait).clear_at(second),
        }
    }

    /// Changes the memory limit by order of an operator. The limit then no longer follows the
    /// memory of the process. The region is laid out once, with space to grow. The limit cannot
    /// exceed that space.
    ///
    /// # Errors
    /// Fails if the cache cannot have this limit.
    pub(crate) fn set_memory_limit(&self, mebibytes: u64) -> Result<(), LimitError> {
        let bytes = mebibytes.saturating_mul(1 << 20);
        let limited = self.memory.set_by_hand(&self.cache, bytes);
        if let Err(error) = &limited {
            self.log.event(Level::Warn, format_args!("cache_memlimit {mebibytes}: {error}"));
        }
        limited
    }

    /// Begins to remove the items that have the prefix now, and returns the number of the removal.
    ///
    /// # Errors
    /// Same as [`PrefixRemovals::begin`].
    pub(crate) fn delete_prefix(&self, prefix: &[u8]) -> Result<u64, Refusal> {
        // A client with a lease for a key with this prefix may be about to store a value that it
        // computed before the removal. Leases cannot be found by prefix, so all of them end.
        // The keys that a removal removes are not recorded as changes.
        self.upkeep.prefix_removals.begin(prefix, || {
            self.warming.interrupt(WarmEnd::Removal);
            self.leases.revoke_all(self.cache.now());
        })
    }
}

/// Returns the number of descriptors that are reserved for other uses than connections: three for
/// standard input, output and error, three for the signals and the stop, three for each worker, the
/// listening sockets, one to refuse a connection with, those of the admin listener, and those of
/// the connections to the origins of a near cache.
pub(crate) fn descriptors_reserved(options: &Options) -> usize {
    let addresses = options.tcp_addresses().len() + options.udp_addresses().len();
    let listening = 1 + 2 * addresses;
    let admin = match options.admin_listen.len() {
        0 => 0,
        // An address may stand for two sockets. Each is open twice: for the listener's thread, and
        // to be passed to a successor.
        addresses => ADMIN_CONNECTIONS_MAX + ADMIN_RUNTIME + 4 * addresses,
    };
    let origins = options.near.as_ref().map_or(0, |near| near.origins.len());
    let near = near::DESCRIPTORS_PER_ORIGIN * origins;
    3 + 3 + 3 * options.worker_count + listening + 1 + admin + near + DESCRIPTORS_SPARE
}

/// How many requests can wait for the disk at the same time, each on one thread.
pub(crate) const DISK_THREADS: usize = 8;

/// Maximum number of open connections of the admin listener.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 128;

/// Descriptors for the admin listener's runtime, and for the files that a request reads.
const ADMIN_RUNTIME: usize = 8;

/// Creates the log that these options ask for.
fn new_log(options: &Options) -> Arc<Log> {
    let log = Log::new(options.verbosity);
    log.set_prefixes(options.stat_prefix_delimiter.is_some());
    if options.log.slower_than.is_some() {
        log.time_commands();
    }
    Arc::new(log)
}

/// For files that libraries and the runtime open occasionally.
const DESCRIPTORS_SPARE: usize = 16;

/// The reason why an admin request has not removed all items.
#[derive(Debug)]
pub(crate) enum NotCleared {
    /// The options forbid it.
    Forbidden(ClientError),
    /// The disk tier refuses changes.
    Refused(StoreError),
    /// Origins of a near cache have not removed them: their addresses, each with the reason.
    Origins(String),
}

impl From<StoreError> for NotCleared {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}
