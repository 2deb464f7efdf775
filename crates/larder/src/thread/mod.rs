//! The thread slots of a process, and the maintainer thread.

pub(crate) mod maintainer;
pub(crate) mod registered;
pub(crate) mod slots;
