//! What all threads of a daemon share.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder::{Builder, Cache, Clock, OpenError, Second};
use larder_options::{Options, Tuning};
use larder_stats::{Counter, Counters};

use crate::admin::classes::Classes;
use crate::admin::conn_table::ConnTable;
use crate::admin::crawler::Crawler;
use crate::admin::prefixes::Prefixes;
use crate::admin::readers::{Readers, ReadersError};
use crate::admin::stats::Censuses;
use crate::admin::tally::ClassTally;
use crate::admin::watch::{self, Watchers};
use crate::clock::Warp;
use crate::log::{self, Log};
use crate::net::budget::{BUDGET_BYTES, Budget};
use crate::process::memory_file::{self, MemoryFileError};
use crate::process::stop::Stop;
use crate::process::supervisor::Supervisor;
use crate::process::upgrade::handover::HandedMemory;
use crate::session::credentials::{Credentials, CredentialsError};
use crate::session::leases::Leases;
use crate::tls::certificates::{Certificates, Refreshed};

/// The cache and everything about its service that is not one thread's own.
#[derive(Debug)]
pub struct Server {
    pub(crate) cache: Cache,
    /// When it began to serve, which the cache may have been there before.
    pub(crate) started: Second,
    pub(crate) options: Options,
    /// `-c`, or fewer where there are no descriptors for so many.
    pub(crate) connection_count_max: usize,
    pub(crate) budget: Budget,
    /// In which statistics and dumps show items.
    pub(crate) classes: Classes,
    /// What has been counted for each of them.
    pub(crate) class_tally: ClassTally,
    /// With `-Z`.
    pub(crate) certificates: Option<Certificates>,
    /// With `-S` or `-Y`.
    pub(crate) credentials: Option<Credentials>,
    /// With `--local-readers`.
    pub(crate) readers: Option<Readers>,
    pub(crate) log: Log,
    /// Who is connected.
    pub(crate) conn_table: ConnTable,
    pub(crate) stop: Stop,
    /// Who wants to know how the process is.
    pub(crate) supervisor: Supervisor,
    /// True once another process accepts connections and datagrams in place of this one.
    pub(crate) handed_over: AtomicBool,
    pub(crate) leases: Leases,
    pub(crate) watchers: Arc<Watchers>,
    pub(crate) prefixes: Prefixes,
    pub(crate) crawler: Crawler,
    /// What is stored, by size class, for statistics.
    pub(crate) censuses: Censuses,
    /// Moves the clock, where clients may.
    pub(crate) warp: Option<Warp>,
    /// What clients have tuned.
    tuning: Mutex<Tuning>,
    /// False while connections have to wait because there are as many as there may be.
    pub(crate) accepting: AtomicBool,
    /// One for each worker, then the watchers', the crawler's, and the listener's.
    counters: Vec<Arc<Counters>>,
    /// What the counters were when `stats reset` was last asked for, or else at the start: those of a cache that outlives
    /// its servers go on. Counters have one writer each and are never set back; what is shown is the difference.
    at_reset: Mutex<[u64; Counter::COUNT]>,
}

