//! The builder of a cache: its settings.

use std::path::{Path, PathBuf};

use larder_region::{Access, file};

use crate::open::share::Place;
use crate::system::clock::Clock;
use crate::tier::DiskTier;

/// The settings for opening a cache. Each setting has a default.
#[derive(Clone, Debug)]
pub struct Builder {
    pub(super) memory_bytes: u64,
    pub(super) memory_bytes_max: u64,
    pub(super) item_bytes_max: u64,
    pub(super) cas: bool,
    pub(super) evict: bool,
    pub(super) clock: Clock,
    pub(super) maintainer: bool,
    pub(super) huge_pages: bool,
    pub(super) place: Place,
    pub(super) access: Access,
    pub(super) exactly: bool,
    pub(super) alone: bool,
    pub(super) replaces: bool,
    pub(super) tier: Option<DiskTier>,
    pub(super) processes_max: u32,
    pub(super) substitute: bool,
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
            tier: None,
            processes_max: 0,
            substitute: true,
        }
    }
}

impl Builder {
    /// Sets the memory of the cache in bytes, including everything that it needs: 1 MiB to 1 TiB,
    /// 64 MiB by default. The system allocates it page by page at first use.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Sets the highest limit that [`Cache::set_memory_limit`](crate::Cache::set_memory_limit)
    /// accepts later, in bytes; [`Builder::memory_bytes`] by default. It reserves address space,
    /// not memory.
    #[must_use]
    pub fn memory_bytes_max(mut self, bytes: u64) -> Self {
        self.memory_bytes_max = bytes;
        self
    }

    /// Sets the maximum size of an item in bytes: key, value, and 51 bytes (59 with cas tokens), as
    /// memcached counts them. At most half of the memory. The default is 1 MiB, or half of the
    /// memory if that is less.
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

    /// Enables eviction when memory runs out. On by default. If it is off, stores fail with
    /// [`StoreError::NoMemory`](crate::StoreError::NoMemory) when memory is full, until an item
    /// expires or is deleted.
    #[must_use]
    pub fn evict(mut self, on: bool) -> Self {
        self.evict = on;
        self
    }

    /// Sets the source of the cache's time; by default the system's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Backs the memory with huge pages reserved by the administrator (`vm.nr_hugepages`, 2 MiB
    /// each). All of the memory, including the memory to grow into, is then allocated immediately.
    /// Off by default. The cache always requests transparent huge pages, and most reads are faster
    /// with those.
    #[must_use]
    pub fn huge_pages(mut self, on: bool) -> Self {
        self.huge_pages = on;
        self
    }

    /// Starts a maintainer thread. It reclaims expired items within seconds and evicts ahead of the
    /// writers, so that no store waits for an eviction. Off by default: then writers evict, and
    /// expired items use memory until they are read, until their memory is needed, or until
    /// [`Cache::maintain`](crate::Cache::maintain) is called. The thread ends with the cache.
    #[must_use]
    pub fn maintainer(mut self, on: bool) -> Self {
        self.maintainer = on;
        self
    }

    /// Shares the cache with children that this process creates with `fork`. Each child joins the
    /// processes that share the cache when it first uses it. A killed process leaves nothing
    /// locked. Off by default: then a child has an independent copy.
    ///
    /// The memory limit cannot be raised later, and reserved huge pages are not used.
    #[must_use]
    pub fn anonymous_shared(mut self, on: bool) -> Self {
        self.place = if on { Place::Anonymous } else { Place::Private };
        self
    }

    /// Shares the cache as [`Builder::anonymous_shared`] does, in memory with a descriptor
    /// ([`Cache::reading_file`](crate::Cache::reading_file)). Other processes that receive the
    /// descriptor can read the memory but not write it.
    #[must_use]
    pub fn readable(mut self, on: bool) -> Self {
        self.place = if on { Place::Readable } else { Place::Private };
        self
    }

    /// Shares the cache as [`Builder::readable`] does. Another process can also take over the cache
    /// with all items. See [`Cache::inheritance`](crate::Cache::inheritance).
    ///
    /// The drawback: a process of the same user that holds a descriptor for reading can open it
    /// again for writing.
    #[must_use]
    pub fn inheritable(mut self, on: bool) -> Self {
        self.place = if on { Place::Inheritable } else { Place::Private };
        self
    }

    /// Puts the cache into a file that any number of processes can open, now and later. A tmpfs
    /// such as `/dev/shm` is the best place for the file. The file stays after the last process has
    /// ended. If the file does not exist, it is created, and all its memory is allocated.
    ///
    /// An existing cache is used as it is, even if its memory, cas tokens or eviction differ from
    /// these settings; see [`Builder::exactly`].
    ///
    /// The memory limit cannot be raised later, and reserved huge pages are not used.
    #[must_use]
    pub fn shared(mut self, path: impl Into<PathBuf>) -> Self {
        self.place = Place::File(path.into());
        self
    }

