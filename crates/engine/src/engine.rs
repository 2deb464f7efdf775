//! The engine: a region, and the values derived from its superblock.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use larder_item::{Epoch, KEY_BYTES_MAX};
use larder_region::layout::{self, flag, global, superblock};
use larder_region::{Layout, LayoutError, Locks, MapError, Memory, Sharing};
use rapidhash::v3::RapidSecrets;

use crate::index::group::Control;
use crate::index::slot::TAG_BITS;
use crate::ops::removal::RemovalListeners;
use crate::process::peers::{JoinError, Table};
use crate::process::superblock::{AttachError, Superblock};
use crate::process::thread_slot::THREAD_SLOT_BYTES;
use crate::reclaim::expiry::Wake;
use crate::segment::header::State;
use crate::segment::record::HEADER_BYTES;

/// The parameters of a new engine.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// The memory of the cache in bytes, index and statistics included.
    pub memory_bytes: usize,
    /// The highest limit that the memory can be raised to later; at least `memory_bytes`. It
    /// reserves addresses, not memory.
    pub memory_bytes_max: usize,
    /// The largest item in bytes, as [`Engine::accepts`] counts it.
    pub item_bytes_max: usize,
    /// True if the memory consists of huge pages that the administrator has reserved. Creation
    /// fails without them.
    pub huge_pages: bool,
    /// True if each item carries a version, its cas token. It costs 8 bytes an item.
    pub keeps_versions: bool,
    /// True if live items may be evicted to make room.
    pub evicts: bool,
    /// The seed of the key hash. Keys from untrusted clients need an unpredictable one.
    pub hash_seed: u64,
    /// The Unix time of second 0.
    pub epoch: Epoch,
}

/// The origin of a shared region, for processes that attach to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Birth {
    /// A number that no other region has.
    pub identity: u128,
    /// The boot of the system in which the region was made.
    pub boot: u128,
    /// The first second of the region by the system's monotonic clock, which counts from that boot.
    pub monotonic_secs: i64,
}

/// Why an engine cannot be created.
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
    #[error("an item may have at most half of the memory, {half} bytes, found {asked}")]
    ItemTooLarge {
        /// The requested bytes.
        asked: usize,
        /// The possible bytes.
        half: usize,
    },
}

/// The index and segments of a cache. All methods take `&self`. Any number of threads may call
/// them, each with a [`ThreadSlot`](crate::ThreadSlot) of its own.
#[derive(Debug)]
pub struct Engine {
    pub(crate) memory: Memory,
    pub(crate) layout: Layout,
    /// The row of this process in the table of peers.
    pub(crate) peer: u32,
    /// The number of forks that led to this process when it took that row; 0 if it has none.
    pub(crate) joined_after: u32,
    pub(crate) table: Table,
    pub(crate) keeps_versions: bool,
    pub(crate) evicts: bool,
    item_bytes_max: usize,
    epoch: Epoch,
    birth: Birth,
    pub(crate) secrets: RapidSecrets,
    /// The number of low hash bits that choose a group before any group is split.
    pub(crate) first_level: u32,
    /// A group's number shifted right by this is the number of its segment in the directory.
    pub(crate) group_shift: u32,
    /// The maintainer that keeps segments free in the background, if one runs.
    pub(crate) wake: OnceLock<Wake>,
    /// The listeners that removals are reported to.
    pub(crate) removals: RemovalListeners,
    /// The number of waits that ended without success.
    pub(crate) stuck: AtomicU64,
    /// The next segment whose memory is returned to the system after the limit was lowered.
    pub(crate) release_next: AtomicU64,
}

/// The divisor of the memory that the index starts with: enough for items of about a kilobyte. The
/// index grows with the items.
const FIRST_INDEX_PART: usize = 128;

/// Returns the number of low hash bits that choose a group in a new region.
fn first_level(memory_bytes: usize, layout: &Layout) -> u32 {
    (memory_bytes / FIRST_INDEX_PART / layout::GROUP_BYTES).max(layout.groups_per_segment()).ilog2()
}

/// memcached's overhead when it compares an item with `-I`: 48 bytes of header, 8 of cas token, the
/// key's end and the value's line end. Clients that know the limit compute it this way.
const MEMCACHED_HEADER_BYTES: usize = 48;
const MEMCACHED_CAS_BYTES: usize = 8;
const MEMCACHED_ENDS_BYTES: usize = 3;