/// Why there is no server.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The cache's memory.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The file that the cache is to be in.
    #[error(transparent)]
    MemoryFile(#[from] MemoryFileError),
    /// The users who may come in.
    #[error(transparent)]
    Credentials(#[from] UsersError),
    /// Those who may read the memory by themselves.
    #[error(transparent)]
    Readers(#[from] ReadersError),
    /// The descriptors that threads wake each other with.
    #[error("cannot make descriptors: {0}")]
    Descriptors(#[from] rustix::io::Errno),
}

/// Why certificates were not refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefreshError {
    /// There is no TLS.
    NoTls,
    /// The files cannot be used; standard error says why.
    Unusable,
}

/// Why there are no users to let in.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct UsersError(CredentialsError);

/// To how many times the start's `-m` `cache_memlimit` can raise the memory.
const GROWTH_MAX: u64 = 16;

impl Server {
    /// A server with an empty cache, or with `-e` the one that was there. It has no sockets and no threads yet.
    ///
    /// # Errors
    /// The cache could not be opened, the users could not be read, or there are no file descriptors left.
    pub fn new(options: Options) -> Result<Self, ServerError> {
        Self::taking_over(options, None)
    }

    /// As [`Server::new`], with the cache that another server hands over, where it is the one that the options ask for.
    pub(crate) fn taking_over(
        options: Options,
        memory: Option<HandedMemory>,
    ) -> Result<Self, ServerError> {
        let builder = Cache::builder()
            .memory_bytes(options.memory_bytes)
            .item_bytes_max(options.item_bytes_max)
            .cas(options.cas)
            .evict(options.evict)
            .clock(Clock::Ticked)
            .maintainer(true)
            .inheritable(options.has_readers());
        let credentials = Credentials::load(&options).map_err(UsersError)?;
        let cache = match &options.memory_file {
            Some(path) => memory_file::open(builder, path, &options)?,
            None => match memory.and_then(|memory| inherit(&builder, &options, memory)) {
                Some(cache) => cache,
                None => open(builder, &options)?,
            },
        };
        cache.tick(cache.system_second());
        let readers = Readers::new(&options, &cache)?;
        let counters: Vec<Arc<Counters>> =
            (0..options.worker_count + 3).map(|_| Arc::default()).collect();
        let bytes_max = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let watchers = Arc::new(Watchers::new(
            Arc::clone(&counters[options.worker_count]),
            // The workers, the listener, the maintainer and the crawler.
            options.worker_count + 3,
            bytes_max(options.worker_log_bytes),
            bytes_max(options.watcher_log_bytes),
        ));
        let classes = Classes::new(&options.slabs, options.cas);
        let class_tally = ClassTally::new(&classes, options.worker_count);
        let eviction_counters = Arc::clone(class_tally.eviction_counters());
        let evictions = watch::evictions(&watchers, classes.clone());
        cache.set_departure_hook(move |leaving| {
            eviction_counters.count(leaving);
            evictions(leaving);
        });
        let log = Log::new(options.verbosity);
        log.set_prefixes(options.stat_prefix_delimiter.is_some());
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
            stop: Stop::new()?,
            supervisor: Supervisor::default(),
            handed_over: AtomicBool::new(false),
            leases: Leases::default(),
            watchers,
            prefixes: Prefixes::new(options.stat_prefix_delimiter.unwrap_or(b':')),
            crawler: Crawler::new(
                options.lru_crawler,
                Arc::clone(&counters[options.worker_count + 1]),
            ),
            censuses: Censuses::default(),
            warp: options.debug_time.then(Warp::default),
            tuning: Mutex::new(options.tuning.clone()),
            accepting: AtomicBool::new(true),
            counters,
            options,
        })
    }

    /// A worker's counters.
    pub(crate) fn worker_counters(&self, worker: usize) -> Arc<Counters> {
        Arc::clone(&self.counters[worker])
    }

    /// The listener's counters.
    pub(crate) fn listener_counters(&self) -> Arc<Counters> {
        Arc::clone(self.counters.last().expect("the listener has counters"))
    }

    /// The value of a counter since the last reset, over all threads.
    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        let at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        self.sum(counter).wrapping_sub(at_reset[counter as usize])
    }

    /// Lets the counters that count events begin at 0 again.
    pub(crate) fn reset_counters(&self) {
        let mut at_reset = self.at_reset.lock().unwrap_or_else(PoisonError::into_inner);
        for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
            at_reset[*counter as usize] = self.sum(*counter);
        }
        self.class_tally.reset();
    }

    /// What clients have tuned.
    pub(crate) fn tuning(&self) -> MutexGuard<'_, Tuning> {
        self.tuning.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Connections that are open now.
    pub(crate) fn connection_count(&self) -> usize {
        self.sum(Counter::ConnectionsCurrent) as usize
    }

    /// Sets the memory limit of an inherited cache to `-m`. `cache_memlimit` lasts only as long as the
    /// process that executed it.
    pub(crate) fn apply_memory_limit(&self) {
        if self.cache.memory_limit() != self.options.memory_bytes
            && let Err(error) = self.cache.set_memory_limit(self.options.memory_bytes)
        {
            log::say(format_args!("larderd: option -m: {error}"));
        }
    }

    /// Reads the files again that an operator may have changed, and says on standard error how that went. With
    /// `only_if_changed`, files that have not changed are not read, and nothing is said.
    ///
    /// # Errors
    /// There is no TLS, or the files cannot be used; then what was read before stays in effect.
    pub(crate) fn refresh_certificates(&self, only_if_changed: bool) -> Result<(), RefreshError> {
        let certificates = self.certificates.as_ref().ok_or(RefreshError::NoTls)?;
        match certificates.refresh(only_if_changed) {
            Refreshed::Unchanged(true) => Ok(()),
            Refreshed::Unchanged(false) => Err(RefreshError::Unusable),
            Refreshed::Read(Ok(())) => {
                self.log.event(format_args!("the certificates have been read again"));
                Ok(())
            }
            Refreshed::Read(Err(error)) => {
                log::say(format_args!("larderd: the certificates in use stay: {error}"));
                Err(RefreshError::Unusable)
            }
        }
    }

    /// Reads the users again, where there are any. If that fails, standard error says why, and nothing changes.
    pub(crate) fn reload_users(&self) {
        match self.credentials.as_ref().map(Credentials::reload) {
            None => {}
            Some(Ok(())) => self.log.event(format_args!("the users have been read again")),
            Some(Err(error)) => {
                log::say(format_args!("larderd: the users stay as they were: {error}"))
            }
        }
    }

    /// Says whether new connections are accepted.
    pub(crate) fn set_accepting(&self, accepting: bool) {
        self.accepting.store(accepting, Relaxed);
    }

    fn sum(&self, counter: Counter) -> u64 {
        let threads = self.counters.iter().map(|counters| counters.read(counter));
        threads.fold(self.cache.counter(counter), u64::wrapping_add)
    }
}

