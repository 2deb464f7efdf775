//! Existing files, by their name or by another descriptor.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::error::{FileError, failed, only_on_a_system};

/// Opens a file for reading and writing.
///
/// # Errors
/// [`FileError`]: the file does not exist, is not a regular file, or denies the access.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_as(path, OFlags::RDWR)
}

/// Opens a file for reading.
///
/// # Errors
/// Same as [`open`].
pub fn open_to_read(path: &Path) -> Result<File, FileError> {
    open_as(path, OFlags::RDONLY)
}

fn open_as(path: &Path, access: OFlags) -> Result<File, FileError> {
    only_on_a_system(path)?;
    // Without NONBLOCK, opening a pipe or a device could block.
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Err(FileError::Missing { path: path.into() }),
        Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO | Errno::NODEV) => {
            return Err(FileError::NotRegular { path: path.into() });
        }
        Err(errno) => return Err(failed("open", path)(errno.into())),
    };
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed("open", path)(errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(file),
        _ => Err(FileError::NotRegular { path: path.into() }),
    }
}

/// Opens the same file again, for reading and writing. The new open file description does not hold
/// the locks of the first.
///
/// # Errors
/// The system's error: `/proc` is missing, or permission is denied.
pub fn open_again(file: &impl AsFd) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}

/// True if `path` currently names this file.
pub fn is_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// True if both descriptors refer to the same file.
pub(crate) fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> bool {
    match (rustix::fs::fstat(one), rustix::fs::fstat(other)) {
        (Ok(one), Ok(other)) => (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino),
        _ => false,
    }
}
