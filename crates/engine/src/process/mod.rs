//! The threads and processes that share a region: their seats, waiting for each other, and repair after a death.

pub(crate) mod peers;
pub(crate) mod repair;
pub(crate) mod seat;
pub(crate) mod superblock;
pub(crate) mod wait;
