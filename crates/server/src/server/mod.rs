//! The state that all threads of a daemon share.

pub(crate) mod credentials;
pub(crate) mod disk_tier;
pub(crate) mod disk_trouble;
pub(crate) mod drain;
pub(crate) mod error;
pub(crate) mod heartbeats;
pub(crate) mod leases;
mod memory_file;
pub(crate) mod open;
pub(crate) mod progress;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder::{Cache, LimitError, Second, StoreError, Wait};
use larder_item::Deadline;
use larder_options::{AnswersAs, Options, Tuning};
use larder_protocol::{ClientError, Refusal};
use larder_stats::{Counter, Counters};

use crate::buffers::budget::{BUDGET_BYTES, Budget};
use crate::clock::Warp;
use crate::log::{self, Log};
use crate::observe::census::Censuses;
use crate::observe::classes::Classes;
use crate::observe::conn_table::ConnTable;
use crate::observe::crawler::Crawler;
use crate::observe::hot::HotKeys;
use crate::observe::latency::Latencies;
use crate::observe::prefix_removal::PrefixRemovals;
use crate::observe::prefixes::Prefixes;
use crate::observe::readers::Readers;
use crate::observe::tally::ClassTally;
use crate::observe::watch::{self, Watchers};
use crate::server::credentials::Credentials;
use crate::server::drain::Drain;
use crate::server::heartbeats::Heartbeats;
use crate::server::leases::Leases;
use crate::stop::Stop;
use crate::tls::certificates::{Certificates, Refreshed};
use error::{ServerError, UsersError};

/// The cache and all service state that does not belong to a single thread.
#[derive(Debug)]
pub struct Server {
    pub(crate) cache: Cache,
    /// The second this process began to serve. An inherited cache is older.
    pub(crate) started: Second,
    pub(crate) options: Options,
    /// `-c`, or less if the process has too few file descriptors.
    pub(crate) connection_count_max: usize,
    pub(crate) budget: Budget,
    /// Size classes for statistics and dumps.
    pub(crate) classes: Arc<Classes>,
    /// Event counters by size class.
    pub(crate) class_tally: ClassTally,
    /// TLS certificates; set with `-Z`.
    pub(crate) certificates: Option<Arc<Certificates>>,
    /// Users and passwords; set with `-S` or `-Y`.
    pub(crate) credentials: Option<Credentials>,
    /// Processes that may map the cache's memory; set with `--local-readers`.
    pub(crate) readers: Option<Readers>,
    pub(crate) log: Arc<Log>,
    /// Open sockets, for `stats conns`.
    pub(crate) conn_table: ConnTable,
    pub(crate) stop: Arc<Stop>,
    /// True once another process accepts connections and datagrams in place of this one.
    pub(crate) handed_over: AtomicBool,
    /// Whether connections are closed, so that the server can be ended.
    pub(crate) drain: Drain,
    /// Whether the workers turn their loops, for the admin listener.
    pub(crate) heartbeats: Heartbeats,
    /// The keys that are asked for most.
    pub(crate) hot_keys: Arc<HotKeys>,
    /// How long requests take.
    pub(crate) latencies: Latencies,
    pub(crate) leases: Leases,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) prefixes: Prefixes,
    pub(crate) crawler: Arc<Crawler>,
    pub(crate) prefix_removals: Arc<PrefixRemovals>,
    /// Items counted by size class, for statistics.
    pub(crate) censuses: Censuses,
    /// Lets clients move the clock (`debugtime`); `None` unless enabled.
    pub(crate) warp: Option<Arc<Warp>>,
    /// Settings that clients have changed.
    tuning: Mutex<Tuning>,
    /// False while new connections wait because the connection limit is reached.
    pub(crate) accepting: AtomicBool,
    /// Counters of each worker, then of the watchers, the crawler, the admin listener's thread, the
    /// thread that serves while the cache opens, the listener, and the threads that wait for the
    /// disk.
    counters: Vec<Arc<Counters>>,
    /// Counter values at the last `stats reset`, or at the start. Counters have one writer each and
    /// are never set back, and those of a cache that outlives its servers continue; statistics show
    /// the difference.
    at_reset: Mutex<[u64; Counter::COUNT]>,
}

/// The certificates were not refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshError {
    /// TLS is not enabled.
    NoTls,
    /// The files cannot be used; standard error has the reason.
    Unusable,
}

