//! One connection of a client: its requests, the responses of both servers, and the connection to
//! the candidate.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the state; assigns responses to requests |
//! | `requests.rs` | parses requests and passes them to the candidate |
//! | `candidate.rs` | the connection to the candidate |

mod candidate;
mod requests;

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use larder_protocol::Parser;

use crate::shadow::compare::Context;
use crate::shadow::compare::answers::{Answers, Next};
use crate::shadow::compare::asked::{Asked, Fit, Server, Shape};
use crate::shadow::compare::link::Link;
use crate::shadow::compare::unit::Unit;
use crate::shadow::feed::ConnectionId;
use crate::shadow::tally::Uncompared;

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Pair {
    connection: ConnectionId,
    step: Step,
    parser: Parser,
    /// The beginning of a request.
    held: Vec<u8>,
    /// Bytes of the current value that have not arrived.
    value_missing: u64,
    /// True if the request in progress is sent to the candidate.
    passes: bool,
    is_binary: bool,
    pending: VecDeque<Asked>,
    live: Stream,
    candidate: Stream,
    link: Option<Link>,
    /// The number of keys in [`Self::pending`] without the first one of each request.
    further_keys: usize,
    /// True if a response of the live server has belonged to a request.
    has_answers: bool,
    /// Since when the candidate owes a response.
    owes_since: Option<Instant>,
    /// When the client's connection ended.
    ended: Option<Instant>,
    /// The part of this connection in [`Context::held_bytes`].
    accounted_bytes: usize,
}

/// The responses of one server.
#[derive(Debug)]
struct Stream {
    answers: Answers,
    /// The place in [`Pair::pending`] of the request whose response is next.
    next: usize,
}

/// Whether the requests of a connection are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Requests and responses are in step.
    Sure,
    /// Bytes are missing. The next request that follows a response may be a new beginning.
    Lost {
        /// True if the latest bytes were a response.
        is_answered: bool,
    },
    /// A new beginning. After some requests with exactly one response each it is sure.
    Trial {
        /// The number of exchanges in step.
        exchanges: u32,
    },
    /// The bytes are not memcached's protocol.
    Unknown,
}

/// The result of [`Pair::flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// All bytes are sent.
    Done,
    /// Some bytes are sent, others remain.
    Partly,
    /// The candidate accepts no bytes.
    Stuck,
}

/// A response that does not belong to any request.
#[derive(Debug)]
struct OutOfStep;

impl Pair {
    /// Creates the state of a new connection.
    pub(crate) fn new(connection: ConnectionId, context: &Context) -> Self {
        let stream = || Stream { answers: Answers::new(context.hashing), next: 0 };
        Self {
            connection,
            step: Step::Sure,
            parser: Parser::default(),
            held: Vec::new(),
            value_missing: 0,
            passes: false,
            is_binary: false,
            pending: VecDeque::new(),
            live: stream(),
            candidate: stream(),
            link: None,
            further_keys: 0,
            has_answers: false,
            owes_since: None,
            ended: None,
            accounted_bytes: 0,
        }
    }

    /// Takes bytes of the live server.
    pub(crate) fn take_answer(&mut self, bytes: &[u8], context: &mut Context) {
        match &mut self.step {
            Step::Unknown => return,
            Step::Lost { is_answered } => {
                *is_answered = true;
                return;
            }
            Step::Trial { .. } | Step::Sure => {}
        }
        if self.take_units(Server::Live, bytes, context).is_err() {
            match self.step {
                Step::Sure if !self.has_answers => self.give_up(context),
                _ => self.lose_step(context),
            }
        }
        self.settle(context);
    }

    fn stream(&mut self, server: Server) -> &mut Stream {
        match server {
            Server::Live => &mut self.live,
            Server::Candidate => &mut self.candidate,
        }
    }

    fn take_units(
        &mut self,
        server: Server,
        mut bytes: &[u8],
        context: &mut Context,
    ) -> Result<(), OutOfStep> {
        loop {
            let is_binary = self.is_binary;
            match self.stream(server).answers.next(&mut bytes, is_binary) {
                Next::More => return Ok(()),
                Next::Bad => return Err(OutOfStep),
                Next::Unit(unit) => self.assign(server, unit)?,
            }
            match server {
                Server::Live => self.has_answers = true,
                Server::Candidate => {
                    context.backoff = BACKOFF_MIN;
                    context.keys.note_answer();
                }
            }
        }
    }

