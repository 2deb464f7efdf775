//! Sockets: the listener, a thread that accepts connections, and the workers, the threads that
//! serve them. A worker serves its connections in turns: in a turn it receives a connection's
//! input, executes it, and sends the output, before it serves the next connection.

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
pub(crate) mod terms;
pub(crate) mod token;
pub(crate) mod unix_socket;
pub(crate) mod worker;
