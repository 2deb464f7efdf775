//! What a cache keeps for each thread, and the thread that it starts on request.

pub(crate) mod maintainer;
pub(crate) mod slots;
