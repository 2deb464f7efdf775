//! The length of a region's file, and its reserved memory.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use super::error::{FileError, failed};
use crate::platform::files;

/// Extends a file to `bytes`, without reserving memory for the new part. Call
/// [`crate::Memory::take`], which reserves the memory, before writing to the new part. For a region
/// whose limit may be raised later.
///
/// # Errors
/// [`FileError`]: the length is not supported, or the file is sealed.
pub fn extend(file: &File, bytes: u64) -> Result<(), FileError> {
    let path = Path::new("the region's file");
    check_limit(bytes, path)?;
    let found = file.metadata().map_err(failed("extend", path))?.len();
    if found < bytes {
        file.set_len(bytes).map_err(failed("extend", path))?;
    }
    Ok(())
}

pub(super) fn allocate(file: &File, bytes: u64, path: &Path) -> Result<(), FileError> {
    check_limit(bytes, path)?;
    files::allocate(file, bytes.max(1)).map_err(|source| match source.kind() {
        ErrorKind::StorageFull
        | ErrorKind::OutOfMemory
        | ErrorKind::FileTooLarge
        | ErrorKind::QuotaExceeded => FileError::Full { path: path.into(), bytes, source },
        _ => failed("reserve memory for", path)(source),
    })
}

/// Checks the file size limit, since the kernel sends a signal to a process that exceeds it.
fn check_limit(bytes: u64, path: &Path) -> Result<(), FileError> {
    match files::bytes_max() {
        Some(limit_bytes) if bytes > limit_bytes => {
            Err(FileError::Limited { path: path.into(), bytes, limit_bytes })
        }
        _ => Ok(()),
    }
}
