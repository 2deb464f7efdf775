//! The builder of a cache.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;

use larder_engine::{Config, CreateError, Engine};
use larder_item::Epoch;
use larder_region::Access;

use crate::clock::Time;
use crate::open::share::{
    Inheritance, Opening, Place, SharedError, Sharing, open_anonymous, open_inherited,
    open_readable,
};
use crate::thread::maintainer::Maintainer;
use crate::{Cache, Clock};

/// The settings for opening a cache. Each has a default.
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
    place: Place,
    access: Access,
    exactly: bool,
    alone: bool,
    replaces: bool,
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
            place: Place::Private,
            access: Access::default(),
            exactly: false,
            alone: false,
            replaces: false,
        }
    }
}

/// The reason why a cache could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The memory cannot be allocated or laid out.
    #[error("cannot open a cache of {memory_bytes} bytes: {source}")]
    Memory {
        /// The requested memory, in bytes.
        memory_bytes: u64,
        /// The cause.
        source: CreateError,
    },
    /// The cache cannot be shared as requested.
    #[error("cannot open a shared cache: {0}")]
    Shared(#[from] SharedError),
    /// The maintainer thread cannot be started.
    #[error(
        "cannot start the maintainer thread: {0}; allow more threads, or open the cache without a maintainer"
    )]
    Thread(std::io::Error),
}

impl Builder {
    /// Sets the memory of the cache, everything included, in bytes: 1 MiB to 1 TiB, 64 MiB by
    /// default. The system allocates it page by page at first use.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the highest limit that [`Cache::set_memory_limit`] accepts later, in bytes;
    /// [`Builder::memory_bytes`] by default. It reserves address space, not memory.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Sets the size of the largest item, in bytes: key, value, and 51 bytes (59 with cas tokens)
    /// as memcached counts them. 1 MiB by default, at most half of the memory; a larger default is
    /// lowered to that.
    #[must_use]
    pub fn item_bytes_max(mut self, bytes: u64) -> Self {
        self.item_bytes_max = bytes;
        self
    }

    /// Enables cas tokens, 8 bytes per item. Off by default; without them
    /// [`StoreRequest::cas`](crate::StoreRequest::cas) compares with 0.
    #[must_use]
    pub fn cas(mut self, on: bool) -> Self {
        self.cas = on;
        self
    }

    /// Enables eviction when memory runs out. On by default; without it stores fail with
    /// [`StoreError::NoMemory`](crate::StoreError::NoMemory) until an item expires or is deleted.
    #[must_use]
    pub fn evict(mut self, on: bool) -> Self {
        self.evict = on;
        self
    }

    /// Sets the source of the cache's time: the system by default.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Backs the memory with huge pages reserved by the administrator (`vm.nr_hugepages`, 2 MiB
    /// each). All of it, the memory to grow into included, is then allocated at once. Off by
    /// default: the cache requests transparent huge pages in any case, and most reads are faster
    /// with them.
    #[must_use]
    pub fn huge_pages(mut self, on: bool) -> Self {
        self.huge_pages = on;
        self
    }

    /// Starts a maintainer thread. It reclaims expired items within seconds and evicts ahead of the
    /// writers, so that no store waits for an eviction. Off by default: then writers evict, and
    /// expired items keep their memory until they are read, until their memory is needed, or until
    /// [`Cache::maintain`] is called. The thread ends with the cache.
    #[must_use]
    pub fn maintainer(mut self, on: bool) -> Self {
        self.maintainer = on;
        self
    }

    /// Shares the cache with children of this process, created by `fork`. Each child joins the
    /// processes that share the cache at its first use. A killed process leaves nothing locked. Off
    /// by default: then a child has an independent copy.
    ///
    /// The memory limit cannot be raised later, and reserved huge pages are not used.
    #[must_use]
    pub fn anonymous_shared(mut self, on: bool) -> Self {
        self.place = if on { Place::Anonymous } else { Place::Private };
        self
    }

    /// Shares the cache as [`Builder::anonymous_shared`] does, in memory of which
    /// [`Cache::reading_file`] returns a descriptor. Other processes that get the descriptor can
    /// read the memory but not write it.
    #[must_use]
    pub fn readable(mut self, on: bool) -> Self {
        self.place = if on { Place::Readable } else { Place::Private };
        self
    }

    /// Shares the cache as [`Builder::readable`] does; another process can also take the cache over
    /// with all items. See [`Cache::inheritance`].
    ///
    /// The drawback: a process of the same user that holds a descriptor for reading can open it
    /// again for writing.
    #[must_use]
    pub fn inheritable(mut self, on: bool) -> Self {
        self.place = if on { Place::Inheritable } else { Place::Private };
        self
    }

    /// Puts the cache into a file, for all processes that open the file, now and later. Best on a
    /// tmpfs such as `/dev/shm`. The file stays after the last process has ended. A missing file is
    /// created, with all its memory allocated.
    ///
    /// An existing cache is used as it is, whatever these settings say of its memory, cas tokens
    /// and eviction; see [`Builder::exactly`].
    ///
    /// The memory limit cannot be raised later, and reserved huge pages are not used.
    #[must_use]
    pub fn shared(mut self, path: impl Into<PathBuf>) -> Self {
        self.place = Place::File(path.into());
        self
    }

    /// Sets the permission bits of the files that a shared cache creates, as for chmod: 0o600 by
    /// default, regardless of the umask. A process that may open the files can read and change
    /// everything in the cache.
    #[must_use]
    pub fn permissions(mut self, mode: u32) -> Self {
        self.access.mode = mode;
        self
    }

