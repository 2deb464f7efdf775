//! The content and the due times of requests.

pub(crate) mod draw;
pub(crate) mod schedule;
