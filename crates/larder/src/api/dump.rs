//! Walks over all items or a sample of them, for servers. A walk returns the metadata of each item,
//! without its value.

use larder_engine::{Cursor, DumpFilter, Dumped, ItemReport, ItemReports, Sampled};
use larder_item::Meta;

use crate::api::cache::Cache;

impl Cache {
    /// Passes the live items to `visit` until it returns false, in no particular order, with the
    /// guarantees of [`Cache::walk`].
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
    pub fn dump(&self, mut visit: impl FnMut(Dumped) -> bool) {
        let (mut walk, mut found) = (self.walk(""), Vec::new());
        while walk.advance(&mut found) {
            if !found.drain(..).all(&mut visit) {
                return;
            }
        }
    }

    /// Appends the live items of the next group of the index whose keys begin with `prefix` to
    /// `out`, and advances the cursor. A group has at most 15 items, except for rare overflow
    /// chains. Returns false after the last group. A dump begins with the default cursor, and holds
    /// no resources between two calls. See [`walk`](crate::walk) for the guarantees under
    /// concurrent stores and deletes. Only items in memory are returned; [`Cache::walk`] also
    /// returns the items on the disk.
    ///
    /// Cost: about the same as storing a few items. The group is locked while the keys are copied.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// # use larder::Cursor;
    /// cache.set("user:7", "Ada", None)?;
    /// cache.set("page:7", "<p>", None)?;
    /// let (mut cursor, mut shown) = (Cursor::default(), Vec::new());
    /// while cache.dump_group("user:", &mut cursor, &mut shown) {}
    /// assert_eq!((shown.len(), &shown[0].key[..]), (1, &b"user:7"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dump_group(
        &self,
        prefix: impl AsRef<[u8]>,
        cursor: &mut Cursor,
        out: &mut Vec<Dumped>,
    ) -> bool {
        let (now, filter) = (self.now(), DumpFilter { key_prefix: prefix.as_ref() });
        self.with_thread_slot(|engine, thread| engine.dump_group(thread, cursor, &filter, now, out))
    }

    /// Appends reports of the items in the next group of the index whose keys begin with `prefix`,
    /// and advances the cursor. Returns false after the last group. Guarantees and cost are the
    /// same as for [`Cache::dump_group`]; items that are only on the disk are not returned.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Cursor, ItemReports};
    /// cache.set("k", "value", None)?;
    /// let (mut cursor, mut found) = (Cursor::default(), ItemReports::default());
    /// while cache.report_group(&mut cursor, "", &mut found) {}
    /// assert_eq!((found.items.len(), &found.keys[..]), (1, &b"k"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report_group(
        &self,
        cursor: &mut Cursor,
        prefix: impl AsRef<[u8]>,
        out: &mut ItemReports,
    ) -> bool {
        let (now, filter) = (self.now(), DumpFilter { key_prefix: prefix.as_ref() });
        self.with_thread_slot(|engine, thread| {
            engine.report_group(thread, cursor, &filter, now, out)
        })
    }

    /// Returns a report on an item in memory; `None` if it is absent. Does not count as a read.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let report = cache.report_item("k").ok_or("absent")?;
    /// assert_eq!((report.meta.value_bytes, report.reads), (5, 0));
    /// assert!(report.stored <= cache.now());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn report_item(&self, key: impl AsRef<[u8]>) -> Option<ItemReport> {
        self.shared().engine.report_item(key.as_ref(), self.now())
    }

    /// Removes the expired and cleared items of the next group of the index for which `wanted`
    /// returns true, and advances the cursor. `wanted` receives the length of the key and the
    /// metadata. Returns false after the last group. The maintainer removes the same items in the
    /// background; this call removes them immediately.
    ///
    /// Cost: about the same as one or two stores.
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

    /// Passes the live items of at most `groups_max` groups, spread evenly over the index, to
    /// `visit`. Returns the factor that extrapolates a count over the sample to all items: 1 if all
    /// items were visited.
    ///
    /// Cost: about three cache misses per group, and one for each of its items; a group has about
    /// ten items. Takes no lock.
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

    /// Passes the live items of some of the [`Cache::group_count`] groups of the index to `visit`,
    /// for callers that take a sample in small steps. Keys are spread over the groups by their
    /// hash.
    ///
    /// Cost: about three cache misses per group, and one for each of its items; a group has about
    /// ten items. Takes no lock.
    pub fn sample_groups(&self, groups: std::ops::Range<u64>, visit: impl FnMut(&Sampled)) {
        self.shared().engine.sample_groups(groups, self.now(), visit);
    }

    /// Same as [`Cache::sample_groups`], but also passes the key of each item to `visit`. Items
    /// that are only on the disk are not visited.
    ///
    /// Cost: that of [`Cache::sample_groups`], a copy of each key, and one allocation.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let mut keys = Vec::new();
    /// cache.sample_keys(0..cache.group_count(), |key, _| keys.push(key.to_vec()));
    /// assert_eq!(keys, [b"k"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sample_keys(&self, groups: std::ops::Range<u64>, visit: impl FnMut(&[u8], &Sampled)) {
        self.shared().engine.sample_keys(groups, self.now(), visit);
    }

    /// Returns the number of groups of the index. It never decreases.
    pub fn group_count(&self) -> u64 {
        self.shared().engine.group_count()
    }

    /// Returns the approximate number of items: each thread that stores may have a few dozen items
    /// that are not counted yet. Cost: one load.
    pub fn len_about(&self) -> u64 {
        self.shared().engine.items_about()
    }
}
