//! Walks over all stored items.
//!
//! A walk visits the index group by group. Every item present from the beginning to the end of the
//! walk is returned **at least once**, even while other threads store and delete, the index grows
//! and items move in memory. An item stored or deleted meanwhile may or may not be returned, and if
//! the index grows during the walk, an item may be returned twice. A walk holds nothing between two
//! steps: it may be slow, or stop before the end. It does not count as a use of the items: they are
//! evicted as if the walk had not happened.

use std::vec;

use larder_engine::{Cursor, DumpFilter, Dumped};
use larder_item::Meta;

use crate::cache::Cache;

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
#[derive(Clone, Debug)]
pub struct Keys {
    cache: Cache,
    cursor: Cursor,
    prefix: Vec<u8>,
    /// The keys of the current group that are not yet returned.
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
            let now = self.cache.now();
            let cursor = &mut self.cursor;
            let filter = DumpFilter { key_prefix: &self.prefix };
            let has_group = self.cache.with_thread_slot(|engine, thread| {
                engine.dump_group(thread, cursor, &filter, now, &mut found)
            });
            if !has_group {
                return None;
            }
            self.found = found.into_iter();
        }
    }
}

/// An iterator over the items of a cache; see [`Cache::iterate`].
#[derive(Clone, Debug)]
pub struct Items {
    keys: Keys,
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            let key = self.keys.next()?;
            let cache = &self.keys.cache;
            if let Some((value, meta)) = cache.shared().engine.peek_value(&key, cache.now()) {
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
    /// meanwhile.
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
        Keys {
            cache: self.clone(),
            cursor: Cursor::default(),
            prefix: prefix.as_ref().to_vec(),
            found: Vec::new().into_iter(),
        }
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
        Items { keys: self.keys() }
    }
}
