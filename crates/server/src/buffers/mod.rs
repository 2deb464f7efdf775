//! Bytes between a socket and a session, and the bound on all of them together.

pub(crate) mod backlog;
pub(crate) mod budget;
pub(crate) mod output;
