//! One origin of a near cache: its copies, its change stream, and the jobs for its thread.

use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::task;

use larder::copies::{Copies, CopyLimits, Flight, Place};
use larder_options::{Near as NearOptions, OriginAddress};
use larder_protocol::follow::Terms;
use larder_stats::Counters;
use rustix::io;

use super::job::{Job, Pass};
use super::request::PassRequest;
use super::store::OriginStore;
use super::{ListLimits, boot_ms, millis};
use crate::succession::Succession;
use crate::waker::Waker;

/// The state of an origin that the threads of a near cache share.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) address: OriginAddress,
    pub(crate) copies: Copies<OriginStore>,
    pub(super) options: Arc<NearOptions>,
    /// True if the near cache has other origins.
    pub(super) is_one_of_several: bool,
    /// The counters of the thread of this origin.
    pub(super) counters: Arc<Counters>,
    /// The terms of the current change stream, and the number of its subscription in `copies`;
    /// `None` while there is no stream.
    stream: RwLock<Option<(Terms, u64)>>,
    /// True if the origin does not report changes, so that copies are used for `--near-ttl`.
    is_timed: AtomicBool,
    pub(super) succession: Arc<Succession>,
    /// True if the near thread uses no copies until the upgrade of this process is given up.
    has_retired: AtomicBool,
    reach: AtomicU8,
    jobs: Mutex<Vec<Job>>,
    /// True if `jobs` has jobs for which the near thread was not woken.
    has_jobs: AtomicBool,
    /// How many jobs wait for a link.
    pub(super) waiting: AtomicUsize,
    /// Keys whose copies were read, to be reported to the origin.
    hints: Mutex<Vec<Box<[u8]>>>,
    /// The keys whose copies were evicted.
    departed: Mutex<Vec<Box<[u8]>>>,
    /// Wakes the near thread.
    pub(super) waker: Arc<Waker>,
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

impl Origin {
    /// Creates the state of an origin, without copies.
    ///
    /// # Errors
    /// Fails if no file descriptors are left.
    pub(super) fn new(
        given: &larder_options::Origin,
        options: &Arc<NearOptions>,
        store: OriginStore,
        lists: ListLimits,
        counters: &Arc<Counters>,
        succession: &Arc<Succession>,
    ) -> io::Result<Self> {
        let limits = CopyLimits {
            listed_bytes_max: lists.listed_bytes_max,
            absent_bytes_max: lists.absent_bytes_max,
            value_bytes_max: options.value_bytes_max,
            flight_age_max_ms: millis(options.stale_max.min(options.ttl)),
        };
        Ok(Self {
            address: given.address.clone(),
            copies: Copies::new(store, limits),
            options: Arc::clone(options),
            is_one_of_several: options.origins.len() > 1,
            counters: Arc::clone(counters),
            stream: RwLock::default(),
            is_timed: AtomicBool::new(false),
            succession: Arc::clone(succession),
            has_retired: AtomicBool::new(false),
            reach: AtomicU8::new(Reach::Unknown as u8),
            jobs: Mutex::default(),
            has_jobs: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            hints: Mutex::default(),
            departed: Mutex::default(),
            waker: Arc::new(Waker::new()?),
        })
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
        let pass = Arc::new(Pass::new(&request, waker, &self.waker));
        self.put(Job::Pass(Arc::clone(&pass), request));
        pass
    }

    /// Reports a key whose copy was evicted. Called while locks of the cache are held.
    pub(super) fn note_departure(&self, key: Box<[u8]>) {
        // Without waking the thread: it may do this whenever it wakes for other reasons.
        let mut departed = self.departed.lock().unwrap_or_else(PoisonError::into_inner);
        if departed.len() < DEPARTURES_MAX {
            departed.push(key);
        }
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

    pub(super) fn take_jobs(&self) -> Vec<Job> {
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

    pub(super) fn take_hints(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.hints.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn take_departed(&self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut *self.departed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if many jobs wait, so that nothing should be fetched before a client needs it.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting.load(Relaxed) > WAITING_MANY
    }

    /// Replaces the change stream.
    pub(super) fn set_stream(&self, terms: Option<(Terms, u64)>) {
        *self.stream.write().unwrap_or_else(PoisonError::into_inner) = terms;
    }

    /// True if the origin does not report changes, so that copies are used for `--near-ttl`.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.is_timed.load(Relaxed)
    }

    pub(super) fn set_timed(&self, is_timed: bool) {
        self.is_timed.store(is_timed, Relaxed);
    }

    /// True if the copies will soon be too old, and must be dropped. With one origin they may stay:
    /// they may be used again when the origin answers. With several, readers in memory could use no
    /// copy of any origin in the meantime.
    pub(super) fn must_drop_late_copies(&self, now_ms: u64) -> bool {
        let until_ms = self.copies.fresh_until_ms();
        let margin_ms = millis(self.options.stale_max) / LATE_PART;
        self.is_one_of_several && !self.is_timed() && until_ms > 0 && now_ms + margin_ms >= until_ms
    }

    /// True if a successor of this process may have copies.
    pub(super) fn has_retired(&self) -> bool {
        self.has_retired.load(Acquire)
    }

    /// True if this process may have copies: no other process of the same near cache serves.
    pub(super) fn may_copy(&self) -> bool {
        // Rule: OneProcessTells
        !self.has_retired() && self.succession.is_alone()
    }

    pub(super) fn set_retired(&self, has_retired: bool) {
        self.has_retired.store(has_retired, Release);
    }

    /// Returns the name of the state of the origin.
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

    pub(super) fn set_reach(&self, reach: Reach) {
        self.reach.store(reach as u8, Relaxed);
    }
}

/// The maximum number of reads that are reported to the origin at a time.
const HINTS_MAX: usize = 256;

/// More waiting jobs than this are many.
const WAITING_MANY: usize = 512;

/// The maximum number of departures that wait for the near thread. A lost one only leaves a
/// key listed until its bucket changes or its stripe is full.
const DEPARTURES_MAX: usize = 64 * 1024;

/// The part of `--near-max-stale` before whose end the copies of one of several origins are
/// dropped.
const LATE_PART: u64 = 8;
