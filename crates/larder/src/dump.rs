//! Looking at everything, or at a part of it, as servers show it: what is known of each item, without its value.

use larder_engine::{Cursor, Dumped, Sampled};
use larder_item::Meta;

use crate::Cache;

impl Cache {
    /// Shows live items to `visit` until it says no: in no particular order, and without any promise about
    /// items that change meanwhile. Walks the whole index.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "v", None)?;
    /// let mut keys = Vec::new();
    /// cache.dump(|dumped| {
    ///     keys.push(dumped.key);
    ///     keys.len() < 100
    /// });
    /// assert_eq!(keys, [b"k"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump(&self, visit: impl FnMut(Dumped) -> bool) {
        self.shared().engine.dump(self.now(), visit);
    }

    /// Appends the live items of one more group of the index to `out`, 15 at most but for rare chains, and moves the
    /// cursor behind them; false where all have been shown. A dump begins with the default cursor, and nothing is
    /// held between two calls. What is shown while others store and delete: see [`walk`](crate::walk).
    ///
    /// Cost: that of a store of a few items; the group is locked while their keys are copied.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::Cursor;
    /// cache.set("k", "value", None)?;
    /// let (mut cursor, mut shown) = (Cursor::default(), Vec::new());
    /// while cache.dump_group(&mut cursor, &mut shown) {}
    /// assert_eq!((&shown[0].key[..], shown[0].meta.value_bytes), (&b"k"[..], 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump_group(&self, cursor: &mut Cursor, out: &mut Vec<Dumped>) -> bool {
        let now = self.now();
        self.with_thread_slot(|engine, thread| engine.dump_group(thread, cursor, b"", now, out))
    }

    /// Removes the expired and cleared items of one more group of the index that are `wanted`, by the bytes of their keys
    /// and what is known of them, and moves the cursor behind them; false where all have been looked at. What the
    /// maintainer comes to in its time is gone at once, so.
    ///
    /// Cost: that of a store or two.
    ///
    /// ```
    /// # use larder::{Cache, Clock, Cursor};
    /// # let cache = Cache::builder().clock(Clock::Ticked).open()?;
    /// cache.set("k", "value", Some(std::time::Duration::from_secs(1)))?;
    /// cache.tick(cache.now() + 1);
    /// let mut cursor = Cursor::default();
    /// while cache.sweep_group(&mut cursor, |_, meta| meta.value_bytes < 100) {}
    /// assert_eq!(cache.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sweep_group(&self, cursor: &mut Cursor, wanted: impl Fn(usize, &Meta) -> bool) -> bool {
        let now = self.now();
        self.with_thread_slot(|engine, thread| engine.sweep_group(thread, cursor, now, wanted))
    }

    /// Shows the live items of at most `groups_max` of the index's groups, spread evenly over it, to `visit`. Gives the
    /// factor by which a count of them becomes about one of all items: 1 where all were shown.
    ///
    /// Cost: three or so cache misses for each group, and one for each of its ten or so items; nothing is locked.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let mut bytes = 0;
    /// let factor = cache.sample(usize::MAX, |item| bytes += item.key_bytes + item.meta.value_bytes);
    /// assert_eq!((bytes, factor), (6, 1.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sample(&self, groups_max: usize, visit: impl FnMut(&Sampled)) -> f64 {
        self.shared().engine.sample(groups_max, self.now(), visit)
    }

    /// Shows the live items of some of the [`Cache::group_count`] groups of the index to `visit`: for a caller that
    /// takes a sample a little at a time. Keys are spread over the groups by their hash.
    ///
    /// Cost: three or so cache misses for each group, and one for each of its ten or so items; nothing is locked.
    pub fn sample_groups(&self, groups: std::ops::Range<u64>, visit: impl FnMut(&Sampled)) {
        self.shared().engine.sample_groups(groups, self.now(), visit);
    }

    /// Returns the number of groups of the index. It only ever grows.
    pub fn group_count(&self) -> u64 {
        self.shared().engine.group_count()
    }

    /// Returns about how many items there are, at the cost of one load: each thread that stores may have a few dozen
    /// that are not counted yet.
    pub fn len_about(&self) -> u64 {
        self.shared().engine.items_about()
    }
}
