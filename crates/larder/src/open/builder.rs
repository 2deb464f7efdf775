//! Opening a cache.

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
    /// It cannot be shared as was asked for.
    #[error("cannot open a shared cache: {0}")]
    Shared(#[from] SharedError),
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
    /// [`StoreRequest::cas`](crate::StoreRequest::cas) compares with 0.
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

    /// Whether children of this process, made by `fork`, shall use this cache with it. Each becomes one of those that
    /// share it when it first uses it; a process that is killed leaves nothing locked. Off by default: then a child
    /// has a copy, and goes its own way.
    ///
    /// The memory's limit cannot be raised later, and huge pages that were set aside are not used.
    #[must_use]
    pub fn anonymous_shared(mut self, on: bool) -> Self {
        self.place = if on { Place::Anonymous } else { Place::Private };
        self
    }

    /// As [`Builder::anonymous_shared`], in memory of which [`Cache::reading_file`] gives other processes a descriptor:
    /// they can read it, and nothing else.
    #[must_use]
    pub fn readable(mut self, on: bool) -> Self {
        self.place = if on { Place::Readable } else { Place::Private };
        self
    }

    /// As [`Builder::readable`], and another process can take the cache over with all items: see [`Cache::inheritance`].
    ///
    /// The price: a process of the same user that was given a descriptor to read through can open it again for writing.
    #[must_use]
    pub fn inheritable(mut self, on: bool) -> Self {
        self.place = if on { Place::Inheritable } else { Place::Private };
        self
    }

    /// The file in which the cache is, for all processes that open it, now and later, best on a tmpfs such as `/dev/shm`.
    /// It stays when the last process has ended, and is made, with all its memory, where there is none.
    ///
    /// A cache that is there is used as it is, whatever is said here of its memory, cas tokens and eviction: see
    /// [`Builder::exactly`].
    ///
    /// The memory's limit cannot be raised later, and huge pages that were set aside are not used.
    #[must_use]
    pub fn shared(mut self, path: impl Into<PathBuf>) -> Self {
        self.place = Place::File(path.into());
        self
    }

    /// Who may use the files of a shared cache that are made: permission bits as for chmod, 0o600 by default, whatever
    /// the umask is. Whoever may use them may read and change everything in the cache.
    #[must_use]
    pub fn permissions(mut self, mode: u32) -> Self {
        self.access.mode = mode;
        self
    }

    /// The user and the group to which the files are given that are made, by number; this process's own by default.
    #[must_use]
    pub fn owner(mut self, user: Option<u32>, group: Option<u32>) -> Self {
        (self.access.owner, self.access.group) = (user, group);
        self
    }

    /// Whether a cache that is in the file must have the memory, cas tokens and eviction that are asked for. Off by default.
    #[must_use]
    pub fn exactly(mut self, on: bool) -> Self {
        self.exactly = on;
        self
    }

    /// Whether it is an error that another process uses the cache that is in the file, when it is opened. Off by default; it
    /// keeps nobody from opening it later.
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

    /// Whether a cache in the file that cannot be used makes way for an empty one, if no process uses it:
    /// [`Cache::opening`] says so. A file that holds anything else is never touched. Off by default: then either is an error.
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

    /// Opens the cache: an empty one in memory of its own, unless it is to be shared.
    ///
    /// # Errors
    /// [`OpenError`] names the size that was out of bounds or could not be had.
    pub fn open(self) -> Result<Cache, OpenError> {
        self.open_with(None)
    }

    /// Opens the cache that another process hands over ([`Cache::inheritance`]), which both use from then on. It must have
    /// the memory, cas tokens and eviction that are asked for.
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
    /// [`OpenError`]: the cache is another than is asked for, or cannot be mapped.
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

/// A number that nobody can guess: the standard library's seed comes from the system and differs with every use.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
