//! A link: one connection to the origin, with the requests that wait for their answers on it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use larder::copies::{Flight, FlightResult};
use larder_protocol::follow::{self, Message};
use rustix::event::epoll::EventFlags;

use super::dial::{Role, Socket};
use super::fetched::{Got, fetched, got};
use super::outgoing::Outgoing;
use super::reply::{ReplyReader, is_error};
use crate::near::job::{Concerned, Pass};

/// A connection to the origin.
#[derive(Debug)]
pub(in crate::near) struct Link {
    pub(in crate::near) role: Role,
    pub(in crate::near) state: LinkState,
    out: Outgoing,
    /// Received bytes that cannot be parsed yet.
    input: Vec<u8>,
    /// How many of the next bytes belong to an answer that is not needed any more.
    skipped_bytes: usize,
    pub(in crate::near) pending: VecDeque<Pending>,
    /// Reads the answer to the first request, if that is a passed command.
    reader: ReplyReader,
    /// True if a part of that answer has been passed on.
    has_begun: bool,
    /// Since when the link does not receive, because a client does not take its answer.
    pub(in crate::near) paused_since: Option<u64>,
    /// How many of the first requests have been given up.
    pub(in crate::near) given_up: usize,
    /// The failures to connect in a row.
    pub(in crate::near) failures: u32,
    /// True if a request needs the link.
    pub(in crate::near) is_wanted: bool,
    /// The events for which the poller waits.
    pub(in crate::near) awaited: EventFlags,
}

/// Whether a link is connected.
#[derive(Debug)]
pub(in crate::near) enum LinkState {
    /// It is not. The next attempt is at this time of the boot clock.
    Down { retry_ms: u64 },
    /// An attempt to connect is under way since this time.
    Dialing { since_ms: u64 },
    /// It is.
    Up(Socket),
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(in crate::near) struct Pending {
    pub(in crate::near) of: PendingRequest,
    pub(in crate::near) deadline_ms: u64,
}

#[derive(Debug)]
pub(in crate::near) enum PendingRequest {
    /// `larder_follower`.
    Follower,
    Fetch(Arc<Flight>),
    /// A fetch by `gets`, from an origin that does not report changes.
    Gets(Arc<Flight>),
    Pass(Arc<Pass>),
}

/// What the origin has sent.
#[derive(Debug)]
pub(in crate::near) enum Arrival {
    Message(Message),
    /// The answer to a fetch. It is late if the fetch has been given up.
    Fetched {
        flight: Arc<Flight>,
        result: FlightResult,
        is_late: bool,
    },
    /// A part of the answer to a passed command.
    Answered {
        pass: Arc<Pass>,
        part: Vec<u8>,
        is_first: bool,
        is_last: bool,
    },
}

/// The reason why a link is lost.
#[derive(Debug, thiserror::Error)]
pub(in crate::near) enum Lost {
    #[error("the origin closed the connection")]
    Closed,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the origin sent {0:?}, which is no answer")]
    Garbled(String),
    #[error("the origin did not answer for too long")]
    Silent,
    #[error("a client did not receive a long answer while others waited for the connection")]
    HeldUp,
    #[error("another process serves beside this one")]
    Retired,
}

impl Link {
    /// True if the origin has answered a command on the connection before it counts as up. The
    /// system accepts connections also for a process that hangs.
    pub(in crate::near) fn is_proven(&self) -> bool {
        matches!(self.role, Role::Stream | Role::Fetch | Role::Text)
    }

    pub(in crate::near) fn new(role: Role) -> Self {
        Self {
            role,
            state: LinkState::Down { retry_ms: 0 },
            out: Outgoing::default(),
            input: Vec::new(),
            skipped_bytes: 0,
            pending: VecDeque::new(),
            reader: ReplyReader::default(),
            has_begun: false,
            paused_since: None,
            given_up: 0,
            failures: 0,
            is_wanted: false,
            awaited: EventFlags::IN,
        }
    }

    pub(in crate::near) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }

    /// Begins to use a connection.
    pub(in crate::near) fn rise(&mut self, socket: Socket) {
        self.out.clear();
        self.input.clear();
        (self.reader, self.has_begun) = (ReplyReader::default(), false);
        (self.given_up, self.failures, self.skipped_bytes) = (0, 0, 0);
        (self.paused_since, self.awaited) = (None, EventFlags::IN);
        self.state = LinkState::Up(socket);
    }