impl Server {
    /// Creates a server with an empty cache, or with the existing cache of `-e`. It has no sockets
    /// and no threads yet.
    ///
    /// # Errors
    /// The cache could not be opened, the users could not be read, or no file descriptors are left.
    pub fn new(options: Options) -> Result<Self, ServerError> {
        let credentials =
            Credentials::load(&options).map_err(|error| UsersError::new(&options, error))?;
        let cache = open::prepare(&options, None, disk_tier::Observer::default())?.open()?;
        Self::with(options, credentials, cache)
    }

    /// As [`Server::new`], with an open cache.
    pub(crate) fn with(
        options: Options,
        credentials: Option<Credentials>,
        cache: Cache,
    ) -> Result<Self, ServerError> {
        cache.tick(cache.system_second());
        let readers = Readers::new(&options, &cache)?;
        let disk_threads = if options.disk_tier.is_some() { DISK_THREADS } else { 0 };
        let threads = options.worker_count + COUNTERS_MORE + disk_threads;
        let counters: Vec<Arc<Counters>> = (0..threads).map(|_| Arc::default()).collect();
        let bytes_max = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let log = Arc::new(Log::new(options.verbosity));
        log.set_prefixes(options.stat_prefix_delimiter.is_some());
        let watchers = Arc::new(Watchers::new(
            Arc::clone(&log),
            Arc::clone(&counters[options.worker_count]),
            // The workers, the listener, the maintainer, the crawler, the admin listener and the
            // threads that wait for the disk.
            options.worker_count + 4 + disk_threads,
            bytes_max(options.worker_log_bytes),
            bytes_max(options.watcher_log_bytes),
        ));
        let classes = Arc::new(Classes::new(&options.slabs, options.cas));
        let class_tally = ClassTally::new(&classes, options.worker_count, disk_threads);
        let eviction_counters = Arc::clone(class_tally.eviction_counters());
        let evictions = watch::evictions(&watchers, Arc::clone(&classes));
        cache.set_departure_hook(move |leaving| {
            eviction_counters.count(leaving);
            evictions(leaving);
        });
        let censuses = Censuses::new(&options, cache.clone(), Arc::clone(&classes));
        let stop = Arc::new(Stop::new()?);
        let crawler = Arc::new(Crawler::new(
            options.lru_crawler,
            cache.clone(),
            Arc::clone(&classes),
            Arc::clone(&stop),
            Arc::clone(&counters[options.worker_count + 1]),
        ));
        let prefix_removals =
            PrefixRemovals::new(options.flush_all, cache.clone(), Arc::clone(&stop));
        Ok(Self {
            started: cache.now(),
            at_reset: Mutex::new(counted_before(&cache)),
            cache,
            connection_count_max: options.connection_count_max,
            classes,
            class_tally,
            credentials,
            readers,
            budget: Budget::new(match options.buffer_bytes_max {
                0 => BUDGET_BYTES,
                bytes => bytes,
            }),
            certificates: None,
            log,
            conn_table: ConnTable::default(),
            stop,
            handed_over: AtomicBool::new(false),
            drain: Drain::default(),
            heartbeats: Heartbeats::new(options.worker_count),
            hot_keys: Arc::default(),
            latencies: Latencies::new(options.worker_count),
            leases: Leases::default(),
            watchers,
            prefixes: Prefixes::new(options.stat_prefix_delimiter.unwrap_or(b':')),
            crawler,
            prefix_removals: Arc::new(prefix_removals),
            censuses,
            warp: options.debug_time.then(Arc::default),
            tuning: Mutex::new(options.tuning.clone()),
            accepting: AtomicBool::new(true),
            counters,
            options,
        })
    }

    /// Returns the counters of a worker.
    pub(crate) fn worker_counters(&self, worker: usize) -> Arc<Counters> {
        Arc::clone(&self.counters[worker])
    }

