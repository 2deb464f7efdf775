//! Opening a cache: creating its region, attaching to one, following a fork, and leaving.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use larder_item::Epoch;
use larder_region::layout::{self, flag, global, superblock};
use larder_region::{Layout, LayoutError, Locks, MapError, Memory, Sharing, forks};
use rapidhash::v3::RapidSecrets;

use crate::index::group::Control;
use crate::index::removal::RemovalListeners;
use crate::process::peers::{Table, lock_byte};
use crate::process::thread_slot::THREAD_SLOT_BYTES;
use crate::segment::header::State;
use crate::superblock::Superblock;
use crate::{AttachError, Birth, Engine, JoinError};

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

impl Drop for Engine {
    fn drop(&mut self) {
        self.leave_region();
    }
}

/// The divisor of the memory that the index starts with: enough for items of about a kilobyte. The
/// index grows with the items.
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

    /// Takes a row for this process and repairs what dead processes left.
    pub(crate) fn join(&mut self) -> Result<(), JoinError> {
        self.peer = self.lock_a_row()?;
        // A process that uses its memory alone finds its row in use after a fork.
        if self.has_peers() && self.is_row_in_use(self.peer) {
            self.reap_peer(self.peer);
        }
        self.take_row(self.peer);
        self.reap_peers();
        Ok(())
    }

    /// Gives the row back, and the thread slots that threads of this process still hold. No
    /// operation may be under way.
    fn leave_region(&self) {
        if let Some(locks) = &self.table.locks {
            // In a forked child the row still belongs to the parent.
            if self.joined_after == forks() {
                self.repair(self.peer);
                // If this fails, the process drops the lock at its end.
                let _ = locks.unlock(lock_byte(self.peer));
            }
        }
    }

    /// Checks a region that this process is about to join, if no other process uses it. Returns
    /// true if none does.
    pub(crate) fn check_before_joining(&self) -> Result<bool, AttachError> {
        let is_alone = !self.has_living_peers();
        if is_alone {
            self.check_words_at_opening()?;
        }
        Ok(is_alone)
    }
}

/// Returns two peers of one small region.
#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
pub(crate) fn two_peers() -> (Engine, Engine) {
    use crate::{AttachError, Birth, Config};
    let config = Config {
        memory_bytes: 1 << 20,
        memory_bytes_max: 1 << 20,
        huge_pages: false,
        item_bytes_max: 1 << 18,
        keeps_versions: true,
        evicts: true,
        hash_seed: 1,
        epoch: Epoch { unix_secs: 0 },
    };
    let bytes = Engine::shared_bytes(&config).unwrap();
    let memory = Memory::shared_anonymous(bytes).unwrap();
    let locks = Locks::anonymous().unwrap();
    let (again, relocked) = (memory.again(), locks.reopened().unwrap());
    let one = Engine::create_shared(memory, locks, &config, &Birth::default()).unwrap();
    let check = |_: &Config, _: &Birth| Ok::<(), AttachError>(());
    (one, Engine::attach(again, relocked, 1 << 18, check).unwrap())
}