    /// Sets how many processes, including this one, can use a new shared cache at a time: up to
    /// 4096. The default is 16 below 16 MiB of memory, 64 below 256 MiB, and 256 otherwise. An
    /// existing cache keeps its number; with [`Builder::exactly`] opening it fails if the number
    /// differs.
    ///
    /// A process uses 1.7 KiB, plus 8 bytes for each segment; most caches have 256 to 512 segments.
    /// For the default number of processes, the memory limit includes this memory. For additional
    /// processes it is allocated on top of the limit: in a file when it is created, in anonymous
    /// memory when a process joins. There are at least twice as many thread slots as processes,
    /// which is enough for single-threaded processes.
    ///
    /// ```
    /// let cache = larder::Cache::builder().memory_bytes(32 << 20).processes_max(1000);
    /// # if cfg!(target_os = "linux") {
    /// cache.anonymous_shared(true).open()?;
    /// let too_many = larder::Cache::builder().memory_bytes(1 << 20).processes_max(4097);
    /// assert!(too_many.anonymous_shared(true).open().is_err());
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn processes_max(mut self, processes: u32) -> Self {
        self.processes_max = processes;
        self
    }

    /// Sets what a process does if it cannot join the processes that share a cache.
    /// [`Cache::lost`](crate::Cache::lost) returns the reason.
    ///
    /// On, the default: a forked child uses an empty cache of a megabyte instead. Opening the file
    /// of a cache that already has [`Builder::processes_max`] processes fails.
    ///
    /// Off: in a forked child each operation on an item fails with
    /// [`Refusal::Lost`](crate::Refusal::Lost), and methods that cannot return an error report a
    /// miss. If the only reason is that the cache already has [`Builder::processes_max`] processes,
    /// the child can still read it. These reads are not counted. The child joins within a second or
    /// two after another process has left. A process that opens the file of such a cache can also
    /// read it, but must open the file again to join.
    #[must_use]
    pub fn substitute(mut self, on: bool) -> Self {
        self.substitute = on;
        self
    }

    /// Sets the permission bits of the files that a shared cache creates, as for chmod: 0o600 by
    /// default, regardless of the umask. A process with access to the files can read and change
    /// everything in the cache.
    #[must_use]
    pub fn permissions(mut self, mode: u32) -> Self {
        self.access.mode = mode;
        self
    }

    /// Sets the numeric owner and group of the files that are created; by default those of this
    /// process.
    #[must_use]
    pub fn owner(mut self, user: Option<u32>, group: Option<u32>) -> Self {
        (self.access.owner, self.access.group) = (user, group);
        self
    }

    /// Requires an existing cache in the file to have the requested memory, cas tokens and
    /// eviction, and the requested [`Builder::processes_max`] if that is set. Off by default.
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
    /// [`Cache::opening`](crate::Cache::opening) reports it. A file with any other content is never
    /// changed. Off by default: then opening an unusable cache fails as well.
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

    /// Adds a directory on a disk, which stores all items. The result is a durable store that may
    /// be larger than memory; memory keeps the items in use. One process at a time can use the
    /// directory. After a restart the items are available again.
    ///
    /// An operation on an item that is only on the disk performs one read of the disk, and the
    /// caller waits for it. A change costs one more copy of the item, and with
    /// [`Durability::Sync`](crate::Durability::Sync) the caller waits for the disk.
    ///
    /// If the disk does not return an item, [`Cache::get`](crate::Cache::get) and its variants
    /// report a miss, while [`Cache::try_get_to`](crate::Cache::try_get_to) and
    /// [`Cache::try_peek`](crate::Cache::try_peek) return an error. Dropping the last clone stops
    /// the tier. With [`Builder::maintainer`] this may happen on the maintainer's thread. To wait
    /// until everything is durable and the directory can be opened again, call
    /// [`Cache::stop_tier`](crate::Cache::stop_tier).
    ///
    /// A disk tier cannot be combined with [`Builder::shared`] or [`Builder::anonymous_shared`].
    /// Processes that read a [`Builder::readable`] or [`Builder::inheritable`] cache find only the
    /// items in memory. In a child of a `fork` all operations fail with
    /// [`Refusal::Forked`](crate::Refusal::Forked).
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("store");
    /// use larder::{Cache, DiskTier, Durability};
    /// let open = || {
    ///     let disk = DiskTier::new(&path, 64 << 20).durability(Durability::Sync);
    ///     Cache::builder().tier(disk).open()
    /// };
    /// open()?.set("k", "v", None)?;
    /// assert_eq!(open()?.get("k").as_deref(), Some(&b"v"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn tier(mut self, tier: DiskTier) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Returns how many bytes are reserved so far for the file that [`Builder::open`] is creating
    /// at `path` in another thread or process. Returns `None` if no file is being created there.
    /// Opening an existing file reserves nothing.
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("cache");
    /// assert_eq!(larder::Builder::reserved_bytes(&path), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn reserved_bytes(path: impl AsRef<Path>) -> Option<u64> {
        file::reserved_bytes(path.as_ref())
    }
}
