//! A near cache: this server copies the items of others, its origins (`--origin`).
//!
//! ```text
//! session ─▶ copy in memory ─▶ response
//!    │ no copy, or not a plain read
//!    ▼
//!  Near ─▶ Ring ─▶ Origin: flights and jobs ─▶ its near thread
//!                          ─▶ links: change stream, fetches, passed commands ─▶ origin
//! ```
//!
//! Each key belongs to one origin. Each origin has its own thread, which has all connections to it.
//! The workers leave jobs for it and continue with other clients; it wakes them when the origin has
//! answered. `larder::copies` keeps the copies, those of all origins in one cache. Decision 43 has
//! the rules, which comments name, and decision 46 what several origins add.

mod answer;
mod connecting;
mod everywhere;
mod job;
mod links;
mod losing;
mod origin;
mod request;
mod ring;
mod store;
mod thread;
mod way;
mod weights;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task;
use std::time::{Duration, Instant};

use larder::copies::LISTED_BYTES_MIN;
use larder::{Cache, Leaving, Reason};
use larder_options::{Near as NearOptions, Options};
use larder_stats::Counters;
use rustix::time::{ClockId, clock_gettime};

use crate::log::Log;
use crate::succession::Succession;
pub(crate) use everywhere::Everywhere;
pub(crate) use job::{AnswerPart, Concerned, Pass};
pub(crate) use links::reply::is_error;
pub(crate) use origin::{Origin, Reach};
pub(crate) use request::{PassRequest, is_plain};
pub(crate) use ring::Ring;
use store::{OriginStore, SharedStore};
pub(crate) use thread::NearThreads;
pub(crate) use way::Way;
use weights::Weights;
pub(crate) use weights::WeightsError;

/// The origins of a near cache, and which keys belong to each.
#[derive(Debug)]
pub(crate) struct Near {
    origins: Box<[Arc<Origin>]>,
    store: Arc<SharedStore>,
    options: Arc<NearOptions>,
    /// The memory for the lists of keys. Each origin has its share of it.
    listed_bytes_max: usize,
    /// Held by the thread that executes a request of the HTTP API.
    http: Mutex<()>,
}

/// The memory for the lists of keys of an origin, in bytes.
#[derive(Clone, Copy, Debug)]
struct ListLimits {
    listed_bytes_max: usize,
    absent_bytes_max: usize,
}

impl ListLimits {
    /// Divides the memory by the share of the keys. An origin with few keys may also list long
    /// ones.
    fn of_share(bytes: usize, share: f64) -> Self {
        let listed_bytes_max = ((bytes as f64 * share) as usize).max(LISTED_BYTES_MIN);
        Self { listed_bytes_max, absent_bytes_max: (listed_bytes_max / 2).max(LISTED_BYTES_MIN) }
    }
}