    /// Appends to the output.
    pub(in crate::near) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.out.push(write);
    }

    /// Appends bytes to the output.
    pub(in crate::near) fn push_part(&mut self, part: Vec<u8>) {
        self.out.push_part(part);
    }

    pub(in crate::near) fn has_output(&self) -> bool {
        let is_held = match &self.state {
            LinkState::Up(socket) => socket.has_unsent(),
            LinkState::Down { .. } | LinkState::Dialing { .. } => false,
        };
        is_held || !self.out.is_empty()
    }

    /// Returns the events for which the poller should wait.
    pub(in crate::near) fn events(&self) -> EventFlags {
        let mut events = EventFlags::empty();
        events.set(EventFlags::IN, self.paused_since.is_none());
        events.set(EventFlags::OUT, self.has_output());
        events
    }

    /// Sends what the socket accepts, up to a limit. If that is anything, a request with a large
    /// value has time until `deadline_ms`.
    pub(in crate::near) fn flush(&mut self, deadline_ms: u64) -> Result<(), Lost> {
        let LinkState::Up(socket) = &mut self.state else { return Ok(()) };
        let sent = self.out.send(socket)?;
        if let Some(front) = self.pending.front_mut().filter(|_| sent > 0)
            && let PendingRequest::Pass(pass) = &front.of
            && pass.is_upload
        {
            front.deadline_ms = deadline_ms;
        }
        // Encrypted bytes may still wait in the socket.
        match socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
            _ => {}
        }
        Ok(())
    }

    /// Receives what has arrived, up to a limit, and passes each part to `take`. A request whose
    /// answer arrives in parts has time until `deadline_ms` for the next part.
    pub(in crate::near) fn receive(
        &mut self,
        buffer: &mut [u8],
        terms: ReceiveTerms,
        mut take: impl FnMut(Arrival),
    ) -> Result<(), Lost> {
        let mut received = 0;
        // What a TLS connection has decrypted would cause no further event.
        while let LinkState::Up(socket) = &mut self.state
            && (received < RECEIVED_BYTES_MAX || socket.has_decrypted())
        {
            match socket.read(buffer) {
                Ok(0) => return Err(Lost::Closed),
                Ok(bytes) => {
                    // A short read has emptied the socket. If not, there is another event.
                    let is_over = bytes < buffer.len() && !matches!(socket, Socket::Tls(_));
                    self.parse_more(buffer.get(..bytes).unwrap_or_default(), terms, &mut take)?;
                    received += bytes;
                    if is_over {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Parses what has arrived, after what could not be parsed before.
    fn parse_more(
        &mut self,
        arrived: &[u8],
        terms: ReceiveTerms,
        take: &mut impl FnMut(Arrival),
    ) -> Result<(), Lost> {
        let mut before = std::mem::take(&mut self.input);
        let input = if before.is_empty() {
            arrived
        } else {
            before.extend_from_slice(arrived);
            &before
        };
        let mut at = 0;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            let Some((bytes, arrival)) = self.parse_one(rest, terms)? else { break };
            at += bytes;
            arrival.into_iter().for_each(&mut *take);
        }
        if before.is_empty() {
            self.input.extend_from_slice(input.get(at..).unwrap_or_default());
        } else {
            before.drain(..at);
            before.shrink_to(BUFFER_BYTES_KEPT.max(before.len()));
            self.input = before;
        }
        Ok(())
    }

    /// Parses the first answer, part of an answer, or message; `None` if it is incomplete. An
    /// acknowledgement has no arrival.
    fn parse_one(
        &mut self,
        input: &[u8],
        terms: ReceiveTerms,
    ) -> Result<Option<(usize, Option<Arrival>)>, Lost> {
        if self.role == Role::Stream {
            let Some((line, bytes)) = line(input)? else { return Ok(None) };
            let message = Message::read(line).ok_or_else(|| garbled(line))?;
            return Ok(Some((bytes, Some(Arrival::Message(message)))));
        }
        if self.role == Role::Report {
            return Ok(Some((input.len(), None)));
        }
        if self.skipped_bytes > 0 {
            let skipped = self.skipped_bytes.min(input.len());
            self.skipped_bytes -= skipped;
            return Ok(Some((skipped, None)));
        }
        let Some(front) = self.pending.front() else { return Err(garbled(input)) };
        let found = match &front.of {
            PendingRequest::Follower => {
                let Some((line, bytes)) = line(input)? else { return Ok(None) };
                // If the stream has just ended, the fetches that follow are not noted.
                match line == b"OK" || is_error(line) {
                    true => (bytes, None),
                    false => return Err(garbled(line)),
                }
            }
            PendingRequest::Fetch(flight) => {
                let Some((bytes, result)) = fetched(input, terms.value_bytes_max)? else {
                    return Ok(None);
                };
                let (flight, is_late) = (Arc::clone(flight), self.given_up > 0);
                (bytes, Some(Arrival::Fetched { flight, result, is_late }))
            }
            PendingRequest::Gets(flight) => {
                let Some(Got { bytes, missing_bytes, result }) = got(input, flight.key(), terms)?
                else {
                    return Ok(None);
                };
                self.skipped_bytes = missing_bytes;
                let (flight, is_late) = (Arc::clone(flight), self.given_up > 0);
                (bytes, Some(Arrival::Fetched { flight, result, is_late }))
            }
            PendingRequest::Pass(pass) => {
                let pass = Arc::clone(pass);
                return self.parse_answer(&pass, input, terms.deadline_ms);
            }
        };
        self.end_front();
        Ok(Some(found))
    }

    /// Parses the answer to a passed command, or a part of a long one.
    fn parse_answer(
        &mut self,
        pass: &Arc<Pass>,
        input: &[u8],
        deadline_ms: u64,
    ) -> Result<Option<(usize, Option<Arrival>)>, Lost> {
        let mut reader = self.reader;
        let reply = reader.read(pass.form, input).map_err(|_| garbled(input))?;
        // A short answer is passed on only once it is known to be correct.
        if !reply.is_complete && !self.has_begun && reply.shown_bytes < SHORT_BYTES_MAX
            || reply.bytes == 0
        {
            return Ok(None);
        }
        let is_first = !std::mem::replace(&mut self.has_begun, !reply.is_complete);
        let part = input.get(..reply.shown_bytes).unwrap_or_default();
        if is_first && !names_key(part, &pass.concerned) {
            return Err(garbled(input));
        }
        let (part, is_last) = (part.to_vec(), reply.is_complete);
        let arrival = Arrival::Answered { pass: Arc::clone(pass), part, is_first, is_last };
        self.reader = reader;
        if is_last {
            self.end_front();
        } else if let Some(front) = self.pending.front_mut() {
            front.deadline_ms = deadline_ms;
        }
        Ok(Some((reply.bytes, Some(arrival))))
    }

    /// Removes the first request, whose answer is complete.
    fn end_front(&mut self) {
        self.pending.pop_front();
        self.given_up = self.given_up.saturating_sub(1);
        self.reader = ReplyReader::default();
    }

    /// True if the link cannot receive more before a client takes a part of its answer.
    pub(in crate::near) fn is_held_up(&self) -> bool {
        let Some(front) = self.pending.front() else { return false };
        match &front.of {
            PendingRequest::Pass(pass) if self.has_begun => {
                pass.answer.pause_if_full() && !pass.is_abandoned()
            }
            _ => false,
        }
    }
}

/// The terms under which a link receives.
#[derive(Clone, Copy, Debug)]
pub(in crate::near) struct ReceiveTerms {
    /// The longest value that is fetched.
    pub(in crate::near) value_bytes_max: usize,
    /// Until when the next part of an answer must arrive.
    pub(in crate::near) deadline_ms: u64,
    /// How long a copy is used if the origin does not report its changes.
    pub(in crate::near) ttl_ms: u64,
}

/// False if an answer contains the item of another key.
fn names_key(answer: &[u8], concerned: &Concerned) -> bool {
    let (Some(rest), Concerned::Key(key)) = (answer.strip_prefix(b"VALUE "), concerned) else {
        return true;
    };
    rest.strip_prefix(&**key).is_some_and(|rest| rest.starts_with(b" "))
}

/// Returns the first line without its end, and its length; `None` if it is incomplete.
pub(in crate::near) fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Lost> {
    match memchr::memchr(b'\n', input) {
        Some(end) => Ok(input.get(..end).map(|line| (line.trim_ascii_end(), end + 1))),
        None if input.len() > LINE_BYTES_MAX => Err(garbled(input)),
        None => Ok(None),
    }
}

pub(in crate::near) fn garbled(input: &[u8]) -> Lost {
    let shown = input.get(..SHOWN_BYTES_MAX).unwrap_or(input);
    Lost::Garbled(shown.escape_ascii().to_string())
}

/// Appends the request that names the change stream.
pub(in crate::near) fn push_follower(out: &mut Vec<u8>, terms: &follow::Terms) {
    out.extend_from_slice(format!("larder_follower {:032x}\r\n", terms.token).as_bytes());
}

/// The maximum length of a line of the origin.
const LINE_BYTES_MAX: usize = 4096;

/// How much of an unexpected answer the log shows.
const SHOWN_BYTES_MAX: usize = 64;

/// How much a link receives before other links have their turn.
const RECEIVED_BYTES_MAX: usize = 64 * 1024;

/// An answer of at least this length is passed on in parts.
const SHORT_BYTES_MAX: usize = 64 * 1024;

/// The memory that a link keeps for incomplete input.
const BUFFER_BYTES_KEPT: usize = 128 * 1024;
