//! The end of a connection's socket.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{RecvFlags, Shutdown, recv, shutdown};

/// A socket whose connection is over. It is closed when this is dropped, with [`Self::finish`] in an orderly way.
#[derive(Debug)]
pub(crate) struct HangUp {
    socket: OwnedFd,
    has_left: bool,
}

impl HangUp {
    /// For the socket of a connection. `has_left` is true if the peer has closed its side.
    pub(crate) fn new(socket: OwnedFd, has_left: bool) -> Self {
        Self { socket, has_left }
    }

    /// Closes the socket. Whatever the kernel still does on it ends.
    pub(crate) fn finish(self) {
        if !self.has_left {
            self.discard_input();
        }
        // It fails where the peer is gone, which is as good.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Receives and discards input: a socket that is closed with unread input resets the connection, and the peer
    /// loses the answers that are on their way to it.
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

/// Input is discarded in pieces of this length.
const DISCARDED_BYTES: usize = 4 * 1024;

/// At most this many pieces are discarded: a peer that sends without pause is not received from for ever.
const DISCARDS_MAX: usize = 16;
