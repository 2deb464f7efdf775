//! The calls that share memory between processes, on systems where Larder does not offer them. Each
//! returns an error. A value of [`Never`] shows that a call cannot happen.

use std::io;

/// A value that does not exist.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Never {}

/// Returns the error of all calls.
pub(crate) fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "processes can share caches on Linux only; on this system, open a private cache",
    ))
}

/// Memory that processes share, huge pages, and advice that only Linux takes.
pub(crate) mod memory {
    use std::io;
    use std::ptr::NonNull;

    use super::unsupported;
    use crate::platform::fd::BorrowedFd;

    pub(crate) fn map_anonymous_shared(_bytes: usize) -> io::Result<NonNull<u8>> {
        unsupported()
    }

    pub(crate) fn map_file(
        _file: BorrowedFd<'_>,
        _bytes: usize,
        _writable: bool,
    ) -> io::Result<NonNull<u8>> {
        unsupported()
    }

    pub(crate) fn map_huge(_bytes: usize) -> io::Result<NonNull<u8>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, "huge pages can be reserved on Linux only"))
    }

    /// # Safety
    /// No requirements: no memory is shared.
    pub(crate) unsafe fn release_shared(_at: NonNull<u8>, _bytes: usize) {}

    /// The system allocates pages at first access.
    ///
    /// # Safety
    /// No requirements.
    pub(crate) unsafe fn take(_at: NonNull<u8>, _bytes: usize) -> io::Result<()> {
        Ok(())
    }

    /// The system chooses the size of pages.
    ///
    /// # Safety
    /// No requirements.
    pub(crate) unsafe fn collapse(_at: NonNull<u8>, _bytes: usize) {}
}

/// Files that contain a region.
pub(crate) mod files {
    use std::fs::{File, Metadata};
    use std::io;
    use std::path::Path;

    use super::unsupported;
    use crate::platform::fd::{AsFd, BorrowedFd, OwnedFd};
    use crate::platform::{OpenAs, OpenError};

    pub(crate) fn open(_path: &Path, _mode: OpenAs) -> Result<File, OpenError> {
        unsupported().map_err(OpenError::Other)
    }

    pub(crate) fn open_again(_file: &impl AsFd) -> io::Result<OwnedFd> {
        unsupported()
    }

    pub(crate) fn anonymous(_name: &str) -> io::Result<OwnedFd> {
        unsupported()
    }

    pub(crate) fn sealable(_name: &str) -> io::Result<OwnedFd> {
        unsupported()
    }

    pub(crate) fn seal(_file: &impl AsFd) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn seal_length(_file: &impl AsFd) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn cannot_shrink(_file: &impl AsFd) -> bool {
        false
    }

    pub(crate) fn is_length_sealed(_file: &impl AsFd) -> bool {
        false
    }

    pub(crate) fn is_sealed(_file: &impl AsFd) -> bool {
        false
    }

    pub(crate) fn bytes_and_is_named(_file: &impl AsFd) -> io::Result<(u64, bool)> {
        unsupported()
    }

    pub(crate) fn allocate(_file: &File, _bytes: u64) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn bytes_max() -> Option<u64> {
        None
    }

    pub(crate) fn reserved_bytes(_file: &Metadata) -> u64 {
        0
    }

    pub(crate) fn grant(
        _file: &File,
        _owner: Option<u32>,
        _group: Option<u32>,
        _mode: u32,
    ) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn rename_to_free(_from: &Path, _to: &Path) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn is_same_fd(_one: BorrowedFd<'_>, _other: BorrowedFd<'_>) -> bool {
        false
    }
}

/// Locks of the bytes of a file.
pub(crate) mod locks {
    use std::io;

    use super::unsupported;
    use crate::platform::fd::BorrowedFd;

    pub(crate) fn try_lock(_fd: BorrowedFd<'_>, _at: u64, _bytes: u64) -> io::Result<bool> {
        unsupported()
    }

    pub(crate) fn unlock(_fd: BorrowedFd<'_>, _at: u64, _bytes: u64) -> io::Result<()> {
        unsupported()
    }

    pub(crate) fn is_locked_by_other(
        _fd: BorrowedFd<'_>,
        _at: u64,
        _bytes: u64,
    ) -> io::Result<bool> {
        unsupported()
    }
}

/// Descriptors that a forked child replaces: none are open.
pub(crate) mod kept {
    use crate::platform::fd::{BorrowedFd, OwnedFd};

    pub(crate) fn into_number(fd: OwnedFd) -> i32 {
        drop(fd);
        -1
    }

    /// # Safety
    /// Never called, because no descriptor is open.
    pub(crate) unsafe fn borrow<'a>(fd: i32) -> BorrowedFd<'a> {
        unreachable!("descriptor {fd} is not open, since no file is open for its locks")
    }

    /// # Safety
    /// No requirements.
    pub(crate) unsafe fn close(_fd: i32) {}

    /// # Safety
    /// No requirements.
    pub(crate) unsafe fn reopen_in_place(_fd: i32) -> bool {
        false
    }
}

/// Unix sockets, over which a server passes its memory.
pub mod socket {
    use std::io;
    use std::path::Path;
    use std::time::Duration;

    use super::{Never, unsupported};
    use crate::platform::Received;

    /// A connection to a server, of which there is none on this system.
    #[derive(Debug)]
    pub struct Socket(Never);

    #[expect(clippy::missing_errors_doc, reason = "documented for Linux")]
    #[expect(missing_docs, reason = "documented for Linux")]
    impl Socket {
        pub fn connect(_path: &Path, _timeout: Duration) -> io::Result<Self> {
            unsupported()
        }

        #[must_use]
        pub fn is_quiet(&self) -> bool {
            match self.0 {}
        }

        pub fn send(&self, _bytes: &[u8]) -> io::Result<usize> {
            match self.0 {}
        }

        pub fn send_now(&self, _bytes: &[u8]) -> io::Result<usize> {
            match self.0 {}
        }

        pub fn receive(&self, _bytes: &mut Vec<u8>) -> io::Result<usize> {
            match self.0 {}
        }

        pub fn receive_file(&self, _bytes: &mut [u8]) -> io::Result<Received> {
            match self.0 {}
        }
    }
}

/// Returns the groups of the peer of a unix socket.
///
/// # Errors
/// Always: only Linux reports them.
pub fn peer_groups(_socket: &impl crate::platform::fd::AsFd) -> io::Result<Vec<u32>> {
    unsupported()
}
