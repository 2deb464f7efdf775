//! The errors of a disk.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The calls that reach a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// Opens the directory, and creates it first if it is missing.
    OpenDirectory,
    /// Takes the lock of the directory.
    Lock,
    /// Opens a file that exists.
    Open,
    /// Opens a file, and creates it first if it is missing.
    Create,
    /// Renames a file.
    Rename,
    /// Makes created and renamed files durable.
    SyncDirectory,
    /// Reads the free space of the file system.
    Space,
    /// Reads the length of a file.
    Length,
    /// Changes the length of a file.
    SetLength,
    /// Allocates and zero-fills pages.
    Allocate,
    /// Returns the space of pages to the file system.
    Deallocate,
    /// Reads pages.
    Read,
    /// Writes pages.
    Write,
    /// Makes written pages durable.
    SyncData,
    /// Drops the cached copies of pages.
    DropCached,
}

impl fmt::Display for Call {
    /// Writes the verb that a path follows.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::OpenDirectory => "open the directory",
            Self::Lock => "lock",
            Self::Open => "open",
            Self::Create => "create",
            Self::Rename => "rename a file to",
            Self::SyncDirectory => "sync the directory",
            Self::Space => "read the free space of",
            Self::Length => "read the length of",
            Self::SetLength => "change the length of",
            Self::Allocate => "allocate space in",
            Self::Deallocate => "free space in",
            Self::Read => "read",
            Self::Write => "write",
            Self::SyncData => "sync",
            Self::DropCached => "drop the cached pages of",
        })
    }
}

/// The reason why a call of a disk fails.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The system refused the call, or the device failed.
    #[error("cannot {call} {path}: {error}{}", remedy(*call, path, error))]
    Io {
        /// The call.
        call: Call,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// Another process, or another part of this one, holds the lock of the directory.
    #[error(
        "{path} is locked: another process uses this directory; stop that process, or name another \
         directory"
    )]
    Locked {
        /// The lock file.
        path: PathBuf,
    },
    /// The file or directory belongs to another user.
    #[error(
        "{path} belongs to user {owner}, but this process runs as user {user}; run it as user \
         {owner}, or change the owner: chown {user} {path}"
    )]
    Owner {
        /// The file or directory.
        path: PathBuf,
        /// The id of its owner.
        owner: u32,
        /// The id of the user of this process.
        user: u32,
    },
    /// The group or other users can open the file or directory.
    #[error(
        "{path} has mode {mode:04o}, which opens it to other users; change it: chmod {expected:o} \
         {path}, or name a directory that does not exist yet"
    )]
    Mode {
        /// The file or directory.
        path: PathBuf,
        /// The permission bits of the file or directory.
        mode: u32,
        /// The permission bits that are allowed.
        expected: u32,
    },
    /// The path is a symbolic link.
    #[error("{path} is a symbolic link, which is not followed; name its target instead")]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// The path is a directory, a device, a pipe or a socket.
    #[error("{path} is not a regular file; move it out of the directory")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is longer than expected.
    #[error("{path} has {bytes} bytes, expected at most {expected}; it is not a file of the tier")]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The length of the file.
        bytes: u64,
        /// The maximum length.
        expected: u64,
    },
}

/// Returns advice for the user, or an empty string.
fn remedy(call: Call, path: &Path, error: &io::Error) -> String {
    match (call, error.kind(), path.parent()) {
        (Call::OpenDirectory, io::ErrorKind::NotFound, Some(parent)) => format!(
            "; only the last directory of a path is created: mkdir -p {}, or name another directory",
            parent.display()
        ),
        (Call::OpenDirectory, io::ErrorKind::NotADirectory, _) => {
            "; name a directory, or a path that does not exist yet".to_owned()
        }
        (Call::OpenDirectory, io::ErrorKind::PermissionDenied, _) => {
            "; let the user of this process write there, or name another directory".to_owned()
        }
        (_, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _) => {
            "; remove other files of its volume, or enlarge it".to_owned()
        }
        _ => String::new(),
    }
}

impl DiskError {
    pub(super) fn io(call: Call, path: &Path, error: impl Into<io::Error>) -> Self {
        Self::Io { call, path: path.to_path_buf(), error: error.into() }
    }

    /// True if the file system is full, or the user's quota is exhausted.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.is_of_kind(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded])
    }

    /// True if the file system is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_of_kind(&[io::ErrorKind::ReadOnlyFilesystem])
    }

    /// True if the disk failed to return stored bytes.
    #[must_use]
    pub fn is_of_read(&self) -> bool {
        matches!(self, Self::Io { call: Call::Read, .. })
    }

    fn is_of_kind(&self, kinds: &[io::ErrorKind]) -> bool {
        matches!(self, Self::Io { error, .. } if kinds.contains(&error.kind()))
    }
}
