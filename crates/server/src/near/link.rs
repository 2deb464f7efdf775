//! A link: one connection to the origin, with the requests that wait for their answers on it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use larder::copies::{Fetched as FetchedItem, Flight, FlightResult};
use larder_protocol::follow::{self, Fetched, Message};

use super::dial::{Role, Socket};
use super::job::{Concerned, Pass, PassResult};
use super::reply::{self, VALUE_BYTES_MAX, is_error};

/// A connection to the origin.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) role: Role,
    pub(super) state: LinkState,
    out: Vec<u8>,
    /// The bytes of `out` that are sent.
    sent: usize,
    input: Vec<u8>,
    pub(super) pending: VecDeque<Pending>,
    /// How many of the first requests have been given up.
    pub(super) given_up: usize,
    /// The failures to connect in a row.
    pub(super) failures: u32,
    /// True if a request needs the link.
    pub(super) is_wanted: bool,
    /// True while the poller waits until the socket accepts output.
    pub(super) awaits_output: bool,
}

/// Whether a link is connected.
#[derive(Debug)]
pub(super) enum LinkState {
    /// It is not. The next attempt is at this time of the boot clock.
    Down { retry_ms: u64 },
    /// An attempt to connect is under way since this time.
    Dialing { since_ms: u64 },
    /// It is.
    Up(Socket),
}

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) of: PendingRequest,
    pub(super) deadline_ms: u64,
}

#[derive(Debug)]
pub(super) enum PendingRequest {
    /// `larder_follower`.
    Follower,
    Fetch(Arc<Flight>),
    Pass(Arc<Pass>),
}

/// What the origin has sent.
#[derive(Debug)]
pub(super) enum Arrival {
    Message(Message),
    /// The answer to a fetch. It is late if the fetch has been given up.
    Fetched {
        flight: Arc<Flight>,
        result: FlightResult,
        is_late: bool,
    },
    /// The answer to a passed command.
    Answered {
        pass: Arc<Pass>,
        result: PassResult,
    },
}

/// The reason why a link is lost.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("the origin closed the connection")]
    Closed,
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the origin sent {0:?}, which is no answer")]
    Garbled(String),
    #[error("the origin did not answer for too long")]
    Silent,
}

impl Link {
    pub(super) fn new(role: Role) -> Self {
        Self {
            role,
            state: LinkState::Down { retry_ms: 0 },
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            pending: VecDeque::new(),
            given_up: 0,
            failures: 0,
            is_wanted: false,
            awaits_output: false,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, LinkState::Up(_))
    }

    /// Begins to use a connection.
    pub(super) fn rise(&mut self, socket: Socket) {
        self.out.clear();
        self.input.clear();
        (self.sent, self.given_up, self.failures) = (0, 0, 0);
        self.awaits_output = false;
        self.state = LinkState::Up(socket);
    }

