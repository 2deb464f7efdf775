//! Opening a cache in a file that several processes use, and the treatment of existing files.
//!
//! Locks on the region's file show which process is opening it, and which of its *peers* (the
//! processes that use the cache) are alive; see docs/sharing.md.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use larder_engine::{Birth, Config, Engine, OPENING_BYTE, PEER_BYTES_MAX, Role};
use larder_region::layout::{MAGIC, superblock};
use larder_region::{Access, FileError, LockError, Locks, Memory, NewFile, boot, file, locks};

use crate::open::error::{SharedError, Unusable};
use crate::process::shared::Opening;
use crate::system::random::random_bytes;

/// The kind of memory that holds a cache.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// Private to this process.
    #[default]
    Private,
    /// Shared with children of this process.
    Anonymous,
    /// Same as [`Place::Anonymous`], but other processes that receive a descriptor can read it.
    Readable,
    /// Same as [`Place::Readable`], but another process can also inherit the cache.
    Inheritable,
    /// In a file that other processes can open.
    File(PathBuf),
}

impl Place {
    /// True if another process cannot open the memory for writing.
    pub(crate) fn is_owned(&self) -> bool {
        matches!(self, Self::Private | Self::Readable | Self::Inheritable)
    }
}

/// The settings for opening a cache in a file.
pub(crate) struct Sharing<'a> {
    pub(crate) config: &'a Config,
    pub(crate) access: Access,
    /// True if an existing cache must match `config`. Otherwise it is used as it is.
    pub(crate) exactly: bool,
    /// True if the opening fails while another process uses the cache.
    pub(crate) alone: bool,
    /// True if an unusable, unused cache is replaced with an empty one.
    pub(crate) replaces: bool,
}

/// Longest wait for another process that opens the file, in seconds. Repairs after dead processes
/// take milliseconds.
pub(super) const OPENING_SECS_MAX: u64 = 10;

/// Returns a number unique to the region, and the start of its clock.
pub(super) fn birth(config: &Config, monotonic_secs: i64) -> Result<Birth, SharedError> {
    debug_assert!(config.memory_bytes > 0);
    let identity = u128::from_ne_bytes(random_bytes());
    Ok(Birth { identity, boot: boot().ok_or(SharedError::NoBoot)?, monotonic_secs })
}

/// An opened cache, its file, and how the file was opened.
type OpenedCache = (Role, File, Opening);

