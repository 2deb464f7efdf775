//! Opening a cache.

use std::hash::{BuildHasher, Hasher, RandomState};

use larder_engine::{Config, CreateError, Engine};
use larder_item::Epoch;

use crate::clock::Time;
use crate::{Cache, Clock};

/// The settings of a cache that is to be opened. Each has a default.
#[derive(Clone, Debug)]
pub struct Builder {
    memory_bytes: u64,
    item_bytes_max: u64,
    cas: bool,
    evict: bool,
    clock: Clock,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            item_bytes_max: 1 << 20,
            cas: false,
            evict: true,
            clock: Clock::System,
        }
    }
}

/// Why a cache could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open a cache of {memory_bytes} bytes: {source}")]
pub struct OpenError {
    memory_bytes: u64,
    source: CreateError,
}

impl Builder {
    /// All memory of the cache, everything included, in bytes: 1 MiB to 1 TiB, 64 MiB by default. It is
    /// taken from the system page by page as it is first used.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// The largest item accepted, in bytes: key, value, and 51 bytes (59 with cas tokens) as memcached counts
    /// them. 1 MiB by default; at most half of the memory, and lowered to that where the default is more.
    #[must_use]
    pub fn item_bytes_max(mut self, bytes: u64) -> Self {
        self.item_bytes_max = bytes;
        self
    }

    /// Whether items carry cas tokens, 8 bytes each. Off by default; without them
    /// [`Request::cas`](crate::Request::cas) compares with 0.
    #[must_use]
    pub fn cas(mut self, on: bool) -> Self {
        self.cas = on;
        self
    }

    /// Whether items are evicted when memory runs out. On by default; without it stores fail with
    /// [`StoreError::NoMemory`](crate::StoreError::NoMemory) until something expires or is deleted.
    #[must_use]
    pub fn evict(mut self, on: bool) -> Self {
        self.evict = on;
        self
    }

    /// Who moves the cache's clock: the system by default.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Opens an empty cache in memory of its own.
    ///
    /// # Errors
    /// [`OpenError`] names the size that was out of bounds or could not be had.
    pub fn open(self) -> Result<Cache, OpenError> {
        let Self { memory_bytes, cas, evict, clock, .. } = self;
        let time = Time::starting_now(clock);
        let default_item_bytes_max = Self::default().item_bytes_max;
        let item_bytes_max = if self.item_bytes_max == default_item_bytes_max {
            default_item_bytes_max.min(memory_bytes / 2)
        } else {
            self.item_bytes_max
        };
        let config = Config {
            memory_bytes: usize::try_from(memory_bytes).unwrap_or(usize::MAX),
            item_bytes_max: usize::try_from(item_bytes_max).unwrap_or(usize::MAX),
            keeps_versions: cas,
            evicts: evict,
            // The standard library's seed comes from the system and differs with every use.
            hash_seed: RandomState::new().build_hasher().finish(),
            epoch: Epoch::starting_at(time.started_unix_secs()),
        };
        let engine =
            Engine::create(&config).map_err(|source| OpenError { memory_bytes, source })?;
        Ok(Cache::new(engine, time))
    }
}
