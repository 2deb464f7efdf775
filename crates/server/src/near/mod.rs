//! A near cache: this server copies the items of another one, its origin (`--origin`).
//!
//! ```text
//! session ─▶ copy in memory ─▶ response
//!    │ no copy, or not a plain read
//!    ▼
//!  Near: flights and jobs ─▶ near thread ─▶ links: change stream, fetches, passed commands ─▶ origin
//! ```
//!
//! One thread has all connections to the origin. The workers leave jobs for it and continue with
//! other clients; it wakes them when the origin has answered. `larder::copies` keeps the copies.
//! Decision 43 has the rules, which comments name.

mod answer;
mod connecting;
mod dial;
mod fetched;
mod job;
mod link;
mod links;
mod outgoing;
mod reply;
mod request;
mod store;
mod thread;
mod way;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::task;

use larder::copies::{Copies, CopyLimits, Flight, Place};
use larder::{Cache, Leaving, Reason};
use larder_options::{Near as NearOptions, Options};
use larder_protocol::ServerError;
use larder_protocol::follow::Terms;
use larder_stats::Counters;
use rustix::io;
use rustix::time::{ClockId, clock_gettime};

use crate::log::Log;
use crate::waker::Waker;
use answer::Taken;
use job::Job;
pub(crate) use job::{Concerned, Pass};
pub(crate) use reply::is_error;
pub(crate) use request::{PassRequest, is_plain};
use store::LocalStore;
pub(crate) use thread::NearThread;
pub(crate) use way::Way;

/// The state of a near cache that its threads share.
#[derive(Debug)]
pub(crate) struct Near {
    pub(crate) copies: Copies<LocalStore>,
    pub(crate) options: NearOptions,
    /// The counters of the near thread.
    counters: Arc<Counters>,
    /// The terms of the current change stream, and the number of its subscription in `copies`;
    /// `None` while there is no stream.
    stream: RwLock<Option<(Terms, u64)>>,
    /// True if the origin does not report changes, so that copies are used for `--near-ttl`.
    is_timed: AtomicBool,
    reach: AtomicU8,
    jobs: Mutex<Vec<Job>>,
    /// True if `jobs` has jobs for which the near thread was not woken.
    has_jobs: AtomicBool,
    /// How many jobs wait for a link.
    waiting: AtomicUsize,
    /// Keys whose copies were read, to be reported to the origin.
    hints: Mutex<Vec<Box<[u8]>>>,
    /// The keys whose copies were evicted.
    departed: Mutex<Vec<Box<[u8]>>>,
    /// Held by the thread that executes a request of the HTTP API.
    http: Mutex<()>,
    /// Wakes the near thread.
    waker: Waker,
}

/// Whether the origin can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not known yet.
    Unknown,
    /// The last attempt to connect succeeded.
    Reached,
    /// The last attempt to connect failed.
    Unreachable,
}

/// A part of the answer to a passed command.
#[derive(Debug)]
pub(crate) enum AnswerPart {
    /// Bytes for the client; empty if it does not want a response.
    Bytes { bytes: Vec<u8>, is_last: bool },
    /// The answer does not arrive, or its rest does not.
    Failed(ServerError),
}

impl Near {
    /// Creates the state of a near cache without copies, or `None` without `--origin`.
    ///
    /// # Errors
    /// Fails if no file descriptors are left.
    pub(crate) fn new(
        options: &Options,
        cache: &Cache,
        log: &Log,
        counters: &Arc<Counters>,
    ) -> io::Result<Option<Arc<Self>>> {
        let Some(near) = &options.near else { return Ok(None) };
        log.note_near();
        let listed_bytes_max = usize::try_from(options.listed_bytes()).unwrap_or(usize::MAX);
        let limits = CopyLimits {
            listed_bytes_max,
            absent_bytes_max: listed_bytes_max / 2,
            value_bytes_max: near.value_bytes_max,
            flight_age_max_ms: millis(near.stale_max.min(near.ttl)),
        };
        Ok(Some(Arc::new(Self {
            copies: Copies::new(LocalStore::new(cache.clone()), limits),
            options: near.clone(),
            counters: Arc::clone(counters),
            stream: RwLock::default(),
            is_timed: AtomicBool::new(false),
            reach: AtomicU8::new(Reach::Unknown as u8),
            jobs: Mutex::default(),
            has_jobs: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            hints: Mutex::default(),
            departed: Mutex::default(),
            http: Mutex::default(),
            waker: Waker::new()?,
        })))
    }

