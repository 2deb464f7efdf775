//! The memory that this process may use, and `-m` as a percentage of it.
//!
//! `place.rs` finds the files of the kernel that limit this process, `files.rs` reads them,
//! `follower.rs` decides what the limit of the cache becomes, `control.rs` applies it, and
//! `start.rs` reports the limit when the server starts.

pub(crate) mod control;
mod files;
mod follower;
mod place;
pub(crate) mod start;
#[cfg(test)]
mod tree;

use std::path::Path;

use larder_options::MemoryBound;

use files::MemoryFiles;

/// Returns the memory that this process may use: the smallest limit of its cgroup and of the
/// cgroups above it, or the machine's memory if that is smaller.
///
/// # Errors
/// Returns why it is unknown.
pub fn bound() -> Result<MemoryBound, String> {
    MemoryFiles::find(Path::new("/"))?.bound()
}
