//! Opening a cache in anonymous memory that is shared with forked children, readers or a successor
//! of this process.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use larder_engine::{AttachError, Config, Engine, OPENING_BYTE};
use larder_region::platform::fd::OwnedFd;
use larder_region::shared::ShareError;
use larder_region::{Access, FileError, Locks, Memory, file};

use crate::api::cache::Cache;
use crate::open::error::SharedError;
use crate::open::share::{OPENING_SECS_MAX, Sharing, birth};

/// The memory of an anonymous cache ([`Builder::inheritable`](crate::Builder::inheritable)), for a
/// process that will use the same cache.
#[derive(Debug)]
pub struct Inheritance {
    /// The region's memory, open for reading and writing.
    pub region: OwnedFd,
    /// The file whose locks show which processes use the cache.
    pub locks: OwnedFd,
}

impl Cache {
    /// Returns the descriptors that another process needs to use this cache together with this
    /// process, or instead of it ([`Builder::open_inherited`](crate::Builder::open_inherited)).
    /// Returns `None` if the cache was not opened with
    /// [`Builder::inheritable`](crate::Builder::inheritable), or if it has a disk tier, whose
    /// directory can be used by one process only. The descriptors can be sent through a unix
    /// socket.
    ///
    /// # Errors
    /// The memory or the lock file cannot be opened again.
    pub fn inheritance(&self) -> Option<Result<Inheritance, SharedError>> {
        let file = self.shared.file.as_ref().filter(|_| self.shared.tier.is_none());
        let region = file.filter(file::is_length_sealed)?;
        let locks = self.shared().engine.lock_file_to_pass()?;
        let region = file::open_again(region)
            .map_err(|source| FileError::System {
                doing: "open again",
                path: "memfd:larder".into(),
                source,
            })
            .map_err(SharedError::from);
        Some(region.and_then(|region| Ok(Inheritance { region, locks: locks? })))
    }
}

/// Opens a cache in memory that children of this process share.
pub(crate) fn open_anonymous(config: &Config, monotonic_secs: i64) -> Result<Engine, SharedError> {
    let memory =
        Memory::shared_anonymous(Engine::shared_bytes(config)?).map_err(ShareError::from)?;
    let birth = birth(config, monotonic_secs)?;
    let engine = Engine::create_shared(memory, Locks::anonymous()?, config, &birth)?;
    // The kernel's default for shared memory is small pages, also with the advice.
    engine.collapse_index();
    Ok(engine)
}

/// Opens a cache in an anonymous file. Other processes can map the file for reading or, if it is
/// `inheritable`, for writing.
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

/// Attaches to a cache passed on by another process. Its memory size, cas tokens and eviction must
/// match `config`.
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
    let engine = sharing
        .attach(&file, locks)
        .and_then(|role| role.peer().map_err(|full| AttachError::from(full).into()))
        .map_err(|reason| SharedError::Unusable { path, reason })?;
    engine.end_opening();
    Ok((engine, file))
}
