//! Opening a cache that several processes use: where its memory is, and what becomes of what is there.
//!
//! Who is opening it and who lives is told by locks of the region's own file: see docs/sharing.md.

use std::ffi::OsString;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use larder_engine::{AttachError, Birth, Config, CreateError, Engine};
use larder_engine::{OPENING_BYTE, PEER_BYTES_MAX};
use larder_region::layout::{MAGIC, superblock};
use larder_region::shared::ShareError;
use larder_region::{Access, FileError, LockError, Locks, Memory, NewFile, boot, file, locks};

use crate::open::builder::random;

/// Where a cache's memory is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// In this process alone.
    #[default]
    Private,
    /// Where children of this process find it too.
    Anonymous,
    /// As [`Place::Anonymous`], and others can be given a descriptor of it, through which they can read.
    Readable,
    /// As [`Place::Readable`], and another process can be handed the cache itself.
    Inheritable,
    /// In a file, for whoever may open it.
    File(PathBuf),
}

/// The memory of a cache without a name ([`Builder::inheritable`](crate::Builder::inheritable)), for a process that is to
/// use the same cache.
#[derive(Debug)]
pub struct Inheritance {
    /// The region's memory, open for reading and writing.
    pub region: OwnedFd,
    /// The file by whose locks processes know of each other.
    pub locks: OwnedFd,
}

/// What became of the file when a cache in a file was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// The cache has no file.
    None,
    /// There was none, and the cache begins empty.
    Created,
    /// There was a cache, which is used from now on.
    Attached,
    /// There was something that could not be used, for this reason; the cache begins empty in its place.
    Replaced(String),
}

/// Why a cache cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The file cannot be used, or not be made.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file's locks cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Another process has been opening or repairing it for long.
    #[error(
        "another process has been opening {path} for {secs} seconds; end it if it has been stopped"
    )]
    Busy {
        /// Which file.
        path: PathBuf,
        /// For how long this process has waited.
        secs: u64,
    },
    /// What is in the file cannot be used.
    #[error("cannot use {path}: {reason}; remove it, or name another file")]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: Unusable,
    },
    /// Others use it, and it was to be used alone, or to make way for an empty cache.
    #[error(
        "{path} is in use by {}{}; stop that first, or name another file",
        named(processes),
        .unusable.as_ref().map_or_else(String::new, |reason| format!(", and {reason}"))
    )]
    InUse {
        /// Which file.
        path: PathBuf,
        /// The process ids of those that use it, as they told them; none where that cannot be read.
        processes: Vec<u64>,
        /// Why it cannot be used with them, if it cannot.
        unusable: Option<Box<Unusable>>,
    },
    /// The memory cannot be laid out or mapped.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The memory cannot be mapped.
    #[error(transparent)]
    Map(#[from] ShareError),
    /// The system does not say which boot this is.
    #[error(
        "the system does not say which boot this is; /proc/sys/kernel/random/boot_id must be readable"
    )]
    NoBoot,
}

/// What is wrong with a cache in a file.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It is none that this program understands.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The file is shorter than what it holds.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// It is of another boot of the system: the file may not have been written out whole.
    #[error("it was made before the system was started, and may be damaged")]
    Rebooted,
    /// It was opened with other settings.
    #[error("its {field} is {found}, and {expected} was asked for")]
    Differs {
        /// Which setting.
        field: &'static str,
        /// What was asked for.
        expected: u64,
        /// What is there.
        found: u64,
    },
}

impl Unusable {
    /// Is it something that stays as it is? Else the next attempt may succeed, and what is there is worth keeping.
    fn is_in_the_file(&self) -> bool {
        match self {
            Self::Attach(AttachError::Join(_)) | Self::Share(ShareError::Map(_)) => false,
            Self::Rebooted => boot().is_some(),
            Self::Attach(_) | Self::Share(_) | Self::Differs { .. } => true,
        }
    }
}

/// How a cache in a file is to be opened.
pub(crate) struct Sharing<'a> {
    pub(crate) config: &'a Config,
    pub(crate) access: Access,
    /// Must what is there be as `config` says? Else it is used as it is.
    pub(crate) exactly: bool,
    /// Is it an error that another process uses what is there?
    pub(crate) alone: bool,
    /// Shall what cannot be used make way for an empty cache, if nobody uses it?
    pub(crate) replaces: bool,
}

