//! The way to the server: connections, TLS, logins, datagrams, and the dialects.

pub(crate) mod channel;
pub(crate) mod datagrams;
pub(crate) mod dialect;
pub(crate) mod login;
pub(crate) mod opener;
pub(crate) mod pending;
pub(crate) mod pipeline;
pub(crate) mod tls;
