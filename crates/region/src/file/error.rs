//! The reasons why a file cannot be used.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// Returns an error under Miri, which does not support these calls.
pub(crate) fn only_on_a_system(path: &Path) -> Result<(), FileError> {
    if cfg!(miri) {
        return Err(failed("create", path)(io::ErrorKind::Unsupported.into()));
    }
    Ok(())
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
        match of.symlink_metadata() {
            Ok(found) => FileError::Permission {
                doing,
                path,
                of,
                owner: found.uid(),
                group: found.gid(),
                mode: found.mode() & 0o7777,
            },
            Err(_) => FileError::System { doing, path, source },
        }
    }
}
