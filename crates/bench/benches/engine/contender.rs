//! The *contenders*: the measured caches, with one interface.

use std::sync::Arc;
use std::time::Duration;

use foyer_memory::S3FifoConfig;
use segcache::{Policy, Segcache, Value};

use crate::workload::{KEY_BYTES, Measured};

/// A cache under measurement.
pub(crate) trait Contender: Sync {
    /// Replaces `value` with the value of the key. Returns false on a miss.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool;

    fn set(&self, key: &[u8], value: &[u8]);

    /// Prefetches the memory that lookups of these keys will read, if the cache supports that.
    fn prefetch<'k>(&self, _keys: impl Iterator<Item = &'k [u8]>) {}

    /// Runs deferred work of the cache.
    fn settle(&self) {}
}

/// The names of the caches, Larder first.
pub(crate) const NAMES: [&str; 5] = ["larder", "quick_cache", "moka", "foyer", "segcache"];

pub(crate) type QuickCache = quick_cache::sync::Cache<Box<[u8]>, Arc<[u8]>>;
pub(crate) type Moka = moka::sync::Cache<Box<[u8]>, Arc<[u8]>>;
pub(crate) type Foyer = foyer_memory::Cache<Box<[u8]>, Box<[u8]>>;

/// Returns a Larder cache with `memory_bytes` of memory. Twice the size of the items avoids
/// evictions.
pub(crate) fn larder(memory_bytes: u64) -> larder::Cache {
    let builder = larder::Cache::builder().memory_bytes(memory_bytes);
    builder.open().expect("the machine has some memory")
}

/// Returns one of the other caches by its name, with space for `capacity` items with values of
/// `value_bytes`.
pub(crate) fn other(name: &str, capacity: u64, value_bytes: usize) -> Box<dyn Measured> {
    match name {
        "quick_cache" => Box::new(QuickCache::new(capacity as usize)),
        "moka" => Box::new(Moka::new(capacity)),
        "foyer" => Box::new(foyer(capacity)),
        "segcache" => Box::new(segcache(capacity, value_bytes)),
        other => panic!("unknown cache {other}"),
    }
}

/// Returns the other caches, in the order of [`NAMES`].
pub(crate) fn others(capacity: u64, value_bytes: usize) -> [Box<dyn Measured>; NAMES.len() - 1] {
    std::array::from_fn(|index| other(NAMES[index + 1], capacity, value_bytes))
}

/// Returns Segcache with memory for `capacity` items. Its hash table is at most two thirds full,
/// because its buckets do not grow. It evicts by merging segments, as described in its paper.
pub(crate) fn segcache(capacity: u64, value_bytes: usize) -> Segcache {
    let slots = (capacity * 3 / 2).next_power_of_two();
    let item_bytes = (SEGCACHE_HEADER_BYTES + KEY_BYTES + value_bytes + 1).next_multiple_of(8);
    let heap_bytes = capacity as usize * item_bytes;
    let segment_bytes = (heap_bytes / 128).next_power_of_two().clamp(SEGMENT_MIN, SEGMENT_MAX);
    let built = Segcache::builder()
        .hash_power(slots.ilog2().max(7) as u8)
        // One segment for appending, and one for merging.
        .heap_size(heap_bytes.next_multiple_of(segment_bytes) + 2 * segment_bytes)
        .segment_size(segment_bytes as i32)
        .eviction(Policy::Merge { max: 8, merge: 4, compact: 2 })
        .build();
    built.expect("the machine has some memory")
}

/// The bytes of an item in a segment of Segcache before its key.
const SEGCACHE_HEADER_BYTES: usize = 12;
/// The minimum size of a segment. The default is a mebibyte, but a small cache needs smaller
/// segments.
const SEGMENT_MIN: usize = 32 << 10;
const SEGMENT_MAX: usize = 1 << 20;

/// Returns foyer with the policy that allows parallel lookups.
pub(crate) fn foyer(capacity: u64) -> Foyer {
    let builder = foyer_memory::CacheBuilder::new(capacity as usize);
    builder.with_eviction_config(S3FifoConfig::default()).build()
}

impl Contender for larder::Cache {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        self.get_into(key, value).is_some()
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        Self::set(self, key, value, None).expect("memory is free, and the item is small");
    }

    fn prefetch<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) {
        Self::prefetch(self, keys);
    }
}

// The other caches return shared values. A get that copied a value into new memory would be slower.

impl Contender for QuickCache {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        Self::get(self, key).is_some_and(|found| {
            value.extend_from_slice(&found);
            true
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }
}

impl Contender for Moka {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        Self::get(self, key).is_some_and(|found| {
            value.extend_from_slice(&found);
            true
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }

    fn settle(&self) {
        self.run_pending_tasks();
    }
}

impl Contender for Foyer {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        Self::get(self, key).is_some_and(|found| {
            value.extend_from_slice(found.value());
            true
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        self.insert(key.into(), value.into());
    }
}

impl Contender for Segcache {
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool {
        value.clear();
        Self::get(self, key).is_some_and(|found| {
            let Value::Bytes(bytes) = found.value() else { return false };
            value.extend_from_slice(bytes);
            true
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) {
        // A set fails if its bucket is full, or if other threads are evicting and no segment is
        // left to evict. Then the item is missing, which `held` and the hit ratio show.
        let _ = self.insert(key, value, None, Duration::ZERO);
    }
}
