//! The reasons why a file cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use crate::platform::{OpenError, Ownership, ownership};

/// The reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file does not exist.
    #[error("the file {path} does not exist; check the path")]
    Missing {
        /// The missing file.
        path: PathBuf,
    },
    /// A file with this name already exists.
    #[error("{path} already exists; open it, or remove it")]
    Exists {
        /// The file to be created.
        path: PathBuf,
    },
    /// Another process is creating a file for the same path.
    #[error("another process is creating {path}; wait until it is done, then open it")]
    Busy {
        /// The file to be created.
        path: PathBuf,
    },
    /// The path names a link, a directory or a device, which cannot hold a region.
    #[error("{path} is not a regular file; remove it, or use another path")]
    NotRegular {
        /// The file to be opened.
        path: PathBuf,
    },
    /// This process lacks the permission.
    #[error(
        "this process has no permission to {doing} {path}: {of} belongs to user {owner} and group {group}, with mode {mode:o}; run \
         as that user, or change the mode"
    )]
    Permission {
        /// The operation.
        doing: &'static str,
        /// The file it was applied to.
        path: PathBuf,
        /// The file, or its directory, that denies the access.
        of: PathBuf,
        /// The owner's user id.
        owner: u32,
        /// The group id.
        group: u32,
        /// The permission bits.
        mode: u32,
    },
    /// The file system, or the machine, has too little free space.
    #[error(
        "there is no space for the {bytes} bytes of {path}: {source}; request less, or free some space"
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// The requested size, in bytes.
        bytes: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file size exceeds the limit of this process.
    #[error(
        "{path} needs {bytes} bytes, but files of this process may have at most {limit_bytes}; raise \
         the limit (ulimit -f)"
    )]
    Limited {
        /// The file.
        path: PathBuf,
        /// The requested size, in bytes.
        bytes: u64,
        /// The limit, in bytes.
        limit_bytes: u64,
    },
    /// The system refuses for another reason.
    #[error("cannot {doing} {path}: {source}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The file it was applied to.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Returns a function that converts an error of the operation `doing`. The error for a denied
/// permission contains the file's owner and mode.
pub(crate) fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> FileError {
    let path = PathBuf::from(path);
    move |source| {
        let path = path.clone();
        if source.kind() != io::ErrorKind::PermissionDenied {
            return FileError::System { doing, path, source };
        }
        let folder = match path.parent() {
            Some(folder) if folder != Path::new("") => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        let of = if path.symlink_metadata().is_ok() { path.clone() } else { folder };
        match of.symlink_metadata().ok().and_then(|found| ownership(&found)) {
            Some(Ownership { owner, group, mode }) => {
                FileError::Permission { doing, path, of, owner, group, mode }
            }
            None => FileError::System { doing, path, source },
        }
    }
}

/// Returns a function that converts an error of opening `path` for the operation `doing`.
pub(crate) fn not_opened(doing: &'static str, path: &Path) -> impl Fn(OpenError) -> FileError {
    let path = PathBuf::from(path);
    move |error| match error {
        OpenError::Missing(_) => FileError::Missing { path: path.clone() },
        OpenError::Exists => FileError::Exists { path: path.clone() },
        OpenError::NotRegular => FileError::NotRegular { path: path.clone() },
        OpenError::Other(source) => failed(doing, &path)(source),
    }
}
