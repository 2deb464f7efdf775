//! Reads for bindings: a header before the value, an unrecorded read, metadata.

use larder_engine::{Engine, Operation, ReadOptions, StoreError};
use larder_item::Meta;
use larder_region::Sink;

use super::cache::Cache;
use crate::backend::large::Read;
use crate::backend::{waited, waited_read};
use crate::tier::PromotionPolicy;

impl Cache {
    /// Reads an item. `head` appends the bytes that precede the value to `out`. Then the value is
    /// appended, unless the result is [`Read::Large`]. If the item changes during the read, `out`
    /// is reset and `head` is called again. `head` must not use the cache.
    ///
    /// Cost: same as [`Cache::get_into`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::Read;
    /// cache.set("k", "v", None)?;
    /// let mut out = Vec::new();
    /// let read = cache.read(b"k", &mut out, |out, meta| {
    ///     out.extend_from_slice(format!("{} bytes: ", meta.value_bytes).as_bytes());
    /// });
    /// assert!(matches!(read, Read::Hit(_)));
    /// assert_eq!(out, b"1 bytes: v");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read<S: Sink>(&self, key: &[u8], out: &mut S, head: impl FnMut(&mut S, &Meta)) -> Read {
        self.read_as(key, ReadOptions { noted: true, value: true }, out, head)
    }

    /// Reads an item as [`Cache::read`] does, but without recording the read, or without the value.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// use larder::{Read, ReadOptions};
    /// cache.set("k", "v", None)?;
    /// let (mut out, unnoted) = (Vec::new(), ReadOptions { noted: false, value: true });
    /// for _ in 0..2 {
    ///     let read = cache.read_as(b"k", unnoted, &mut out, |_, _| ());
    ///     assert!(matches!(read, Read::Hit(meta) if !meta.fetched));
    /// }
    /// assert_eq!(out, b"vv");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn read_as<S: Sink>(
        &self,
        key: &[u8],
        reading: ReadOptions,
        out: &mut S,
        head: impl FnMut(&mut S, &Meta),
    ) -> Read {
        waited_read(self.blocking().read(key, reading, PromotionPolicy::Always, out, head))
    }

    /// Returns the metadata of an item of any size; `None` if it is absent. Does not count as a
    /// read.
    ///
    /// Cost: same as [`Cache::get_into`], without the copy of the value.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.set("k", "value", None)?;
    /// let meta = cache.peek(b"k").ok_or("k is absent")?;
    /// assert_eq!((meta.value_bytes, meta.fetched, meta.stale), (5, false, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peek(&self, key: &[u8]) -> Option<Meta> {
        self.try_peek(key).ok().flatten()
    }

    /// Same as [`Cache::peek`], but reports errors of the disk tier.
    ///
    /// # Errors
    /// Same as [`Cache::try_get_to`].
    pub fn try_peek(&self, key: &[u8]) -> Result<Option<Meta>, StoreError> {
        waited(self.blocking().peek(key))
    }

    /// Gives the caller the recache token of an item that is stale or about to expire. Returns true
    /// for one caller only, until the item is stored again or marked stale again. `cas` is the
    /// token of the item as the caller read it; in a cache without cas tokens any live item
    /// matches.
    ///
    /// Cost: same as [`Cache::touch`].
    ///
    /// ```
    /// # let cache = larder::Cache::builder().cas(true).open()?;
    /// cache.set("k", "v", None)?;
    /// let meta = cache.peek(b"k").ok_or("k is absent")?;
    /// assert!(cache.claim(b"k", meta.cas));
    /// assert!(!cache.claim(b"k", meta.cas));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn claim(&self, key: &[u8], cas: u64) -> bool {
        let claim = |engine: &Engine, operation: &Operation<'_>| engine.claim(operation, key, cas);
        let is_claimed = self.blocking().backend.in_memory(claim);
        if is_claimed {
            self.shared().engine.report_change(key);
        }
        is_claimed
    }

    /// Prefetches the memory that operations on these keys will read into the processor's caches.
    /// Call it before operations on several keys: their cache misses then overlap. Changes nothing.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// let keys: [&[u8]; 3] = [b"a", b"b", b"c"];
    /// cache.prefetch(keys.into_iter());
    /// let values = keys.map(|key| cache.get(key));
    /// # assert_eq!(values, [None, None, None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        self.shared().engine.prefetch(keys);
    }

    /// Prefetches the part of the index that a store of this key needs, and does not wait for it.
    /// Useful if the caller has about 50 ns of other work before the store, such as the encoding of
    /// the value.
    ///
    /// ```
    /// # let cache = larder::Cache::builder().open()?;
    /// cache.prefetch_group(b"key");
    /// cache.set("key", "a value that takes time to encode", None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn prefetch_group(&self, key: &[u8]) {
        self.shared().engine.prefetch_group(key);
    }
}
