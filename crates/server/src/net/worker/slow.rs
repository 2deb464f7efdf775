//! Slow requests (`--log-slower-than`): takes the times of requests when their responses are handed
//! over to the kernel. With a ring that happens with the next wait.

use super::Worker;
use crate::net::connection::Connection;
use crate::net::token::Token;
use crate::observe::slow::{Client, Peer, TimedRequests};

/// Requests whose responses the ring hands over with the next wait.
#[derive(Debug, Default)]
pub(super) struct SlowWatch {
    queued: Vec<(Token, i32, TimedRequests)>,
}

impl Worker {
    /// Judges the requests of a connection whose responses are handed over.
    #[cold]
    pub(super) fn note_handed_over(&mut self, token: Token) {
        let Some(connection) = self.connections.of_mut(token) else { return };
        let Some(requests) = connection.take_timed() else { return };
        match &mut self.slow {
            Some(slow) if connection.is_uring() => {
                slow.queued.push((token, connection.id(), requests));
            }
            _ => {
                let client = || Client::Connection(connection.id(), connection.peer_shown());
                self.executor.note_timed(requests, client);
            }
        }
    }

    /// Judges the requests whose responses the ring hands over with the next wait.
    #[cold]
    pub(super) fn judge_queued(&mut self) {
        let Some(slow) = &mut self.slow else { return };
        for (token, id, requests) in slow.queued.drain(..) {
            let peer = || {
                let connection = self.connections.of(token);
                connection.map_or(Peer::Gone, Connection::peer_shown)
            };
            self.executor.note_timed(requests, || Client::Connection(id, peer()));
        }
    }
}