/// How long the opening of a file is waited for: repairing what dead processes left takes milliseconds.
const OPENING_SECS_MAX: u64 = 10;

/// The number that no other region has, and where its time begins.
fn birth(config: &Config, monotonic_secs: i64) -> Result<Birth, SharedError> {
    debug_assert!(config.memory_bytes > 0);
    let identity = u128::from(random()) << 64 | u128::from(random());
    Ok(Birth { identity, boot: boot().ok_or(SharedError::NoBoot)?, monotonic_secs })
}

/// Opens a cache in memory that children of this process share.
pub(crate) fn open_anonymous(config: &Config, monotonic_secs: i64) -> Result<Engine, SharedError> {
    let memory =
        Memory::shared_anonymous(Engine::shared_bytes(config)?).map_err(ShareError::from)?;
    let birth = birth(config, monotonic_secs)?;
    Ok(Engine::create_shared(memory, Locks::anonymous()?, config, &birth)?)
}

/// The same in a file without a name, which others can map to read it, or, if it is `inheritable`, to use it.
pub(crate) fn open_readable(
    config: &Config,
    monotonic_secs: i64,
    inheritable: bool,
) -> Result<(Engine, File), SharedError> {
    let bytes = Engine::shared_bytes(config)?;
    let file = file::memfd("larder", bytes as u64)?;
    let memory = Memory::shared(&file, bytes)?;
    let sealed = if inheritable { file::seal_length(&file) } else { file::seal(&file) };
    sealed.map_err(|source| ShareError::from(larder_region::MapError { bytes, source }))?;
    let birth = birth(config, monotonic_secs)?;
    Ok((Engine::create_shared(memory, Locks::anonymous()?, config, &birth)?, file))
}

/// A cache that was opened, its file, and what became of that.
type Opened = (Engine, File, Opening);

/// What an attempt to open a file came to: none where another process has put something else under its name
/// meanwhile, or is making a file for it.
type Attempt = Result<Option<Opened>, SharedError>;
/// Attaches to a cache that another process hands over. It must have the memory, cas tokens and eviction of `config`.
pub(crate) fn open_inherited(
    config: &Config,
    inheritance: Inheritance,
) -> Result<(Engine, File), SharedError> {
    let path = PathBuf::from("memfd:larder");
    let locks = Locks::of(&inheritance.locks, "memfd:locks")?;
    if !locks.lock_within(OPENING_BYTE, Duration::from_secs(OPENING_SECS_MAX))? {
        return Err(SharedError::Busy { path, secs: OPENING_SECS_MAX });
    }
    let file = File::from(inheritance.region);
    let access = Access::default();
    let sharing = Sharing { config, access, exactly: true, alone: false, replaces: false };
    let engine =
        sharing.attach(&file, locks).map_err(|reason| SharedError::Unusable { path, reason })?;
    engine.end_opening();
    Ok((engine, file))
}

