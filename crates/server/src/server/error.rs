//! The error of a server that cannot be created.

use larder::OpenError;
use larder_options::Options;

use crate::discovery::DiscoveryError;
use crate::failure::{EXIT_FAILURE, EXIT_USAGE};
use crate::near::WeightsError;
use crate::observe::readers::ReadersError;
use crate::server::credentials::CredentialsError;
use crate::server::disk_tier::DiskTierError;
use crate::server::memory_file::MemoryFileError;
use crate::users;

/// The reason why the server could not be created.
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
    /// The file of users with rights cannot be used.
    #[error("option --users: {0}")]
    Users(#[from] users::LoadError),
    /// Local readers cannot be admitted.
    #[error(transparent)]
    Readers(#[from] ReadersError),
    /// The weights of the origins of a near cache cannot be used.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The servers that clients discover cannot be used.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The descriptors with which threads wake each other could not be created.
    #[error(
        "cannot open the file descriptors by which threads wake each other: {0}; raise the limit \
         (ulimit -n), or lower -t"
    )]
    Descriptors(#[from] rustix::io::Errno),
}

impl ServerError {
    /// Returns the exit status of larderd.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Credentials(_)
            | Self::Users(users::LoadError::File(_))
            | Self::Weights(_)
            | Self::Discovery(_)
            | Self::Readers(ReadersError::NoGroup(_)) => EXIT_USAGE,
            _ => EXIT_FAILURE,
        }
    }
}

/// The error of a user file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("option {option}: {error}")]
pub struct UsersError {
    option: &'static str,
    error: CredentialsError,
}

impl UsersError {
    /// Creates the error for the file that these options name.
    pub(crate) fn new(options: &Options, error: CredentialsError) -> Self {
        Self { option: if options.sasl { "-S" } else { "-Y" }, error }
    }
}
