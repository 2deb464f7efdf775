//! Flights: loads in progress. A *flight* is the load of one key, with the threads that wait for
//! it. The *board* lists the flights of a cache, at most one per key.
//!
//! ```text
//! board ─▶ leader: loads ─▶ land: stores unless detached, leaves the board, wakes the followers
//!       └▶ follower: waits for the leader's result
//! ```
//!
//! A change of the key, a clear, or a caller that finds the flight older than its timeout
//! **detaches** the flight: it removes the flight from the board, so that later callers start a new
//! load, and the result of the flight is not stored. The leader stores the result while it holds
//! the flight's lock, and a thread that detaches the flight takes the same lock before it writes. A
//! result is therefore stored before the write, which replaces it, or not at all.
//!
//! Threads and tasks of a tokio runtime share the flights. A leader that is a task may be dropped:
//! then the flight has no result, and one of its followers leads the next one.

use std::any::Any;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use crate::process::codec_error::CodecError;

/// Number of separately locked shards of the board.
const SHARDS: usize = 16;

type Shard = HashMap<Box<[u8]>, Arc<Flight>>;

/// The board of a cache: all its loads in progress.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// The number of flights on the board. Every change checks it first, so that changes without a
    /// load in progress take no lock.
    under_way: AtomicUsize,
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

/// A load in progress.
#[derive(Debug)]
pub(crate) struct Flight {
    started: Instant,
    /// The thread that loads; `None` for a task, which any thread may run.
    loader: Option<ThreadId>,
    progress: Mutex<Progress>,
    /// Notified when the load has ended.
    landed: Condvar,
    /// Notified when the load has ended, for tasks.
    #[cfg(feature = "tokio")]
    landed_for_tasks: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Progress {
    detached: bool,
    /// `None` while the load is in progress.
    outcome: Option<LoadOutcome>,
}

/// The result of a load.
#[derive(Clone, Debug)]
pub(crate) enum LoadOutcome {
    /// A value, and the client flags of its item.
    Loaded(Arc<Vec<u8>>, u32),
    /// The loader's error. Its type is erased; the callers downcast it.
    Failed(Arc<dyn Any + Send + Sync>),
    /// The codec of a typed cache could not encode the value. The flags are those of its format.
    Unencodable(CodecError, u32),
    /// The loader panicked.
    Panicked,
    /// The task that loaded was dropped. One of the callers that wait loads in its place.
    Abandoned,
    /// The caller waited for a load of another process, which took longer than the timeout.
    #[cfg(feature = "tokio")]
    TimedOut,
}

/// The caller's role in a flight.
pub(crate) enum FlightRole<'a> {
    /// The caller loads.
    Leader(Leader<'a>),
    /// Another caller is loading.
    Follower(Arc<Flight>),
}

/// The caller that loads. If it is dropped before the flight ends, the followers receive
/// [`LoadOutcome::Panicked`] or [`LoadOutcome::Abandoned`].
pub(crate) struct Leader<'a> {
    flights: &'a Flights,
    key: &'a [u8],
    flight: Arc<Flight>,
}

impl Flights {
    /// Joins the flight of a key if it is younger than `timeout`. Otherwise starts a new flight,
    /// which this thread leads.
    pub(crate) fn board<'a>(&'a self, key: &'a [u8], timeout: Duration) -> FlightRole<'a> {
        self.board_as(Some(thread::current().id()), key, timeout)
    }

    /// Same as [`Flights::board`], for a task.
    #[cfg(feature = "tokio")]
    pub(crate) fn board_in_task<'a>(&'a self, key: &'a [u8], timeout: Duration) -> FlightRole<'a> {
        self.board_as(None, key, timeout)
    }

