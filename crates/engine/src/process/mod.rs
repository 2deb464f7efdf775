//! The threads and processes that share a region: their thread slots, waiting for each other, and repair after a death.

pub(crate) mod peers;
pub(crate) mod repair;
pub(crate) mod superblock;
pub(crate) mod thread_slot;
pub(crate) mod wait;
