//! Memory that other processes map too.

use std::os::fd::AsFd;

use rustix::fs::{SealFlags, fcntl_get_seals, fstat};

use crate::mapping;
use crate::memory::{BYTES_MIN, MapError, Memory, Sharing};

/// A file is none that can be mapped as a region.
#[derive(Debug, thiserror::Error)]
pub enum ShareError {
    /// Mapping it would end in a signal behind its end.
    #[error(
        "it has {found} bytes, and what it holds needs {expected}: it was cut off, or is something else"
    )]
    Short {
        /// How many bytes it must have.
        expected: usize,
        /// How many it has.
        found: u64,
    },
    /// Whoever holds it could end its readers at any time.
    #[error(
        "the file has no name and no seal against being cut off while it is read; whoever passed it must seal it first"
    )]
    Unsealed,
    /// The system does not map it.
    #[error(transparent)]
    Map(#[from] MapError),
}

impl Memory {
    /// Maps the first `bytes` of a file or memfd that is open for reading and writing; what is written is seen by all
    /// who map it, and stays in the file. Offsets in it mean the same to everybody; addresses do not.
    ///
    /// Whoever can open the file for writing can also cut it off, and by that end with SIGBUS every process that maps
    /// it: such files belong to those who trust each other, or are sealed ([`crate::file::seal`]).
    ///
    /// # Errors
    /// [`ShareError::Short`] where the file has fewer bytes, [`ShareError::Map`] where the system does not map it.
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
        let found = file_bytes(file).map_err(|source| MapError { bytes, source })?;
        if found < bytes as u64 {
            return Err(ShareError::Short { expected: bytes, found });
        }
        let base = mapping::map_file(file.as_fd(), bytes, true)
            .map_err(|source| MapError { bytes, source })?;
        Ok(Self::mapped(base, bytes, Sharing::Shared))
    }

    /// Maps a whole file or memfd to be read while others write. The file need not be open for writing.
    ///
    /// **Only load and read through it.** A store is answered by the system with SIGSEGV, whatever method it is made
    /// with.
    ///
    /// A memfd must be sealed, so that whoever passed it cannot end this process by cutting it off. A file with a
    /// name cannot be sealed: whoever may write it can end its readers.
    ///
    /// # Errors
    /// [`ShareError::Short`] where it has less than a page, [`ShareError::Unsealed`] where it has no name and no seal,
    /// [`ShareError::Map`] where the system does not map it.
    pub fn read_only(file: &impl AsFd) -> Result<Self, ShareError> {
        let failed = |source| MapError { bytes: BYTES_MIN, source };
        // Seals first: a length that can still change says nothing.
        let has_name = fstat(file).map_err(|errno| failed(errno.into()))?.st_nlink > 0;
        let seals = fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        if !has_name && !seals.contains(SealFlags::SHRINK) {
            return Err(ShareError::Unsealed);
        }
        let found = file_bytes(file).map_err(failed)?;
        let bytes = usize::try_from(found).unwrap_or(usize::MAX);
        if bytes < BYTES_MIN {
            return Err(ShareError::Short { expected: BYTES_MIN, found });
        }
        let base = mapping::map_file(file.as_fd(), bytes, false)
            .map_err(|source| MapError { bytes, source })?;
        Ok(Self::mapped(base, bytes, Sharing::ReadOnly))
    }

    /// Maps `bytes` of zeroed memory that processes forked from this one share with it. Pages are taken from the
    /// system when they are first touched.
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

fn file_bytes(file: &impl AsFd) -> std::io::Result<u64> {
    Ok(u64::try_from(fstat(file)?.st_size).unwrap_or(0))
}
