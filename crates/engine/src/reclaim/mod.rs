//! Reclaiming memory: which segment is emptied, what of it survives, and the expiry sweep.

pub(crate) mod empty;
pub(crate) mod evict;
pub(crate) mod ghost;
pub(crate) mod limit;
pub(crate) mod relocate;
pub(crate) mod room;
pub(crate) mod sweep;
