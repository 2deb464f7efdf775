//! Walks over all stored items.
//!
//! A walk visits the index group by group; a group has at most 15 items, except for rare overflow
//! chains. Every item present from the beginning to the end of the walk is returned **at least
//! once**, even while other threads store and delete, the index grows and items move in memory. An
//! item stored or deleted during the walk may or may not be returned, and if the index grows during
//! the walk, an item may be returned twice. A walk does not count as a use of the items: they are
//! evicted as if the walk had not happened.
//!
//! With a disk tier a walk also returns the items on the disk, each key **at most once**. An item
//! that does not change during the walk is returned exactly once. An item that changes is returned
//! in a state that it had during the walk. In cache mode this holds as long as at most 32,768 items
//! return to memory before the walk has reached them on the disk; a walk that pauses may miss some
//! of them.
//!
//! A walk holds no lock between two steps, and at most a few MiB of memory. A caller may be slow,
//! or stop before the end.

use std::vec;

use larder_engine::Dumped;
use larder_item::Meta;

use super::cache::Cache;
pub use crate::backend::walk::Walk;

/// An item that [`Cache::iterate`] returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The flags, the deadline and the cas token.
    pub meta: Meta,
}

/// An iterator over the keys of a cache; see [`Cache::keys`].
#[derive(Debug)]
pub struct Keys {
    walk: Walk,
    /// The items that are found but not returned yet.
    found: vec::IntoIter<Dumped>,
}

impl Iterator for Keys {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(dumped) = self.found.next() {
                return Some(dumped.key);
            }
            let mut found = Vec::new();
            if !self.walk.advance(&mut found) {
                return None;
            }
            self.found = found.into_iter();
        }
    }
}

/// An iterator over the items of a cache; see [`Cache::iterate`].
#[derive(Debug)]
pub struct Items {
    cache: Cache,
    keys: Keys,
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            let key = self.keys.next()?;
            let (shared, now) = (self.cache.shared(), self.cache.now());
            let in_memory = shared.engine.peek_value(&key, now);
            let on_disk = || shared.tier.own()?.peek_value(&key, now);
            if let Some((value, meta)) = in_memory.or_else(on_disk) {
                return Some(Item { key, value, meta });
            }
        }
    }
}

impl IntoIterator for &Cache {
    type Item = Item;
    type IntoIter = Items;

    fn into_iter(self) -> Items {
        self.iterate()
    }
}

impl Cache {
    /// Returns the keys of all items, in no particular order. The [module](crate::walk) documents
    /// the guarantees under concurrent stores and deletes.
    ///
    /// Cost: per key, about a quarter of the time of a [`Cache::get`], and one allocation. The walk
    /// reads the entire index. Each step copies the keys of one group of the index, at most 15
    /// except for rare overflow chains, and blocks writers of these keys during the copy. With a
    /// disk tier the walk reads the entire disk, and the caller waits for it.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("a", "1", None)?;
    /// cache.set("b", "2", None)?;
    /// let mut keys: Vec<_> = cache.keys().collect();
    /// keys.sort();
    /// assert_eq!(keys, [b"a", b"b"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keys(&self) -> Keys {
        self.keys_with_prefix("")
    }

    /// Returns the keys that begin with `prefix`, with the guarantees of [`Cache::keys`]. The index
    /// is not ordered, so the cost is the same as for a walk over all keys, except for the
    /// allocations.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("user:7:name", "Ada", None)?;
    /// cache.set("user:8:name", "Bob", None)?;
    /// assert_eq!(cache.keys_with_prefix("user:7:").count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keys_with_prefix(&self, prefix: impl AsRef<[u8]>) -> Keys {
        Keys { walk: self.walk(prefix), found: Vec::new().into_iter() }
    }

    /// Begins a walk over the metadata of the items whose keys begin with `prefix`, for servers.
    /// [`Walk::advance`] continues it. It has the guarantees of [`Cache::keys`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let (mut walk, mut shown) = (cache.walk(""), Vec::new());
    /// while walk.advance(&mut shown) {}
    /// assert_eq!((&shown[0].key[..], shown[0].meta.value_bytes), (&b"k"[..], 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn walk(&self, prefix: impl AsRef<[u8]>) -> Walk {
        Walk::begin(self.shared(), self.time.clone(), prefix.as_ref())
    }

    /// Begins a walk over a part of the items on the disk whose keys begin with `prefix`: about
    /// `entries` items of the disk's index, starting at `place`. The first place is 0. Also returns
    /// the place at which the next part starts. Returns `None` after the last place, and without a
    /// disk tier.
    ///
    /// With the place a caller can continue later without keeping the walk. In store mode an item
    /// that does not change is in exactly one part. In cache mode items that are also in memory are
    /// left out.
    pub fn walk_disk_from(
        &self,
        place: u64,
        entries: usize,
        prefix: impl AsRef<[u8]>,
    ) -> Option<(Walk, u64)> {
        Walk::over_disk(self.shared(), place, entries, prefix.as_ref())
    }

    /// Returns all items, in no particular order: each key with its value at the moment when the
    /// walk reaches it. `for item in &cache` does the same. The [module](crate::walk) documents the
    /// guarantees under concurrent stores and deletes.
    ///
    /// Cost: the same as [`Cache::keys`], plus one lookup and a copy of the value per item.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("a", "1", None)?;
    /// for item in cache.iterate() {
    ///     assert_eq!((&item.key[..], &item.value[..]), (&b"a"[..], &b"1"[..]));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn iterate(&self) -> Items {
        Items { cache: self.clone(), keys: self.keys() }
    }
}