/// What has been counted before the start. As with memcached the items that are there count as stored.
fn counted_before(cache: &Cache) -> [u64; Counter::COUNT] {
    let mut counts = [0; Counter::COUNT];
    for counter in Counter::ALL.iter().filter(|counter| counter.is_reset()) {
        counts[*counter as usize] = cache.counter(*counter);
    }
    let items = &mut counts[Counter::ItemsTotal as usize];
    *items = items.wrapping_sub(cache.len());
    counts
}

/// The cache that another server hands over; none where it is not what the options ask for, which the log then says.
fn inherit(builder: &Builder, options: &Options, memory: HandedMemory) -> Option<Cache> {
    let HandedMemory { inheritance, readers } = memory;
    let now = options.local_readers.to_string();
    let opened = if !options.has_readers() || readers != now {
        // Processes that may not read any more have it mapped.
        Err(format!(
            "its readers were those of --local-readers={readers}, and now {now} is asked for"
        ))
    } else {
        builder.clone().open_inherited(inheritance).map_err(|error| error.to_string())
    };
    match opened {
        Ok(cache) => {
            log::say(format_args!("larderd: goes on with a cache of {} items", cache.len()));
            Some(cache)
        }
        Err(why) => {
            log::say(format_args!(
                "larderd: the cache begins empty, since that of the old process cannot be used: {why}"
            ));
            None
        }
    }
}

fn open(builder: Builder, options: &Options) -> Result<Cache, OpenError> {
    if options.huge_pages {
        match builder.clone().huge_pages(true).open() {
            Ok(cache) => return Ok(cache),
            Err(error) => log::say(format_args!(
                "larderd: option -L: going on without: not enough huge pages are set aside (vm.nr_hugepages, 2 MiB each): {error}"
            )),
        }
    }
    // Room to grow is only addresses; but where memory is locked, or addresses are limited, there is none.
    if !options.lock_memory {
        let growing = builder.clone().memory_bytes_max(options.memory_bytes * GROWTH_MAX);
        if let Ok(cache) = growing.open() {
            return Ok(cache);
        }
    }
    builder.open()
}
