//! The memory file of `-e`, with which a cache outlives its server.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use larder::{Builder, Cache, Epoch, OpenError, Opening, SharedError};
use larder_options::Options;

use crate::clock::Stopwatch;
use crate::log;
use crate::words::CountedNoun;

/// The reason why the memory file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MemoryFileError {
    /// memcached has left its restart metadata next to the file.
    #[error(
        "option -e: memcached has left {0} for its own restart; remove that file and the memory \
         file next to it, or name another file"
    )]
    Memcacheds(PathBuf),
    /// The directory of the file does not exist.
    #[error(
        "option -e: the directory {0} does not exist; create it, or name a file in another \
             directory"
    )]
    NoDirectory(PathBuf),
    /// The file cannot be used or created.
    #[error("option -e: {0}")]
    Shared(SharedError),
    /// The cache cannot be opened for another reason.
    #[error("option -e: {0}")]
    Open(OpenError),
}

impl From<OpenError> for MemoryFileError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Shared(error) => Self::Shared(error),
            error => Self::Open(error),
        }
    }
}

/// Opens the cache in the file or creates an empty one there, and logs which. `is_alone` is true if
/// no other process may have the file open.
///
/// # Errors
/// Returns [`MemoryFileError`] if the file belongs to another program, if another process uses it,
/// or if the system refuses.
pub(crate) fn open(
    builder: Builder,
    path: &Path,
    options: &Options,
    is_alone: bool,
) -> Result<Cache, MemoryFileError> {
    check_place(path)?;
    let stopwatch = Stopwatch::start();
    let builder = builder.shared(path).exactly(true).alone(is_alone);
    let cache = builder.replaces_unusable(true).open()?;
    let ms = stopwatch.elapsed_us() as f64 / 1000.0;
    let cache_is = match cache.opening() {
        Opening::Attached => {
            let age_secs = cache.system_second().saturating_sub(Epoch::FIRST_SECOND);
            let items = CountedNoun(cache.len(), "item");
            format!("attached in {ms:.1} ms, with {items}; begun {age_secs} s ago")
        }
        Opening::Replaced(reason) => {
            format!("the cache begins empty, because the old contents cannot be used: {reason}")
        }
        Opening::Created | Opening::None => {
            format!("made in {ms:.1} ms, {} MiB", options.memory_bytes >> 20)
        }
    };
    log::info(format_args!("larderd: memory file {}: {cache_is}", path.display()));
    Ok(cache)
}

/// Checks the surroundings of the file.
///
/// # Errors
/// Fails if the directory does not exist, or if the file belongs to memcached.
pub(crate) fn check_place(path: &Path) -> Result<(), MemoryFileError> {
    let memcacheds = memcacheds(path);
    if memcacheds.exists() {
        return Err(MemoryFileError::Memcacheds(memcacheds));
    }
    match path.parent().filter(|directory| !directory.exists()) {
        Some(directory) => Err(MemoryFileError::NoDirectory(directory.to_owned())),
        None => Ok(()),
    }
}

/// Returns the path where memcached writes its restart metadata on a graceful stop.
fn memcacheds(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".meta");
    name.into()
}
