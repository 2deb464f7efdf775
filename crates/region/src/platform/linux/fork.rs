//! Fork handlers, and what they may do in a child.

use std::io::Write;
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd};

pub(crate) use crate::platform::unix::at_fork;

/// Returns the number of a descriptor, which the caller closes.
pub(crate) fn into_number(fd: OwnedFd) -> i32 {
    fd.into_raw_fd()
}

/// Borrows a descriptor by its number.
///
/// # Safety
/// The descriptor stays open as long as the result is used.
pub(crate) unsafe fn borrow<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: the caller upholds the same contract.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Closes a descriptor by its number.
///
/// # Safety
/// Only the caller uses the descriptor.
pub(crate) unsafe fn close(fd: i32) {
    // SAFETY: the caller guarantees that closing the descriptor affects no other code.
    unsafe { libc::close(fd) };
}

/// Replaces the descriptor `fd` with a newly opened descriptor of the same file. Closes `fd` and
/// returns false if that fails. May be called in a forked child.
///
/// # Safety
/// Only the caller uses the descriptor.
pub(crate) unsafe fn reopen_in_place(fd: i32) -> bool {
    let name = proc_name(fd);
    // SAFETY: the name is zero-terminated, and the caller guarantees that only it uses `fd`. Each
    // call is allowed between fork and exec.
    unsafe {
        let opened = libc::open(name.as_ptr().cast(), libc::O_RDWR | libc::O_CLOEXEC);
        let done = opened >= 0 && libc::dup3(opened, fd, libc::O_CLOEXEC) >= 0;
        if opened >= 0 {
            libc::close(opened);
        }
        if !done {
            libc::close(fd);
        }
        done
    }
}

/// Returns the name under which this process can reopen the descriptor, zero-terminated.
fn proc_name(fd: i32) -> [u8; 32] {
    let mut name = [0; 32];
    // The text has 25 bytes at most, so it always fits.
    let _ = write!(&mut name[..31], "/proc/self/fd/{fd}");
    name
}
