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

use larder_engine::{Cursor, DumpFilter, Dumped};
use larder_item::Meta;

use crate::cache::Cache;
use crate::tier::asking::{DiskPages, DiskRead};
use crate::tier::wait::Wait;
use crate::tier::walking::{TierWalk, Visit, WalkStep};

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

/// A walk over the metadata of all items, a step at a time; see [`Cache::walk`].
#[derive(Debug)]
pub struct Walk {
    cache: Cache,
    prefix: Vec<u8>,
    over: Over,
}

#[derive(Debug)]
enum Over {
    Memory(Cursor),
    Tier(Box<TierWalk>),
}

impl Walk {
    /// Appends the next items to `out`, a few at a time, none at times. Returns false at the end.
    ///
    /// Cost: in memory that of storing a few items; a group of the index is locked while its keys
    /// are copied. Reads the disk if it has to, and waits for that: up to half a MiB at once, or a
    /// longer item.
    pub fn advance(&mut self, out: &mut Vec<Dumped>) -> bool {
        let mut read = Vec::new();
        loop {
            match self.step(read, Wait::Block, out) {
                WalkStep::Reads(reads) => {
                    read = reads.into_iter().map(DiskRead::perform).collect();
                }
                WalkStep::GoesOn => return true,
                WalkStep::Over => return false,
            }
        }
    }

    /// As [`Walk::advance`], but for the reads of the disk: the caller does them, and passes what
    /// they have returned to the next step, in the same order. `wait` says how it waits until the
    /// items that it shows are durable.
    pub fn step(
        &mut self,
        read: Vec<DiskPages>,
        wait: Wait<'_>,
        out: &mut Vec<Dumped>,
    ) -> WalkStep {
        let Self { cache, prefix, over } = self;
        let now = cache.now();
        let shown = out.len();
        let step =
            cache.with_thread_slot(|engine, thread| match (over, cache.shared().tier.own()) {
                (Over::Tier(walk), Some(tier)) => {
                    tier.walk_on(walk, read, &mut Visit { engine, thread, now, prefix, out })
                }
                (Over::Memory(cursor), _) => {
                    let filter = DumpFilter { key_prefix: prefix };
                    match engine.dump_group(thread, cursor, &filter, now, out) {
                        true => WalkStep::GoesOn,
                        false => WalkStep::Over,
                    }
                }
                (Over::Tier(_), None) => WalkStep::Over,
            });
        if let Some(tier) = cache.shared().tier.own() {
            for dumped in &out[shown..] {
                // What a list shows does not vanish in a power loss, unless the log has failed.
                let _ = cache.raw(wait).await_durable(tier, &dumped.key);
            }
        }
        step
    }

    /// Returns how many items the disk did not return so far, or not whole. They are missing in the
    /// walk.
    pub fn unreadable(&self) -> u64 {
        match &self.over {
            Over::Memory(_) => 0,
            Over::Tier(walk) => walk.unreadable(),
        }
    }

    /// Takes the keys, with the walk's prefix, of items that are damaged on the disk, as far as the
    /// keys can be read.
    pub(crate) fn take_unreadable_keys(&mut self) -> Vec<Box<[u8]>> {
        let Over::Tier(walk) = &mut self.over else { return Vec::new() };
        let mut keys = walk.take_unreadable_keys();
        keys.retain(|key| key.starts_with(&self.prefix));
        keys
    }

    /// Returns how much of the disk's index the walk has passed, 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        match &self.over {
            Over::Memory(_) => 0.0,
            Over::Tier(walk) => walk.progress(),
        }
    }

    /// Returns the memory that the walk holds, in bytes.
    pub fn held_bytes(&self) -> usize {
        match &self.over {
            Over::Memory(_) => 0,
            Over::Tier(walk) => size_of::<TierWalk>() + walk.held_bytes(),
        }
    }
}

impl Drop for Walk {
    fn drop(&mut self) {
        if let (Over::Tier(walk), Some(tier)) = (&mut self.over, self.cache.shared().tier.own()) {
            tier.end_walk(walk);
        }
    }
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
    keys: Keys,
}

impl Iterator for Items {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        loop {
            let key = self.keys.next()?;
            let cache = &self.keys.walk.cache;
            let (shared, now) = (cache.shared(), cache.now());
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
        let shared = self.shared();
        let over = match shared.tier.own() {
            Some(tier) => Over::Tier(Box::new(tier.walk(&shared.engine))),
            None => Over::Memory(Cursor::default()),
        };
        Walk { cache: self.clone(), prefix: prefix.as_ref().to_vec(), over }
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
        let tier = self.shared().tier.own()?;
        let (walk, end) = tier.walk_slice(place, entries)?;
        let over = Over::Tier(Box::new(walk));
        Some((Walk { cache: self.clone(), prefix: prefix.as_ref().to_vec(), over }, end))
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
