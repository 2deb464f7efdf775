//! Values and files for tests.

use std::path::PathBuf;

use tempfile::TempDir;

/// Creates a folder, on a tmpfs if the system has one. Dropping it removes it.
///
/// # Panics
/// The system cannot create a folder.
pub fn memory_folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .expect("the system creates temporary folders")
}

/// Returns a [`memory_folder`], and the path of a file in it that does not exist yet.
pub fn cache_file() -> (TempDir, PathBuf) {
    let folder = memory_folder();
    let path = folder.path().join("cache");
    (folder, path)
}

/// Returns a value that depends on its key and length, so that a test can detect a wrong value.
pub fn value_of(key: u64, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (key.wrapping_mul(31) as usize + at * 7) as u8).collect()
}