    /// Returns the counters of the listener.
    pub(crate) fn listener_counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters[self.options.worker_count + LISTENER_COUNTERS])
    }

    /// Returns the counters of the thread that serves connections while the cache opens.
    pub(crate) fn opening_counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters[self.options.worker_count + OPENING_COUNTERS])
    }

    /// Returns the counters of a thread that waits for the disk, counted from 0.
    pub(crate) fn disk_thread_counters(&self, number: usize) -> Arc<Counters> {
        Arc::clone(&self.counters[self.options.worker_count + COUNTERS_MORE + number])
    }

    /// Returns the counters of the admin listener's thread.
    pub(crate) fn admin_counters(&self) -> &Arc<Counters> {
        &self.counters[self.options.worker_count + ADMIN_COUNTERS]
    }

    /// Returns the value of a counter since the last reset, summed over all threads.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        let at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        self.sum(counter).wrapping_sub(at_reset[counter as usize])
    }

    /// Resets the counters that count events to 0.
    pub(crate) fn reset_counters(&self) {
        let mut at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
            at_reset[*counter as usize] = self.sum(*counter);
        }
        self.class_tally.reset();
    }

    /// Returns the options in effect, with what clients have changed.
    pub(crate) fn current_options(&self) -> Options {
        let mut options = self.options.clone();
        options.verbosity = self.log.verbosity();
        options.memory_bytes = self.cache.memory_limit();
        options.tuning = self.tuning().clone();
        options.tuning.detail = self.log.counts_prefixes();
        options.lru_crawler = self.crawler.is_enabled();
        options
    }

    /// Locks the settings that clients have changed.
    pub(crate) fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.tuning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of open connections.
    pub(crate) fn connection_count(&self) -> usize {
        self.sum(Counter::ConnectionsCurrent) as usize
    }

    /// Sets the memory limit of an inherited cache to `-m`. `cache_memlimit` lasts only as long as
    /// the process that executed it.
    pub(crate) fn apply_memory_limit(&self) {
        if self.cache.memory_limit() != self.options.memory_bytes
            && let Err(error) = self.cache.set_memory_limit(self.options.memory_bytes)
        {
            log::say(format_args!(
                "larderd: option -m: the inherited cache keeps its limit: {error}"
            ));
        }
    }

    /// Removes all items, as `flush_all` of an admin request.
    ///
    /// # Errors
    /// `-F` forbids it, or the disk tier takes no changes.
    pub(crate) fn clear_all(&self) -> Result<(), NotCleared> {
        if !self.options.flush_all {
            return Err(NotCleared::Forbidden(ClientError::FlushNotAllowed));
        }
        Ok(self.flush(Deadline::PAST, Wait::Block)?)
    }

    /// Removes all items that are there at a deadline; without one, or with a past one, at once.
    ///
    /// # Errors
    /// The disk tier takes no changes.
    pub(crate) fn flush(&self, deadline: Deadline, wait: Wait<'_>) -> Result<(), StoreError> {
        self.leases.revoke_all(self.cache.now());
        let options = &self.options;
        match deadline {
            // Without cas tokens 1.6.18 cannot distinguish items stored before and after it within
            // a second.
            Deadline::NEVER | Deadline::PAST
                if options.answers_as == AnswersAs::V1_6_18 && !options.cas =>
            {
                self.cache.raw(wait).clear_second()
            }
            Deadline::NEVER | Deadline::PAST => self.cache.raw(wait).clear(),
            Deadline(second) => self.cache.raw(wait).clear_at(second),
        }
    }

    /// Changes the memory limit. The region is laid out once, with room to grow; the limit cannot
    /// exceed that room.
    ///
    /// # Errors
    /// The cache cannot have this limit.
    pub(crate) fn set_memory_limit(&self, mebibytes: u64) -> Result<(), LimitError> {
        let limited = self.cache.set_memory_limit(mebibytes.saturating_mul(1 << 20));
        if let Err(error) = &limited {
            self.log.event(format_args!("cache_memlimit {mebibytes}: {error}"));
        }
        limited
    }

    /// Reads the certificate files again and logs the result on standard error. With
    /// `only_if_changed`, unchanged files are not read, and nothing is logged.
    ///
    /// # Errors
    /// TLS is not enabled, or the files cannot be used. Then the previous certificates stay in
    /// effect.
    pub(crate) fn refresh_certificates(&self, only_if_changed: bool) -> Result<(), RefreshError> {
        let certificates = self.certificates.as_ref().ok_or(RefreshError::NoTls)?;
        match certificates.refresh(only_if_changed) {
            Refreshed::Unchanged(true) => Ok(()),
            Refreshed::Unchanged(false) => Err(RefreshError::Unusable),
            Refreshed::Read(Ok(())) => {
                self.log.event(format_args!("certificates reloaded"));
                Ok(())
            }
            Refreshed::Read(Err(error)) => {
                log::say(format_args!(
                    "larderd: certificates not reloaded, the previous ones stay in effect: {error}"
                ));
                Err(RefreshError::Unusable)
            }
        }
    }

    /// Reads the certificate files again, if there are any, and logs the result.
    pub(crate) fn reload_certificates(&self) {
        if let (Some(certificates), Ok(())) = (&self.certificates, self.refresh_certificates(false))
        {
            let path = certificates.path().display();
            log::say(format_args!("larderd: SIGHUP: certificates reloaded: {path}"));
        }
    }

    /// Reads the user file again, if there is one, and logs the result. On failure the previous
    /// users stay in effect.
    pub(crate) fn reload_users(&self) {
        let Some(credentials) = &self.credentials else { return };
        match credentials.reload() {
            Ok(count) => {
                let path = credentials.path().display();
                log::say(format_args!("larderd: SIGHUP: users reloaded: {count} of {path}"));
            }
            Err(error) => log::say(format_args!(
                "larderd: SIGHUP: users not reloaded, the previous ones stay in effect: {error}"
            )),
        }
    }

    /// Begins to remove the items with a prefix that are stored by now, and returns the number of
    /// the removal.
    ///
    /// # Errors
    /// As [`PrefixRemovals::begin`].
    pub(crate) fn delete_prefix(&self, prefix: &[u8]) -> Result<u64, Refusal> {
        // A lease may be for a key with the prefix, and the value with it from before.
        self.prefix_removals.begin(prefix, || self.leases.revoke_all(self.cache.now()))
    }

    /// Records whether new connections are accepted.
    pub(crate) fn set_accepting(&self, accepting: bool) {
        self.accepting.store(accepting, Relaxed);
    }

    fn sum(&self, counter: Counter) -> u64 {
        let threads = self.counters.iter().map(|counters| counters.read(counter));
        threads.fold(self.cache.counter(counter), u64::wrapping_add)
    }
}

