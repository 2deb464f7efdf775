//! Opening a cache.

use std::hash::{BuildHasher, Hasher, RandomState};

use larder_engine::{Config, CreateError, Engine};
use larder_item::Epoch;

use crate::clock::Time;
use crate::maintainer::Maintainer;
use crate::{Cache, Clock};

/// The settings of a cache that is to be opened. Each has a default.
#[derive(Clone, Debug)]
pub struct Builder {
    memory_bytes: u64,
    memory_bytes_max: u64,
    item_bytes_max: u64,
    cas: bool,
    evict: bool,
    clock: Clock,
    maintainer: bool,
    huge_pages: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            memory_bytes_max: 0,
            item_bytes_max: 1 << 20,
            cas: false,
            evict: true,
            clock: Clock::System,
            maintainer: false,
            huge_pages: false,
        }
    }
}

/// Why a cache could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The memory cannot be had, or not laid out.
    #[error("cannot open a cache of {memory_bytes} bytes: {source}")]
    Memory {
        /// What was asked for.
        memory_bytes: u64,
        /// What is wrong with it.
        source: CreateError,
    },
    /// The maintainer cannot be started.
    #[error("cannot start a cache's maintainer: {0}; allow more threads, or do without one")]
    Thread(std::io::Error),
}

impl Builder {
    /// All memory of the cache, everything included, in bytes: 1 MiB to 1 TiB, 64 MiB by default. It is
    /// taken from the system page by page as it is first used.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// What [`Cache::set_memory_limit`] can raise the memory to later, in bytes; [`Builder::memory_bytes`] by
    /// default. It takes addresses of the process, not memory.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
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

    /// Whether the memory shall be of huge pages that the system has set aside (`vm.nr_hugepages`, 2 MiB each): all
    /// of it, the memory to grow into included, is then taken at once. Off by default: transparent huge pages
    /// are asked for in any case, and most reads are faster for them.
    #[must_use]
    pub fn huge_pages(mut self, on: bool) -> Self {
        self.huge_pages = on;
        self
    }

    /// Whether a thread of its own keeps the cache tidy: it takes back what expired within seconds, and evicts
    /// ahead of the writers, so that no store waits for an eviction. Off by default: then writers evict, and
    /// expired items that nobody asks for keep their memory until it is needed, or until
    /// [`Cache::maintain`] is called. The thread ends with the cache.
    #[must_use]
    pub fn maintainer(mut self, on: bool) -> Self {
        self.maintainer = on;
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
            memory_bytes_max: usize::try_from(self.memory_bytes_max).unwrap_or(usize::MAX),
            item_bytes_max: usize::try_from(item_bytes_max).unwrap_or(usize::MAX),
            huge_pages: self.huge_pages,
            keeps_versions: cas,
            evicts: evict,
            // The standard library's seed comes from the system and differs with every use.
            hash_seed: RandomState::new().build_hasher().finish(),
            epoch: Epoch::starting_at(time.started_unix_secs()),
        };
        let engine =
            Engine::create(&config).map_err(|source| OpenError::Memory { memory_bytes, source })?;
        let cache = Cache::new(engine, time);
        if self.maintainer {
            let maintainer = Maintainer::start(cache.shared()).map_err(OpenError::Thread)?;
            let _ = cache.shared().maintainer.set(maintainer);
        }
        Ok(cache)
    }
}