    /// Assigns a unit to the request that it answers.
    fn assign(&mut self, server: Server, unit: Unit) -> Result<(), OutOfStep> {
        loop {
            let next = self.stream(server).next;
            let asked = self.pending.get(next).ok_or(OutOfStep)?;
            let is_skipped = server == Server::Candidate && asked.unsent.is_some();
            let fit = if is_skipped { Fit::Silent } else { asked.fit(&unit) };
            let is_silent = matches!(fit, Fit::Takes { .. }) && self.is_of_later(next, &unit);
            let asked = self.pending.get_mut(next).ok_or(OutOfStep)?;
            match if is_silent { Fit::Silent } else { fit } {
                Fit::Alien => return Err(OutOfStep),
                Fit::Silent => {
                    asked.replies(server).is_done = true;
                    self.stream(server).next += 1;
                }
                Fit::Takes { is_done } => {
                    let is_list =
                        matches!(asked.shape, Shape::List | Shape::Dump | Shape::BinaryList);
                    let replies = asked.replies(server);
                    replies.is_done = is_done;
                    if is_list && !is_done {
                        return Ok(());
                    }
                    let is_end = asked.shape == Shape::Values && is_done && !unit.is_error();
                    let replies = asked.replies(server);
                    match &mut replies.first {
                        _ if is_end => {}
                        first @ None => *first = Some(unit),
                        Some(_) => replies.more.push(unit),
                    }
                    self.stream(server).next += usize::from(is_done);
                    return Ok(());
                }
            }
        }
    }

    /// True if a response that a quiet request without a name accepts belongs to the next request
    /// that is not quiet. That one has exactly one response.
    fn is_of_later(&self, place: usize, unit: &Unit) -> bool {
        let Some(asked) = self.pending.get(place) else { return false };
        if !asked.is_quiet || asked.shape != Shape::Meta || asked.is_named() || unit.is_error() {
            return false;
        }
        let mut later = self.pending.iter().skip(place + 1).take(QUIET_RUN_MAX);
        let aloud = later.find(|later| !later.is_quiet);
        aloud.is_some_and(|aloud| matches!(aloud.fit(unit), Fit::Takes { .. }))
    }

    /// Counts the oldest requests while both servers have answered them.
    fn settle(&mut self, context: &mut Context) {
        while let Some(asked) = self.pending.front() {
            let is_candidate_done = asked.candidate.is_done || asked.unsent.is_some();
            let is_live_done = asked.live.is_done || self.ended.is_some();
            let is_done = is_live_done && is_candidate_done && !asked.is_open;
            if !is_done {
                break;
            }
            let Some(asked) = self.pending.pop_front() else { break };
            self.live.next = self.live.next.saturating_sub(1);
            self.candidate.next = self.candidate.next.saturating_sub(1);
            self.owes_since = Some(Instant::now());
            self.further_keys -= asked.more_keys.len();
            context.judge(asked, self.connection);
        }
        if self.pending.is_empty() {
            self.owes_since = None;
            self.pending.shrink_to(PENDING_KEPT);
        }
    }

    /// Updates the memory that is accounted to this connection, and enforces the limits.
    pub(crate) fn account(&mut self, context: &mut Context) {
        let mut held = self.held_bytes();
        let is_over = |held: usize, before: usize, context: &Context| {
            held > context.limits.connection_bytes
                || held > before && context.held_bytes + held - before > context.limits.total_bytes
        };
        if is_over(held, self.accounted_bytes, context) {
            self.lose_candidate(Uncompared::Slow, context);
            held = self.held_bytes();
            // Responses of the live server are missing for very many requests.
            if is_over(held, self.accounted_bytes, context) {
                self.lose_step(context);
                held = self.held_bytes();
            }
        }
        context.held_bytes = context.held_bytes + held - self.accounted_bytes;
        self.accounted_bytes = held;
    }

