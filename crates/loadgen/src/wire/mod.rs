//! Non-blocking connections, datagrams, dialects and pending requests.

pub(crate) mod ask;
pub(crate) mod channel;
pub(crate) mod datagrams;
pub(crate) mod dialect;
pub(crate) mod opener;
pub(crate) mod pending;
pub(crate) mod pipeline;