/// The result of an attempt to open a file. `None` if another process has replaced the file during
/// the attempt, or is creating it.
type Attempt = Result<Option<OpenedCache>, SharedError>;
impl Sharing<'_> {
    /// Opens the cache in a file, or creates one.
    pub(crate) fn open(
        &self,
        path: &Path,
        monotonic_secs: i64,
    ) -> Result<OpenedCache, SharedError> {
        const PAUSE_MAX: Duration = Duration::from_millis(16);
        let begun = Instant::now();
        let mut pause = Duration::from_micros(250);
        loop {
            if let Some(opened) = self.try_open(path, monotonic_secs)? {
                return Ok(opened);
            }
            if begun.elapsed() >= Duration::from_secs(OPENING_SECS_MAX) {
                return Err(SharedError::Busy { path: path.into(), secs: OPENING_SECS_MAX });
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn try_open(&self, path: &Path, monotonic_secs: i64) -> Attempt {
        let file = match file::open(path) {
            Ok(file) => file,
            Err(FileError::Missing { .. }) => {
                return self.make(path, Opening::Created, monotonic_secs);
            }
            Err(error) => return Err(error.into()),
        };
        let Some(locks) = lock_to_open(&file, path)? else {
            return Ok(None);
        };
        if self.alone && is_in_use(&locks) {
            let processes = users(&file);
            return Err(SharedError::InUse { path: path.into(), processes, unusable: None });
        }
        match self.attach(&file, locks) {
            Ok(role) => {
                let (Role::Peer(engine) | Role::Reader(engine, _)) = &role;
                engine.end_opening();
                Ok(Some((role, file, Opening::Attached)))
            }
            Err(reason) => self.replace(path, &file, reason, monotonic_secs),
        }
    }

    pub(super) fn attach(&self, file: &File, locks: Locks) -> Result<Role, Unusable> {
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let memory = Memory::shared(file, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Engine::attach(memory, locks, self.config.item_bytes_max, |found, birth| {
            if Some(birth.boot) != boot() {
                return Err(Unusable::Rebooted);
            }
            if self.exactly { differs(self.config, found) } else { Ok(()) }
        })
    }

    /// Replaces an unusable cache with an empty one.
    fn replace(&self, path: &Path, file: &File, reason: Unusable, monotonic_secs: i64) -> Attempt {
        if !self.replaces || !reason.is_in_the_file() || !may_be_replaced(file) {
            return Err(SharedError::Unusable { path: path.into(), reason });
        }
        // The file was unlocked for a moment: another process may have replaced it with a usable
        // cache.
        let Some(locks) = lock_to_open(file, path)? else {
            return Ok(None);
        };
        if is_in_use(&locks) || is_in_use_by_older(path)? {
            let (path, processes) = (path.into(), users(file));
            return Err(SharedError::InUse { path, processes, unusable: Some(Box::new(reason)) });
        }
        // While `locks` is held, no other process replaces the file.
        self.make(path, Opening::Replaced(reason.to_string()), monotonic_secs)
    }

    /// Creates the file of an empty cache, in place of an existing file or under a free name.
    fn make(&self, path: &Path, opening: Opening, monotonic_secs: i64) -> Attempt {
        let bytes = Engine::shared_bytes(self.config)?;
        let new = match NewFile::create(path, bytes as u64, &self.access) {
            Err(FileError::Busy { .. }) => return Ok(None),
            made => made?,
        };
        // This process becomes a peer before other processes find the file.
        let locks = new.locks()?;
        let memory = Memory::shared(new.file(), bytes)?;
        let birth = birth(self.config, monotonic_secs)?;
        let engine = Engine::create_shared(memory, locks, self.config, &birth)?;
        let published = match opening {
            Opening::Replaced(_) => new.replace(),
            _ => new.publish(),
        };
        match published {
            Err(FileError::Exists { .. }) => Ok(None),
            published => Ok(Some((Role::Peer(engine), published?, opening))),
        }
    }
}

/// Opens a file for its locks, and takes the lock of a process that opens the cache. Returns `None`
/// if `path` now names another file. While the lock is held, no process replaces the file.
fn lock_to_open(file: &File, path: &Path) -> Result<Option<Locks>, SharedError> {
    let locks = match Locks::open(path) {
        Err(LockError::File(FileError::Missing { .. })) => return Ok(None),
        opened => opened?,
    };
    if !locks.is_of(file) {
        return Ok(None);
    }
    if !locks.lock_within(OPENING_BYTE, Duration::from_secs(OPENING_SECS_MAX))? {
        return Err(SharedError::Busy { path: path.into(), secs: OPENING_SECS_MAX });
    }
    Ok(file::is_named(file, path).then_some(locks))
}

/// True if the file is empty or was created for a cache by any version of Larder. The caller
/// probably named any other file by mistake.
fn may_be_replaced(mut file: &File) -> bool {
    let mut begins = [0; 8];
    match file.metadata() {
        Ok(metadata) if metadata.len() == 0 => true,
        _ => {
            file.seek(SeekFrom::Start(superblock::MAGIC as u64)).is_ok()
                && file.read_exact(&mut begins).is_ok()
                && [MAGIC, MAGIC.swap_bytes()].contains(&u64::from_ne_bytes(begins))
        }
    }
}

fn peer_bytes() -> Range<u64> {
    OPENING_BYTE + 1..OPENING_BYTE + 1 + PEER_BYTES_MAX
}

/// True if other processes use a cache, or if that is unknown.
fn is_in_use(locks: &Locks) -> bool {
    locks.is_any_locked_by_other(peer_bytes()).unwrap_or(true)
}

/// Number of bytes of the separate lock file that older versions lock: one for each of 256
/// processes, and one more.
const OLDER_BYTES_MAX: u64 = 257;

/// True if processes of an older version use the cache. Up to region format 4, the locks were on a
/// separate file next to the region.
fn is_in_use_by_older(path: &Path) -> Result<bool, SharedError> {
    let mut name = OsString::from(path);
    name.push(".lock");
    match Locks::open(Path::new(&name)) {
        Ok(locks) => Ok(locks.is_any_locked_by_other(0..OLDER_BYTES_MAX).unwrap_or(true)),
        Err(LockError::File(FileError::Missing { .. })) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the process ids of the processes that use a file, if the content records them.
fn users(file: &File) -> Vec<u64> {
    let engine = Memory::read_only(file).ok().and_then(|memory| Engine::read_only(memory).ok());
    let peers = engine.map_or_else(Vec::new, |engine| engine.peer_reports());
    let lives = |byte| locks::is_locked(file, byte).unwrap_or(true);
    let living = peers.into_iter().filter(|peer| lives(peer.lock_byte));
    living.map(|peer| peer.process_id).collect()
}

fn differs(config: &Config, found: &Config) -> Result<(), Unusable> {
    let fields = [
        ("memory in bytes", config.memory_bytes as u64, found.memory_bytes as u64),
        ("use of cas tokens", config.keeps_versions.into(), found.keeps_versions.into()),
        ("use of eviction", config.evicts.into(), found.evicts.into()),
        ("number of processes", config.peers.into(), found.peers.into()),
    ];
    let is_asked =
        |(field, expected, _): &(_, u64, _)| *field != "number of processes" || *expected != 0;
    match fields.into_iter().filter(is_asked).find(|(_, expected, found)| expected != found) {
        Some((field, expected, found)) => Err(Unusable::Differs { field, expected, found }),
        None => Ok(()),
    }
}
