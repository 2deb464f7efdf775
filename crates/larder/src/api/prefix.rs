//! Removal of all items with a prefix, at once or a slice at a time.
//!
//! A removal takes the items that were stored before it began: none that is stored later, and none
//! is forgotten, even while other threads store, the index grows and eviction moves items. A change
//! of a value counts as a store, a touch does not: a touch that meets an item first may find it
//! removed. In a cache that processes share, the other processes do not know of the removal. An
//! item that one of them moves meanwhile, as eviction does, may stay, and one that it changes in
//! place (a number, or an append) may be removed.
//!
//! With a disk tier in mode store the items that only the disk has go, too, and are gone after a
//! crash once the removal has ended. Each is read once, and its delete is recorded. A touch then
//! counts as a store. In mode cache every item on the disk is read once, since only the disk knows
//! its key.

use larder_engine::StoreError;

use crate::api::cache::Cache;
use crate::backend::removal::{CacheRemoval, StoreRemoval};

/// A removal by prefix in progress; see [`Cache::begin_remove_prefix`]. Dropping it ends the
/// removal where it is.
#[derive(Debug)]
pub struct PrefixRemoval {
    cache: Cache,
    of: Of,
}

#[derive(Debug)]
enum Of {
    Memory(larder_engine::PrefixRemoval),
    Store(Box<StoreRemoval>),
    Cache(Box<CacheRemoval>),
}

impl PrefixRemoval {
    /// Removes the items of the next `groups_max` groups of the index. Returns false at the end.
    ///
    /// Cost: a cache miss or two for each of about ten items of a group, whose lock it holds
    /// meanwhile, as a store does. With a disk tier it removes about `groups_max` items instead;
    /// each is read from the disk, and that waits.
    ///
    /// # Errors
    /// [`StoreError::Stuck`] if a stopped process holds a group, and the next call tries it again.
    /// [`StoreError::Journal`] if the disk tier has failed or is stopped.
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

    /// Returns how many items are removed so far. With a disk tier that holds what memory evicts,
    /// an item that moves between the two at that moment may count twice, or not.
    pub fn removed(&self) -> u64 {
        match &self.of {
            Of::Memory(removal) => removal.removed(),
            Of::Store(removal) => removal.removed(),
            Of::Cache(removal) => removal.removed(),
        }
    }

    /// Returns how much of the index is done, from 0 to 1. It may fall while the index grows.
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
    /// returns the number of removed items. An item stored meanwhile stays; the
    /// [module](crate::prefix) has the details. An empty prefix removes all items one by one;
    /// [`Cache::clear`] does so at once.
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
    /// them, a slice at a time; what is stored from now on stays. Overtakes the loads of these keys
    /// in this process.
    ///
    /// Cost: waits for the stores in progress; some microseconds, however many items there are.
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
    /// [`StoreError::Stuck`] if a process that shares the cache is stopped in a store;
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
