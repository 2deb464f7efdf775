//! What all Unix systems offer.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use super::Ownership;

/// Descriptors of open files and sockets.
pub mod fd {
    pub use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
}

/// Paths from callers in C.
pub mod path {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    /// Returns the path with these bytes. On Unix, all bytes are a path.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<&Path> {
        Some(Path::new(OsStr::from_bytes(bytes)))
    }
}

/// Registers functions that are called at each fork by the C library: before it, and after it in
/// the parent and in the child. Returns false if the C library is out of memory.
#[cfg(not(miri))]
pub(crate) fn at_fork(
    before: extern "C" fn(),
    in_parent: extern "C" fn(),
    in_child: extern "C" fn(),
) -> bool {
    // SAFETY: the functions exist as long as the program. The caller registers functions that call
    // only what is allowed in a child of a multi-threaded process.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) == 0 }
}

/// Returns the device and the number of a file: two names with the same result are the same file.
#[must_use]
pub fn file_id(file: &Metadata) -> Option<(u64, u64)> {
    Some((file.dev(), file.ino()))
}

/// Returns the owner and the permission bits of a file.
#[must_use]
pub fn ownership(file: &Metadata) -> Option<Ownership> {
    Some(Ownership { owner: file.uid(), group: file.gid(), mode: file.mode() & 0o7777 })
}

/// Returns the user of this process, by number.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}
