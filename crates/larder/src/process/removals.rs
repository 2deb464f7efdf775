//! Reports of items that leave a cache.

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_engine::{Engine, Removed};

/// Largest capacity of a queue. A queue allocates all its entries when it is created.
const CAPACITY_MAX: usize = 1 << 20;

/// The sending side of a subscription's queue.
#[derive(Debug)]
struct Queue {
    sender: SyncSender<Removed>,
    /// The number of removals that were dropped because the queue was full.
    lost: Arc<AtomicU64>,
}

/// All subscriptions of a cache.
#[derive(Debug, Default)]
pub(crate) struct Queues(Arc<Mutex<Vec<Queue>>>);

/// A subscription to removals of items. The removals of one key arrive in the order in which they
/// happened. The queue has a fixed capacity: removals that happen while it is full are dropped and
/// counted.
#[derive(Debug)]
pub struct Removals {
    receiver: Receiver<Removed>,
    lost: Arc<AtomicU64>,
}

impl Queues {
    /// Adds a queue, and makes the engine report removals.
    pub(crate) fn subscribe(&self, capacity: usize, engine: &Engine) -> Removals {
        let (sender, receiver) = sync_channel(capacity.min(CAPACITY_MAX));
        let lost = Arc::new(AtomicU64::new(0));
        let queues = Arc::clone(&self.0);
        let wanted = Arc::clone(engine.removals_wanted());
        {
            let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
            queues.push(Queue { sender, lost: Arc::clone(&lost) });
            // Set and cleared under the lock.
            wanted.store(true, Relaxed);
        }
        let listener = move |removed| report(&queues, &wanted, &removed);
        engine.set_removal_listener(Box::new(listener));
        Removals { receiver, lost }
    }
}

/// Puts a removal into all queues. Removes the queues whose subscriber is gone.
fn report(queues: &Mutex<Vec<Queue>>, wanted: &AtomicBool, removed: &Removed) {
    let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
    queues.retain(|queue| match queue.sender.try_send(removed.clone()) {
        Ok(()) => true,
        Err(TrySendError::Full(_)) => {
            queue.lost.fetch_add(1, Relaxed);
            true
        }
        Err(TrySendError::Disconnected(_)) => false,
    });
    wanted.store(!queues.is_empty(), Relaxed);
}

impl Removals {
    /// Returns the next removal if the queue is not empty.
    pub fn try_next(&self) -> Option<Removed> {
        self.receiver.try_recv().ok()
    }

    /// Waits for the next removal. Returns `None` after `timeout`, or once the cache is gone.
    pub fn next_within(&self, timeout: Duration) -> Option<Removed> {
        self.receiver.recv_timeout(timeout).ok()
    }

    /// Returns the removals that are currently in the queue.
    pub fn drain(&self) -> impl Iterator<Item = Removed> {
        iter::from_fn(|| self.try_next())
    }

    /// Returns the number of removals dropped because the queue was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

impl Iterator for Removals {
    type Item = Removed;

    /// Waits for the next removal. Returns `None` once the cache is gone.
    fn next(&mut self) -> Option<Removed> {
        self.receiver.recv().ok()
    }
}
