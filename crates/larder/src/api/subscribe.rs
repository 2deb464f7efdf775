//! Subscriptions to removals of items, and the hook for servers.

use std::sync::Arc;

use larder_engine::{ChangeListener, Leaving};

use crate::api::cache::Cache;
use crate::process::removals::Removals;
use crate::process::shared::Shared;

impl Cache {
    /// Subscribes to removals. Each item that is deleted, replaced, evicted, cleared or found
    /// expired is put into a queue, with its key and value. The queue has `capacity` entries, at
    /// most a million. Appending to an item, incrementing it or touching it does not count as a
    /// removal.
    ///
    /// Cost: nothing without a subscriber. Otherwise each removal copies the key and the value, and
    /// writers of the few keys in the same group wait during the copy. A removal never waits for
    /// the subscriber.
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
        let Shared { queues, engine, .. } = &**self.shared();
        queues.subscribe(capacity, engine)
    }

    /// Registers `hook`, which is called for each item that is evicted, or found expired or
    /// cleared, as long as the cache exists. Only the first call of this method has an effect. For
    /// servers, which count and log evictions; programs use [`Cache::subscribe`].
    ///
    /// The thread that removes the item calls the hook while it holds a lock of the index and a
    /// half-emptied segment. The hook must be short, must not block or panic, and must not use the
    /// cache, which would deadlock. It must not keep a clone of the cache, which would keep the
    /// memory forever.
    ///
    /// Cost: nothing without a hook. Otherwise the call, and the reads of the item by the hook.
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

    /// Registers a listener that is called after each change of an item, as long as the cache
    /// exists. Only the first call of this method has an effect. For servers that report changes to
    /// the holders of copies; programs use [`Cache::subscribe`].
    ///
    /// The listener is called after other threads can read the change and before the operation
    /// returns. Changes by other processes that share the cache are not reported.
    ///
    /// Cost: a load per change without a listener.
    pub fn set_change_listener(&self, listener: Arc<dyn ChangeListener>) {
        self.shared().engine.set_change_listener(listener);
    }

    /// Runs a clear of [`Cache::clear_at`] that is due. Every operation does the same.
    pub fn clear_if_due(&self) {
        let (shared, now) = (self.shared(), self.now());
        match shared.tier.own() {
            Some(tier) => tier.clear_if_due(&shared.engine, now),
            None => shared.engine.flush_if_due(now),
        }
    }
}
