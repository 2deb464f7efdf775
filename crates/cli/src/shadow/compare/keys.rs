//! Facts about keys: whether both servers are expected to have the same item, and which tokens they
//! gave to it. The memory for these facts is bounded.

use std::collections::HashMap;
use std::mem;
use std::time::{Duration, Instant};

use crate::shadow::feed::ConnectionId;
use crate::shadow::tally::Explained;

/// The hash of a key.
pub(crate) type KeyHash = u64;

/// A position in the order of all requests; later requests have greater numbers.
pub(crate) type Moment = u64;

/// Facts about one key.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// The latest cas tokens of the same item at the live server and at the candidate, the newest
    /// first. Tokens are never 0.
    tokens: [(u64, u64); TOKENS_PER_KEY],
    /// Requests in flight whose responses will contain tokens.
    token_readers: u32,
    /// Changes in flight.
    writers: u32,
    /// The connection of the latest change.
    last_writer: ConnectionId,
    /// Changes that are not sent to the candidate yet, because they wait for a token.
    held: u32,
    /// When the first of them began.
    held_since: Moment,
    /// Their connection; `None`: several.
    held_by: Option<ConnectionId>,
    /// True if changes of several connections have overlapped since there was no change in flight.
    is_contested: bool,
    /// When the latest change was done at both servers; 0: never.
    done_at: Moment,
    /// When the request began that left the same item, or none, at both servers; 0: never.
    settled_at: Moment,
    /// True if the servers may have different items.
    is_uncertain: bool,
}

/// Facts about the keys that were changed last. Older facts are forgotten, in halves.
#[derive(Debug)]
pub(crate) struct Keys {
    young: HashMap<KeyHash, Facts>,
    old: HashMap<KeyHash, Facts>,
    half_max: usize,
    now: Moment,
    /// The latest loss of requests with unknown keys; 0: none.
    gap_at: Moment,
    flushes: u32,
    flushed_at: Moment,
    loss: Loss,
}

/// The state after the loss of a connection to the candidate. It may still execute the requests
/// that it has received on the lost connection, even after requests of a newer connection.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Such requests are no longer possible.
    Past,
    /// The candidate has not answered since the loss.
    Silent,
    /// It has answered, and executes such requests until this time at the latest.
    Until(Instant),
}

