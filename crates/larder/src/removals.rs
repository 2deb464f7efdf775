//! Hearing of what leaves a cache.

use std::iter;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_engine::{Leaving, Removed};

use crate::Cache;

/// The most that a queue has room for: its places are made when it is.
const CAPACITY_MAX: usize = 1 << 20;

/// The queue of one subscription, on the cache's side.
#[derive(Debug)]
struct Queue {
    sender: SyncSender<Removed>,
    lost: Arc<AtomicU64>,
}

/// All subscriptions of a cache.
#[derive(Debug, Default)]
pub(crate) struct Queues(Arc<Mutex<Vec<Queue>>>);

/// Removals of items, in the order in which they happen to each key, beginning with the subscription. It has room
/// for so many as it was made with: what comes while it is full is lost, and counted.
#[derive(Debug)]
pub struct Removals {
    receiver: Receiver<Removed>,
    lost: Arc<AtomicU64>,
}

impl Cache {
    /// Subscribes to removals: each item that is deleted, replaced, evicted, cleared or found expired goes, with
    /// its key and value, into a queue with room for `capacity` of them, a million at most. Appending to an item, counting it or
    /// touching it removes nothing.
    ///
    /// Cost: nothing where nobody has subscribed. Otherwise each removal copies key and value while others that
    /// want the same few keys wait; it never waits for the subscriber.
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
            // Under the lock, as when it is taken back.
            wanted.store(true, Relaxed);
        }
        let listener = move |removed| tell(&queues, &wanted, &removed);
        self.shared().engine.set_removal_listener(Box::new(listener));
        Removals { receiver, lost }
    }

    /// Shows `hook` each item that is evicted, or found expired or cleared, as long as the cache is there. Only the
    /// first call counts. For servers, which count and log evictions; programs [`Cache::subscribe`].
    ///
    /// The hook is called by whoever removes the item, while a part of the index is locked and a segment half
    /// emptied. It must be short; it must not block or panic, nor use the cache, which would wait for itself for ever,
    /// nor keep a clone of it, which would keep the memory for ever.
    ///
    /// Cost: nothing where nobody has called this; otherwise the call, and what the hook asks the item for.
    ///
    /// ```
    /// # use larder::{Cache, Clock, Reason};
    /// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    /// static EXPIRED: AtomicU64 = AtomicU64::new(0);
    /// let cache = Cache::builder().clock(Clock::Ticked).open()?;
    /// cache.show_departures(|leaving| {
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

/// Puts a removal into all queues; those whose subscriber is gone are forgotten.
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
    /// The next removal, where one waits.
    pub fn try_next(&self) -> Option<Removed> {
        self.receiver.try_recv().ok()
    }

    /// Waits for the next removal; none after `timeout`, or when the cache is gone.
    pub fn next_within(&self, timeout: Duration) -> Option<Removed> {
        self.receiver.recv_timeout(timeout).ok()
    }

    /// The removals that wait now.
    pub fn drain(&self) -> impl Iterator<Item = Removed> {
        iter::from_fn(|| self.try_next())
    }

    /// How many were lost because the queue was full.
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }
}

impl Iterator for Removals {
    type Item = Removed;

    /// Waits for the next removal; none when the cache is gone.
    fn next(&mut self) -> Option<Removed> {
        self.receiver.recv().ok()
    }
}
