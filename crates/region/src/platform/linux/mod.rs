//! Linux.

pub mod clock;
pub(crate) mod files;
pub(crate) mod fork;
mod groups;
pub(crate) mod locks;
pub(crate) mod memory;
pub mod socket;

pub use super::unix::{fd, file_id, ownership, path, user};
pub use groups::peer_groups;
