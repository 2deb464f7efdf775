//! Opening a cache: creating its region, attaching to an existing region, opening it again after a
//! fork, and leaving. A process that is attached to a shared region is a *peer*. It has a row in
//! the region's table of peers.

use std::sync::atomic::Ordering::{Relaxed, Release};

use larder_item::Epoch;
use larder_region::layout::{self, flag, global, superblock};
use larder_region::{HUGE_PAGE_BYTES, Layout, LayoutError, Locks, MapError, Memory, Sharing};

use crate::engine::Engine;
use crate::index::Index;
use crate::index::group::Control;
use crate::process::Peers;
use crate::process::peers::JoinError;
use crate::process::thread_slot::THREAD_SLOT_BYTES;
use crate::reclaim::Reclaimer;
use crate::region::Region;
use crate::segment::Segments;
use crate::segment::header::State;
use crate::superblock::{AttachError, Birth, Superblock};

/// The parameters of a new engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The memory of the cache in bytes, index and statistics included.
    pub memory_bytes: usize,
    /// The highest limit that the memory can be raised to later; at least `memory_bytes`. The cache
    /// reserves addresses for it, not memory.
    pub memory_bytes_max: usize,
    /// The largest item in bytes, as [`Engine::accepts`] counts it.
    pub item_bytes_max: usize,
    /// True if the memory must consist of huge pages that the administrator has reserved. Creation
    /// fails if there are too few.
    pub huge_pages: bool,
    /// True if each item has a version, which is its cas token. A version takes 8 bytes of each
    /// item.
    pub keeps_versions: bool,
    /// True if live items may be evicted to make room.
    pub evicts: bool,
    /// The seed of the key hash. Keys from untrusted clients need an unpredictable one.
    pub hash_seed: u64,
    /// The Unix time of second 0.
    pub epoch: Epoch,
    /// The number of processes that can use a new shared region at the same time; 0 to derive the
    /// number from the memory size.
    pub peers: u32,
}

/// The reason why an engine cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The memory cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The system denied the memory.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The process cannot become a peer.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// The largest item exceeds half of the memory.
    #[error(
        "the largest item must not exceed half of the memory, which is {half} bytes, found {asked}"
    )]
    ItemTooLarge {
        /// The requested size of the largest item in bytes.
        asked: usize,
        /// The largest size that is possible in bytes.
        half: usize,
    },
}

/// The role of a process in a shared region.
#[derive(Debug)]
pub enum Role {
    /// An attached process, which may use all operations.
    Peer(Engine),
    /// A process that can only read, because other processes have taken all rows of the table of
    /// peers. It may use [`Engine::look_up`], the reports, and [`Engine::in_child`], which tries
    /// again to become a peer.
    Reader(Engine, JoinError),
}

impl Role {
    fn of(engine: Engine) -> Result<Self, JoinError> {
        match engine.join() {
            Ok(()) => Ok(Self::Peer(engine)),
            Err(error @ JoinError::Full(_)) => Ok(Self::Reader(engine, error)),
            Err(error) => Err(error),
        }
    }

    /// Returns the engine of a peer.
    ///
    /// # Errors
    /// The reason why the process is a reader.
    pub fn peer(self) -> Result<Engine, JoinError> {
        match self {
            Self::Peer(engine) => Ok(engine),
            Self::Reader(_, error) => Err(error),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.peers().leave(|row| self.reclaimer().repair(row));
    }
}

/// The initial index takes this fraction of the memory, which is enough for items of about a
/// kilobyte. The index grows with the number of items.
const FIRST_INDEX_PART: usize = 128;

/// Returns the number of low hash bits that choose a group in a new region.
fn first_level(memory_bytes: usize, layout: &Layout) -> u32 {
    (memory_bytes / FIRST_INDEX_PART / layout::GROUP_BYTES).max(layout.groups_per_segment()).ilog2()
}

impl Engine {
    /// Creates an empty cache in private memory.
    ///
    /// # Errors
    /// [`CreateError`] names the size that is wrong or unavailable.
    pub fn create(config: &Config) -> Result<Self, CreateError> {
        let layout = Self::lay_out(config, Sharing::Alone)?;
        let memory = match config.huge_pages {
            true => Memory::private_huge(layout.region_bytes)?,
            false => Memory::private(layout.region_bytes)?,
        };
        Self::create_in(memory, layout, config, &Birth::default(), None)
    }

    /// Returns the number of zero bytes that [`Engine::create_shared`] needs.
    ///
    /// # Errors
    /// [`CreateError`] names the size that is wrong.
    pub fn shared_bytes(config: &Config) -> Result<usize, CreateError> {
        Ok(Self::lay_out(config, Sharing::Peers(config.peers as usize))?.region_bytes)
    }

    /// Creates an empty cache in memory that other processes can map, and becomes its first peer.
    /// No other process may use the region before this returns.
    ///
    /// # Errors
    /// [`CreateError`] names the parameter that is wrong or the resource that is missing.
    pub fn create_shared(
        memory: Memory,
        locks: Locks,
        config: &Config,
        birth: &Birth,
    ) -> Result<Self, CreateError> {
        let layout = Self::lay_out(config, Sharing::Peers(config.peers as usize))?;
        Self::create_in(memory, layout, config, birth, Some(locks))
    }