    /// Sets the owner and the group of the files that are created, by number; this process's own by
    /// default.
    #[must_use]
    pub fn owner(mut self, user: Option<u32>, group: Option<u32>) -> Self {
        (self.access.owner, self.access.group) = (user, group);
        self
    }

    /// Requires an existing cache in the file to have the requested memory, cas tokens and
    /// eviction. Off by default.
    #[must_use]
    pub fn exactly(mut self, on: bool) -> Self {
        self.exactly = on;
        self
    }

    /// Fails if another process uses the cache in the file at the time of opening. Off by default.
    /// Other processes can still open the file later.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cache");
    /// use larder::Cache;
    /// let alone = || Cache::builder().shared(&path).alone(true).open();
    /// let first = alone()?;
    /// let in_use = format!("in use by process {}", std::process::id());
    /// assert!(alone().unwrap_err().to_string().contains(&in_use));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn alone(mut self, on: bool) -> Self {
        self.alone = on;
        self
    }

    /// Replaces an unusable cache in the file with an empty one, if no process uses it;
    /// [`Cache::opening`] reports it. A file that holds anything else is never changed. Off by
    /// default: then both cases are errors.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cache");
    /// use larder::{Cache, Opening};
    /// let of = |bytes| Cache::builder().shared(&path).memory_bytes(bytes).exactly(true);
    /// drop(of(16 << 20).open()?);
    /// assert!(of(32 << 20).open().is_err());
    /// let cache = of(32 << 20).replaces_unusable(true).open()?;
    /// assert!(matches!(cache.opening(), Opening::Replaced(why) if why.contains("memory in bytes")));
    ///
    /// drop(cache);
    /// std::fs::write(&path, "no cache")?;
    /// assert!(of(32 << 20).replaces_unusable(true).open().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn replaces_unusable(mut self, on: bool) -> Self {
        self.replaces = on;
        self
    }

    /// Opens the cache: an empty one in private memory, unless it is to be shared.
    ///
    /// # Errors
    /// [`OpenError`] names the size that is out of bounds or cannot be allocated.
    pub fn open(self) -> Result<Cache, OpenError> {
        self.open_with(None)
    }

    /// Opens a cache that another process passes on ([`Cache::inheritance`]); both processes use it
    /// from then on. It must have the requested memory, cas tokens and eviction.
    ///
    /// ```
    /// use larder::Cache;
    /// let builder = || Cache::builder().inheritable(true);
    /// let old = builder().open()?;
    /// old.set("k", "v", None)?;
    /// let new = builder().open_inherited(old.inheritance().transpose()?.ok_or("none")?)?;
    /// drop(old);
    /// assert_eq!(new.get("k").as_deref(), Some(&b"v"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`OpenError`]: the cache differs from the requested one, or cannot be mapped.
    pub fn open_inherited(self, inheritance: Inheritance) -> Result<Cache, OpenError> {
        self.open_with(Some(inheritance))
    }

    fn open_with(self, inheritance: Option<Inheritance>) -> Result<Cache, OpenError> {
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
            memory_bytes_max: match self.place {
                Place::Private => usize::try_from(self.memory_bytes_max).unwrap_or(usize::MAX),
                _ => 0,
            },
            item_bytes_max: usize::try_from(item_bytes_max).unwrap_or(usize::MAX),
            huge_pages: self.huge_pages,
            keeps_versions: cas,
            evicts: evict,
            hash_seed: random(),
            epoch: Epoch::starting_at(time.started_unix_secs()),
        };
        let is_private = inheritance.is_none() && self.place == Place::Private;
        let (engine, file, opening) = match inheritance {
            Some(inheritance) => {
                let (engine, file) = open_inherited(&config, inheritance)?;
                (engine, Some(file), Opening::Attached)
            }
            None => self.make(&config, &time)?,
        };
        let time = match is_private {
            true => time,
            false => Time::beginning_at(clock, engine.birth().monotonic_secs, engine.epoch()),
        };
        let cache = Cache::new(engine, time, file, opening);
        if self.maintainer {
            let maintainer = Maintainer::start(cache.shared()).map_err(OpenError::Thread)?;
            let _ = cache.shared().maintainer.set(maintainer);
        }
        Ok(cache)
    }

    fn make(
        &self,
        config: &Config,
        time: &Time,
    ) -> Result<(Engine, Option<File>, Opening), OpenError> {
        let monotonic_secs = time.started_monotonic_secs();
        Ok(match &self.place {
            Place::Private => {
                let memory_bytes = self.memory_bytes;
                let engine = Engine::create(config)
                    .map_err(|source| OpenError::Memory { memory_bytes, source })?;
                (engine, None, Opening::None)
            }
            Place::Anonymous => (open_anonymous(config, monotonic_secs)?, None, Opening::None),
            Place::Readable | Place::Inheritable => {
                let inheritable = self.place == Place::Inheritable;
                let (engine, file) = open_readable(config, monotonic_secs, inheritable)?;
                (engine, Some(file), Opening::None)
            }
            Place::File(path) => {
                let Self { access, exactly, alone, replaces, .. } = *self;
                let sharing = Sharing { config, access, exactly, alone, replaces };
                let (engine, file, opening) = sharing.open(path, monotonic_secs)?;
                (engine, Some(file), opening)
            }
        })
    }
}

/// Returns an unpredictable number: the standard library seeds it from the system, differently at
/// each use.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
