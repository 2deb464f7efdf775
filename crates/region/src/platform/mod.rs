//! What the library asks of the operating system. Only this folder depends on which one it is.
//!
//! On Linux, caches can be private to a process or shared by processes. On macOS, FreeBSD and
//! Windows they are private: every call that shares memory, in `unsupported.rs`, returns an error
//! that says so. Miri supports no system calls; there the memory is from the allocator.
//!
//! | | Linux | macOS, FreeBSD | Windows | Miri |
//! |---|---|---|---|---|
//! | private memory | `linux/memory.rs` | `mmap.rs` | `windows.rs` | `emulated.rs` |
//! | clocks | `linux/clock.rs` | `mmap.rs` | `windows.rs` | `emulated.rs` |
//! | forks are noticed | `linux/fork.rs` | `unix.rs` | there are none | no |
//! | files and locks, shared memory, sockets | `linux/` | no | no | no |
//!
//! A system that is missing here needs a file with the functions of `windows.rs`.

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "linux/mod.rs"]
mod system;

#[cfg(all(target_os = "macos", not(miri)))]
#[path = "macos.rs"]
mod system;

#[cfg(all(target_os = "freebsd", not(miri)))]
#[path = "freebsd.rs"]
mod system;

#[cfg(all(windows, not(miri)))]
#[path = "windows.rs"]
mod system;

#[cfg(miri)]
#[path = "emulated.rs"]
mod system;

#[cfg(any(not(target_os = "linux"), miri))]
mod unsupported;

#[cfg(unix)]
mod unix;

#[cfg(all(unix, not(target_os = "linux"), not(miri)))]
mod mmap;

#[cfg(not(any(target_os = "linux", target_os = "macos", target_os = "freebsd", windows)))]
compile_error!(
    "Larder supports Linux, and private caches also on macOS, FreeBSD and Windows. For another \
     system, see crates/region/src/platform/mod.rs"
);

use std::fs::File;
use std::io;

pub use system::{clock, fd, file_id, ownership, path, peer_groups, socket, user};
pub(crate) use system::{files, fork, locks, memory};

/// True if processes can share caches on this system.
pub const SHARES_MEMORY: bool = cfg!(all(target_os = "linux", not(miri)));

/// Size of a huge page, in bytes.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// A point in time of one of the clocks in [`clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds, less than a second.
    pub ns: u32,
}

impl Moment {
    /// Returns the time in milliseconds, rounded down.
    #[inline]
    #[must_use]
    pub fn ms(self) -> u64 {
        self.secs.cast_unsigned().wrapping_mul(1000).wrapping_add(u64::from(self.ns) / 1_000_000)
    }
}

/// The reason why a file cannot be opened.
#[cfg_attr(
    any(not(target_os = "linux"), miri),
    expect(dead_code, reason = "no file can be opened elsewhere")
)]
pub(crate) enum OpenError {
    /// The file, or a folder of its path, does not exist.
    Missing(io::Error),
    /// The file exists, but a new one was requested.
    Exists,
    /// The path names a link, a directory or a device.
    NotRegular,
    /// Another reason.
    Other(io::Error),
}

/// The way in which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenAs {
    Reader,
    Writer,
    /// Creates the file. Only this user can open it.
    New,
}

/// Owner and permission bits of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// The owner's user id.
    pub owner: u32,
    /// The group id.
    pub group: u32,
    /// The permission bits.
    pub mode: u32,
}

/// A message that has arrived on a socket.
pub struct Received {
    /// Number of bytes; 0 after the last message.
    pub bytes: usize,
    /// The first file that was attached.
    pub file: Option<File>,
}
