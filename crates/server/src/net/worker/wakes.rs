//! Continues connections that other threads have woken.

use super::Worker;
use crate::net::token::Token;

impl Worker {
    /// Runs a turn for every connection that waits for a wake. Those that still wait afterwards are
    /// added to the list again.
    pub(super) fn show_lines(&mut self, contended: bool) {
        for token in std::mem::take(&mut self.watching) {
            self.wake_connection(token, contended);
        }
    }

    /// Runs a turn for every connection that was woken by its number: its origin has answered, or
    /// it is a change stream with changes to report.
    pub(super) fn wake_connections(&mut self, contended: bool) {
        for number in self.inbox.answered().take() {
            self.wake_connection(Token::from(number), contended);
        }
    }

    fn wake_connection(&mut self, token: Token, contended: bool) {
        if self.connections.of(token).is_some_and(|connection| !connection.is_queued()) {
            self.begin_turn(token, contended);
        }
    }
}
