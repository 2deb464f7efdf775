//! Reclaiming memory: the choice of a segment, eviction, compaction, the expiry sweep, the memory
//! limit.

pub(crate) mod empty;
pub(crate) mod evict;
pub(crate) mod limit;
pub(crate) mod maintain;
pub(crate) mod policy;
pub(crate) mod relocate;
pub(crate) mod repair;