    /// Appends to what the link sends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.out);
    }

    pub(super) fn has_output(&self) -> bool {
        let is_held = match &self.state {
            LinkState::Up(socket) => socket.has_unsent(),
            LinkState::Down { .. } | LinkState::Dialing { .. } => false,
        };
        is_held || self.sent < self.out.len()
    }

    /// Sends as much as the socket accepts.
    pub(super) fn flush(&mut self) -> Result<(), Lost> {
        let LinkState::Up(socket) = &mut self.state else { return Ok(()) };
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match socket.write(rest) {
                Ok(0) => return Err(Lost::Closed),
                Ok(bytes) => self.sent += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        // Encrypted bytes may still wait in the socket.
        match socket.flush() {
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
            _ => {}
        }
        self.out.clear();
        self.out.shrink_to(BUFFER_BYTES_KEPT);
        self.sent = 0;
        Ok(())
    }

    /// Receives what has arrived, up to a limit.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<(), Lost> {
        let LinkState::Up(socket) = &mut self.state else { return Ok(()) };
        let mut received = 0;
        // What a TLS connection has decrypted would cause no further event.
        while received < RECEIVED_BYTES_MAX || matches!(socket, Socket::Tls(_)) {
            match socket.read(buffer) {
                Ok(0) => return Err(Lost::Closed),
                Ok(bytes) => {
                    self.input.extend_from_slice(&buffer[..bytes]);
                    received += bytes;
                    // A short read has emptied the socket. If not, there is another event.
                    if bytes < buffer.len() && !matches!(socket, Socket::Tls(_)) {
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

    /// Parses what has arrived, and passes each part to `take`.
    pub(super) fn parse(
        &mut self,
        value_bytes_max: usize,
        mut take: impl FnMut(Arrival),
    ) -> Result<(), Lost> {
        let input = std::mem::take(&mut self.input);
        let (mut at, mut parsed) = (0, Ok(()));
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            match self.parse_one(rest, value_bytes_max) {
                Ok(Some((bytes, arrival))) => {
                    at += bytes;
                    arrival.into_iter().for_each(&mut take);
                }
                Ok(None) => break,
                Err(lost) => {
                    parsed = Err(lost);
                    break;
                }
            }
        }
        self.input = input;
        self.input.drain(..at);
        self.input.shrink_to(BUFFER_BYTES_KEPT.max(self.input.len()));
        parsed
    }

    /// Parses the first answer or message; `None` if it is incomplete. An acknowledgement is no
    /// arrival.
    fn parse_one(
        &mut self,
        input: &[u8],
        value_bytes_max: usize,
    ) -> Result<Option<(usize, Option<Arrival>)>, Lost> {
        if self.role == Role::Stream {
            let Some((line, bytes)) = line(input)? else { return Ok(None) };
            let message = Message::read(line).ok_or_else(|| garbled(line))?;
            return Ok(Some((bytes, Some(Arrival::Message(message)))));
        }
        if self.role == Role::Report {
            return Ok(Some((input.len(), None)));
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
                let Some((bytes, result)) = fetched(input, value_bytes_max)? else {
                    return Ok(None);
                };
                let (flight, is_late) = (Arc::clone(flight), self.given_up > 0);
                (bytes, Some(Arrival::Fetched { flight, result, is_late }))
            }
            PendingRequest::Pass(pass) => {
                let found = reply::find(pass.request.form, input);
                let Some(reply) = found.map_err(|_| garbled(input))? else { return Ok(None) };
                let shown = input.get(..reply.shown_bytes).unwrap_or_default();
                if !names_key(shown, &pass.request.concerned) {
                    return Err(garbled(input));
                }
                let result = PassResult::Answer(shown.into());
                (reply.bytes, Some(Arrival::Answered { pass: Arc::clone(pass), result }))
            }
        };
        self.pending.pop_front();
        self.given_up = self.given_up.saturating_sub(1);
        Ok(Some(found))
    }
}

/// False if an answer contains the item of another key.
fn names_key(answer: &[u8], concerned: &Concerned) -> bool {
    let (Some(rest), Concerned::Key(key)) = (answer.strip_prefix(b"VALUE "), concerned) else {
        return true;
    };
    rest.strip_prefix(&**key).is_some_and(|rest| rest.starts_with(b" "))
}

/// Returns the first line without its end, and its length; `None` if it is incomplete.
fn line(input: &[u8]) -> Result<Option<(&[u8], usize)>, Lost> {
    match memchr::memchr(b'\n', input) {
        Some(end) => Ok(input.get(..end).map(|line| (line.trim_ascii_end(), end + 1))),
        None if input.len() > LINE_BYTES_MAX => Err(garbled(input)),
        None => Ok(None),
    }
}

/// Parses the answer to a fetch.
fn fetched(input: &[u8], value_bytes_max: usize) -> Result<Option<(usize, FlightResult)>, Lost> {
    let Some((line, head_bytes)) = line(input)? else { return Ok(None) };
    let result = match Fetched::read(line) {
        // The reader asks the origin itself, and receives its error.
        None if is_error(line) => FlightResult::Uncopied,
        None => return Err(garbled(line)),
        Some(Fetched::Absent { is_noted }) => FlightResult::Absent { is_noted },
        Some(Fetched::Uncopied) => FlightResult::Uncopied,
        Some(Fetched::Value { value_bytes, flags, cas, ttl_ms, is_noted }) => {
            if value_bytes > value_bytes_max.min(VALUE_BYTES_MAX) {
                return Err(garbled(line));
            }
            let end = head_bytes + value_bytes;
            let Some(line_end) = input.get(end..end + 2) else { return Ok(None) };
            if line_end != b"\r\n" {
                return Err(garbled(line));
            }
            let value = input.get(head_bytes..end).unwrap_or_default().to_vec();
            let item = FetchedItem { value, flags, cas, ttl_ms, is_noted };
            return Ok(Some((end + 2, FlightResult::Value(Arc::new(item)))));
        }
    };
    Ok(Some((head_bytes, result)))
}

fn garbled(input: &[u8]) -> Lost {
    let shown = input.get(..SHOWN_BYTES_MAX).unwrap_or(input);
    Lost::Garbled(shown.escape_ascii().to_string())
}

/// Appends the request that names the change stream.
pub(super) fn push_follower(out: &mut Vec<u8>, terms: &follow::Terms) {
    out.extend_from_slice(format!("larder_follower {:032x}\r\n", terms.token).as_bytes());
}

/// The maximum length of a line of the origin.
const LINE_BYTES_MAX: usize = 4096;

/// How much of an unexpected answer the log shows.
const SHOWN_BYTES_MAX: usize = 64;

/// How much a link receives before other links have their turn.
const RECEIVED_BYTES_MAX: usize = 1024 * 1024;

/// The memory that an idle link keeps for its input, and for its output.
const BUFFER_BYTES_KEPT: usize = 256 * 1024;
