//! Bytes between a socket and a session, and the limit on all of them together. Sessions write
//! them, connections send them, and the server owns their budget, so this module is below all
//! three.

pub(crate) mod backlog;
pub(crate) mod budget;
pub(crate) mod output;
