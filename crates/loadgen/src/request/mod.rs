//! The content and the due times of requests.

pub(crate) mod ask;
pub(crate) mod draw;
pub(crate) mod schedule;
pub(crate) mod sizes;
