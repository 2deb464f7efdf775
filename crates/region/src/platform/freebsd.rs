//! FreeBSD. Compiled, never run: no machine with this system was at hand.

pub use super::mmap::clock;
pub(crate) use super::mmap::{fork, memory};
pub use super::unix::{fd, file_id, ownership, path, user};
pub(crate) use super::unsupported::{files, locks};
pub use super::unsupported::{peer_groups, socket};

/// The advice that returns pages to the system.
pub(super) const RELEASE: libc::c_int = libc::MADV_FREE;

pub(super) const MONOTONIC: libc::clockid_t = libc::CLOCK_MONOTONIC;
pub(super) const MONOTONIC_COARSE: libc::clockid_t = libc::CLOCK_MONOTONIC_FAST;
pub(super) const WALL_COARSE: libc::clockid_t = libc::CLOCK_REALTIME_FAST;
