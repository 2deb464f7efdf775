//! Opening a cache that several processes use: where its memory is, and what becomes of what is there.
//!
//! ```text
//! PATH         the region
//! PATH.lock    who is opening it, who lives: see docs/sharing.md
//! ```

use std::ffi::OsString;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use larder_engine::peers::{OPENING_BYTE, PEER_BYTES_MAX};
use larder_engine::{AttachError, Birth, Config, CreateError, Engine};
use larder_region::layout::{MAGIC, superblock};
use larder_region::shared::ShareError;
use larder_region::{Access, FileError, LockError, Locks, Memory, NewFile, boot, file};

use crate::builder::random;

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
    /// In a file, for whoever may open it.
    File(PathBuf),
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
    /// The lock file cannot be used.
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

/// The same in a file without a name, which others can map to read it.
pub(crate) fn open_readable(
    config: &Config,
    monotonic_secs: i64,
) -> Result<(Engine, File), SharedError> {
    let bytes = Engine::shared_bytes(config)?;
    let file = file::memfd("larder", bytes as u64)?;
    let memory = Memory::shared(&file, bytes)?;
    file::seal(&file)
        .map_err(|source| ShareError::from(larder_region::MapError { bytes, source }))?;
    let birth = birth(config, monotonic_secs)?;
    Ok((Engine::create_shared(memory, Locks::anonymous()?, config, &birth)?, file))
}

/// The lock file that belongs to a region's file.
pub(crate) fn lock_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".lock");
    PathBuf::from(name)
}

impl Sharing<'_> {
    /// Opens the cache in a file, or makes one.
    pub(crate) fn open(
        &self,
        path: &Path,
        monotonic_secs: i64,
    ) -> Result<(Engine, File, Opening), SharedError> {
        let locks = Locks::open(&lock_path(path), &self.access)?;
        if !locks.lock_within(OPENING_BYTE, Duration::from_secs(OPENING_SECS_MAX))? {
            return Err(SharedError::Busy { path: path.into(), secs: OPENING_SECS_MAX });
        }
        let file = match file::open(path) {
            Ok(file) => file,
            Err(FileError::Missing { .. }) => {
                let (engine, file) = self.create(path, locks, monotonic_secs, NewFile::publish)?;
                return Ok((engine, file, Opening::Created));
            }
            Err(error) => return Err(error.into()),
        };
        if self.alone && is_in_use(&locks) {
            let processes = users(&file, &locks);
            return Err(SharedError::InUse { path: path.into(), processes, unusable: None });
        }
        match self.attach(&file, locks) {
            Ok(engine) => {
                engine.end_opening();
                Ok((engine, file, Opening::Attached))
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
    fn replace(
        &self,
        path: &Path,
        file: &File,
        reason: Unusable,
        monotonic_secs: i64,
    ) -> Result<(Engine, File, Opening), SharedError> {
        let path = path.to_owned();
        if !self.replaces || !reason.is_in_the_file() || !may_be_replaced(file) {
            return Err(SharedError::Unusable { path, reason });
        }
        let locks = Locks::open(&lock_path(&path), &self.access)?;
        if !locks.lock_within(OPENING_BYTE, Duration::from_secs(OPENING_SECS_MAX))? {
            return Err(SharedError::Busy { path, secs: OPENING_SECS_MAX });
        }
        // Nobody had the lock for a moment: another process may have put a cache there that can be used.
        if !file::is_named(file, &path) {
            drop(locks);
            return self.open(&path, monotonic_secs);
        }
        if is_in_use(&locks) {
            let processes = users(file, &locks);
            return Err(SharedError::InUse { path, processes, unusable: Some(Box::new(reason)) });
        }
        let (engine, file) = self.create(&path, locks, monotonic_secs, NewFile::replace)?;
        Ok((engine, file, Opening::Replaced(reason.to_string())))
    }

    fn create(
        &self,
        path: &Path,
        locks: Locks,
        monotonic_secs: i64,
        publish: impl FnOnce(NewFile) -> Result<File, FileError>,
    ) -> Result<(Engine, File), SharedError> {
        let bytes = Engine::shared_bytes(self.config)?;
        let new = NewFile::create(path, bytes as u64, &self.access)?;
        let memory = Memory::shared(new.file(), bytes)?;
        let birth = birth(self.config, monotonic_secs)?;
        let engine = Engine::create_shared(memory, locks, self.config, &birth)?;
        let file = publish(new)?;
        engine.end_opening();
        Ok((engine, file))
    }
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

/// The process ids of those that do, where what is there tells them.
fn users(file: &File, locks: &Locks) -> Vec<u64> {
    let engine = Memory::read_only(file).ok().and_then(|memory| Engine::read_only(memory).ok());
    let peers = engine.map_or_else(Vec::new, |engine| engine.peer_reports());
    let lives = |byte| locks.is_locked_by_other(byte).unwrap_or(true);
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
