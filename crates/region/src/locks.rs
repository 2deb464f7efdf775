//! Locks that are released when the process that holds them ends, for whatever reason.
//!
//! Each lock is a byte of the region's own file, locked exclusively for an open file description
//! (`F_OFD_SETLK`): the system releases it when the last descriptor is closed. The bytes begin at
//! [`BYTES_AT`], far beyond the end of any region: they are never written and need not exist. The
//! locks belong to the file itself. They work with each of its names (hard links, mounts, passed
//! descriptors), and across pid namespaces, on file systems of one machine.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::file::error::{FileError, failed};
use crate::file::named;
use crate::fork::{KEPT_MAX, LockDescriptor};
use crate::platform::fd::{AsFd, BorrowedFd, OwnedFd};
use crate::platform::files::{self, is_same_fd};
use crate::platform::locks::{is_locked_by_other, try_lock, unlock};

/// Offset of the first byte that is locked: no region is that long.
pub const BYTES_AT: u64 = 1 << 62;

/// The byte locked by the process that creates a file.
const MAKING: u64 = BYTES_AT;

/// A file, opened only for its locks. Dropping it releases all of them.
///
/// The locks exclude other openings of the file, in this process or in another, but not users of
/// the same `Locks`, which can lock a byte twice. A mapping of the region uses another opening,
/// since a forked child inherits mappings and their open file descriptions.
///
/// A forked child does not hold the locks, and can only call [`Locks::reopened`] on the value. It
/// also does not keep the parent's locks locked, except for a moment during the fork: a lock that
/// the parent releases in this moment becomes free a little later.
///
/// # Examples
/// ```
/// use larder_region::{Locks, file};
///
/// # if cfg!(miri) { return Ok(()); }
/// let region = file::memfd("region", 4096)?;
/// let (one, other) = (Locks::of(&region, "region")?, Locks::of(&region, "region")?);
/// assert!(one.try_lock(3)?);
/// assert!(!other.try_lock(3)?);
/// assert!(other.try_lock(4)?);
/// drop(one);
/// assert!(other.try_lock(3)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Locks {
    kept: LockDescriptor,
    path: PathBuf,
}

