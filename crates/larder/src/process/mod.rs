//! A cache in one process: its memory, its threads and its loads in progress, and their handling in
//! a forked child.

pub(crate) mod attached;
pub(crate) mod codec_error;
pub(crate) mod flight;
mod fork;
pub(crate) mod maintainer;
pub(crate) mod outside;
pub(crate) mod registered;
pub(crate) mod removals;
pub(crate) mod shared;
pub(crate) mod slots;