impl Keys {
    /// Creates a memory for about this number of keys.
    pub(crate) fn new(keys_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            half_max: (keys_max / 2).max(1),
            now: 0,
            gap_at: 0,
            flushes: 0,
            flushed_at: 0,
            loss: Loss::Past,
        }
    }

    /// Returns the next moment.
    pub(crate) fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    fn look(&self, key: KeyHash) -> Option<&Facts> {
        self.young.get(&key).or_else(|| self.old.get(&key))
    }

    fn edit(&mut self, key: KeyHash) -> &mut Facts {
        if self.young.len() >= self.half_max && !self.young.contains_key(&key) {
            let forgotten = mem::replace(&mut self.old, mem::take(&mut self.young));
            // The differences of a forgotten key must stay explained.
            if forgotten.values().any(|facts| facts.is_uncertain) {
                self.gap_at = self.now;
            }
        }
        let before = self.old.remove(&key).unwrap_or_default();
        self.young.entry(key).or_insert(before)
    }

    /// Notes that a change is sent to both servers.
    pub(crate) fn begin_change(&mut self, key: KeyHash, connection: ConnectionId) {
        let facts = self.edit(key);
        if facts.writers == 0 {
            facts.is_contested = false;
        } else if facts.last_writer != connection {
            facts.is_contested = true;
            facts.is_uncertain = true;
        }
        facts.writers += 1;
        facts.last_writer = connection;
    }

    /// Notes that a change began at `seen`, and waits for a token of the candidate.
    pub(crate) fn hold_change(&mut self, key: KeyHash, seen: Moment, connection: ConnectionId) {
        let facts = self.edit(key);
        if facts.held == 0 {
            facts.held_since = seen;
            facts.held_by = Some(connection);
        } else if facts.held_by != Some(connection) {
            facts.held_by = None;
        }
        facts.held += 1;
    }

    /// Notes that such a change waits no longer.
    pub(crate) fn release_change(&mut self, key: KeyHash) {
        let facts = self.edit(key);
        facts.held = facts.held.saturating_sub(1);
    }

    /// Notes that both servers have executed a change, or never will.
    pub(crate) fn end_change(&mut self, key: KeyHash) {
        let now = self.tick();
        let facts = self.edit(key);
        facts.writers = facts.writers.saturating_sub(1);
        facts.done_at = now;
    }

    /// Notes that a change that began at `seen` has left both servers with the same item, or both
    /// without it. Call after [`Self::end_change`].
    pub(crate) fn settle(&mut self, key: KeyHash, seen: Moment) {
        if let Loss::Until(until) = self.loss
            && Instant::now() >= until
        {
            self.loss = Loss::Past;
        }
        let is_past = matches!(self.loss, Loss::Past);
        let facts = self.edit(key);
        if !facts.is_contested && (is_past || !facts.is_uncertain) {
            facts.is_uncertain = false;
            facts.settled_at = seen;
        }
    }

    /// Notes that the servers may have different items.
    pub(crate) fn doubt(&mut self, key: KeyHash) {
        self.edit(key).is_uncertain = true;
    }

    /// True if both servers have stored or removed this item in this run, and nothing has made it
    /// uncertain.
    pub(crate) fn is_settled(&self, key: KeyHash) -> bool {
        let settled = |facts: &Facts| {
            !facts.is_uncertain && facts.settled_at > self.gap_at.max(self.flushed_at)
        };
        self.look(key).is_some_and(settled)
    }

    /// Notes that a connection to the candidate is lost with changes in flight.
    pub(crate) fn note_loss(&mut self) {
        self.loss = Loss::Silent;
    }

    /// Notes that the candidate has answered.
    pub(crate) fn note_answer(&mut self) {
        if matches!(self.loss, Loss::Silent) {
            self.loss = Loss::Until(Instant::now() + LATE_CHANGES);
        }
    }

    /// Notes that requests with unknown keys were not sent to the candidate.
    pub(crate) fn note_gap(&mut self) {
        self.gap_at = self.tick();
    }

    /// Notes that a `flush_all` is sent to both servers.
    pub(crate) fn begin_flush(&mut self) {
        self.flushes += 1;
    }

    /// Notes that both servers have executed it.
    pub(crate) fn end_flush(&mut self) {
        self.flushes = self.flushes.saturating_sub(1);
        self.flushed_at = self.tick();
    }

    /// Returns the reason why the responses to a request may differ, if there is one.
    pub(crate) fn excuse(
        &self,
        key: KeyHash,
        seen: Moment,
        connection: ConnectionId,
    ) -> Option<Explained> {
        if self.flushes > 0 || self.flushed_at > seen {
            return Some(Explained::Raced);
        }
        let facts = self.look(key).copied().unwrap_or_default();
        let is_foreign = facts.last_writer != connection;
        if is_foreign && (facts.writers > 0 || facts.done_at > seen) {
            return Some(Explained::Raced);
        }
        // A request before the change was also executed before it: the client of the change had its
        // token.
        if facts.held > 0 && seen > facts.held_since && facts.held_by != Some(connection) {
            return Some(Explained::Raced);
        }
        if facts.is_uncertain {
            return Some(Explained::Diverged);
        }
        (self.gap_at > 0 && facts.settled_at <= self.gap_at).then_some(Explained::AfterGap)
    }

    /// Notes that a request in flight will return tokens.
    pub(crate) fn begin_tokens(&mut self, key: KeyHash) {
        self.edit(key).token_readers += 1;
    }

    /// Notes that it has ended, and the tokens if both servers returned one.
    pub(crate) fn end_tokens(&mut self, key: KeyHash, tokens: Option<(u64, u64)>) {
        let facts = self.edit(key);
        facts.token_readers = facts.token_readers.saturating_sub(1);
        if let Some(tokens) = tokens.filter(|tokens| *tokens != facts.tokens[0]) {
            facts.tokens.rotate_right(1);
            facts.tokens[0] = tokens;
        }
    }

    /// Translates a token of the live server.
    pub(crate) fn translate(&self, key: KeyHash, token: u64) -> Translation {
        let Some(facts) = self.look(key) else { return Translation::Unknown };
        match facts.tokens.iter().find(|(live, _)| *live == token) {
            Some((_, candidate)) => Translation::Token(*candidate),
            None if facts.token_readers > 0 => Translation::Pending,
            None => Translation::Unknown,
        }
    }
}

/// How long a candidate that answers again may execute requests of lost connections.
const LATE_CHANGES: Duration = Duration::from_secs(1);