impl Sharing<'_> {
    /// Opens the cache in a file, or makes one.
    pub(crate) fn open(&self, path: &Path, monotonic_secs: i64) -> Result<Opened, SharedError> {
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
            Ok(engine) => {
                engine.end_opening();
                Ok(Some((engine, file, Opening::Attached)))
            }
            Err(reason) => self.replace(path, &file, reason, monotonic_secs),
        }
    }

    fn attach(&self, file: &File, locks: Locks) -> Result<Engine, Unusable> {
        let bytes = file.metadata().map_or(0, |metadata| metadata.len());
        let memory = Memory::shared(file, usize::try_from(bytes).unwrap_or(usize::MAX))?;
        let engine = Engine::attach(memory, locks, self.config.item_bytes_max, |found, birth| {
            if Some(birth.boot) != boot() {
                return Err(Unusable::Rebooted);
            }
            if self.exactly { differs(self.config, found) } else { Ok(()) }
        })?;
        Ok(engine)
    }

    /// Puts an empty cache in the place of one that cannot be used.
    fn replace(&self, path: &Path, file: &File, reason: Unusable, monotonic_secs: i64) -> Attempt {
        if !self.replaces || !reason.is_in_the_file() || !may_be_replaced(file) {
            return Err(SharedError::Unusable { path: path.into(), reason });
        }
        // The file had no lock for a moment: another process may have put a cache there that can be used.
        let Some(locks) = lock_to_open(file, path)? else {
            return Ok(None);
        };
        if is_in_use(&locks) || is_in_use_by_older(path)? {
            let (path, processes) = (path.into(), users(file));
            return Err(SharedError::InUse { path, processes, unusable: Some(Box::new(reason)) });
        }
        // Until `locks` is dropped no other process replaces the file.
        self.make(path, Opening::Replaced(reason.to_string()), monotonic_secs)
    }

    /// Makes the file of an empty cache: in place of what has its name, or where nothing has.
    fn make(&self, path: &Path, opening: Opening, monotonic_secs: i64) -> Attempt {
        let bytes = Engine::shared_bytes(self.config)?;
        let new = match NewFile::create(path, bytes as u64, &self.access) {
            Err(FileError::Busy { .. }) => return Ok(None),
            made => made?,
        };
        // Before others find the file this process is a peer.
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
            published => Ok(Some((engine, published?, opening))),
        }
    }
}

/// Opens a file for its locks, and takes the one of a process that opens the cache in it; none if `path` has become
/// another file's meanwhile. While the lock is held no process replaces the file.
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

/// Was the file made for a cache, by whatever version of Larder, or is it empty? Anything else is somebody's, who named the
/// wrong file.
fn may_be_replaced(file: &File) -> bool {
    let mut begins = [0; 8];
    match file.metadata() {
        Ok(metadata) if metadata.len() == 0 => true,
        _ => {
            file.read_exact_at(&mut begins, superblock::MAGIC as u64).is_ok()
                && u64::from_ne_bytes(begins) == MAGIC
        }
    }
}

fn peer_bytes() -> RangeInclusive<u64> {
    OPENING_BYTE + 1..=OPENING_BYTE + PEER_BYTES_MAX
}

/// Do other processes use a cache? In doubt they do.
fn is_in_use(locks: &Locks) -> bool {
    peer_bytes().any(|byte| locks.is_locked_by_other(byte).unwrap_or(true))
}

/// True if processes of an older version use what is there: up to region format 4 their locks were those of another file
/// beside the region.
fn is_in_use_by_older(path: &Path) -> Result<bool, SharedError> {
    let mut name = OsString::from(path);
    name.push(".lock");
    match Locks::open(Path::new(&name)) {
        Ok(locks) => {
            Ok((0..=PEER_BYTES_MAX).any(|byte| locks.is_locked_by_other(byte).unwrap_or(true)))
        }
        Err(LockError::File(FileError::Missing { .. })) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The process ids of those that use a file, where what is there tells them.
fn users(file: &File) -> Vec<u64> {
    let engine = Memory::read_only(file).ok().and_then(|memory| Engine::read_only(memory).ok());
    let peers = engine.map_or_else(Vec::new, |engine| engine.peer_reports());
    let lives = |byte| locks::is_locked(file, byte).unwrap_or(true);
    let living = peers.into_iter().filter(|peer| lives(peer.lock_byte));
    living.map(|peer| peer.process_id).collect()
}

fn named(processes: &[u64]) -> String {
    let ids: Vec<_> = processes.iter().map(u64::to_string).collect();
    match ids.split_last() {
        None => "another process".to_owned(),
        Some((id, [])) => format!("process {id}"),
        Some((last, ids)) => format!("processes {} and {last}", ids.join(", ")),
    }
}

fn differs(config: &Config, found: &Config) -> Result<(), Unusable> {
    let fields = [
        ("memory in bytes", config.memory_bytes as u64, found.memory_bytes as u64),
        ("use of cas tokens", config.keeps_versions.into(), found.keeps_versions.into()),
        ("use of eviction", config.evicts.into(), found.evicts.into()),
    ];
    match fields.into_iter().find(|(_, expected, found)| expected != found) {
        Some((field, expected, found)) => Err(Unusable::Differs { field, expected, found }),
        None => Ok(()),
    }
}
