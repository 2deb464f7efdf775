//! Bytes between a socket and a session, and the bound on all of them together. Sessions write
//! them, connections send them, and the server holds their budget, so they lie below all three.

pub(crate) mod backlog;
pub(crate) mod budget;
pub(crate) mod output;