    fn held_bytes(&self) -> usize {
        self.held.capacity()
            + self.live.answers.held_bytes()
            + self.candidate.answers.held_bytes()
            + self.link.as_ref().map_or(0, Link::held_bytes)
            + self.pending.len() * size_of::<Asked>()
            + self.further_keys * FURTHER_KEY_BYTES
    }

    /// Notes that bytes of this connection are missing.
    pub(crate) fn lose_step(&mut self, context: &mut Context) {
        if self.step == Step::Unknown {
            return;
        }
        context.tally.gaps += 1;
        self.lose_candidate(Uncompared::LostTrack, context);
        // Changes of unknown keys may be among the missing requests.
        context.keys.note_gap();
        self.restart(context);
        self.step = Step::Lost { is_answered: false };
    }

    /// Forgets all requests in progress.
    fn restart(&mut self, context: &mut Context) {
        self.unsend(Uncompared::LostTrack, context);
        for asked in mem::take(&mut self.pending) {
            context.judge(asked, self.connection);
        }
        let link = self.link.take();
        *self = Self {
            step: self.step,
            ended: self.ended,
            has_answers: self.has_answers,
            accounted_bytes: self.accounted_bytes,
            link,
            ..Self::new(self.connection, context)
        };
    }

    /// Stops comparing, because the bytes are not understood.
    fn give_up(&mut self, context: &mut Context) {
        if self.step == Step::Unknown {
            return;
        }
        context.tally.unknown_connections += 1;
        self.lose_candidate(Uncompared::Withheld, context);
        self.restart(context);
        context.keys.note_gap();
        self.step = Step::Unknown;
    }

    /// Notes that the client's connection has ended.
    pub(crate) fn end(&mut self, context: &mut Context) {
        self.ended = Some(Instant::now());
        for asked in self.pending.iter_mut().skip(self.live.next) {
            // A quiet request has no response that could be missing.
            asked.live.is_done |= asked.is_quiet;
            asked.is_open = false;
        }
        self.settle(context);
    }

    /// Takes it that the candidate has executed the quiet requests.
    fn assume_quiet(&mut self) {
        let is_flushed = self.link.as_ref().is_some_and(Link::is_flushed);
        for asked in self.pending.iter_mut().filter(|asked| asked.is_quiet && is_flushed) {
            asked.live.is_done = true;
            asked.candidate.is_done |= asked.unsent.is_none();
        }
    }

    /// Counts the requests that are still in progress. Call once, at the end.
    pub(crate) fn finish(&mut self, reason: Uncompared, context: &mut Context) {
        self.assume_quiet();
        self.unsend(reason, context);
        for asked in mem::take(&mut self.pending) {
            context.judge(asked, self.connection);
        }
        self.link = None;
        context.held_bytes -= self.accounted_bytes;
        self.accounted_bytes = 0;
    }

    /// True if the candidate owes a response, or has not got all requests.
    pub(crate) fn is_owed(&self) -> bool {
        if self.link.as_ref().is_some_and(|link| !link.is_flushed()) {
            return true;
        }
        let mut later = self.pending.iter().skip(self.candidate.next);
        later.any(|asked| asked.unsent.is_none() && !asked.is_quiet)
    }
}

/// The shortest time between two attempts to reach a candidate that failed.
pub(super) const BACKOFF_MIN: Duration = Duration::from_millis(100);

/// The number of exchanges in step after which a new beginning is sure.
const TRIAL_EXCHANGES: u32 = 8;

/// The largest memory for the beginning of a request, in bytes. The parser refuses longer ones.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// The number of requests in progress above which quiet ones count as executed.
const QUIET_MAX: usize = 8192;

/// The number of requests in progress whose memory a connection keeps.
const PENDING_KEPT: usize = 64;

/// The number of quiet requests in a row after which a response is taken for that of the first one.
const QUIET_RUN_MAX: usize = 64;

/// The memory of a further key of a request and of the responses to it, in bytes.
const FURTHER_KEY_BYTES: usize = 8 + 2 * size_of::<Unit>();

/// The number of reads of one connection before another one has its turn.
const READS_PER_TURN: u32 = 16;
