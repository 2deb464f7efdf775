//! Locks that end with the process that holds them, however it ends.
//!
//! Each is a byte of the region's own file, locked exclusively for what was opened (`F_OFD_SETLK`): the system drops it
//! when the last descriptor is closed. The bytes lie from [`BYTES_AT`] on, far beyond the end of any region: nothing is
//! written there, and a byte need not exist. The locks are those of the file itself, under each of its names (hard links,
//! mounts, descriptors that were passed on) and in each pid namespace; on a file system of one machine.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;

use crate::file::{self, FileError};
use crate::fork::{KEPT_MAX, Kept};

/// Where the bytes begin that are locked: no region is that long.
pub const BYTES_AT: u64 = 1 << 62;

/// The byte that is locked by the process that makes a file.
const MAKING: libc::off_t = BYTES_AT as libc::off_t;

/// A file, opened for its locks alone. Dropping it gives up all of them.
///
/// The locks are held against other openings of the file, in this process or another, and not against who uses the same
/// `Locks`: it locks a byte twice without noticing. A mapping of the region is made from another opening: a child that is
/// forked inherits mappings, and with them what they were made from.
///
/// A child of this process holds none of them, and cannot use this value but for [`Locks::reopened`]. It does not keep
/// them held either, but for the moment in which it is being forked: what is given up meanwhile is free a little later.
///
/// # Examples
/// ```
/// use larder_region::{Locks, file};
///
/// # if cfg!(miri) { return Ok(()); }
/// let region = file::memfd("region", 4096)?;
/// let (one, other) = (Locks::of(&region, "region")?, Locks::of(&region, "region")?);
/// assert!(one.try_lock(3)?);
/// assert!(!other.try_lock(3)? && other.try_lock(4)?);
/// drop(one);
/// assert!(other.try_lock(3)?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Locks {
    kept: Kept,
    path: PathBuf,
}

