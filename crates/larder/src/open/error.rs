//! The reasons why a cache cannot be opened.

use std::path::PathBuf;

use larder_engine::{AttachError, CreateError};
use larder_region::shared::ShareError;
use larder_region::{FileError, LockError, boot};

use crate::tier::TierError;

/// The reason why a cache could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The memory cannot be allocated or laid out.
    #[error("cannot open a cache of {memory_bytes} bytes: {source}")]
    Memory {
        /// The requested memory, in bytes.
        memory_bytes: u64,
        /// The cause.
        source: CreateError,
    },
    /// The cache cannot be shared as requested.
    #[error("cannot open a shared cache: {0}")]
    Shared(#[from] SharedError),
    /// The disk tier cannot be used.
    #[error("cannot use the disk tier: {0}")]
    Tier(#[from] TierError),
    /// The maintainer thread cannot be started.
    #[error(
        "cannot start the maintainer thread: {0}; allow more threads, or open the cache without a maintainer"
    )]
    Thread(std::io::Error),
}

/// The reason why a cache cannot be shared.
#[derive(Debug, thiserror::Error)]
pub enum SharedError {
    /// The file cannot be used or created.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file's locks cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Another process has been opening or repairing the cache for too long.
    #[error(
        "another process has been opening {path} for {secs} seconds; end it if it has been stopped"
    )]
    Busy {
        /// The file.
        path: PathBuf,
        /// How long this process has waited, in seconds.
        secs: u64,
    },
    /// The content of the file cannot be used.
    #[error("cannot use {path}: {reason}; remove it, or name another file")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The problem with it.
        reason: Unusable,
    },
    /// Other processes use the cache, but the caller requested to open it exclusively or to replace
    /// it.
    #[error(
        "{path} is in use by {}{}; stop it first, or name another file",
        named(processes),
        .unusable.as_ref().map_or_else(String::new, |reason| format!(", and {reason}"))
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process ids that the processes recorded in the cache; empty if they cannot be read.
        processes: Vec<u64>,
        /// The reason why the cache cannot be joined, if any.
        unusable: Option<Box<Unusable>>,
    },
    /// The memory cannot be laid out or mapped.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The memory cannot be mapped.
    #[error(transparent)]
    Map(#[from] ShareError),
    /// The system does not report the id of the current boot.
    #[error("cannot determine the current boot; /proc/sys/kernel/random/boot_id must be readable")]
    NoBoot,
}

/// The problem with a cache in a file.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// The content is not a region that this version understands.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The file is shorter than its header declares.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// The cache is from an earlier boot of the system: the file may not have been written
    /// completely.
    #[error("it was created before the system booted, and may be damaged")]
    Rebooted,
    /// The cache was created with other settings.
    #[error("its {field} is {found}, expected {expected}")]
    Differs {
        /// The setting.
        field: &'static str,
        /// The requested value.
        expected: u64,
        /// The value in the file.
        found: u64,
    },
}

impl Unusable {
    /// True if the problem is in the file, so that every attempt would fail. Otherwise the next
    /// attempt may succeed, and the content is worth keeping.
    pub(super) fn is_in_the_file(&self) -> bool {
        match self {
            Self::Attach(AttachError::Join(_)) | Self::Share(ShareError::Map(_)) => false,
            Self::Rebooted => boot().is_some(),
            Self::Attach(_) | Self::Share(_) | Self::Differs { .. } => true,
        }
    }
}

fn named(processes: &[u64]) -> String {
    let ids: Vec<_> = processes.iter().map(u64::to_string).collect();
    match ids.split_last() {
        None => "another process".to_owned(),
        Some((id, [])) => format!("process {id}"),
        Some((last, ids)) => format!("processes {} and {last}", ids.join(", ")),
    }
}
