//! Memory that other processes also map.

use crate::memory::{BYTES_MIN, MapError, Memory, Sharing};
use crate::platform::fd::AsFd;
use crate::platform::files::{bytes_and_is_named, cannot_shrink};
use crate::platform::memory as mapping;

/// The reason why a file cannot be mapped as a region.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// The file is too short: an access beyond its end would raise a signal.
    #[error(
        "it has {found} bytes, expected at least {expected}: it was truncated, or is another kind of file"
    )]
    Short {
        /// Required size, in bytes.
        expected: usize,
        /// Size of the file, in bytes.
        found: u64,
    },
    /// The file is not sealed, so its owner could kill its readers at any time.
    #[error(
        "the file is anonymous and not sealed against truncation; its owner must seal it first"
    )]
    Unsealed,
    /// The system cannot map the file.
    #[error(transparent)]
    Map(#[from] MapError),
}

impl Memory {
    /// Maps the first `bytes` of a file or memfd that is open for reading and writing. The writes
    /// are visible to all processes that map the file, and stay in the file. Offsets are the same
    /// in every process; addresses are not.
    ///
    /// A process that can open the file for writing can also truncate it, which kills every process
    /// that maps it with SIGBUS. Share such a file only between processes that trust each other, or
    /// seal it ([`crate::file::seal`]).
    ///
    /// # Errors
    /// [`ShareError::Short`] if the file has fewer bytes, [`ShareError::Map`] if the system cannot
    /// map it.
    ///
    /// # Examples
    /// ```
    /// use larder_region::{Memory, file};
    /// use std::sync::atomic::Ordering::Relaxed;
    ///
    /// # if cfg!(miri) { return Ok(()); }
    /// let file = file::memfd("example", 4096)?;
    /// let (one, other) = (Memory::shared(&file, 4096)?, Memory::shared(&file, 4096)?);
    /// one.word(8).store(7, Relaxed);
    /// assert_eq!(other.word(8).load(Relaxed), 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared(file: &impl AsFd, bytes: usize) -> Result<Self, ShareError> {
        let bytes = bytes.max(BYTES_MIN);
        let (found, _) = bytes_and_is_named(file).map_err(|source| MapError { bytes, source })?;
        if found < bytes as u64 {
            return Err(ShareError::Short { expected: bytes, found });
        }
        let base = mapping::map_file(file.as_fd(), bytes, true)
            .map_err(|source| MapError { bytes, source })?;
        Ok(Self::mapped(base, bytes, Sharing::Shared))
    }

    /// Maps an entire file or memfd for reading while other processes write. The file need not be
    /// open for writing.
    ///
    /// **Only load and read through the mapping.** A store by any method raises SIGSEGV.
    ///
    /// A memfd must be sealed, so that its owner cannot kill this process by truncating it. A file
    /// with a name cannot be sealed: a process with write permission can kill its readers.
    ///
    /// # Errors
    /// [`ShareError::Short`] if the file is shorter than a page, [`ShareError::Unsealed`] if it has
    /// neither a name nor a seal, [`ShareError::Map`] if the system cannot map it.
    pub fn read_only(file: &impl AsFd) -> Result<Self, ShareError> {
        let failed = |source| MapError { bytes: BYTES_MIN, source };
        // The seals are checked before the length, which can change until it is sealed.
        let (_, has_name) = bytes_and_is_named(file).map_err(failed)?;
        if !has_name && !cannot_shrink(file) {
            return Err(ShareError::Unsealed);
        }
        let (found, _) = bytes_and_is_named(file).map_err(failed)?;
        let bytes = usize::try_from(found).unwrap_or(usize::MAX);
        if bytes < BYTES_MIN {
            return Err(ShareError::Short { expected: BYTES_MIN, found });
        }
        let base = mapping::map_file(file.as_fd(), bytes, false)
            .map_err(|source| MapError { bytes, source })?;
        Ok(Self::mapped(base, bytes, Sharing::ReadOnly))
    }

    /// Maps `bytes` of zeroed memory shared with forked children. The system allocates pages at
    /// first access.
    ///
    /// # Errors
    /// [`MapError`] if the system refuses.
    pub fn shared_anonymous(bytes: usize) -> Result<Self, MapError> {
        let bytes = bytes.max(BYTES_MIN);
        let base =
            mapping::map_anonymous_shared(bytes).map_err(|source| MapError { bytes, source })?;
        Ok(Self::mapped(base, bytes, Sharing::Shared))
    }
}
