//! Reclaiming memory: which segment is emptied, what of it survives, and the expiry sweep.

pub(crate) mod empty;
pub(crate) mod evict;
pub(crate) mod expiry;
pub(crate) mod ghost;
pub(crate) mod limit;
pub(crate) mod policy;
pub(crate) mod relocate;