/// Clients may still send a token of the item before the current one.
const TOKENS_PER_KEY: usize = 3;

/// The result of [`Keys::translate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Translation {
    /// The token of the same item at the candidate.
    Token(u64),
    /// A response of the candidate that is still to arrive may contain it.
    Pending,
    /// It is not known.
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_another_connection_explains_differences_only_while_it_overlaps() {
        let mut keys = Keys::new(100);
        let before = keys.tick();
        keys.begin_change(7, 1);
        assert_eq!(keys.excuse(7, before, 2), Some(Explained::Raced));
        assert_eq!(keys.excuse(7, before, 1), None, "one connection has an order");
        keys.end_change(7);
        keys.settle(7, before);
        assert_eq!(keys.excuse(7, before, 2), Some(Explained::Raced));
        let after = keys.tick();
        assert_eq!(keys.excuse(7, after, 2), None);
    }

    #[test]
    fn a_change_that_waits_for_a_token_explains_differences_of_later_requests() {
        let mut keys = Keys::new(100);
        let before = keys.tick();
        let change = keys.tick();
        keys.hold_change(7, change, 1);
        let after = keys.tick();
        assert_eq!(keys.excuse(7, before, 2), None);
        assert_eq!(keys.excuse(7, after, 2), Some(Explained::Raced));
        assert_eq!(keys.excuse(7, after, 1), None, "one connection has an order");
        keys.release_change(7);
        assert_eq!(keys.excuse(7, after, 2), None);
    }

    #[test]
    fn changes_that_overlap_leave_a_doubt_until_a_change_alone() {
        let mut keys = Keys::new(100);
        let seen = keys.tick();
        keys.begin_change(7, 1);
        keys.begin_change(7, 2);
        for _ in 0..2 {
            keys.end_change(7);
            keys.settle(7, seen);
        }
        let later = keys.tick();
        assert_eq!(keys.excuse(7, later, 3), Some(Explained::Diverged));
        keys.begin_change(7, 1);
        keys.end_change(7);
        keys.settle(7, later);
        let last = keys.tick();
        assert_eq!(keys.excuse(7, last, 3), None);
    }

    #[test]
    fn a_doubt_remains_while_a_lost_connection_may_have_an_effect() {
        let mut keys = Keys::new(100);
        keys.doubt(7);
        keys.note_loss();
        let store = |keys: &mut Keys| {
            let seen = keys.tick();
            keys.begin_change(7, 1);
            keys.end_change(7);
            keys.settle(7, seen);
            let later = keys.tick();
            keys.excuse(7, later, 2)
        };
        assert_eq!(store(&mut keys), Some(Explained::Diverged));
        keys.note_answer();
        assert_eq!(store(&mut keys), Some(Explained::Diverged));
        keys.loss = Loss::Until(Instant::now());
        assert_eq!(store(&mut keys), None);
    }

    #[test]
    fn a_gap_explains_differences_of_keys_that_were_not_stored_since() {
        let mut keys = Keys::new(100);
        keys.note_gap();
        let seen = keys.tick();
        assert_eq!(keys.excuse(7, seen, 1), Some(Explained::AfterGap));
        keys.begin_change(7, 1);
        keys.end_change(7);
        keys.settle(7, seen);
        let later = keys.tick();
        assert_eq!(keys.excuse(7, later, 1), None);
        assert!(keys.is_settled(7));
    }

    #[test]
    fn a_doubt_that_is_forgotten_becomes_a_gap() {
        let mut keys = Keys::new(4);
        keys.tick();
        keys.doubt(1);
        (2..20).for_each(|key| keys.doubt(key));
        let seen = keys.tick();
        assert_eq!(keys.excuse(1, seen, 1), Some(Explained::AfterGap));
    }

    #[test]
    fn a_token_is_translated_once_both_servers_have_returned_it() {
        let mut keys = Keys::new(100);
        assert_eq!(keys.translate(7, 5), Translation::Unknown);
        keys.begin_tokens(7);
        assert_eq!(keys.translate(7, 5), Translation::Pending);
        keys.end_tokens(7, Some((5, 9)));
        assert_eq!(keys.translate(7, 5), Translation::Token(9));
        assert_eq!(keys.translate(7, 6), Translation::Unknown);
        keys.end_tokens(7, Some((6, 10)));
        assert_eq!(keys.translate(7, 5), Translation::Token(9), "an older token");
    }
}
