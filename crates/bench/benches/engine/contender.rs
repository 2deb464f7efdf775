//! The measured caches.

use std::sync::Arc;

use foyer_memory::S3FifoConfig;

/// A cache under measurement.
pub(crate) trait Contender: Sync {
    /// Replaces `value` by the value of the key. Returns false on a miss.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> bool;

    fn set(&self, key: &[u8], value: &[u8]);

    /// Prefetches the memory that gets of these keys will read, if the cache can.
    fn prefetch<'k>(&self, _keys: impl Iterator<Item = &'k [u8]>) {}

    /// Runs the work that the cache has deferred.
    fn settle(&self) {}
}

/// The names of the caches, Larder first.
pub(crate) const NAMES: [&str; 4] = ["larder", "quick_cache", "moka", "foyer"];

pub(crate) type QuickCache = quick_cache::sync::Cache<Box<[u8]>, Arc<[u8]>>;
pub(crate) type Moka = moka::sync::Cache<Box<[u8]>, Arc<[u8]>>;
pub(crate) type Foyer = foyer_memory::Cache<Box<[u8]>, Box<[u8]>>;

/// Returns a Larder cache with `memory_bytes` of memory. Twice the bytes of the items avoid
/// evictions.
pub(crate) fn larder(memory_bytes: u64) -> larder::Cache {
    let builder = larder::Cache::builder().memory_bytes(memory_bytes);
    builder.open().expect("the machine has some memory")
}

/// Returns foyer with the policy whose gets can run in parallel.
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

// The other caches share their values; a get that copied them into new memory would be slower.

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
