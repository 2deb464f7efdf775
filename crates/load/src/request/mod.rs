//! What is asked for, and when.

pub(crate) mod ask;
pub(crate) mod draw;
pub(crate) mod schedule;
pub(crate) mod sizes;
