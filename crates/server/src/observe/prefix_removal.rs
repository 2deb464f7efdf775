//! `delete_prefix`: removes the items with a prefix, in slices on a separate thread.
//!
//! Only one removal runs at a time. So however many removals clients request, at most one such
//! thread takes processor time from the workers. A removal ends with the process. The process that
//! replaces it in an upgrade does not continue the removal.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use larder::{Cache, PrefixRemoval, StoreError};
use larder_item::KEY_BYTES_MAX;
use larder_protocol::Refusal;

use crate::stop::Stop;

/// The removals by prefix of a server.
#[derive(Debug)]
pub(crate) struct PrefixRemovals {
    /// False with `-F`.
    allowed: bool,
    cache: Cache,
    /// A removal ends early if the server must stop.
    stop: Arc<Stop>,
    /// True while a removal runs, or is about to.
    is_running: AtomicBool,
    /// True if no further removal may run.
    is_over: AtomicBool,
    /// The thread of the last removal.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The most recent removals, the newest first.
    jobs: Mutex<VecDeque<Arc<Job>>>,
}

/// A removal, in progress or ended.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) id: u64,
    pub(crate) prefix: Vec<u8>,
    began: Instant,
    /// True if the removal must end early.
    cancelled: AtomicBool,
    progress: Mutex<Progress>,
}

/// The progress of a removal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Progress {
    pub(crate) state: State,
    /// The number of removed items.
    pub(crate) removed: u64,
    /// The fraction of the index that has been visited, from 0 to 1.
    pub(crate) share: f64,
    /// The duration so far, or the total duration after the end.
    pub(crate) time: Duration,
}

/// The state of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Done,
    /// A client cancelled the removal, or the server stops.
    Cancelled,
    /// Another process that shares the cache, and that was stopped (for example by SIGSTOP), has
    /// kept a group of the index locked for too long.
    Failed,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

impl Job {
    pub(crate) fn progress(&self) -> Progress {
        let progress = *self.locked();
        match progress.state {
            State::Running => Progress { time: self.began.elapsed(), ..progress },
            _ => progress,
        }
    }

