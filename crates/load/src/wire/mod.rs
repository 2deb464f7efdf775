//! Connections to the server, TLS, logins, datagrams and dialects.

pub(crate) mod channel;
pub(crate) mod datagrams;
pub(crate) mod dialect;
pub(crate) mod login;
pub(crate) mod opener;
pub(crate) mod pending;
pub(crate) mod pipeline;
pub(crate) mod tls;
