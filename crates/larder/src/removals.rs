//! Reports of items that leave a cache.

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_engine::{Leaving, Removed};

use crate::Cache;

/// Largest capacity of a queue. A queue allocates all its entries when it is created.
const CAPACITY_MAX: usize = 1 << 20;

/// The sending side of a subscription's queue.
#[derive(Debug)]
struct Queue {
    sender: SyncSender<Removed>,
    lost: Arc<AtomicU64>,
}

/// All subscriptions of a cache.
#[derive(Debug, Default)]
pub(crate) struct Queues(Arc<Mutex<Vec<Queue>>>);

/// A subscription to removals of items, in the order in which they happen to each key. Its queue
/// has a fixed capacity: removals that happen while it is full are dropped and counted.
#[derive(Debug)]
pub struct Removals {
    receiver: Receiver<Removed>,
    lost: Arc<AtomicU64>,
}

impl Cache {
    /// Subscribes to removals: each item that is deleted, replaced, evicted, cleared or found
    /// expired is put, with its key and value, into a queue of `capacity` entries, a million at
    /// most. Appending to an item, incrementing it or touching it does not remove it.
    ///
    /// Cost: none without a subscriber. Otherwise each removal copies the key and the value while
    /// writers of the same few keys wait; it never waits for the subscriber.
    ///
    /// ```
    /// # use larder::{Cache, Reason};
    /// let cache = Cache::builder().open()?;
    /// let removals = cache.subscribe(1000);
    /// cache.set(b"session:7", b"alice", None)?;
    /// cache.delete(b"session:7")?;
    /// let removed = removals.try_next().expect("an item was deleted");
    /// assert_eq!((&removed.key[..], removed.reason), (&b"session:7"[..], Reason::Deleted));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> Removals {
        let (sender, receiver) = sync_channel(capacity.min(CAPACITY_MAX));
        let lost = Arc::new(AtomicU64::new(0));
        let queues = Arc::clone(&self.shared().queues.0);
        let wanted = Arc::clone(self.shared().engine.removals_wanted());
        {
            let mut queues = queues.lock().unwrap_or_else(PoisonError::into_inner);
            queues.push(Queue { sender, lost: Arc::clone(&lost) });
            // Set under the lock, as it is cleared.
            wanted.store(true, Relaxed);
        }
        let listener = move |removed| tell(&queues, &wanted, &removed);
        self.shared().engine.set_removal_listener(Box::new(listener));
        Removals { receiver, lost }
    }

    /// Calls `hook` for each item that is evicted, or found expired or cleared, for the life of the
    /// cache. Only the first call has an effect. For servers, which count and log evictions;
    /// programs use [`Cache::subscribe`].
    ///
    /// The thread that removes the item calls the hook while it holds a lock of the index and a
    /// half-emptied segment. The hook must be short, must not block or panic, and must not use the
    /// cache, which would deadlock. It must not keep a clone of the cache, which would keep the
    /// memory for ever.
    ///
    /// Cost: none without a hook; otherwise the call, and the parts of the item that the hook
    /// reads.
    ///
    /// ```
    /// # use larder::{Cache, Clock, Reason};
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// static EXPIRED: AtomicU64 = AtomicU64::new(0);
    /// let cache = Cache::builder().clock(Clock::Ticked).open()?;
    /// cache.set_departure_hook(|leaving| {
    ///     EXPIRED.fetch_add(u64::from(leaving.reason() == Reason::Expired), Relaxed);
    /// });
    /// cache.set("k", "v", Some(std::time::Duration::from_secs(1)))?;
    /// cache.tick(cache.now() + 1);
    /// assert_eq!((cache.get("k"), EXPIRED.load(Relaxed)), (None, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_departure_hook(&self, hook: impl Fn(&Leaving<'_>) + Send + Sync + 'static) {
        self.shared().engine.set_departure_hook(Box::new(hook));
    }
}

/// Puts a removal into all queues. Drops the queues whose subscriber is gone.
fn tell(queues: &Mutex<Vec<Queue>>, wanted: &AtomicBool, removed: &Removed) {
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

    /// Returns the removals now in the queue.
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
