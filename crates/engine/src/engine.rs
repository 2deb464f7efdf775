//! The engine: a region and what is derived from its superblock.

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

/// What an engine is created with.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// All memory of the cache, index and statistics included.
    pub memory_bytes: usize,
    /// What the memory limit can be raised to later; no less than `memory_bytes`. It takes addresses, not memory.
    pub memory_bytes_max: usize,
    /// The largest item, as [`Engine::accepts`] counts it.
    pub item_bytes_max: usize,
    /// Shall the memory be of huge pages that the system has set aside? Without them it cannot be created.
    pub huge_pages: bool,
    /// Does each item carry a version, its cas token? It costs 8 bytes an item.
    pub keeps_versions: bool,
    /// May live items be evicted to make room?
    pub evicts: bool,
    /// Seed of the key hash; unpredictable where keys come from strangers.
    pub hash_seed: u64,
    /// What second 0 is in Unix time.
    pub epoch: Epoch,
}

/// Where a shared region comes from, for those who find it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Birth {
    /// A number that no other region has.
    pub identity: u128,
    /// The system's boot in which it was made.
    pub boot: u128,
    /// What the first second is by the system's monotonic clock, which counts from that boot.
    pub monotonic_secs: i64,
}

/// Why an engine could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The memory asked for cannot be laid out.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The system gave no memory.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The process cannot become a peer.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Items may not be larger than half of the memory.
    #[error("an item may have at most half of the memory, {half} bytes, found {asked}")]
    ItemTooLarge {
        /// What was asked for.
        asked: usize,
        /// What is possible.
        half: usize,
    },
}

/// A cache's index and segments. All methods take `&self`; any number of threads may use it, each with a
/// [`ThreadSlot`](crate::ThreadSlot) of its own.
#[derive(Debug)]
pub struct Engine {
    pub(crate) memory: Memory,
    pub(crate) layout: Layout,
    /// The row of this process in the table of peers.
    pub(crate) peer: u32,
    /// How many forks had led to this process when it took that row; 0 for none taken.
    pub(crate) joined_after: u32,
    pub(crate) table: Table,
    pub(crate) keeps_versions: bool,
    pub(crate) evicts: bool,
    item_bytes_max: usize,
    epoch: Epoch,
    birth: Birth,
    pub(crate) secrets: RapidSecrets,
    /// How many low bits of a hash every group has in common with none other from the start.
    pub(crate) first_level: u32,
    /// A group's number without so many low bits is the number of its segment in the directory.
    pub(crate) group_shift: u32,
    /// Who keeps segments free in the background, if anybody does.
    pub(crate) wake: OnceLock<Wake>,
    /// Whom removals are told.
    pub(crate) removals: RemovalListeners,
    /// How often somebody was waited for in vain.
    pub(crate) stuck: AtomicU64,
    /// The segment from which on the memory of free ones is still to be given back.
    pub(crate) release_next: AtomicU64,
}

/// The index begins with this part of the memory: enough for items of about a kilobyte. It grows with the
/// items.
const FIRST_INDEX_PART: usize = 128;

/// How many low bits of a hash lead to a group at first.
fn first_level(memory_bytes: usize, layout: &Layout) -> u32 {
    (memory_bytes / FIRST_INDEX_PART / layout::GROUP_BYTES).max(layout.groups_per_segment()).ilog2()
}

/// What memcached adds to key and value when it compares an item with `-I`: 48 bytes of header, 8 of cas
/// token, the key's end and the value's line end. Clients that know the limit know it by this account.
const MEMCACHED_HEADER_BYTES: usize = 48;
const MEMCACHED_CAS_BYTES: usize = 8;
const MEMCACHED_ENDS_BYTES: usize = 3;

/// Longer values are kept in pieces, however long a segment is: they are written to where they stay as they arrive, and
/// read where they are, for one more look-up. The number is by measurement.
const INLINE_BYTES_MAX: usize = 16 << 10;

impl Engine {
    /// Creates an empty cache in private memory.
    ///
    /// # Errors
    /// [`CreateError`] names the size that was wrong or could not be had.
    pub fn create(config: &Config) -> Result<Self, CreateError> {
        let layout = Self::lay_out(config, Sharing::Alone)?;
        let memory = match config.huge_pages {
            true => Memory::private_huge(layout.region_bytes)?,
            false => Memory::private(layout.region_bytes)?,
        };
        Self::create_in(memory, layout, config, &Birth::default(), None)
    }

    /// How many bytes of zeros [`Engine::create_shared`] needs.
    ///
    /// # Errors
    /// [`CreateError`] names the size that is wrong.
    pub fn shared_bytes(config: &Config) -> Result<usize, CreateError> {
        Ok(Self::lay_out(config, Sharing::Peers)?.region_bytes)
    }

    /// Creates an empty cache in memory that other processes can map too, and becomes its first peer. Nobody else may
    /// know of it before this returns.
    ///
    /// # Errors
    /// [`CreateError`] names what was wrong or could not be had.
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

    /// What is derived from a region, before this process is a peer of those who use it.
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

    /// Becomes a peer of the cache in a region that is there, and puts in order what processes left in it that died.
    ///
    /// # Errors
    /// [`AttachError`] names the field that is not as this program needs it.
    ///
    /// `check` is told how the cache there was opened, before anything is changed.
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

    /// Looks into a region without becoming a peer, and without a store: for memory that can only be read. Only
    /// [`Engine::look_up`] and what reports may be used then.
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

    /// The same cache in a process that was forked from the one that opened it: memory that both share has another peer
    /// from now on; of private memory the child has a copy.
    ///
    /// The system copies page by page while other threads go on: in the copy a later store of theirs may be there without
    /// an earlier one. So where others than the forking thread, which has `own_thread_slots` with what belongs to no thread, can
    /// have been at work, the child's cache begins empty.
    ///
    /// # Errors
    /// [`CreateError`] where it cannot become a peer, or there is no memory.
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
        // Last: a region without it is not one yet.
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

    /// Is an item with a key and a value of these lengths small enough? Counted as memcached counts: with
    /// 48 bytes of header, 8 of cas token where one is kept, and 3 for the ends of key and value.
    pub fn accepts(&self, key_bytes: usize, value_bytes: usize) -> bool {
        let cas_bytes = if self.keeps_versions { MEMCACHED_CAS_BYTES } else { 0 };
        let overhead = MEMCACHED_HEADER_BYTES + cas_bytes + MEMCACHED_ENDS_BYTES;
        value_bytes
            .checked_add(key_bytes + overhead)
            .is_some_and(|item_bytes| item_bytes <= self.item_bytes_max)
    }

    /// Does each item carry a version, its cas token?
    pub fn keeps_versions(&self) -> bool {
        self.keeps_versions
    }

    /// The longest value that is kept in one piece.
    pub fn inline_bytes_max(&self) -> usize {
        const FIELDS_BYTES: usize = HEADER_BYTES + 16;
        let record_bytes_max = self.layout.segment_bytes / 8;
        let head_bytes_max = (FIELDS_BYTES + KEY_BYTES_MAX).next_multiple_of(8);
        (record_bytes_max - head_bytes_max).min(INLINE_BYTES_MAX)
    }

    /// The tie between the cache's seconds and Unix time.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Where a shared region comes from.
    pub fn birth(&self) -> &Birth {
        &self.birth
    }
}

const _: () = assert!(TAG_BITS == 15 && layout::SUPERBLOCK_BYTES <= global::CLOCK);