/// Returns the initial counter values. As in memcached, items found in the cache at the start count
/// as stored.
fn counted_before(cache: &Cache) -> [u64; Counter::COUNT] {
    let mut counts = [0; Counter::COUNT];
    for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
        counts[*counter as usize] = cache.counter(*counter);
    }
    let items = &mut counts[Counter::ItemsTotal as usize];
    *items = items.wrapping_sub(cache.len());
    counts
}

/// Returns the number of descriptors besides those of the connections: three for standard input,
/// output and error, three for the signals and the stop, three for each worker, the listening
/// sockets, one to refuse a connection with, and those of the admin listener.
pub(crate) fn descriptors_reserved(options: &Options) -> usize {
    let addresses = options.tcp_addresses().len() + options.udp_addresses().len();
    let listening = 1 + 2 * addresses;
    let admin = match options.admin_listen.len() {
        0 => 0,
        // An address may stand for two sockets; each is held twice, once for a successor.
        addresses => ADMIN_CONNECTIONS_MAX + ADMIN_RUNTIME + 4 * addresses,
    };
    3 + 3 + 3 * options.worker_count + listening + 1 + admin + DESCRIPTORS_SPARE
}

/// How many counters follow those of the workers and precede those of the threads that wait for the
/// disk; and the places of the admin listener's thread, of the one that serves while the cache
/// opens, and of the listener.
const COUNTERS_MORE: usize = 5;
const ADMIN_COUNTERS: usize = 2;
const OPENING_COUNTERS: usize = 3;
const LISTENER_COUNTERS: usize = 4;

/// How many requests wait for the disk at the same time, each on a thread.
pub(crate) const DISK_THREADS: usize = 8;

/// Connections of the admin listener at once.
pub(crate) const ADMIN_CONNECTIONS_MAX: usize = 128;

/// Descriptors of the admin listener's runtime, and the files that a request reads.
const ADMIN_RUNTIME: usize = 8;

/// For files that libraries and the runtime open occasionally.
const DESCRIPTORS_SPARE: usize = 16;

/// Why an admin request has not removed all items.
#[derive(Debug)]
pub(crate) enum NotCleared {
    /// The options forbid it.
    Forbidden(ClientError),
    /// The disk tier takes no changes.
    Refused(StoreError),
}

impl From<StoreError> for NotCleared {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}