    fn board_as<'a>(
        &'a self,
        loader: Option<ThreadId>,
        key: &'a [u8],
        timeout: Duration,
    ) -> FlightRole<'a> {
        let mut shard = self.shard(key);
        if let Some(other) = shard.get(key).filter(|other| other.started.elapsed() < timeout) {
            return FlightRole::Follower(Arc::clone(other));
        }
        let flight = Arc::new(Flight {
            started: Instant::now(),
            loader,
            progress: Mutex::default(),
            landed: Condvar::new(),
            #[cfg(feature = "tokio")]
            landed_for_tasks: tokio::sync::Notify::new(),
        });
        // Counted before the load begins. A change that still reads the old count therefore began
        // before the load, and may be ordered before it.
        let overdue = shard.insert(key.into(), Arc::clone(&flight));
        if overdue.is_none() {
            self.under_way.fetch_add(1, SeqCst);
        }
        drop(shard);
        if let Some(overdue) = overdue {
            overdue.detach();
        }
        FlightRole::Leader(Leader { flights: self, key, flight })
    }

    /// Detaches the flight of a key that is about to be written.
    #[inline]
    pub(crate) fn detach(&self, key: &[u8]) {
        if self.under_way.load(SeqCst) > 0 {
            self.detach_where(&mut self.shard(key), |flown| flown == key);
        }
    }

    /// Detaches the flights of all keys that are about to be removed.
    pub(crate) fn detach_all(&self, key_is_removed: impl Fn(&[u8]) -> bool) {
        if self.under_way.load(SeqCst) > 0 {
            for shard in &self.shards {
                self.detach_where(&mut lock(shard), &key_is_removed);
            }
        }
    }

    #[cold]
    fn detach_where(&self, shard: &mut Shard, key_is_written: impl Fn(&[u8]) -> bool) {
        for (_, flight) in shard.extract_if(|key, _| key_is_written(key)) {
            self.under_way.fetch_sub(1, SeqCst);
            flight.detach();
        }
    }

    /// Returns the number of callers that wait for the flight of a key.
    #[cfg(test)]
    pub(crate) fn followers(&self, key: &[u8]) -> usize {
        // The board and the leader hold one reference each.
        self.shard(key).get(key).map_or(0, |flight| Arc::strong_count(flight) - 2)
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.under_way.load(SeqCst) == 0 && self.shards.iter().all(|shard| lock(shard).is_empty())
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        lock(&self.shards[self.hasher.hash_one(key) as usize % SHARDS])
    }
}

impl Flight {
    fn detach(&self) {
        lock(&self.progress).detached = true;
    }

    /// True if this thread would wait for its own load.
    pub(crate) fn is_own(&self) -> bool {
        self.loader == Some(thread::current().id())
    }

    /// Waits for the outcome of the flight. Returns `None` once the flight is older than `timeout`.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<LoadOutcome> {
        let mut progress = lock(&self.progress);
        loop {
            if let Some(outcome) = &progress.outcome {
                return Some(outcome.clone());
            }
            let left = timeout.checked_sub(self.started.elapsed())?;
            let woken = self.landed.wait_timeout(progress, left);
            progress = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(feature = "tokio")]
impl Flight {
    /// Same as [`Flight::wait`], for a task of a tokio runtime.
    pub(crate) async fn wait_in_task(&self, timeout: Duration) -> Option<LoadOutcome> {
        // It receives every notification after this line, so none between the check and the wait is
        // lost.
        let landed = self.landed_for_tasks.notified();
        if let outcome @ Some(_) = self.outcome() {
            return outcome;
        }
        let left = timeout.checked_sub(self.started.elapsed())?;
        // Both ends of the wait are answered by the outcome, which a load that ends with the
        // timeout has as well.
        let _ = tokio::time::timeout(left, landed).await;
        self.outcome()
    }

    fn outcome(&self) -> Option<LoadOutcome> {
        lock(&self.progress).outcome.clone()
    }
}

impl Leader<'_> {
    /// Ends the flight: calls `store` unless the flight was detached, then wakes the followers.
    pub(crate) fn finish(&self, outcome: LoadOutcome, store: impl FnOnce()) {
        let progress = lock(&self.flight.progress);
        if !progress.detached {
            store();
        }
        drop(progress);
        self.leave(outcome);
    }

    /// Removes the flight from the board, then publishes the outcome: later callers find the stored
    /// value, or start a new load.
    fn leave(&self, outcome: LoadOutcome) {
        let mut shard = self.flights.shard(self.key);
        if shard.get(self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            shard.remove(self.key);
            self.flights.under_way.fetch_sub(1, SeqCst);
        }
        drop(shard);
        lock(&self.flight.progress).outcome.get_or_insert(outcome);
        self.flight.landed.notify_all();
        #[cfg(feature = "tokio")]
        self.flight.landed_for_tasks.notify_waiters();
    }
}

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let has_ended = lock(&self.flight.progress).outcome.is_some();
        if !has_ended {
            let is_panic = thread::panicking();
            self.leave(if is_panic { LoadOutcome::Panicked } else { LoadOutcome::Abandoned });
        }
    }
}

/// Locks a mutex, poisoned or not: a panic cannot leave the data under these locks half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
