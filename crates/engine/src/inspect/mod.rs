//! Inspection of a region: reports, dumps, validation.

pub(crate) mod check;
pub(crate) mod describe;
pub(crate) mod dump;
pub(crate) mod item;
pub(crate) mod report;
pub(crate) mod validate;
