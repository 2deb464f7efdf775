//! One connection of a client: its requests, the responses of both servers, and the connection to
//! the candidate.

use std::collections::VecDeque;
use std::mem;
use std::time::{Duration, Instant};

use larder_protocol::{Bad, Command, Frame, Parsed, Parser, names_command};

use super::Context;
use super::answers::{Answers, Next};
use super::asked::{Asked, Fit, Plan, Server, Shape, Verb};
use super::link::Link;
use super::token;
use super::unit::Unit;
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

    /// Takes bytes of the client.
    pub(crate) fn take_request(&mut self, bytes: &[u8], context: &mut Context) {
        match self.step {
            Step::Unknown => return,
            Step::Lost { is_answered } => {
                if !is_answered || !names_command(bytes) {
                    return;
                }
                self.restart(context);
                self.step = Step::Trial { exchanges: 0 };
            }
            Step::Trial { exchanges } if self.pending.is_empty() && self.is_between() => {
                self.step = match exchanges {
                    TRIAL_EXCHANGES.. => Step::Sure,
                    _ => Step::Trial { exchanges: exchanges + 1 },
                };
            }
            Step::Trial { .. } | Step::Sure => {}
        }
        self.parse(bytes, context);
    }

    /// True if neither a request nor a response of the live server is incomplete.
    fn is_between(&self) -> bool {
        self.held.is_empty() && self.value_missing == 0 && self.live.answers.is_between()
    }

    fn parse(&mut self, mut bytes: &[u8], context: &mut Context) {
        while !bytes.is_empty() && self.step != Step::Unknown {
            if self.value_missing > 0 {
                let missing = usize::try_from(self.value_missing).unwrap_or(usize::MAX);
                let (value, rest) = bytes.split_at(missing.min(bytes.len()));
                self.value_missing -= value.len() as u64;
                self.pass(value, context);
                bytes = rest;
            } else if self.held.is_empty() {
                let used = self.parse_commands(bytes, context);
                bytes = &bytes[used..];
                if self.value_missing == 0 {
                    self.held.extend_from_slice(bytes);
                    break;
                }
            } else {
                let mut joined = mem::take(&mut self.held);
                joined.extend_from_slice(bytes);
                let used = self.parse_commands(&joined, context);
                if self.value_missing == 0 {
                    joined.drain(..used);
                    self.held = joined;
                } else {
                    self.parse(&joined[used..], context);
                }
                break;
            }
        }
        if self.held.len() > REQUEST_BYTES_MAX {
            self.give_up(context);
        }
    }

    /// Parses complete commands up to a value that has not arrived. Returns the number of bytes
    /// used.
    fn parse_commands(&mut self, bytes: &[u8], context: &mut Context) -> usize {
        let mut used = 0;
        while self.value_missing == 0 && self.step != Step::Unknown {
            if self.parser.is_between_commands() {
                self.passes = self.can_pass(context);
            }
            let rest = &bytes[used..];
            match self.parser.next(rest) {
                Parsed::NeedMore => break,
                Parsed::Skipped { consumed } => {
                    self.pass(&rest[..consumed], context);
                    used += consumed;
                }
                Parsed::Bad(Bad { close: true, .. }) => self.give_up(context),
                Parsed::Bad(bad) => {
                    if bad.error.is_some() {
                        self.begin(Asked::refused(&bad.frame), true, context);
                    }
                    self.pass(&rest[..bad.consumed], context);
                    self.value_missing = bad.swallow;
                    used += bad.consumed;
                }
                Parsed::Command { command, frame, consumed } => {
                    self.command(&command, &frame, &rest[..consumed], context);
                    used += consumed;
                }
            }
        }
        used
    }

    fn command(
        &mut self,
        command: &Command<'_>,
        frame: &Frame<'_>,
        bytes: &[u8],
        context: &mut Context,
    ) {
        self.is_binary = matches!(frame, Frame::Binary(_));
        if let Command::Store(store) = command {
            self.value_missing = (store.value_bytes + frame.value_end().len()) as u64;
        }
        let is_next_key = matches!(command, Command::Get { .. })
            && self.pending.back().is_some_and(|asked| asked.is_open);
        let plan = match is_next_key {
            true => Plan::Key,
            false => Plan::of(command, frame, context.hashing),
        };
        match plan {
            Plan::Key => self.add_key(command.key().unwrap_or_default(), context),
            Plan::EndOfKeys => {
                if let Some(asked) = self.pending.back_mut() {
                    asked.is_open = false;
                }
            }
            Plan::Leave => return self.give_up(context),
            Plan::Withhold(asked) => {
                self.begin(*asked, false, context);
                self.passes = false;
            }
            Plan::Compare(mut asked) => {
                if context.shows_keys {
                    asked.key_texts.extend(command.key().map(Box::from));
                }
                let found = token::find(&asked, frame, bytes);
                let seen = self.begin(*asked, true, context);
                if let (Some(mut found), true, Some(link)) = (found, self.passes, &mut self.link) {
                    found.seen = seen;
                    return link.push_with_token(bytes, found);
                }
            }
        }
        self.pass(bytes, context);
        self.settle(context);
    }

    /// Appends a request. Returns its position among all requests.
    fn begin(&mut self, mut asked: Asked, is_sendable: bool, context: &mut Context) -> u64 {
        asked.seen = context.keys.tick();
        asked.unsent = match (is_sendable, self.passes) {
            (false, _) => Some(Uncompared::Withheld),
            (true, true) => None,
            (true, false) => Some(self.reason(context)),
        };
        asked.compare_identity(self.pending.back_mut());
        match asked.unsent {
            None => {
                if asked.changes {
                    context.keys.begin_change(asked.key, self.connection);
                }
                if asked.reads_token {
                    context.keys.begin_tokens(asked.key);
                }
                if asked.verb == Verb::Flush {
                    context.keys.begin_flush();
                }
                self.owes_since.get_or_insert_with(Instant::now);
            }
            Some(_) if asked.changes => context.keys.doubt(asked.key),
            Some(_) if asked.verb == Verb::Flush => context.keys.note_gap(),
            Some(_) => {}
        }
        let seen = asked.seen;
        if asked.shape == Shape::Nothing {
            asked.live.is_done = true;
            asked.candidate.is_done = true;
        }
        self.pending.push_back(asked);
        self.forget_quiet(context);
        seen
    }

    fn add_key(&mut self, key: &[u8], context: &mut Context) {
        let Some(asked) = self.pending.back_mut() else { return };
        let hash = context.hashing.of(key);
        asked.more_keys.push(hash);
        self.further_keys += 1;
        if context.shows_keys {
            asked.key_texts.push(key.into());
        }
        if asked.reads_token && asked.unsent.is_none() {
            context.keys.begin_tokens(hash);
        }
    }

    /// Ends the oldest requests without a response if there are very many.
    fn forget_quiet(&mut self, context: &mut Context) {
        if self.pending.len() <= QUIET_MAX {
            return;
        }
        let Some(oldest) = self.pending.front_mut().filter(|oldest| oldest.is_quiet) else { return };
        oldest.live.is_done = true;
        oldest.candidate.is_done = true;
        self.settle(context);
    }

    /// Returns the reason why requests are not sent to the candidate.
    fn reason(&self, context: &Context) -> Uncompared {
        match self.step {
            Step::Sure => context.last_failure,
            _ => Uncompared::LostTrack,
        }
    }

    /// True if the next request can be sent. Connects to the candidate if necessary.
    fn can_pass(&mut self, context: &mut Context) -> bool {
        if self.step == Step::Sure && self.link.is_none() {
            self.link = context.connect(self.connection);
        }
        self.step == Step::Sure && self.link.is_some()
    }

    fn pass(&mut self, bytes: &[u8], context: &mut Context) {
        if !self.passes {
            return;
        }
        if let Some(link) = &mut self.link {
            link.push(bytes);
            if link.held_bytes() > context.limits.connection_bytes {
                self.lose_candidate(Uncompared::Slow, context);
            }
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
        let mut later = self.pending.iter().skip(place + 1);
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
        if !self.pending.iter().any(|asked| asked.unsent.is_none()) {
            self.owes_since = None;
        }
    }

    /// Receives what the candidate has sent.
    pub(crate) fn receive(&mut self, context: &mut Context) {
        for _ in 0..READS_PER_TURN {
            let Some(link) = &mut self.link else { return };
            let mut buffer = mem::take(&mut context.scratch);
            let received = link.receive(&mut buffer);
            let is_established = link.is_established;
            let received_bytes = received.as_ref().map_or(0, |bytes| bytes.unwrap_or(0));
            let taken = match received {
                Ok(Some(bytes @ 1..)) => {
                    self.take_units(Server::Candidate, &buffer[..bytes], context).map(|()| bytes)
                }
                Ok(None) => Ok(0),
                ended @ (Ok(Some(0)) | Err(_)) => {
                    context.scratch = buffer;
                    if self.ended.is_some() && ended.is_ok() {
                        self.assume_quiet();
                    }
                    let reason = match is_established {
                        true => Uncompared::Closed,
                        false => Uncompared::Unreachable,
                    };
                    return self.lose_candidate(reason, context);
                }
            };
            let is_full = taken.as_ref().is_ok_and(|bytes| *bytes == buffer.len());
            if taken.is_err() {
                self.lose_malformed(&buffer[..received_bytes], context);
            }
            context.scratch = buffer;
            self.settle(context);
            if !is_full {
                return;
            }
        }
    }

    /// Ends the connection to the candidate because of a response that belongs to no request.
    fn lose_malformed(&mut self, received: &[u8], context: &mut Context) {
        let shown = received[..received.len().min(32)].escape_ascii().to_string();
        let next = self.candidate.next;
        if let Some(found) = self.pending.get_mut(next).filter(|asked| asked.unsent.is_none()) {
            found.malformed = Some(shown.into());
        } else {
            context.judge_malformed(&Asked::refused(&Frame::default()), shown);
        }
        self.lose_candidate(Uncompared::Abandoned, context);
    }

    /// Ends the connection to the candidate. No outstanding request is compared.
    fn lose_candidate(&mut self, reason: Uncompared, context: &mut Context) {
        if self.link.take().is_none() {
            return;
        }
        self.passes = false;
        self.candidate.answers = Answers::new(context.hashing);
        let has_outstanding = self.unsend(reason, context);
        if self.ended.is_none() && (has_outstanding || reason == Uncompared::Unreachable) {
            context.note_failure(reason);
        }
        self.settle(context);
    }

    /// Marks the requests that the candidate has not answered. Returns true if there were any.
    fn unsend(&mut self, reason: Uncompared, context: &mut Context) -> bool {
        let mut has_outstanding = false;
        for asked in self.pending.iter_mut().skip(self.candidate.next) {
            if asked.unsent.is_some() || asked.candidate.is_done {
                continue;
            }
            has_outstanding = true;
            asked.unsent = Some(reason);
            context.end_in_flight(asked, None);
            if asked.changes {
                context.keys.doubt(asked.key);
                context.keys.note_loss();
            }
            if asked.verb == Verb::Flush {
                context.keys.note_gap();
            }
        }
        has_outstanding
    }

    /// Sends requests.
    pub(crate) fn flush(&mut self, context: &mut Context) -> Flushed {
        let Some(link) = &mut self.link else { return Flushed::Done };
        let pending = &mut self.pending;
        let flushed = link.flush(&context.keys, |seen| {
            if let Some(asked) = pending.iter_mut().find(|asked| asked.seen == seen) {
                asked.is_token_unknown = true;
            }
        });
        if let Ok(sent) = flushed {
            return match (link.is_flushed(), sent) {
                (true, _) => Flushed::Done,
                (false, 0) => Flushed::Stuck,
                (false, _) => Flushed::Partly,
            };
        }
        let is_established = link.is_established;
        // A server that refuses a request may send the reason before it closes the connection.
        self.receive(context);
        self.lose_candidate(
            if is_established { Uncompared::Closed } else { Uncompared::Unreachable },
            context,
        );
        Flushed::Done
    }

    /// Checks the limits of time and memory. Returns false if the connection is done.
    pub(crate) fn check(&mut self, context: &mut Context) -> bool {
        let is_late = |since: Option<Instant>, patience| {
            since.is_some_and(|since| since.elapsed() > patience)
        };
        let owes = self.pending.iter().skip(self.candidate.next).any(|asked| {
            asked.unsent.is_none() && asked.live.is_done && !asked.is_quiet
        });
        if owes && is_late(self.owes_since, context.limits.patience) {
            let is_open = self.link.as_ref().is_some_and(|link| link.is_established);
            let reason = if is_open { Uncompared::Slow } else { Uncompared::Unreachable };
            self.lose_candidate(reason, context);
        }
        if self.ended.is_none() {
            return true;
        }
        let is_flushed = self.link.as_ref().is_none_or(Link::is_flushed);
        if is_flushed && let Some(link) = &mut self.link {
            link.shut();
        }
        self.link.is_some() && !is_late(self.ended, context.limits.patience)
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
            + self.pending.capacity() * size_of::<Asked>()
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

/// The memory of a further key of a request and of the responses to it, in bytes.
const FURTHER_KEY_BYTES: usize = 8 + 2 * size_of::<Unit>();

/// The number of reads of one connection before another one has its turn.
const READS_PER_TURN: u32 = 16;
