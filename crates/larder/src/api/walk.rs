//! Walks over all stored items.
//!
//! A walk visits the index group by group. Every item present from the beginning to the end of the
//! walk is returned **at least once**, even while other threads store and delete, the index grows
//! and items move in memory. An item stored or deleted meanwhile may or may not be returned, and if
//! the index grows during the walk, an item may be returned twice. A walk does not count as a use
//! of the items: they are evicted as if the walk had not happened.
//!
//! With a disk tier a walk returns the items on the disk, too, each key **at most once**: an item
//! that does not change meanwhile exactly once, one that changes in a state that it had meanwhile.
//! In mode cache this holds while no more than 32,768 of the items that the walk is about to meet
//! on the disk return to memory; a walk that pauses may miss some of them.
//!
//! A walk holds no lock between two steps, and a few MiB of memory at most: it may be slow, or stop
//! before the end.

use std::vec;

use larder_engine::Dumped;
use larder_item::Meta;

use super::cache::Cache;
pub use crate::backend::walk::Walk;

/// An item as [`Cache::iterate`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its flags, deadline and cas token.
    pub meta: Meta,
}

/// An iterator over the keys of a cache; see [`Cache::keys`].
#[derive(Debug)]
pub struct Keys {
    walk: Walk,
    /// The items that are not yet returned.
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
    /// Cost: one look at every part of the index and every key, about a quarter of the time of a
    /// [`Cache::get`] per key; one allocation per key. Each step copies the keys of one group of
    /// the index, at most 15 except for rare overflow chains, and blocks writers of these keys
    /// meanwhile. With a disk tier the caller waits for the disk: all of it is read.
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

    /// Returns the keys that begin with `prefix`, with the guarantees of [`Cache::keys`]. The cost
    /// is that of a walk over all keys, except for the allocations: the index is not ordered.
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

    /// Begins a walk over the metadata of the items whose keys begin with `prefix`, for servers:
    /// [`Walk::advance`] goes on with it. It has the guarantees of [`Cache::keys`].
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

    /// Begins a walk over a part of the items that the disk of a cache has, those whose keys begin
    /// with `prefix`: about `entries` items of its index from a place on. Returns the place behind
    /// them; `None` behind the last one, and without a disk tier. It begins at place 0.
    ///
    /// A caller that keeps no walk goes on by the place. An item that does not change is in exactly
    /// one part of a store. In mode cache what memory has, too, is left out.
    pub fn walk_disk_from(
        &self,
        place: u64,
        entries: usize,
        prefix: impl AsRef<[u8]>,
    ) -> Option<(Walk, u64)> {
        Walk::over_disk(self.shared(), place, entries, prefix.as_ref())
    }

    /// Returns all items, in no particular order: each key with its value at the moment of its
    /// step. `for item in &cache` does the same. The [module](crate::walk) documents the guarantees
    /// under concurrent stores and deletes.
    ///
    /// Cost: that of [`Cache::keys`], and a second look at each item, with a copy of its value.
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