    /// Moves the initial index to huge pages, for memory in which the system does not use them
    /// otherwise. An index of less than a huge page stays as it is: its few pages rarely cause TLB
    /// misses. The creator calls this before other threads and processes use the cache.
    ///
    /// Cost: see `Memory::collapse`.
    pub fn collapse_index(&self) {
        let groups = 1usize << self.index().first_level();
        let (at, bytes) = (self.region().segment_at(0), groups * layout::GROUP_BYTES);
        if bytes >= HUGE_PAGE_BYTES {
            self.region().memory().collapse(at, bytes);
        }
    }

    fn lay_out(config: &Config, sharing: Sharing) -> Result<Layout, CreateError> {
        let layout =
            Layout::new(config.memory_bytes, config.memory_bytes_max, THREAD_SLOT_BYTES, sharing)?;
        let half = config.memory_bytes / 2;
        if config.item_bytes_max > half {
            return Err(CreateError::ItemTooLarge { asked: config.item_bytes_max, half });
        }
        Ok(layout)
    }

    fn create_in(
        memory: Memory,
        layout: Layout,
        config: &Config,
        birth: &Birth,
        locks: Option<Locks>,
    ) -> Result<Self, CreateError> {
        let engine = Self::over(Region::new(memory, layout), locks, config, birth);
        engine.segments().limit_to(config.memory_bytes);
        engine.lay_out_index();
        engine.join()?;
        engine.write_superblock(config);
        Ok(engine)
    }

    /// Builds the engine of a region, before this process is a peer.
    fn over(region: Region, locks: Option<Locks>, config: &Config, birth: &Birth) -> Self {
        let first_level = first_level(config.memory_bytes, region.layout());
        let peers = Peers::new(region, locks);
        let segments = Segments::new(peers, config.keeps_versions, config.evicts);
        let index = Index::new(segments, config.hash_seed, first_level);
        Self::new(Reclaimer::new(index), config.item_bytes_max, config.epoch, *birth)
    }

    /// Becomes a peer of the cache in an existing region, if a peer row is free, and repairs what
    /// dead processes left in the region. Calls `check` with the parameters of the cache before it
    /// changes anything.
    ///
    /// # Errors
    /// [`AttachError`] names the field that differs from the value that this program needs.
    pub fn attach<E: From<AttachError>>(
        memory: Memory,
        locks: Locks,
        item_bytes_max: usize,
        check: impl FnOnce(&Config, &Birth) -> Result<(), E>,
    ) -> Result<Role, E> {
        let (engine, config) = Self::open(memory, Some(locks), item_bytes_max)?;
        check(&config, engine.birth())?;
        let is_alone = engine.check_before_joining()?;
        let role = Role::of(engine).map_err(AttachError::from)?;
        if let Role::Peer(engine) = &role
            && is_alone
        {
            engine.reclaimer().count_alone();
        }
        Ok(role)
    }

    /// Opens a region for reading, without becoming a peer and without writing to it. The memory
    /// may be mapped read-only. Use only [`Engine::look_up`] and the reports on the result.
    ///
    /// # Errors
    /// Same as [`Engine::attach`].
    pub fn read_only(memory: Memory) -> Result<Self, AttachError> {
        Ok(Self::open(memory, None, 0)?.0)
    }

    fn open(
        memory: Memory,
        locks: Option<Locks>,
        item_bytes_max: usize,
    ) -> Result<(Self, Config), AttachError> {
        let superblock = Superblock::read(&memory)?;
        let layout = superblock.layout;
        let config = Config {
            memory_bytes: superblock.memory_bytes,
            memory_bytes_max: layout.capacity_bytes,
            item_bytes_max: item_bytes_max.min(superblock.memory_bytes / 2),
            huge_pages: false,
            keeps_versions: superblock.flags & flag::VERSIONS != 0,
            evicts: superblock.flags & flag::EVICTS != 0,
            hash_seed: superblock.hash_seed,
            epoch: superblock.epoch,
            peers: layout.peers as u32,
        };
        let engine = Self::over(Region::new(memory, layout), locks, &config, &superblock.birth);
        Ok((engine, config))
    }

