//! Walks through everything that is stored.
//!
//! A walk goes through the index group by group. Every item that is there from its beginning to its end is
//! shown **at least once**, also while others store and delete, the index grows and items are moved in memory.
//! An item stored or deleted meanwhile may be shown or not, and where the index grows under the walk an item
//! may be shown twice. A walk holds nothing between two steps: it may be slow, or never come to its end. It is
//! no use to the items it shows: what is not read otherwise is evicted as if there had been no walk.

use std::vec;

use larder_engine::{Cursor, Dumped, StoreError};
use larder_item::Meta;

use crate::Cache;

/// An item as [`Cache::iterate`] shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
    /// Its flags, deadline and cas token.
    pub meta: Meta,
}

/// The keys of a cache, one by one: [`Cache::keys`].
#[derive(Clone, Debug)]
pub struct Keys {
    cache: Cache,
    cursor: Cursor,
    prefix: Vec<u8>,
    /// What is left of the group shown last.
    found: vec::IntoIter<Dumped>,
    /// True if keys that loads have reserved are shown too.
    shows_loads: bool,
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
            let (cursor, prefix) = (&mut self.cursor, &self.prefix);
            let shows_loads = self.shows_loads;
            let has_group = self.cache.with_thread_slot(|engine, thread| match shows_loads {
                false => engine.dump_group(thread, cursor, prefix, now, &mut found),
                true => engine.dump_group_and_loads(thread, cursor, prefix, now, &mut found),
            });
            if !has_group {
                return None;
            }
            self.found = found.into_iter();
        }
    }
}

/// The items of a cache, one by one: [`Cache::iterate`].
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
    /// The keys of all items, in no particular order. The [module](crate::walk) says what is shown while others
    /// store and delete.
    ///
    /// Cost: one look at every part of the index and every key, for each about a quarter of the time of a
    /// [`Cache::get`]; one allocation a key. Each step copies the keys of
    /// one of the index's groups, 15 at most but for rare chains, and keeps writers of these keys waiting for
    /// as long.
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

    /// The keys that begin with `prefix`, as [`Cache::keys`] shows all. The cost is that of a walk through all,
    /// but for the allocations: the index has no order.
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
            shows_loads: false,
        }
    }

    /// All items, in no particular order: each key with the value that it has when its turn comes. `for item in
    /// &cache` does the same. The [module](crate::walk) says what is shown while others store and delete.
    ///
    /// Cost: that of [`Cache::keys`], and one more look at each item, with a copy of its value.
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

    /// Removes every item whose key begins with `prefix`, and says how many there were. An item that is stored
    /// while this is under way may be removed or not. An empty prefix removes everything one by one;
    /// [`Cache::clear`] does so at once.
    ///
    /// Cost: a walk through all keys, and a delete for each item that is removed. To forget a group of items often,
    /// put a generation into their keys and change it.
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
    /// As [`Cache::delete`]; the rest is as it was then.
    pub fn remove_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<u64, StoreError> {
        let prefix = prefix.as_ref();
        self.shared().flights.detach_all(|key| key.starts_with(prefix));
        let keys = Keys { shows_loads: true, ..self.keys_with_prefix(prefix) };
        keys.map(|key| self.delete(key).map(u64::from)).sum()
    }
}