    /// Requests that the removal ends soon. Does nothing if it has already ended.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Relaxed);
    }

    fn note(&self, removal: &PrefixRemoval, state: State) {
        let mut progress = self.locked();
        let share = match state {
            State::Done => 1.0,
            // If the index grows, the visited fraction shrinks, but the reported share must not.
            _ => removal.progress().max(progress.share),
        };
        let time = self.began.elapsed();
        *progress = Progress { state, removed: removal.removed(), share, time };
    }

    fn locked(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PrefixRemovals {
    /// Creates the state of a server without removals.
    pub(crate) fn new(allowed: bool, cache: Cache, stop: Arc<Stop>) -> Self {
        Self {
            allowed,
            cache,
            stop,
            is_running: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            thread: Mutex::default(),
            jobs: Mutex::default(),
        }
    }

    /// Begins to remove the items that have the prefix now, and returns the number of the removal.
    /// Calls `before` first, unless the removal is refused immediately.
    ///
    /// # Errors
    /// Fails if the prefix is empty or too long, if removals are forbidden, if another one runs, or
    /// if the thread cannot be started.
    pub(crate) fn begin(
        self: &Arc<Self>,
        prefix: &[u8],
        before: impl FnOnce(),
    ) -> Result<u64, Refusal> {
        match prefix.len() {
            _ if !self.allowed => return Err(Refusal::DeletePrefixNotAllowed),
            0 => return Err(Refusal::NoPrefix),
            1..=KEY_BYTES_MAX => {}
            _ => return Err(Refusal::PrefixTooLong),
        }
        // Pairs with the release in `end`: this thread observes what earlier removals have
        // recorded.
        if self.is_running.swap(true, Acquire) {
            return Err(Refusal::DeletingPrefix);
        }
        before();
        let begun = self.begin_alone(prefix);
        if begun.is_err() {
            self.end();
        }
        begun
    }

    /// Same as [`Self::begin`], after the check that no other removal runs.
    fn begin_alone(self: &Arc<Self>, prefix: &[u8]) -> Result<u64, Refusal> {
        let mut thread = self.thread();
        if self.is_over.load(Relaxed) {
            return Err(Refusal::NoPrefixRemoval);
        }
        let began = Instant::now();
        let removal =
            self.cache.begin_remove_prefix(prefix).map_err(|_| Refusal::NoPrefixRemoval)?;
        let id = self.latest().map_or(1, |job| job.id + 1);
        let state = State::Running;
        let progress = Progress { state, removed: 0, share: 0.0, time: Duration::ZERO };
        let job = Arc::new(Job {
            id,
            prefix: prefix.to_vec(),
            began,
            cancelled: AtomicBool::new(false),
            progress: Mutex::new(progress),
        });
        let (removals, own) = (Arc::clone(self), Arc::clone(&job));
        let run = move || removals.run(&own, removal);
        let spawned = thread::Builder::new().name("delete_prefix".to_owned()).spawn(run);
        *thread = Some(spawned.map_err(|_| Refusal::NoPrefixRemoval)?);
        let mut jobs = self.jobs();
        jobs.truncate(JOBS_MAX - 1);
        jobs.push_front(job);
        Ok(id)
    }

    /// Removes items until the end of the index, or until the removal must end early.
    fn run(&self, job: &Job, mut removal: PrefixRemoval) {
        loop {
            let is_stopped = self.stop.requested().is_some() || self.is_over.load(Relaxed);
            let is_cancelled = is_stopped || job.cancelled.load(Relaxed);
            let step = if is_cancelled { Ok(true) } else { removal.step(GROUPS_PER_SLICE) };
            let state = match step {
                _ if is_cancelled => State::Cancelled,
                Ok(true) => State::Running,
                Ok(false) => State::Done,
                Err(StoreError::Stuck(_)) if job.began.elapsed() < PATIENCE => State::Running,
                Err(_) => State::Failed,
            };
            if state != State::Running {
                // Before the new state is visible: a client that reads that this removal has ended
                // may begin the next one immediately.
                self.end();
            }
            job.note(&removal, state);
            if state != State::Running {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    fn end(&self) {
        self.is_running.store(false, Release);
    }

    /// Ends the current removal and forbids new ones, because another process takes over the cache
    /// or because the server ends. Returns once no thread removes items any more. If a disk that
    /// hangs keeps a thread from ending, returns after a timeout: the disk tier refuses the
    /// operations of such a thread once it is stopped.
    pub(crate) fn retire(&self) {
        let mut thread = self.thread();
        self.is_over.store(true, Relaxed);
        let deadline = Instant::now() + END_MAX;
        while thread.as_ref().is_some_and(|thread| !thread.is_finished())
            && Instant::now() < deadline
        {
            thread::sleep(PAUSE);
        }
        *thread = None;
    }

    fn thread(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the last removal.
    pub(crate) fn latest(&self) -> Option<Arc<Job>> {
        self.jobs().front().cloned()
    }

    /// Returns a removal by its number, if it is one of the most recent ones.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Job>> {
        self.jobs().iter().find(|job| job.id == id).cloned()
    }

    fn jobs(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many groups of the index are visited without a pause. They contain some hundred items and
/// take a tenth of a millisecond …
const GROUPS_PER_SLICE: usize = 64;

/// … and the pause after them, which leaves the processor to other threads.
const PAUSE: Duration = Duration::from_micros(200);

/// How long to wait for the thread to end.
const END_MAX: Duration = Duration::from_secs(1);

/// How many removals are remembered.
const JOBS_MAX: usize = 16;

/// How long after its beginning a removal still retries if another process keeps a group of the
/// index locked.
const PATIENCE: Duration = Duration::from_secs(60);
