//! Closes the socket of a connection.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

/// The socket of a connection that has ended. Dropping it closes the socket; [`Self::finish`] does
/// so in an orderly way.
#[derive(Debug)]
pub(crate) struct HangUp {
    socket: OwnedFd,
    has_left: bool,
}

impl HangUp {
    /// Takes the socket of a connection. `has_left` is true if the peer has closed its side.
    pub(crate) fn new(socket: OwnedFd, has_left: bool) -> Self {
        Self { socket, has_left }
    }

    /// Shuts the socket down and closes it. The kernel's operations on it end.
    pub(crate) fn finish(self) {
        if !self.has_left {
            self.discard_input();
        }
        // Fails if the peer is gone, which does not matter here.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Receives and discards input. Closing a socket with unread input resets the connection, and
    /// the peer loses the responses that are still in transit.
    fn discard_input(&self) {
        let mut bytes = [0; DISCARDED_BYTES];
        for _ in 0..DISCARDS_MAX {
            if !matches!(recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT), Ok((1.., _))) {
                return;
            }
        }
    }
}

impl AsFd for HangUp {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// How much unread input is discarded at a time.
const DISCARDED_BYTES: usize = 4 * 1024;

/// Maximum number of such reads, so that a peer that sends without pause cannot keep the thread
/// busy.
const DISCARDS_MAX: usize = 16;
