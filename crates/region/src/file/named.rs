//! Existing files, by their name or by another descriptor.

use std::fs::File;
use std::path::Path;
use std::{fs, io};

use super::error::{FileError, failed, not_opened};
use crate::platform::fd::{AsFd, OwnedFd};
use crate::platform::{OpenAs, file_id, files};

/// Opens a file for reading and writing.
///
/// # Errors
/// [`FileError`]: the file does not exist, is not a regular file, or denies the access.
pub fn open(path: &Path) -> Result<File, FileError> {
    open_as(path, OpenAs::Writer)
}

/// Opens a file for reading.
///
/// # Errors
/// Same as [`open`].
pub fn open_to_read(path: &Path) -> Result<File, FileError> {
    open_as(path, OpenAs::Reader)
}

fn open_as(path: &Path, mode: OpenAs) -> Result<File, FileError> {
    let file = files::open(path, mode).map_err(not_opened("open", path))?;
    match file.metadata().map_err(failed("open", path))?.is_file() {
        true => Ok(file),
        false => Err(FileError::NotRegular { path: path.into() }),
    }
}

/// Opens the same file again, for reading and writing. The new open file description does not hold
/// the locks of the first.
///
/// # Errors
/// The system's error: `/proc` is missing, or permission is denied.
pub fn open_again(file: &impl AsFd) -> io::Result<OwnedFd> {
    files::open_again(file)
}

/// True if `path` currently names this file.
pub fn is_named(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(path)) {
        (Ok(one), Ok(other)) => file_id(&one).is_some_and(|one| Some(one) == file_id(&other)),
        _ => false,
    }
}
