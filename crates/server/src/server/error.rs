//! Why a server cannot be created.

use larder::OpenError;

use crate::admin::readers::ReadersError;
use crate::server::credentials::CredentialsError;
use crate::server::disk_tier::DiskTierError;
use crate::server::memory_file::MemoryFileError;

/// The server could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The cache's memory could not be allocated or opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The memory file cannot be used.
    #[error(transparent)]
    MemoryFile(#[from] MemoryFileError),
    /// The directory of the disk tier cannot be used.
    #[error(transparent)]
    DiskTier(#[from] DiskTierError),
    /// The user file cannot be used.
    #[error(transparent)]
    Credentials(#[from] UsersError),
    /// Local readers cannot be admitted.
    #[error(transparent)]
    Readers(#[from] ReadersError),
    /// The descriptors with which threads wake each other could not be created.
    #[error("cannot make descriptors: {0}")]
    Descriptors(#[from] rustix::io::Errno),
}

/// The user file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct UsersError(pub(super) CredentialsError);