/// Locks cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// This process was forked from the one that opened the file.
    #[error("{path} was opened for its locks before this process was forked; open it again here")]
    MadeBeforeFork {
        /// Which file.
        path: PathBuf,
    },
    /// A child could not open again what it inherited.
    #[error(
        "{path} could not be opened again for its locks when this process was forked: there is no /proc, or too \
         many files are open, or it may not; open it by its name"
    )]
    Lost {
        /// Which file.
        path: PathBuf,
    },
    /// More files are open for their locks than children can be kept from inheriting.
    #[error(
        "this process has {KEPT_MAX} files open for their locks, and cannot open more; close some"
    )]
    TooMany,
    /// The file is none that can be locked, or cannot be opened.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system does not lock.
    #[error("cannot lock byte {byte} of {path}: {source}")]
    System {
        /// Which byte.
        byte: u64,
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Locks {
    /// Opens the file of this name. [`Locks::is_of`] says whether it is the one that was meant.
    ///
    /// # Errors
    /// [`LockError`]: there is none, this process may not, it is no regular file, or too many are open.
    pub fn open(path: &Path) -> Result<Self, LockError> {
        Self::keep(path, || file::open(path).map(OwnedFd::from))
    }

    /// Opens a file once more that this process has open, as one without a name. `name` is what errors call it.
    ///
    /// A process that can open the file for reading can hold a lock of it: for memory that is passed to processes which
    /// are not trusted lock [another file](Locks::anonymous).
    ///
    /// # Errors
    /// [`LockError`]: this process may not write to it, there is no `/proc`, or too many are open.
    pub fn of(file: &impl AsFd, name: impl AsRef<Path>) -> Result<Self, LockError> {
        let fd = file.as_fd();
        let name = name.as_ref();
        Self::keep(name, || open_again(fd, name))
    }

    /// True if this is an opening of the same file.
    pub fn is_of(&self, file: &File) -> bool {
        self.kept.fd().is_some_and(|fd| file::is_same(fd, file.as_fd()))
    }

    /// Makes a file without a name that has nothing but locks, for this process and those that are forked from it
    /// ([`Locks::reopened`]).
    ///
    /// # Errors
    /// [`LockError`]: the system has no memory, or too many are open.
    pub fn anonymous() -> Result<Self, LockError> {
        let path = Path::new("memfd:locks");
        file::only_on_a_system(path)?;
        Self::keep(path, || {
            rustix::fs::memfd_create("locks", MemfdFlags::CLOEXEC)
                .map_err(|errno| file::failed("create", path)(errno.into()))
        })
    }

    /// Opens the same file again: what the new value locks is held against this one, too. This is how a child that was
    /// forked gets locks of its own.
    ///
    /// # Errors
    /// [`LockError::Lost`] in a child that could not open the file anew; [`LockError::File`] where there is no `/proc`.
    pub fn reopened(&self) -> Result<Self, LockError> {
        let fd = self.kept.fd().ok_or_else(|| LockError::Lost { path: self.path.clone() })?;
        Self::keep(&self.path, || open_again(fd, &self.path))
    }

    /// Opens the lock file again, to be passed to another process, which calls [`Locks::of`] with it. What is
    /// returned holds no lock.
    ///
    /// # Errors
    /// As [`Locks::reopened`].
    pub fn to_pass(&self) -> Result<OwnedFd, LockError> {
        let fd = self.kept.fd().ok_or_else(|| LockError::Lost { path: self.path.clone() })?;
        Ok(open_again(fd, &self.path)?)
    }

    fn keep(
        path: &Path,
        open: impl FnOnce() -> Result<OwnedFd, FileError>,
    ) -> Result<Self, LockError> {
        let kept = Kept::open(open)?.ok_or(LockError::TooMany)?;
        Ok(Self { kept, path: path.into() })
    }

    /// Locks a byte, unless another opening of the file has it. One system call.
    ///
    /// # Errors
    /// [`LockError::MadeBeforeFork`] in a child; [`LockError::System`] if the system does not lock.
    pub fn try_lock(&self, byte: u64) -> Result<bool, LockError> {
        self.ask(byte, |fd, at| try_lock(fd, at, 1))
    }

    /// Locks a byte; false if others have it all the time. It is looked for every few milliseconds, since the system
    /// has no such wait.
    ///
    /// # Errors
    /// As [`Locks::try_lock`].
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

    /// Gives up a byte, if this value has it.
    ///
    /// # Errors
    /// As [`Locks::try_lock`].
    pub fn unlock(&self, byte: u64) -> Result<(), LockError> {
        self.ask(byte, |fd, at| unlock(fd, at, 1))
    }

    /// Does another opening of the file have this byte locked? One system call.
    ///
    /// # Errors
    /// As [`Locks::try_lock`].
    pub fn is_locked_by_other(&self, byte: u64) -> Result<bool, LockError> {
        self.ask(byte, is_locked_by_other)
    }

    fn ask<T>(
        &self,
        byte: u64,
        ask: impl FnOnce(BorrowedFd<'_>, libc::off_t) -> io::Result<T>,
    ) -> Result<T, LockError> {
        let path = || self.path.clone();
        if self.kept.is_inherited() {
            return Err(LockError::MadeBeforeFork { path: path() });
        }
        let fd = self.kept.fd().ok_or_else(|| LockError::Lost { path: path() })?;
        libc::off_t::try_from(byte)
            .map_err(|_| io::ErrorKind::InvalidInput.into())
            .and_then(|at| ask(fd, at))
            .map_err(|source| LockError::System { byte, path: path(), source })
    }
}

fn open_again(fd: BorrowedFd<'_>, name: &Path) -> Result<OwnedFd, FileError> {
    file::only_on_a_system(name)?;
    file::open_again(&fd).map_err(file::failed("open again", name))
}

/// True if an opening other than this one has the byte locked. This one may be for reading alone.
///
/// # Errors
/// The system does not lock.
pub fn is_locked(file: &impl AsFd, byte: u64) -> io::Result<bool> {
    let at = libc::off_t::try_from(byte).map_err(|_| io::ErrorKind::InvalidInput)?;
    is_locked_by_other(file.as_fd(), at)
}

/// Locks a file for the process that makes it; false if another has.
pub(crate) fn try_lock_to_make(file: &File) -> io::Result<bool> {
    try_lock(file.as_fd(), MAKING, 1)
}

/// Undoes [`try_lock_to_make`], also for children that were forked meanwhile.
pub(crate) fn unlock_made(file: &File) {
    // A file that was locked can be unlocked.
    let _ = unlock(file.as_fd(), MAKING, 1);
}

fn try_lock(fd: BorrowedFd<'_>, at: libc::off_t, bytes: libc::off_t) -> io::Result<bool> {
    match fcntl(fd, libc::F_OFD_SETLK, &mut range(libc::F_WRLCK, at, bytes)) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

fn unlock(fd: BorrowedFd<'_>, at: libc::off_t, bytes: libc::off_t) -> io::Result<()> {
    fcntl(fd, libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, at, bytes))
}

fn is_locked_by_other(fd: BorrowedFd<'_>, at: libc::off_t) -> io::Result<bool> {
    let mut range = range(libc::F_WRLCK, at, 1);
    fcntl(fd, libc::F_OFD_GETLK, &mut range)?;
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

/// `bytes` from `at` on.
fn range(kind: libc::c_int, at: libc::off_t, bytes: libc::off_t) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: at,
        l_len: bytes,
        // Must be 0 with these commands.
        l_pid: 0,
    }
}

fn fcntl(fd: BorrowedFd<'_>, command: libc::c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, and the commands take a pointer to this struct.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(range)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
