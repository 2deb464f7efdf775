//! Sockets: the listener that accepts connections, and the workers that serve them.

pub(crate) mod connection;
pub(crate) mod connections;
pub(crate) mod datagrams;
pub(crate) mod disk_reads;
pub(crate) mod hangup;
pub(crate) mod inbox;
pub(crate) mod listener;
pub(crate) mod poller;
pub(crate) mod ring;
pub(crate) mod scratch;
pub(crate) mod sockets;
pub(crate) mod token;
pub(crate) mod worker;
