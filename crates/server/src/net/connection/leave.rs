//! Closing a connection between two requests.

use rustix::net::{Shutdown, shutdown};

use super::Connection;

impl Connection {
    /// True if every request that has begun to arrive has its response, and the kernel has accepted
    /// the responses. False for a connection that has sent no request yet: its first request may be
    /// on its way.
    pub(crate) fn is_between_requests(&self) -> bool {
        let (held_bytes, _) = self.io.held_bytes();
        self.has_run()
            && self.turn.awaits_input()
            && self.input.is_empty()
            && held_bytes == 0
            && self.can_take_leave()
    }

    /// True once the session has executed input.
    pub(crate) fn has_run(&self) -> bool {
        self.turn.has_run()
    }

    /// True if every request whose execution has begun has its response, and the kernel has
    /// accepted the responses. Input may wait.
    pub(crate) fn can_take_leave(&self) -> bool {
        !self.has_unsent() && self.session.is_between_commands()
    }

    /// Sends the peer the end of the output, and ignores its input from now on.
    ///
    /// The socket stays open until the peer has closed its side. If a peer sends to a closed
    /// socket, the kernel resets the connection and discards the responses that are in transit.
    pub(crate) fn say_goodbye(&mut self) {
        self.session.ignore_input();
        if let Some(tls) = self.io.tls_mut() {
            tls.say_goodbye(&self.socket);
        }
        // Fails if the peer is gone. In that case the next event reports the end of the connection.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }
}
