//! Locks of the bytes of a file, which belong to an open file description.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Locks bytes. Returns false if another opening of the file has locked any of them.
pub(crate) fn try_lock(fd: BorrowedFd<'_>, at: u64, bytes: u64) -> io::Result<bool> {
    match fcntl(fd, libc::F_OFD_SETLK, &mut range(libc::F_WRLCK, at, bytes)?) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Releases bytes.
pub(crate) fn unlock(fd: BorrowedFd<'_>, at: u64, bytes: u64) -> io::Result<()> {
    fcntl(fd, libc::F_OFD_SETLK, &mut range(libc::F_UNLCK, at, bytes)?)
}

/// True if another opening has locked any of the bytes. The file may be open read-only.
pub(crate) fn is_locked_by_other(fd: BorrowedFd<'_>, at: u64, bytes: u64) -> io::Result<bool> {
    let mut range = range(libc::F_WRLCK, at, bytes)?;
    fcntl(fd, libc::F_OFD_GETLK, &mut range)?;
    Ok(range.l_type != libc::F_UNLCK as libc::c_short)
}

/// Returns the range of `bytes` bytes at `at`.
fn range(kind: libc::c_int, at: u64, bytes: u64) -> io::Result<libc::flock> {
    let offset = |bytes: u64| {
        libc::off_t::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    Ok(libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: offset(at)?,
        l_len: offset(bytes)?,
        // These commands require 0.
        l_pid: 0,
    })
}

fn fcntl(fd: BorrowedFd<'_>, command: libc::c_int, range: &mut libc::flock) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed, and the commands take a pointer to this
    // struct.
    match unsafe { libc::fcntl(fd.as_raw_fd(), command, std::ptr::from_mut(range)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
