//! The events that a poller reports to its worker. epoll reports only [`Event::Ready`].

use larder::DiskRead;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use super::buffers::Lent;
use super::direct::DirectReceive;
use crate::buffers::output::Output;
use crate::net::disk_reads::DiskQuery;
use crate::net::token::Token;

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// The descriptor with this key is ready, with these flags. The last field is true if a poll of
    /// the ring has ended and must be started again.
    Ready(u64, EventFlags, bool),
    /// Bytes have arrived for a connection.
    Received(Token, Lent),
    /// The receive of a connection has ended, for this reason. It must be started again for more
    /// input.
    Ended(Token, Reception),
    /// A send is complete: the output, and how many of its bytes were sent this time.
    Sent(Token, Output, Result<usize, Errno>),
    /// A direct receive is complete: its buffer, and how many bytes arrived.
    DirectDone(Token, Box<DirectReceive>, Result<usize, Errno>),
    /// A disk read is complete: the read, and how many bytes it has read, 0 if it failed.
    Read(Box<DiskQuery<(DiskRead, usize)>>),
    /// The socket of a connection that has ended is closed. The field is the number of its
    /// descriptor.
    Closed(i32),
}

/// The reason why a receive ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It was cancelled, or the kernel requires it to be submitted again.
    Paused,
    /// All buffers were lent to connections.
    Starved,
    /// The peer will send nothing more.
    Over,
    /// The connection is broken.
    Broken,
}