/// A longer value is kept in pieces, whatever the length of a segment. Pieces are written in place
/// as they arrive and read in place, for one more lookup. The number was measured.
const INLINE_BYTES_MAX: usize = 16 << 10;

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
        Ok(Self::lay_out(config, Sharing::Peers)?.region_bytes)
    }

    /// Creates an empty cache in memory that other processes can map, and becomes its first peer.
    /// No other process may know of the region before this returns.
    ///
    /// # Errors
    /// [`CreateError`] names the parameter that is wrong or the resource that is missing.
    pub fn create_shared(
        memory: Memory,
        locks: Locks,
        config: &Config,
        birth: &Birth,
    ) -> Result<Self, CreateError> {
        let layout = Self::lay_out(config, Sharing::Peers)?;
        Self::create_in(memory, layout, config, birth, Some(locks))
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
        let mut engine = Self::over(memory, layout, config, birth, locks);
        engine.limit_to(config.memory_bytes);
        engine.lay_out_index();
        engine.join()?;
        engine.write_superblock(config);
        Ok(engine)
    }

    /// Derives the engine of a region, before this process is a peer.
    fn over(
        memory: Memory,
        layout: Layout,
        config: &Config,
        birth: &Birth,
        locks: Option<Locks>,
    ) -> Self {
        Self {
            peer: 0,
            joined_after: 0,
            table: Table::new(locks),
            keeps_versions: config.keeps_versions,
            evicts: config.evicts,
            item_bytes_max: config.item_bytes_max,
            epoch: config.epoch,
            birth: *birth,
            secrets: RapidSecrets::seed(config.hash_seed),
            first_level: first_level(config.memory_bytes, &layout),
            group_shift: layout.groups_per_segment().ilog2(),
            wake: OnceLock::new(),
            removals: RemovalListeners::default(),
            stuck: AtomicU64::new(0),
            release_next: AtomicU64::new(u64::MAX),
            memory,
            layout,
        }
    }

    /// Becomes a peer of the cache in an existing region, and repairs what dead processes left in
    /// it. Calls `check` with the parameters of the cache before it changes anything.
    ///
    /// # Errors
    /// [`AttachError`] names the field that differs from what this program needs.
    pub fn attach<E: From<AttachError>>(
        memory: Memory,
        locks: Locks,
        item_bytes_max: usize,
        check: impl FnOnce(&Config, &Birth) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (mut engine, config) = Self::open(memory, Some(locks), item_bytes_max)?;
        check(&config, &engine.birth)?;
        let is_alone = engine.check_before_joining()?;
        engine.join().map_err(AttachError::from)?;
        if is_alone {
            engine.count_alone();
        }
        Ok(engine)
    }

    /// Opens a region without becoming a peer and without a store, for memory that is mapped for
    /// reading. Only [`Engine::look_up`] and the reports may be used then.
    ///
    /// # Errors
    /// As [`Engine::attach`].
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
            memory_bytes_max: layout.region_bytes,
            item_bytes_max: item_bytes_max.min(superblock.memory_bytes / 2),
            huge_pages: false,
            keeps_versions: superblock.flags & flag::VERSIONS != 0,
            evicts: superblock.flags & flag::EVICTS != 0,
            hash_seed: superblock.hash_seed,
            epoch: superblock.epoch,
        };
        let engine = Self::over(memory, layout, &config, &superblock.birth, locks);
        Ok((engine, config))
    }

    /// Returns the same cache for a process that was forked from the opener. Shared memory gets
    /// another peer; of private memory the child has a copy.
    ///
    /// The system copies page by page while other threads run, so the copy may hold a later store
    /// of theirs without an earlier one. If threads other than the forking one may have been
    /// active, the child's cache starts empty. The forking thread and the slots that belong to no
    /// thread count `own_thread_slots`.
    ///
    /// # Errors
    /// [`CreateError`] if the child cannot become a peer or memory is short.
    pub fn in_child(&self, own_thread_slots: usize) -> Result<Self, CreateError> {
        if !self.has_peers() && self.thread_slots_of(self.peer).count() > own_thread_slots {
            return Self::create(&Config {
                memory_bytes: self.memory_limit(),
                memory_bytes_max: self.layout.region_bytes,
                item_bytes_max: self.item_bytes_max.min(self.memory_limit() / 2),
                huge_pages: false,
                keeps_versions: self.keeps_versions,
                evicts: self.evicts,
                hash_seed: self.memory.word(superblock::HASH_SEED).load(Relaxed),
                epoch: self.epoch,
            });
        }
        let locks = self.table.reopened()?;
        let mut engine = Self {
            memory: self.memory.again(),
            peer: 0,
            joined_after: 0,
            table: Table::new(locks),
            secrets: RapidSecrets::seed(self.memory.word(superblock::HASH_SEED).load(Relaxed)),
            wake: OnceLock::new(),
            removals: RemovalListeners::default(),
            stuck: AtomicU64::new(0),
            release_next: AtomicU64::new(u64::MAX),
            ..*self
        };
        if !engine.has_peers() {
            engine.repair(0);
        }
        engine.join()?;
        Ok(engine)
    }

    fn write_superblock(&self, config: &Config) {
        let layout = &self.layout;
        let half = |at, value: usize| self.memory.half(at).store(value as u32, Relaxed);
        let flag = |on, flag| if on { flag } else { 0 };
        let flags = flag(self.keeps_versions, flag::VERSIONS) | flag(self.evicts, flag::EVICTS);
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
        let word = |at, value: u64| self.memory.word(at).store(value, Relaxed);
        word(superblock::REGION_BYTES, layout.region_bytes as u64);
        word(superblock::MEMORY_BYTES, config.memory_bytes as u64);
        word(superblock::HASH_SEED, config.hash_seed);
        word(superblock::EPOCH_UNIX_SECS, self.epoch.unix_secs.cast_unsigned());
        word(superblock::EPOCH_MONOTONIC_SECS, self.birth.monotonic_secs.cast_unsigned());
        let wide = |at, value: u128| {
            word(at, value as u64);
            word(at + 8, (value >> 64) as u64);
        };
        wide(superblock::IDENTITY, self.birth.identity);
        wide(superblock::BOOT, self.birth.boot);
        // Last: a region without the magic number is not valid yet.
        self.memory.word(superblock::MAGIC).store(layout::MAGIC, Release);
    }

    fn lay_out_index(&self) {
        self.memory.half(global::CLOCK).store(Epoch::FIRST_SECOND, Relaxed);
        self.memory.word(global::NEXT_SEQUENCE).store(1, Relaxed);
        let groups = 1usize << self.first_level;
        let index_segments = (groups >> self.group_shift) as u32;
        for segment in 0..index_segments {
            self.set_state(segment, State::Index);
            let directory = self.layout.groups_directory_at + segment as usize * 4;
            self.memory.half(directory).store(segment + 1, Relaxed);
        }
        self.memory.word(global::FRESH_SEGMENT).store(u64::from(index_segments), Relaxed);
        self.memory.word(global::SEGMENTS_USED).store(u64::from(index_segments), Relaxed);
        for group in 0..groups as u64 {
            let control = Control::new(self.first_level);
            self.memory.word(self.group_at(group)).store(control.0, Relaxed);
        }
        self.memory.word(global::GROUPS).store(groups as u64, Release);
    }

    /// True if an item with a key and a value of these lengths is small enough. Counts as memcached
    /// does: 48 bytes of header, 8 of cas token if versions are kept, and 3 for the ends of key and
    /// value.
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let cas_bytes = if self.keeps_versions { MEMCACHED_CAS_BYTES } else { 0 };
        let overhead = MEMCACHED_HEADER_BYTES + cas_bytes + MEMCACHED_ENDS_BYTES;
        value_bytes
            .checked_add(key_bytes + overhead)
            .is_some_and(|item_bytes| item_bytes <= self.item_bytes_max)
    }

    /// True if each item carries a version, its cas token.
    pub fn keeps_versions(&self) -> bool {
        self.keeps_versions
    }

    /// Returns the length of the longest value that is kept in one piece.
    pub fn inline_bytes_max(&self) -> usize {
        const FIELDS_BYTES: usize = HEADER_BYTES + 16;
        let record_bytes_max = self.layout.segment_bytes / 8;
        let head_bytes_max = (FIELDS_BYTES + KEY_BYTES_MAX).next_multiple_of(8);
        (record_bytes_max - head_bytes_max).min(INLINE_BYTES_MAX)
    }

    /// Returns the tie between the cache's seconds and Unix time.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the origin of the region.
    pub fn birth(&self) -> &Birth {
        &self.birth
    }
}

const _: () = assert!(TAG_BITS == 15 && layout::SUPERBLOCK_BYTES <= global::CLOCK);
