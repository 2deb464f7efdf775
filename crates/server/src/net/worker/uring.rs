//! The io_uring side of a worker: starts and stops receives, and handles completions.

use std::os::fd::AsFd;

use larder_protocol::text::watched::CloseReason;
use rustix::io::Errno;

use super::{PendingTurn, TURNS_MAX, Worker};
use crate::buffers::output::Output;
use crate::net::connection::Connection;
use crate::net::connection::io::Extent;
use crate::net::connection::turn::Input;
use crate::net::connection::uring::ReceiveOutcome;
use crate::net::ring::event::Reception;
use crate::net::ring::{BUFFERS, DirectReceive, LentBuffer};
use crate::net::token::Token;

impl Worker {
    /// Handles received bytes of a connection.
    pub(super) fn take_received(&mut self, token: Token, lent: LentBuffer, contended: bool) {
        if self.connections.of(token).is_some_and(Connection::has_begun) {
            // The connection already has a turn with the previous part of its input. That turn is
            // executed first, so that this part need not be copied to the backlog.
            self.end_turns(contended);
        }
        let Self { connections, poller, scratch, executor, stopwatches, .. } = self;
        let (Some(ring), connection) = (poller.ring(), connections.of_mut(token)) else { return };
        let Some(connection) = connection else { return ring.give_back(lent) };
        connection.note_arrival(stopwatches.woken_ns());
        let taken = connection.take_received(executor, scratch, ring.bytes(&lent));
        let input = match taken {
            ReceiveOutcome::AsItIs => Input::Lent(lent),
            ReceiveOutcome::As(input) => {
                ring.give_back(lent);
                input
            }
            ReceiveOutcome::Kept => {
                ring.give_back(lent);
                if connection.stops_receiving() {
                    ring.stop_receiving(token);
                }
                return;
            }
        };
        self.turns.push(PendingTurn::new(token, input));
        if self.turns.len() == TURNS_MAX || self.scratch.is_full() {
            self.end_turns(contended);
        }
    }

    /// Handles the completion of a direct receive.
    pub(super) fn note_direct(
        &mut self,
        token: Token,
        direct: Box<DirectReceive>,
        received: Result<usize, Errno>,
        contended: bool,
    ) {
        let Self { connections, executor, clock, stopwatches, .. } = self;
        let Some(connection) = connections.of_mut(token) else { return };
        connection.note_arrival(stopwatches.woken_ns());
        let reception = match received {
            Ok(bytes @ 1..) => {
                if !connection.take_direct(executor, direct, bytes, clock.second()) {
                    return self.receive(token);
                }
                self.turns.push(PendingTurn::new(token, Input::Backlog));
                if self.turns.len() == TURNS_MAX {
                    self.end_turns(contended);
                }
                return;
            }
            Ok(0) => Reception::Over,
            Err(Errno::INTR | Errno::AGAIN | Errno::CANCELED) => Reception::Paused,
            Err(_) => Reception::Broken,
        };
        drop(direct);
        self.note_reception(token, reception);
    }

    /// Handles the end of a receive.
    pub(super) fn note_reception(&mut self, token: Token, reception: Reception) {
        let Some(connection) = self.connections.of_mut(token) else { return };
        if connection.note_reception(reception) {
            let closing = connection.closing();
            self.close(token, closing);
        } else if reception == Reception::Starved {
            self.starve(token);
        } else if !connection.has_begun() {
            // Otherwise the end of the connection's turn starts the receive, because only the
            // executed input shows whether the next bytes belong to a value that is received
            // directly.
            self.receive(token);
        }
    }

    /// Handles the completed send of an output or a part of it.
    pub(super) fn note_sent(
        &mut self,
        token: Token,
        mut output: Output,
        sent: Result<usize, Errno>,
        contended: bool,
    ) {
        let Self { connections, poller, scratch, executor, clock, stopwatches, .. } = self;
        let (Some(connection), Some(ring)) = (connections.of_mut(token), poller.ring()) else {
            return;
        };
        let sent = match sent {
            Ok(sent) if sent > 0 => sent,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            _ => return self.close(token, CloseReason::Error),
        };
        connection.note_progress(executor, sent, clock.second());
        if !output.is_sent() {
            output.compact();
            return ring.send(connection.as_fd(), token, output);
        }
        connection.note_sent(executor);
        scratch.give_output(output);
        if !connection.is_queued() {
            // Input that waited until the peer received the output begins to wait for the worker.
            connection.note_arrival(stopwatches.woken_ns());
            self.begin_turn(token, contended);
        }
    }

    /// Counts an output that was not accepted immediately as memory that the connection holds.
    pub(super) fn note_stuck(&mut self, token: Token) {
        if let Some(connection) = self.connections.of_mut(token) {
            connection.note_stuck(&self.executor);
        }
    }

    /// Replaces large receives of every connection. While memory is short, each receives a little
    /// at a time, as [`Self::receive`] requests.
    pub(super) fn receive_less(&mut self) {
        for token in self.connections.tokens(|_| true) {
            let Self { connections, poller, .. } = self;
            if let (Some(connection), Some(ring)) = (connections.of_mut(token), poller.ring())
                && connection.receives_less()
            {
                ring.stop_receiving(token);
            }
        }
    }

    /// Starts a receive for a connection if it may have more input. Connections that already wait
    /// for a buffer come first; otherwise connections that send without pause would take all
    /// buffers again and again.
    pub(super) fn receive(&mut self, token: Token) {
        if self.starved.is_empty() {
            return self.receive_now(token);
        }
        let is_tight = self.executor.server().connections.budget.allotment(0).is_tight;
        let connection = self.connections.of(token);
        // A connection that cannot receive now does not delay the others.
        match connection.is_some_and(|connection| connection.can_receive(is_tight)) {
            true => self.starve(token),
            false => self.receive_now(token),
        }
    }

    /// Makes a connection wait for a buffer, unless it already does.
    fn starve(&mut self, token: Token) {
        if let Some(connection) = self.connections.of_mut(token)
            && connection.starve()
        {
            self.starved.push_back(token);
        }
    }

    /// Starts receives for the connections that have waited longest for a buffer, at most as many
    /// as the ring has buffers.
    pub(super) fn receive_for_starved(&mut self) {
        for _ in 0..BUFFERS {
            let Some(token) = self.starved.pop_front() else { break };
            if let Some(connection) = self.connections.of_mut(token) {
                connection.end_starving();
            }
            self.receive_now(token);
        }
    }

    fn receive_now(&mut self, token: Token) {
        let (Some(connection), Some(ring)) = (self.connections.of_mut(token), self.poller.ring())
        else {
            return;
        };
        let is_tight = self.executor.server().connections.budget.allotment(0).is_tight;
        if let Some(extent) = connection.begin_receiving(is_tight) {
            match extent {
                Extent::Once(bytes) => ring.receive_once(connection.as_fd(), token, bytes),
                Extent::Any => ring.receive(connection.as_fd(), token),
                Extent::Value(direct) => ring.receive_at(connection.as_fd(), token, direct),
            }
        } else if connection.receives_too_little() && connection.stops_receiving() {
            ring.stop_receiving(token);
        }
    }
}
