//! Closes connections: at their end, when they are idle, and when memory is short.

use std::time::Duration;

use larder_item::Second;
use larder_protocol::Topics;
use larder_protocol::text::watched::{self, CloseReason};
use larder_stats::Counter;
use rustix::event::epoll::EventFlags;

use super::{CloseCause, Worker};
use crate::log::{self, Level};
use crate::net::connection::Connection;
use crate::net::token::Token;

impl Worker {
    pub(super) fn close(&mut self, token: Token, closing: CloseReason) {
        let Some(connection) = self.connections.remove(token) else {
            return;
        };
        self.executor.server().connections.table.remove(connection.id());
        self.watching.retain(|watching| *watching != token);
        self.following.remove(&token);
        let (id, peer) = (connection.id(), || connection.peer());
        self.executor.server().watchers.report(Topics::CONNEVENTS, |out| {
            watched::connection_close(out, peer(), closing, u64::from(id.unsigned_abs()));
        });
        let hang_up = connection.end(&self.executor);
        match self.poller.ring() {
            Some(ring) => ring.hang_up(hang_up, token),
            None => {
                hang_up.finish();
                self.note_closed(id);
            }
        }
    }

    /// Handles that the descriptor of an ended connection has been closed.
    pub(super) fn note_closed(&self, id: i32) {
        self.executor.counters().add(Counter::ConnectionsCurrent, 1u64.wrapping_neg());
        self.executor.log().event(Level::Debug, format_args!("<{id} connection closed"));
    }

    /// Closes the connections that `larder_kill` has named.
    pub(super) fn close_killed(&mut self) {
        let kill_count = self.executor.server().connections.table.kill_count();
        if std::mem::replace(&mut self.kill_count, kill_count) == kill_count {
            return;
        }
        for token in self.connections.tokens(Connection::is_killed) {
            self.close(token, CloseReason::Shutdown);
        }
    }

    pub(super) fn close_idle(&mut self) {
        let idle_secs = self.executor.server().options.idle_timeout_secs;
        if idle_secs == 0 {
            return;
        }
        let second = self.clock.second();
        for token in self.connections.tokens(|connection| connection.is_idle(second, idle_secs)) {
            self.executor.counters().bump(Counter::IdleKicks);
            self.close(token, CloseReason::IdleTimeout);
        }
    }

    /// Makes the worker notice if a connection that copies items is silent.
    #[cold]
    pub(super) fn watch_copies(&mut self, token: Token) {
        if self.connections.of(token).is_some_and(Connection::copies_items) {
            self.following.insert(token);
            self.arm_ticks();
        }
    }

    /// Closes change streams whose near caches have been silent for a long time, and connections
    /// that copy items and have been silent.
    pub(super) fn close_silent(&mut self) {
        if self.following.is_empty() {
            return;
        }
        for token in self.connections.tokens(Connection::is_silent_stream) {
            self.close(token, CloseReason::IdleTimeout);
        }
    }

    /// Called when connections exceed the budget. Closes the one that holds the most among those
    /// that make no progress.
    #[cold]
    pub(super) fn close_greediest(&mut self) {
        let second = self.clock.second();
        if self.none_idle == Some(second) {
            // Idle time is measured in seconds, so another search within the same second would have
            // the same result.
            return;
        }
        let held = |token: &Token| {
            let connection = self.connections.of(*token);
            connection.map_or(0, |connection| connection.idle_bytes(second, GIVEN_UP_SECS_MIN))
        };
        let all = self.connections.tokens(|_| true);
        let Some((bytes, token)) =
            all.iter().map(|token| (held(token), *token)).max_by_key(|(bytes, _)| *bytes)
        else {
            return;
        };
        let Some(connection) = self.connections.of_mut(token).filter(|_| bytes > 0) else {
            self.none_idle = Some(second);
            return;
        };
        connection.give_up(&self.executor, &mut self.scratch.records);
        let (id, peer) = (connection.id(), connection.peer());
        self.close(token, CloseReason::Error);
        // One line per second. The statistics count all of them.
        if self.gave_up != Some(second) {
            self.gave_up = Some(second);
            let peer = peer.map_or_else(|| "a unix socket".to_owned(), |peer| peer.to_string());
            log::warn(format_args!(
                "connections hold more than {} bytes of buffers: closing <{id} from {peer}, which \
                 holds {bytes} bytes beyond its share and made no progress for \
                 {GIVEN_UP_SECS_MIN} s",
                self.executor.server().connections.budget.bytes_max(),
            ));
        }
    }

    /// True if a graceful stop has nothing left to send, or its deadline has passed. The first call
    /// gives every connection a last turn for input that has arrived.
    pub(super) fn is_drained(&mut self) -> bool {
        let Some(CloseCause::Stop { until }) = self.ending else {
            self.receive_last();
            self.ending = Some(CloseCause::Stop { until: self.clock.second() + DRAIN_SECS });
            self.give_last_turns(|_| true);
            return self.connections.is_empty();
        };
        self.connections.is_empty() || self.clock.second() >= until
    }

    /// Receives input that has arrived. Connections under io_uring do not receive by themselves,
    /// and the ring does not have buffers for all of them together.
    pub(super) fn receive_last(&mut self) {
        if !self.has_ring() {
            return;
        }
        let mut events = Vec::new();
        for _ in 0..LAST_LOOKS_MAX {
            self.poll(Some(Duration::ZERO), &mut events);
            if events.is_empty() {
                break;
            }
            self.give_turns(&mut events);
        }
    }

    /// Gives a turn to every chosen connection, for input that has arrived.
    pub(super) fn give_last_turns(&mut self, chosen: impl Fn(&Connection) -> bool) {
        for token in self.connections.tokens(|of| !of.is_queued() && chosen(of)) {
            if let Some(connection) = self.connections.of_mut(token) {
                connection.note_event(EventFlags::IN);
            }
            self.begin_turn(token, true);
        }
        self.end_turns(true);
    }
}

/// How often the worker looks for new input while peers continue to send.
const LAST_LOOKS_MAX: usize = 64;

/// A connection is closed for the memory it holds only after this time without progress.
const GIVEN_UP_SECS_MIN: Second = 2;

/// How long a graceful stop waits for peers to receive their responses.
const DRAIN_SECS: Second = 5;
