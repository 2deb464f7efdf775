//! Draining: an operator takes the server out of service, or a successor has taken over. The
//! connections are closed between requests. The listener of a server out of service continues to
//! accept.
//!
//! A request that has begun to arrive is either executed and answered, or not executed at all. A
//! connection between requests is sent the end of its output, and closed when the peer closes its
//! side. A new connection is treated the same way, after the response to its first requests. Each
//! step has a limit, so that no peer can prevent the end.

use std::collections::HashMap;
use std::time::Duration;

use larder_protocol::text::watched::CloseReason;

use super::{CloseCause, Worker};
use crate::clock::monotonic_us;
use crate::net::connection::Connection;
use crate::net::token::Token;

/// The progress of a worker's drain.
#[derive(Debug, Default)]
pub(super) struct DrainProgress {
    /// True unless the drain was undone. Connections to which the end of their output was sent are
    /// closed in either case.
    is_on: bool,
    /// The connections that remain, each with the time at which the worker first found it.
    remaining: HashMap<u64, i64>,
    /// The connections to which the worker has sent the end of their output, each with the time at
    /// which it did so.
    leaving: HashMap<u64, i64>,
    /// The time at which the limits were last checked.
    checked_us: i64,
}

impl Worker {
    /// Returns how long the worker may sleep while the server is drained; `None` if the server is
    /// not drained.
    pub(super) fn drain_pause(&self) -> Option<Duration> {
        match self.ending {
            Some(CloseCause::Drain(_)) => return Some(CHECK_PAUSE),
            Some(CloseCause::Stop { .. }) => return None,
            None => {}
        }
        let closes_at_us = self.executor.server().life.drain.closes_at_us()?;
        let us = closes_at_us.saturating_sub(monotonic_us()).max(0).unsigned_abs();
        // Idle connections are closed every second, even during a long grace period.
        Some(Duration::from_micros(us.next_multiple_of(1000)).min(GRACE_PAUSE_MAX))
    }

    /// Begins, continues or ends the worker's part of a drain.
    pub(super) fn drain(&mut self) {
        let closes_at_us = self.executor.server().life.drain.closes_at_us();
        if closes_at_us.is_some() || self.ending.is_some() {
            self.go_on_draining(closes_at_us);
        }
    }

    #[cold]
    fn go_on_draining(&mut self, closes_at_us: Option<i64>) {
        let now_us = monotonic_us();
        let closes = closes_at_us.is_some_and(|at_us| now_us >= at_us);
        match &mut self.ending {
            Some(CloseCause::Stop { .. }) => {}
            None if closes => self.begin_draining(),
            None => {}
            Some(CloseCause::Drain(draining)) if draining.is_on != closes => {
                draining.is_on = closes;
                draining.remaining.clear();
                draining.checked_us = 0;
                if closes {
                    self.receive_last();
                    self.give_last_turns(Connection::has_run);
                }
            }
            Some(CloseCause::Drain(draining)) if now_us - draining.checked_us >= CHECK_US => {
                draining.checked_us = now_us;
                self.enforce_limits(now_us);
            }
            Some(CloseCause::Drain(_)) => {}
        }
    }

    fn begin_draining(&mut self) {
        self.receive_last();
        self.ending = Some(CloseCause::Drain(Box::new(DrainProgress {
            is_on: true,
            ..DrainProgress::default()
        })));
        self.give_last_turns(Connection::has_run);
    }

    /// Closes the connections whose time limit has passed.
    fn enforce_limits(&mut self, now_us: i64) {
        let tokens = self.connections.tokens(|_| true);
        let Some(CloseCause::Drain(draining)) = &mut self.ending else { return };
        let DrainProgress { is_on, remaining, leaving, .. } = &mut **draining;
        let open: HashMap<u64, Token> =
            tokens.iter().map(|token| (u64::from(*token), *token)).collect();
        remaining.retain(|token, _| open.contains_key(token));
        leaving.retain(|token, _| open.contains_key(token));
        if !*is_on && leaving.is_empty() {
            self.ending = None;
            return;
        }
        let (mut over, mut left) = (Vec::new(), Vec::new());
        for token in tokens {
            let number = u64::from(token);
            if let Some(since_us) = leaving.get(&number) {
                if now_us - since_us >= LEAVING_US_MAX {
                    over.push(token);
                }
                continue;
            }
            if !*is_on {
                continue;
            }
            let since_us = *remaining.entry(number).or_insert(now_us);
            let Some(connection) = self.connections.of(token) else { continue };
            let is_new = !connection.has_run() && !connection.has_begun();
            if is_new && now_us - since_us >= FIRST_REQUEST_US_MAX {
                over.push(token);
            } else if now_us - since_us >= REQUEST_US_MAX {
                match connection.can_take_leave() {
                    true => left.push(token),
                    false => over.push(token),
                }
            }
        }
        for token in over {
            self.close(token, CloseReason::Shutdown);
        }
        for token in left {
            self.take_leave(token, now_us);
        }
    }

    /// Handles a connection that waits for input while connections are closed between requests.
    /// Returns true if it is closed.
    #[cold]
    pub(super) fn leave(&mut self, token: Token) -> bool {
        match &self.ending {
            Some(CloseCause::Stop { .. }) => {
                self.close(token, CloseReason::Shutdown);
                return true;
            }
            Some(CloseCause::Drain(draining)) if draining.is_on => {}
            _ => return false,
        }
        if self.connections.of(token).is_some_and(Connection::is_between_requests) {
            self.take_leave(token, monotonic_us());
        }
        false
    }

    /// Sends the end of the output to a peer. The peer responds with the end of its input, which
    /// closes the connection.
    fn take_leave(&mut self, token: Token, now_us: i64) {
        let Some(CloseCause::Drain(draining)) = &mut self.ending else { return };
        if let Some(connection) = self.connections.of_mut(token) {
            draining.leaving.insert(u64::from(token), now_us);
            connection.say_goodbye();
        }
    }
}

/// How often a worker checks the limits of its connections.
const CHECK_PAUSE: Duration = Duration::from_millis(200);
const CHECK_US: i64 = 200_000;

const GRACE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a request may take to arrive and to be answered. After that the connection is closed in
/// the middle of the request.
const REQUEST_US_MAX: i64 = 4_000_000;

/// How long a new connection may wait before its first request.
const FIRST_REQUEST_US_MAX: i64 = 1_000_000;

/// How long a connection to which the end of its output was sent waits for the end of its input.
const LEAVING_US_MAX: i64 = 1_000_000;