/// The reason why a lock operation failed.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// This process was forked after the file was opened.
    #[error("{path} was opened for its locks before this process was forked; open it again here")]
    MadeBeforeFork {
        /// The file.
        path: PathBuf,
    },
    /// A child could not reopen an inherited file.
    #[error(
        "{path} could not be opened again for its locks when this process was forked: /proc is missing, too many \
         files are open, or permission was denied; open it by its name"
    )]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// More files are open for their locks than the fork handler can track.
    #[error(
        "this process has {KEPT_MAX} files open for their locks, which is the maximum; close some"
    )]
    TooMany,
    /// The file cannot be opened, or cannot be locked.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system cannot lock.
    #[error("cannot lock byte {byte} of {path}: {source}")]
    System {
        /// The byte.
        byte: u64,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl Locks {
    /// Opens the file of this name. Check with [`Locks::is_of`] that it is the expected file.
    ///
    /// # Errors
    /// [`LockError`]: the file does not exist, denies the access, or is not a regular file, or too
    /// many files are open.
    pub fn open(path: &Path) -> Result<Self, LockError> {
        Self::keep(path, || named::open(path).map(OwnedFd::from))
    }

    /// Opens a file again that this process already has open, for example an anonymous file. `name`
    /// is the name in errors.
    ///
    /// A process that can open the file for reading can hold a lock on it. For memory passed to
    /// untrusted processes, lock [another file](Locks::anonymous).
    ///
    /// # Errors
    /// [`LockError`]: this process may not write to the file, `/proc` is missing, or too many files
    /// are open.
    pub fn of(file: &impl AsFd, name: impl AsRef<Path>) -> Result<Self, LockError> {
        let fd = file.as_fd();
        let name = name.as_ref();
        Self::keep(name, || open_again(fd, name))
    }

    /// True if this is an opening of `file`.
    pub fn is_of(&self, file: &File) -> bool {
        self.kept.fd().is_some_and(|fd| is_same_fd(fd, file.as_fd()))
    }

    /// Creates an anonymous file that is used only for locks, by this process and its forked
    /// children ([`Locks::reopened`]).
    ///
    /// # Errors
    /// [`LockError`]: the system is out of memory, or too many files are open.
    pub fn anonymous() -> Result<Self, LockError> {
        let path = Path::new("memfd:locks");
        Self::keep(path, || files::anonymous("locks").map_err(failed("create", path)))
    }

    /// Opens the same file again. The locks of the new value also exclude this value. A forked
    /// child must call this, once, to obtain its own locks. The file was already opened again
    /// within the fork, so a later change of the child's user or root directory has no effect.
    ///
    /// # Errors
    /// [`LockError::Lost`] in a child if the file could not be reopened within the fork, or if the
    /// child has already called this. [`LockError::File`] in the process that opened the file,
    /// without `/proc`.
    pub fn reopened(&self) -> Result<Self, LockError> {
        let lost = || LockError::Lost { path: self.path.clone() };
        if self.kept.is_inherited() {
            let kept = LockDescriptor::take_over(&self.kept).ok_or_else(lost)?;
            return Ok(Self { kept, path: self.path.clone() });
        }
        let fd = self.kept.fd().ok_or_else(lost)?;
        Self::keep(&self.path, || open_again(fd, &self.path))
    }

    /// Opens the lock file again, to be passed to another process, which calls [`Locks::of`] with
    /// it. The returned descriptor holds no lock.
    ///
    /// # Errors
    /// Same as [`Locks::reopened`].
    pub fn to_pass(&self) -> Result<OwnedFd, LockError> {
        let fd = self.kept.fd().ok_or_else(|| LockError::Lost { path: self.path.clone() })?;
        Ok(open_again(fd, &self.path)?)
    }

    fn keep(
        path: &Path,
        open: impl FnOnce() -> Result<OwnedFd, FileError>,
    ) -> Result<Self, LockError> {
        let kept = LockDescriptor::open(open)?.ok_or(LockError::TooMany)?;
        Ok(Self { kept, path: path.into() })
    }

    /// Locks a byte. Returns false if another opening of the file has locked it. Cost: one system
    /// call.
    ///
    /// # Errors
    /// [`LockError::MadeBeforeFork`] in a child; [`LockError::System`] if the system cannot lock.
    pub fn try_lock(&self, byte: u64) -> Result<bool, LockError> {
        self.ask(byte, |fd, at| try_lock(fd, at, 1))
    }

    /// Locks a byte. Returns false if another opening keeps it locked for `time`. Polls every few
    /// milliseconds, since the system does not offer a wait with a timeout.
    ///
    /// # Errors
    /// Same as [`Locks::try_lock`].
    pub fn lock_within(&self, byte: u64, time: Duration) -> Result<bool, LockError> {
        const PAUSE_MAX: Duration = Duration::from_millis(16);
        let begun = Instant::now();
        let mut pause = Duration::from_micros(250);
        loop {
            if self.try_lock(byte)? {
                return Ok(true);
            }
            let left = time.saturating_sub(begun.elapsed());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Releases a byte if this value has locked it.
    ///
    /// # Errors
    /// Same as [`Locks::try_lock`].
    pub fn unlock(&self, byte: u64) -> Result<(), LockError> {
        self.ask(byte, |fd, at| unlock(fd, at, 1))
    }

    /// True if another opening of the file has locked this byte. Cost: one system call.
    ///
    /// # Errors
    /// Same as [`Locks::try_lock`].
    pub fn is_locked_by_other(&self, byte: u64) -> Result<bool, LockError> {
        self.ask(byte, |fd, at| is_locked_by_other(fd, at, 1))
    }

    /// True if another opening of the file has locked any of these bytes. Cost: one system call.
    ///
    /// # Errors
    /// Same as [`Locks::try_lock`].
    pub fn is_any_locked_by_other(&self, bytes: Range<u64>) -> Result<bool, LockError> {
        // A length of 0 would mean all bytes up to the largest offset.
        let length = bytes.end.saturating_sub(bytes.start).clamp(1, i64::MAX as u64);
        self.ask(bytes.start, |fd, at| is_locked_by_other(fd, at, length))
    }

    fn ask<T>(
        &self,
        byte: u64,
        ask: impl FnOnce(BorrowedFd<'_>, u64) -> io::Result<T>,
    ) -> Result<T, LockError> {
        let path = || self.path.clone();
        if self.kept.is_inherited() {
            return Err(LockError::MadeBeforeFork { path: path() });
        }
        let fd = self.kept.fd().ok_or_else(|| LockError::Lost { path: path() })?;
        ask(fd, byte).map_err(|source| LockError::System { byte, path: path(), source })
    }
}

fn open_again(fd: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, FileError> {
    named::open_again(&fd).map_err(failed("open again", name))
}

/// True if another opening has locked the byte. `file` may be open read-only.
///
/// # Errors
/// The system cannot lock.
pub fn is_locked(file: &impl AsFd, byte: u64) -> io::Result<bool> {
    is_locked_by_other(file.as_fd(), byte, 1)
}

/// Locks a file for the process that creates it. Returns false if another process has locked it.
pub(crate) fn try_lock_to_make(file: &File) -> io::Result<bool> {
    try_lock(file.as_fd(), MAKING, 1)
}

/// Undoes [`try_lock_to_make`], also for children that were forked since.
pub(crate) fn unlock_made(file: &File) {
    // Unlocking a locked file does not fail.
    let _ = unlock(file.as_fd(), MAKING, 1);
}