    /// Returns the same cache for a process that was forked from the opener. In shared memory the
    /// child becomes another peer, if a peer row is free. Private memory is copied by the fork.
    ///
    /// A fork copies private memory page by page while other threads of the parent run. The copy
    /// may therefore contain a later change of another thread, but not an earlier change of the
    /// same thread. If threads other than the forking one may have been active, the child's cache
    /// starts empty. `own_thread_slots` is the number of thread slots that the forking thread uses
    /// or that belong to no thread.
    ///
    /// # Errors
    /// [`CreateError`] if the locks cannot be used or memory is short.
    pub fn in_child(&self, own_thread_slots: usize) -> Result<Role, CreateError> {
        let layout = *self.region().layout();
        let config = Config {
            memory_bytes: self.memory_limit(),
            memory_bytes_max: layout.capacity_bytes,
            item_bytes_max: self.item_bytes_max(),
            huge_pages: false,
            keeps_versions: self.keeps_versions(),
            evicts: self.segments().evicts(),
            hash_seed: self.region().word(superblock::HASH_SEED).load(Relaxed),
            epoch: self.epoch(),
            peers: layout.peers as u32,
        };
        let own = self.peers().thread_slots_of(self.peers().row()).count();
        if !self.has_peers() && own > own_thread_slots {
            let item_bytes_max = config.item_bytes_max.min(config.memory_bytes / 2);
            return Self::create(&Config { item_bytes_max, ..config }).map(Role::Peer);
        }
        let region = Region::new(self.region().memory().again(), layout);
        let locks = self.peers().reopened_locks()?;
        // The number of groups in the initial index follows from the memory size at creation, which
        // the superblock contains. The current memory limit may be different.
        let memory_bytes = self.region().word(superblock::MEMORY_BYTES).load(Relaxed) as usize;
        let engine = Self::over(region, locks, &Config { memory_bytes, ..config }, self.birth());
        if !engine.has_peers() {
            engine.reclaimer().repair(0);
        }
        Ok(Role::of(engine)?)
    }

    fn write_superblock(&self, config: &Config) {
        let layout = self.region().layout();
        let half = |at, value: usize| self.region().half(at).store(value as u32, Relaxed);
        let flag = |on, flag| if on { flag } else { 0 };
        let flags = flag(self.segments().keeps_versions(), flag::VERSIONS)
            | flag(self.segments().evicts(), flag::EVICTS);
        half(superblock::FORMAT, layout::FORMAT as usize);
        half(superblock::SEGMENT_BYTES, layout.segment_bytes);
        half(superblock::SEGMENTS, layout.segments);
        half(superblock::THREAD_SLOTS, layout.thread_slots);
        half(superblock::THREAD_SLOT_BYTES, layout.thread_slot_bytes);
        half(superblock::STRIPES, layout.stripes);
        half(superblock::TTL_CLASSES, layout.ttl_classes);
        half(superblock::PEERS, layout.peers);
        half(superblock::PEER_BYTES, layout::PEER_BYTES);
        half(superblock::FLAGS, flags as usize);
        let word = |at, value: u64| self.region().word(at).store(value, Relaxed);
        word(superblock::REGION_BYTES, layout.region_bytes as u64);
        word(superblock::CAPACITY_BYTES, layout.capacity_bytes as u64);
        word(superblock::MEMORY_BYTES, config.memory_bytes as u64);
        word(superblock::HASH_SEED, config.hash_seed);
        word(superblock::EPOCH_UNIX_SECS, self.epoch().unix_secs.cast_unsigned());
        word(superblock::EPOCH_MONOTONIC_SECS, self.birth().monotonic_secs.cast_unsigned());
        let wide = |at, value: u128| {
            word(at, value as u64);
            word(at + 8, (value >> 64) as u64);
        };
        wide(superblock::IDENTITY, self.birth().identity);
        wide(superblock::BOOT, self.birth().boot);
        // Stored last: a region without the magic number is not valid yet.
        self.region().word(superblock::MAGIC).store(layout::MAGIC, Release);
    }

    fn lay_out_index(&self) {
        self.region().half(global::CLOCK).store(Epoch::FIRST_SECOND, Relaxed);
        self.region().word(global::NEXT_SEQUENCE).store(1, Relaxed);
        let groups = 1usize << self.index().first_level();
        let index_segments = (groups >> self.index().group_shift()) as u32;
        for segment in 0..index_segments {
            self.segments().set_state(segment, State::Index);
            let directory = self.region().layout().groups_directory_at + segment as usize * 4;
            self.region().half(directory).store(segment + 1, Relaxed);
        }
        self.region().word(global::FRESH_SEGMENT).store(u64::from(index_segments), Relaxed);
        self.region().word(global::SEGMENTS_USED).store(u64::from(index_segments), Relaxed);
        for group in 0..groups as u64 {
            let control = Control::new(self.index().first_level());
            self.region().word(self.index().group_at(group)).store(control.0, Relaxed);
        }
        self.region().word(global::GROUPS).store(groups as u64, Release);
    }

    /// Takes a peer row for this process and repairs what dead processes left.
    fn join(&self) -> Result<(), JoinError> {
        let row = self.peers().lock_a_row()?;
        // In private memory, a forked child finds the row already in use.
        if self.has_peers() && self.peers().is_row_in_use(row) {
            self.reclaimer().reap_peer(row);
        }
        self.peers().take_row(row);
        match self.peers().has_living_peers() {
            true => self.reclaimer().reap_some_peers(),
            false => self.reclaimer().reap_peers(),
        };
        Ok(())
    }

    /// Checks a region that this process is about to join, if no other process uses it. Returns
    /// true in that case.
    pub(crate) fn check_before_joining(&self) -> Result<bool, AttachError> {
        let is_alone = !self.peers().has_living_peers();
        if is_alone {
            self.check_words_at_opening()?;
        }
        Ok(is_alone)
    }
}
