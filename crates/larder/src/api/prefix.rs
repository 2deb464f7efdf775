//! Removal of all items with a prefix, in one call or in slices.
//!
//! A removal deletes every item that was stored before it began, and no item that is stored later,
//! even while other threads store, the index grows and eviction moves items. A change of a value
//! counts as a store. A touch does not: the touched item is removed, and the touch may already
//! report a miss. If processes share the cache, the other processes are not aware of the removal.
//! If one of them relocates an item during the removal, as eviction does, that item may stay. If
//! one of them changes an item in place (a number, or an append), the changed item may be removed.
//!
//! With a disk tier in store mode, the items that are only on the disk are removed as well, and
//! once the removal has ended they stay removed after a crash. Each of these items is read once,
//! and its delete is recorded in the log. In this mode a touch counts as a store. In cache mode the
//! removal reads every item on the disk once, since the keys are stored only there.

use larder_engine::StoreError;

use crate::api::cache::Cache;
use crate::backend::removal::{CacheRemoval, StoreRemoval};

/// A removal by prefix in progress; see [`Cache::begin_remove_prefix`]. Dropping it stops the
/// removal; the remaining items are kept.
#[derive(Debug)]
pub struct PrefixRemoval {
    cache: Cache,
    of: Of,
}

/// A removal in progress: without a disk tier, with one in store mode, or with one in cache mode.
#[derive(Debug)]
enum Of {
    Memory(larder_engine::PrefixRemoval),
    Store(Box<StoreRemoval>),
    Cache(Box<CacheRemoval>),
}

impl PrefixRemoval {
    /// Removes the items of the next `groups_max` groups of the index. Returns false once the
    /// removal is complete.
    ///
    /// Cost: one or two cache misses for each item of a group, which has about ten. The call holds
    /// the lock of the group, as a store does. With a disk tier a call removes about `groups_max`
    /// items instead, and waits while each of them is read from the disk.
    ///
    /// # Errors
    /// [`StoreError::Stuck`] if a stopped process holds the lock of a group; the next call tries
    /// this group again. [`StoreError::Journal`] if the disk tier has failed or is stopped.
    pub fn step(&mut self, groups_max: usize) -> Result<bool, StoreError> {
        let Self { cache, of } = self;
        let removal = match of {
            Of::Memory(removal) => removal,
            Of::Store(removal) => return removal.step(cache.blocking().backend, groups_max),
            Of::Cache(removal) => return removal.step(cache.blocking().backend, groups_max),
        };
        let now = cache.now();
        cache.with_thread_slot(|engine, thread| {
            for _ in 0..groups_max {
                if !engine.remove_prefix_of_group(thread, removal, now)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })
    }

    /// Returns the number of items removed so far. In a disk tier's cache mode, an item that moves
    /// between memory and disk while it is removed may be counted twice or not at all.
    pub fn removed(&self) -> u64 {
        match &self.of {
            Of::Memory(removal) => removal.removed(),
            Of::Store(removal) => removal.removed(),
            Of::Cache(removal) => removal.removed(),
        }
    }

    /// Returns the processed part of the index, from 0 to 1. The value may fall while the index
    /// grows.
    pub fn progress(&self) -> f64 {
        match &self.of {
            Of::Memory(removal) => self.cache.shared().engine.progress_of(removal),
            Of::Store(removal) => removal.progress(),
            Of::Cache(removal) => removal.progress(&self.cache.shared().engine),
        }
    }
}

impl Cache {
    /// Removes every item whose key begins with `prefix` and that was stored before this call, and
    /// returns the number of removed items. Items that are stored during the call stay; the
    /// [module](crate::prefix) documents the details. An empty prefix removes all items one by one;
    /// [`Cache::clear`] clears them in constant time.
    ///
    /// Cost: a walk over all keys, and a delete per removed item. To invalidate a group of items
    /// often, put a generation number into their keys and change it.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("user:7:name", "Ada", None)?;
    /// cache.set("user:7:cart", "3 books", None)?;
    /// cache.set("user:8:name", "Bob", None)?;
    /// assert_eq!(cache.remove_prefix("user:7:")?, 2);
    /// assert!(cache.contains("user:8:name"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Stuck`]; the remaining items are kept.
    pub fn remove_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<u64, StoreError> {
        let mut removal = self.begin_remove_prefix(prefix)?;
        while removal.step(usize::MAX)? {}
        Ok(removal.removed())
    }

    /// Begins to remove the items whose keys begin with `prefix`. [`PrefixRemoval::step`] removes
    /// them in slices. Items that are stored from now on stay, but the result of a load that is
    /// already in progress in this process is not stored.
    ///
    /// Cost: some microseconds, regardless of the number of items. Waits for the stores in
    /// progress.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("user:7:name", "Ada", None)?;
    /// let mut removal = cache.begin_remove_prefix("user:7:")?;
    /// cache.set("user:7:cart", "3 books", None)?;
    /// while removal.step(64)? {}
    /// assert_eq!((removal.removed(), cache.contains("user:7:cart")), (1, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Stuck`] if a process that shares the cache was stopped during a store.
    /// [`StoreError::Journal`] in a child of the process that opened a disk tier.
    pub fn begin_remove_prefix(
        &self,
        prefix: impl AsRef<[u8]>,
    ) -> Result<PrefixRemoval, StoreError> {
        let (prefix, now) = (prefix.as_ref(), self.now());
        self.shared().tier.usable()?;
        self.shared().flights.detach_all(|key| key.starts_with(prefix));
        let backend = self.blocking().backend;
        let of = match (backend.begin_store_removal(prefix), backend.begin_cache_removal(prefix)?) {
            (Some(removal), _) => Of::Store(Box::new(removal)),
            (None, Some(removal)) => Of::Cache(Box::new(removal)),
            (None, None) => Of::Memory(self.with_thread_slot(|engine, thread| {
                engine.begin_prefix_removal(thread, prefix, now)
            })?),
        };
        Ok(PrefixRemoval { cache: self.clone(), of })
    }
}