impl Near {
    /// Creates the state of a near cache without copies, or `None` without `--origin`. `counters`
    /// returns those of the thread of each origin.
    ///
    /// # Errors
    /// Fails if the file of weights cannot be used, or if no file descriptors are left.
    pub(crate) fn new<'a>(
        options: &Options,
        cache: &Cache,
        log: &Log,
        succession: &Arc<Succession>,
        counters: impl Fn(usize) -> &'a Arc<Counters>,
    ) -> Result<Option<Arc<Self>>, WeightsError> {
        let Some(near) = &options.near else { return Ok(None) };
        log.note_near();
        let near = Arc::new(near.clone());
        let weights = match &near.weights {
            Some(path) => Weights::read(path, &near.origins)?,
            None => Weights::given(&near.origins)?,
        };
        // The predecessor has dropped the copies that it knows. No message would drop others.
        cache.clear();
        let listed_bytes_max = usize::try_from(options.listed_bytes()).unwrap_or(usize::MAX);
        let store = Arc::new(SharedStore::new(cache.clone(), Ring::new(&near.origins, weights)));
        let shares = store.ring().shares();
        let origin = |(number, given): (usize, &larder_options::Origin)| {
            let part = OriginStore::new(Arc::clone(&store), number);
            let lists = ListLimits::of_share(listed_bytes_max, shares[number]);
            Origin::new(given, &near, part, lists, counters(number), succession)
        };
        let origins = near.origins.iter().enumerate().map(origin);
        let origins = origins.map(|origin| origin.map(Arc::new)).collect::<Result<_, _>>()?;
        Ok(Some(Arc::new(Self {
            origins,
            store,
            options: near,
            listed_bytes_max,
            http: Mutex::default(),
        })))
    }

    /// Returns all origins, in the order of `--origin`.
    pub(crate) fn origins(&self) -> &[Arc<Origin>] {
        &self.origins
    }

    /// Returns the origin that a key belongs to.
    #[inline]
    pub(crate) fn origin_of(&self, key: &[u8]) -> &Arc<Origin> {
        &self.origins[self.store.owner_of(key)]
    }

    /// True if a copy of the key may be used by a read that began before this time of the boot
    /// clock. The caller looks for the copy afterwards.
    #[inline]
    pub(crate) fn is_fresh_at(&self, key: &[u8], now_ms: u64) -> bool {
        // Most reads need not know the owner of their key.
        self.store.is_readable_at(now_ms) || self.origin_of(key).is_fresh_at(now_ms)
    }

    /// True if an origin does not report changes, so that copies are used for `--near-ttl`.
    pub(crate) fn has_timed_origin(&self) -> bool {
        self.origins.iter().any(|origin| origin.is_timed())
    }

    /// Returns how many origins report their changes, but too late.
    pub(crate) fn late_count(&self) -> usize {
        let is_late = |origin: &&Arc<Origin>| origin.state_name() == "copies" && !origin.is_fresh();
        self.origins.iter().filter(is_late).count()
    }

    /// Returns for how long a copy may be out of date.
    pub(crate) fn stale_max(&self) -> Duration {
        let bound = |origin: &Arc<Origin>| match origin.is_timed() {
            true => self.options.ttl,
            false => self.options.stale_max,
        };
        self.origins.iter().map(bound).max().unwrap_or_default()
    }

    /// Passes a command to all origins.
    pub(crate) fn pass_everywhere(&self, request: &PassRequest, waker: &task::Waker) -> Everywhere {
        Everywhere::pass(&self.origins, request, waker)
    }

    /// Returns which keys belong to each origin.
    pub(crate) fn ring(&self) -> Arc<Ring> {
        self.store.ring()
    }

    /// Returns the path of the file of weights.
    pub(crate) fn weights_path(&self) -> Option<&Path> {
        self.options.weights.as_deref()
    }

    /// Drops all copies, before a successor starts, and uses none from then on. Returns false if a
    /// near thread does not respond.
    pub(crate) fn drop_copies_for_successor(&self) -> bool {
        // Rule: OneProcessTells
        self.origins.iter().for_each(|origin| origin.waker.wake());
        let deadline = Instant::now() + RETIREMENT_MAX;
        while !self.origins.iter().all(|origin| origin.has_retired()) {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Reads the file of weights again. If they have changed, drops the copies of the keys that
    /// move to another origin, before this returns. Returns the weights and the number of these
    /// copies as text; `None` if nothing has changed. Only one thread may call this.
    ///
    /// # Errors
    /// Fails if the file cannot be used. Then the current weights stay.
    pub(crate) fn reload_weights(&self) -> Result<Option<String>, WeightsError> {
        let Some(path) = self.weights_path() else { return Ok(None) };
        let origins = &self.options.origins;
        let weights = Weights::read(path, origins)?;
        if weights == *self.store.ring().weights() {
            return Ok(None);
        }
        let shown = weights.shown(origins);
        let ring = Arc::new(Ring::new(origins, weights));
        self.store.announce(&ring);
        let moved: usize = self.origins.iter().map(|origin| origin.copies.drop_moved()).sum();
        for (origin, share) in self.origins.iter().zip(ring.shares()) {
            let lists = ListLimits::of_share(self.listed_bytes_max, share);
            origin.copies.limit_lists(lists.listed_bytes_max, lists.absent_bytes_max);
        }
        // Only now: a write through a new owner would not drop the copy of the old one.
        self.store.set_ring(ring);
        Ok(Some(format!("{shown}; {moved} copies of keys that have moved are dropped")))
    }

    /// Reports that a copy was read. Reports that come too fast are dropped.
    pub(crate) fn hint(&self, key: &[u8]) {
        self.origin_of(key).hint(key);
    }

    /// Reports that a copy has left the cache. Called while locks of the cache are held.
    fn note_departure(&self, leaving: &Leaving<'_>) {
        if leaving.reason() == Reason::Cleared {
            return;
        }
        let mut key = Vec::with_capacity(leaving.key_bytes());
        leaving.read_key(&mut key);
        self.origin_of(&key).note_departure(key.into());
    }

    /// Lets one thread at a time execute requests of the HTTP API.
    pub(crate) fn lock_for_http(&self) -> MutexGuard<'_, ()> {
        self.http.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the threads of the origins that have jobs. Each thread calls this after it has put
    /// jobs: a worker once for all requests that it has received together, since one wake costs
    /// about as much as a request.
    #[inline]
    pub(crate) fn wake_for_jobs(&self) {
        self.origins.iter().for_each(|origin| origin.wake_for_jobs());
    }

    /// Returns how many origins have copies that may be used now.
    pub(crate) fn fresh_count(&self) -> usize {
        self.origins.iter().filter(|origin| origin.is_fresh()).count()
    }

    /// Returns the bytes that the lists of keys use.
    pub(crate) fn listed_bytes(&self) -> usize {
        self.origins.iter().map(|origin| origin.copies.listed_bytes()).sum()
    }

    /// Returns the name of the state that all origins have, or `mixed`.
    pub(crate) fn state_name(&self) -> &'static str {
        let mut names = self.origins.iter().map(|origin| origin.state_name());
        let first = names.next().unwrap_or("unknown");
        if names.all(|name| name == first) { first } else { "mixed" }
    }
}

/// Returns a function that reports that a copy has left the cache. It does not keep the near cache.
pub(crate) fn departures(near: &Arc<Near>) -> impl Fn(&Leaving<'_>) + Send + Sync + 'static {
    let near = Arc::downgrade(near);
    move |leaving| {
        if let Some(near) = near.upgrade() {
            near.note_departure(leaving);
        }
    }
}

/// Returns the time of the boot clock in milliseconds. It also advances while the machine sleeps,
/// and cannot be set.
#[inline]
pub(crate) fn boot_ms() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    secs * 1000 + u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How long a near thread may take to drop its copies. It removes a million in a second.
const RETIREMENT_MAX: Duration = Duration::from_secs(20);

/// Its connections, one that replaces a lost one, the poller and the waker.
pub(crate) const DESCRIPTORS_PER_ORIGIN: usize = links::LINKS + 3;