    /// True if copies may be used now.
    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh_at(boot_ms())
    }

    /// True if copies may be used by a read that began before this time of the boot clock. The
    /// caller looks for the copy afterwards.
    #[inline]
    pub(crate) fn is_fresh_at(&self, now_ms: u64) -> bool {
        // Rule: FreshBeforeLook
        let until_ms = self.copies.fresh_until_ms();
        until_ms > 0 && now_ms <= until_ms
    }

    /// Returns the place of a key; `None` while there is no change stream.
    pub(crate) fn place_of(&self, key: &[u8]) -> Option<Place> {
        let stream = self.stream.read().unwrap_or_else(PoisonError::into_inner);
        let (terms, subscription) = stream.as_ref()?;
        Some(Place { subscription: *subscription, bucket: terms.bucket_of(key) })
    }

    /// Joins the fetch of a key, or begins one. Without `waker`, no reader waits for it. The second
    /// value is true if a new fetch has begun.
    pub(crate) fn fetch(
        &self,
        place: Place,
        key: &[u8],
        waker: Option<&task::Waker>,
    ) -> (Arc<Flight>, bool) {
        let (flight, is_new) = self.copies.join(place, key, boot_ms(), waker);
        if is_new {
            self.put(Job::Fetch(Arc::clone(&flight)));
        }
        (flight, is_new)
    }

    /// Passes a command to the origin.
    pub(crate) fn pass(&self, request: PassRequest, waker: task::Waker) -> Arc<Pass> {
        let pass = Arc::new(Pass::new(&request, waker));
        self.put(Job::Pass(Arc::clone(&pass), request));
        pass
    }

    /// Takes the next part of the answer to a passed command; `None` if the client must wait.
    pub(crate) fn take_part(&self, pass: &Pass) -> Option<AnswerPart> {
        let Taken { part, end, wakes } = pass.answer.take();
        if wakes {
            self.waker.wake();
        }
        match (part, end) {
            (Some(bytes), end) => Some(AnswerPart::Bytes { bytes, is_last: end == Some(Ok(())) }),
            (None, Some(Ok(()))) => Some(AnswerPart::Bytes { bytes: Vec::new(), is_last: true }),
            (None, Some(Err(error))) => Some(AnswerPart::Failed(error)),
            (None, None) => None,
        }
    }

    /// Reports a key whose copy was evicted. Called while locks of the cache are held.
    pub(crate) fn note_departure(&self, leaving: &Leaving<'_>) {
        if leaving.reason() == Reason::Cleared {
            return;
        }
        let mut key = Vec::with_capacity(leaving.key_bytes());
        leaving.read_key(&mut key);
        // Without waking the thread: it may do this whenever it wakes for other reasons.
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        if departed.len() < DEPARTURES_MAX {
            departed.push(key.into());
        }
    }

    /// Lets one thread at a time execute requests of the HTTP API.
    pub(crate) fn lock_for_http(&self) -> MutexGuard<'_, ()> {
        self.http.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, job: Job) {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.push(job);
        self.has_jobs.store(true, Relaxed);
    }

    /// Wakes the near thread if there are jobs for it. Each thread calls this after it has put
    /// jobs: a worker once for all requests that it has received together, since one wake costs
    /// about as much as a request.
    #[inline]
    pub(crate) fn wake_for_jobs(&self) {
        // The thread that has put a job reads its own store, unless the job has been taken.
        if self.has_jobs.load(Relaxed) && self.has_jobs.swap(false, Relaxed) {
            self.waker.wake();
        }
    }

    fn take_jobs(&self) -> Vec<Job> {
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        self.has_jobs.store(false, Relaxed);
        std::mem::take(&mut *jobs)
    }

    /// Reports that a copy was read. Reports that come too fast are dropped.
    pub(crate) fn hint(&self, key: &[u8]) {
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        if hints.len() < HINTS_MAX {
            hints.push(key.into());
        }
    }

    fn take_hints(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.hints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn take_departed(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.departed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if many jobs wait, so that nothing should be fetched before a client needs it.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(Relaxed) > WAITING_MANY
    }

    /// Replaces the change stream.
    fn set_stream(&self, terms: Option<(Terms, u64)>) {
        *self.stream.write().unwrap_or_else(PoisonError::into_inner) = terms;
    }

    /// True if the origin does not report changes, so that copies are used for `--near-ttl`.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed.load(Relaxed)
    }

    fn set_timed(&self, is_timed: bool) {
        self.is_timed.store(is_timed, Relaxed);
    }

    /// Returns the name of the state of the near cache.
    pub(crate) fn state_name(&self) -> &'static str {
        let has_stream = self.stream.read().unwrap_or_else(PoisonError::into_inner).is_some();
        match self.reach() {
            Reach::Unknown => "unknown",
            Reach::Unreachable => "unreachable",
            Reach::Reached if has_stream && self.is_timed() => "timed",
            Reach::Reached if has_stream => "copies",
            Reach::Reached => "passes",
        }
    }

    /// Returns whether the origin can be reached.
    pub(crate) fn reach(&self) -> Reach {
        match self.reach.load(Relaxed) {
            reach if reach == Reach::Reached as u8 => Reach::Reached,
            reach if reach == Reach::Unreachable as u8 => Reach::Unreachable,
            _ => Reach::Unknown,
        }
    }

    fn set_reach(&self, reach: Reach) {
        self.reach.store(reach as u8, Relaxed);
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

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The maximum number of reads that are reported to the origin at a time.
const HINTS_MAX: usize = 256;

/// More waiting jobs than this are many.
const WAITING_MANY: usize = 512;

/// The maximum number of departures that wait for the near thread. A lost one only leaves a
/// key listed until its bucket changes or its stripe is full.
const DEPARTURES_MAX: usize = 64 * 1024;
