//! The threads and processes that share a region: thread slots, peers, waiting, and repair after a
//! crash.

pub(crate) mod peers;
pub(crate) mod thread_slot;
pub(crate) mod wait;
