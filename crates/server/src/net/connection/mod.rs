//! A connection: a socket, its session, and the bytes that wait on either side.

mod region;
mod uring;

use std::io::IoSlice;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use larder_item::Second;
use larder_protocol::text::watched::Closing;
use larder_protocol::{ServerError, render};
use larder_stats::Counter;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, getpeername, recv, send, sendmsg};

use crate::admin::conn_table::{ConnStats, Stage};
use crate::buffers::backlog::Backlog;
use crate::buffers::budget::{Allotment, Holding, TIGHT_INPUT_BYTES};
use crate::buffers::output::Output;
use crate::net::hangup::HangUp;
use crate::net::ring::Lent;
use crate::net::scratch::{RECEIVED_BYTES_MAX, Scratch};
use crate::net::worker::inbox::{Accepted, Transport};
use crate::server::Server;
use crate::session::execute::Executor;
use crate::session::{Allowance, Next, Session};
use crate::tls::{INCOMING_BYTES_MAX, Received, Records, Tls};
use uring::UringIo;
pub(crate) use uring::{Extent, Taken};

/// A connection. While it waits for a command it owns only its socket and this struct.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    /// The TLS layer between the socket and the session; `None` without TLS.
    tls: Option<Box<Tls>>,
    transport: Transport,
    session: Session,
    next: Next,
    /// Input that the session has not consumed.
    input: Backlog,
    /// Output that the socket did not accept. While there is any, the connection does not read.
    output: Output,
    holding: Holding,
    /// The second of the last progress: a command, a part of a value or a response. Bytes of an
    /// incomplete command and handshakes do not count.
    active: Second,
    /// `stats conns` entry; mirrors `active` and `stage`.
    conn_stats: Arc<ConnStats>,
    stage: Stage,
    /// io_uring state; `None` under epoll, where the connection itself receives and sends when its
    /// socket is ready.
    uring: Option<UringIo>,
    /// True if the socket may have more input. False once a receive has returned less than it had
    /// room for. With io_uring: true if bytes have arrived that the session has not seen.
    may_receive: bool,
    /// True if the peer has announced that it sends no more. Then the connection receives until the
    /// end.
    peer_is_done: bool,
    /// True if the peer has closed its side.
    has_left: bool,
    /// The events that the worker waits for on this socket. The worker maintains this field and the
    /// next one.
    pub(crate) awaited: EventFlags,
    /// True if the connection waits for another turn rather than for an event.
    pub(crate) is_ready: bool,
    /// True if it waits for a buffer of the ring.
    pub(crate) is_starved: bool,
    /// True if a turn with input has begun. A second turn would execute input out of order.
    pub(crate) has_turn: bool,
}

/// The start of a turn.
#[derive(Debug)]
pub(crate) enum Begun {
    /// There is input to execute.
    Ready(Input),
    /// The turn is over already.
    Over(Outcome),
}

/// Where the input of a turn is.
#[derive(Debug)]
pub(crate) enum Input {
    /// In this range of the scratch.
    Scratch(Range<usize>),
    /// In a buffer of the ring.
    Lent(Lent),
    /// In the connection's backlog.
    Backlog,
}

/// The end of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Wait for input.
    AwaitInput,
    /// Wait until the peer takes its output.
    AwaitOutput,
    /// Wait for watch lines to send.
    AwaitLines,
    /// Continue at once, after the other connections' turns.
    Again,
    /// Close the connection.
    Close,
}

/// The limits of a turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnLimits {
    /// True if other connections wait for their turn.
    pub(crate) contended: bool,
    /// How many keys of lists the turn may look up.
    pub(crate) keys_max: usize,
    pub(crate) allotment: Allotment,
}

/// The peer is gone, or the connection must be closed.
struct Broken;

impl Connection {
    pub(crate) fn new(
        server: &Server,
        accepted: Accepted,
        tls: Option<Box<Tls>>,
        conn_stats: Arc<ConnStats>,
        has_ring: bool,
        now: Second,
    ) -> Self {
        let is_encrypted = tls.is_some();
        let uring = (has_ring && !is_encrypted).then(UringIo::default);
        let Accepted { socket, transport, protocol, .. } = accepted;
        let id = u64::from(socket.as_raw_fd().unsigned_abs());
        let mut session = Session::new(server, id, protocol);
        if let (Some(readers), Transport::Unix) = (&server.readers, transport)
            && readers.admits(&socket)
        {
            session.let_read();
        }
        Self {
            socket,
            tls,
            transport,
            session,
            next: Next::Input,
            input: Backlog::default(),
            output: Output::default(),
            holding: Holding::new(is_encrypted),
            active: now,
            conn_stats,
            stage: Stage::Command,
            uring,
            may_receive: false,
            peer_is_done: false,
            has_left: false,
            awaited: EventFlags::empty(),
            is_ready: false,
            is_starved: false,
            has_turn: false,
        }
    }

    /// Handles a readiness event of the socket.
    pub(crate) fn note_event(&mut self, event: EventFlags) {
        self.may_receive = true;
        self.peer_is_done |=
            event.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
    }

    /// Begins a turn: sends the waiting output, and receives once.
    pub(crate) fn begin_turn(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
        now: Second,
    ) -> Begun {
        self.try_begin(executor, scratch, now).unwrap_or(Begun::Over(Outcome::Close))
    }

    fn try_begin(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
        now: Second,
    ) -> Result<Begun, Broken> {
        if self.uring.is_some() {
            return self.try_begin_uring(executor);
        }
        if self.has_unsent() {
            self.note_active(now);
            self.send_rest(executor, &mut scratch.records)?;
            if self.has_unsent() {
                return Ok(Begun::Over(Outcome::AwaitOutput));
            }
            // The next turn, which would report it, may be far off.
            self.report_holding(executor);
            self.note_stage();
        }
        self.pass_region_if_due(executor)?;
        match self.next {
            Next::Input => {
                if self.may_receive
                    && let Some(input) = self.receive(executor, scratch)?
                {
                    return Ok(Begun::Ready(input));
                }
                if self.tls.is_some() {
                    self.report_holding(executor);
                }
                Ok(Begun::Over(if self.has_unsent() {
                    Outcome::AwaitOutput
                } else if self.may_receive {
                    // A peer may send records without data for the session forever.
                    Outcome::Again
                } else {
                    Outcome::AwaitInput
                }))
            }
            // A watching connection ignores its input, except for its end.
            Next::Lines if self.may_receive => {
                let input = self.receive(executor, scratch)?;
                Ok(Begun::Ready(input.unwrap_or(Input::Backlog)))
            }
            Next::Lines | Next::Drain | Next::Region | Next::Turn | Next::GiveWay => {
                Ok(Begun::Ready(Input::Backlog))
            }
            Next::Close => Err(Broken),
        }
    }

    /// Receives input up to a limit; returns `None` if there was none.
    ///
    /// Input goes to the scratch. Only the beginning of a line that is too long to be copied each
    /// time stays in the backlog, which is then extended in place.
    fn receive(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
    ) -> Result<Option<Input>, Broken> {
        let is_tight = executor.server().budget.allotment(0).is_tight;
        let bytes_max = if is_tight { TIGHT_INPUT_BYTES } else { RECEIVED_BYTES_MAX };
        let waiting = self.input.waiting();
        let (received, input) = if waiting.len() <= COPIED_BYTES_MAX {
            let (room, records) = scratch.input_room();
            let (front, room) = room.split_at_mut(waiting.len());
            // A record is useful only once it is complete.
            let part_bytes = self.tls.as_ref().map_or(0, |tls| tls.incoming_bytes());
            let room_bytes = room.len().min(bytes_max + part_bytes);
            let room = &mut room[..room_bytes];
            let received = match &mut self.tls {
                None => recv(&self.socket, &mut *room, RecvFlags::empty())
                    .map(|(bytes, _)| Received::plain(bytes, room.len())),
                Some(tls) => {
                    let (room_bytes, mut filled) = (room.len(), 0);
                    let hand_on = |plain: &[u8]| {
                        room[filled..][..plain.len()].copy_from_slice(plain);
                        filled += plain.len();
                    };
                    tls.receive(&self.socket, executor.counters(), records, room_bytes, hand_on)
                }
            };
            let mut bytes = 0;
            if let Ok(Received { bytes: 1.., .. }) = received {
                front.copy_from_slice(waiting);
                bytes = waiting.len() + received.map_or(0, |received| received.bytes);
                self.input = Backlog::default();
            }
            (received, Input::Scratch(scratch.take_input(bytes)))
        } else {
            let received = match &mut self.tls {
                None => {
                    let backlog = self.input.with_room(bytes_max.min(RECEIVED_BYTES_MIN));
                    let room_bytes = backlog.capacity() - backlog.len();
                    recv(&self.socket, spare_capacity(backlog), RecvFlags::empty())
                        .map(|(bytes, _)| Received::plain(bytes, room_bytes))
                }
                Some(tls) => {
                    let (room_bytes, records) = (RECORDS_BYTES_MIN, &mut scratch.records);
                    let backlog = self.input.with_room(room_bytes);
                    let hand_on = |plain: &[u8]| backlog.extend_from_slice(plain);
                    tls.receive(&self.socket, executor.counters(), records, room_bytes, hand_on)
                }
            };
            (received, Input::Backlog)
        };
        match received {
            Ok(Received { is_end: true, .. }) => {
                self.has_left = true;
                Err(Broken)
            }
            Ok(Received { bytes, may_be_more, .. }) => {
                self.may_receive = may_be_more || self.peer_is_done;
                executor.counters().add(Counter::WireBytesRead, bytes as u64);
                Ok((bytes > 0).then_some(input))
            }
            Err(Errno::INTR) => Ok(None),
            Err(Errno::AGAIN) => {
                self.may_receive = false;
                Ok(None)
            }
            Err(_) => Err(Broken),
        }
    }

    /// Returns the keys of the first commands of a turn's input. The input is `received`, or the
    /// backlog if that is `None`.
    pub(crate) fn keys_ahead<'a>(
        &'a self,
        received: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let bytes = received.unwrap_or_else(|| self.input.waiting());
        self.session.keys_ahead(bytes).take(KEYS_AHEAD_MAX)
    }

    /// Runs the middle part of a turn: the session executes the input. The input is `received`, or
    /// the backlog if that is `None`. Output is appended to `out`; unconsumed input is kept.
    ///
    /// If others wait, executes at most [`Options::commands_per_turn_max`](larder_options::Options)
    /// commands. A connection that is alone continues while it has input, up to the length of one
    /// receive. Stops once the output has the length that the connection may have waiting.
    pub(crate) fn execute(
        &mut self,
        executor: &Executor,
        received: Option<&[u8]>,
        out: &mut Output,
        limits: TurnLimits,
        now: Second,
    ) {
        let Allotment { output_bytes_max: out_bytes_max, is_tight } = limits.allotment;
        executor.turn_to(self.id());
        self.has_turn = false;
        let commands_max = executor.server().options.commands_per_turn_max;
        let mut backlog = std::mem::take(&mut self.input);
        let bytes = received.unwrap_or_else(|| backlog.waiting());
        let mut consumed = 0;
        loop {
            let keys_max = limits.keys_max;
            let allowance = Allowance { commands_max, keys_max, out_bytes_max, is_tight };
            let progress = self.session.receive(executor, &bytes[consumed..], allowance, out);
            consumed += progress.consumed;
            self.next = progress.next;
            let goes_on = match self.next {
                Next::Turn => !limits.contended && consumed < RECEIVED_BYTES_MAX,
                Next::GiveWay => false,
                Next::Input | Next::Drain | Next::Region | Next::Lines | Next::Close => break,
            };
            executor.counters().bump(Counter::ConnectionYields);
            if !goes_on {
                break;
            }
        }
        if consumed > 0 || !out.is_empty() {
            self.note_active(now);
        }
        if received.is_none() {
            backlog.use_up(consumed);
        } else if consumed < bytes.len() {
            // Input that arrived in the meantime comes after it.
            self.input.push(&bytes[consumed..]);
            self.input.push(backlog.waiting());
            return;
        }
        self.input = backlog;
    }

    /// Ends a turn: sends its output. Takes over output that the socket does not accept.
    pub(crate) fn end_turn(
        &mut self,
        executor: &Executor,
        records: &mut Records,
        output: &mut Output,
    ) -> Outcome {
        self.try_end(executor, records, output).unwrap_or(Outcome::Close)
    }

    fn try_end(
        &mut self,
        executor: &Executor,
        records: &mut Records,
        output: &mut Output,
    ) -> Result<Outcome, Broken> {
        self.send(executor, records, output)?;
        self.report_holding(executor);
        self.note_stage();
        self.pass_region_if_due(executor)?;
        match self.next {
            _ if self.has_unsent() => Ok(Outcome::AwaitOutput),
            Next::Input | Next::Lines if !self.may_receive && self.is_over() => {
                self.note_left();
                Err(Broken)
            }
            Next::Input if !self.may_receive => Ok(Outcome::AwaitInput),
            Next::Lines if !self.may_receive => Ok(Outcome::AwaitLines),
            Next::Input | Next::Lines | Next::Drain | Next::Region | Next::Turn | Next::GiveWay => {
                Ok(Outcome::Again)
            }
            Next::Close => Err(Broken),
        }
    }

    /// Sends output; keeps the rest that the socket does not accept.
    fn send(
        &mut self,
        executor: &Executor,
        records: &mut Records,
        output: &mut Output,
    ) -> Result<(), Broken> {
        if !output.is_empty() {
            try_send(&self.socket, &mut self.tls, executor, records, output)?;
            if !output.is_sent() {
                output.compact();
                self.output = std::mem::take(output);
            }
        }
        Ok(())
    }

    fn send_rest(&mut self, executor: &Executor, records: &mut Records) -> Result<(), Broken> {
        try_send(&self.socket, &mut self.tls, executor, records, &mut self.output)?;
        if self.output.is_sent() {
            self.output = Output::default();
        } else {
            self.output.compact();
        }
        Ok(())
    }

    /// True if there is output that the socket has not accepted.
    fn has_unsent(&self) -> bool {
        !self.output.is_empty()
            || self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
            || self.uring.is_some_and(|uring| uring.sending_bytes > 0)
    }

    /// Reports the held bytes to the budget.
    fn report_holding(&mut self, executor: &Executor) {
        let mut input_bytes = self.input.held_bytes() + self.session.held_bytes();
        let mut output_bytes = self.output.held_bytes();
        if let Some(uring) = &self.uring {
            output_bytes += uring.stuck_bytes;
        }
        if let Some(tls) = &self.tls {
            input_bytes += tls.incoming_bytes();
            output_bytes += tls.outgoing_bytes();
        }
        let (budget, counters) = (&executor.server().budget, executor.counters());
        self.holding.change(budget, counters, input_bytes, output_bytes);
    }

    /// Returns the bytes that count against the budget if the connection has made no progress for
    /// `idle_secs`, otherwise 0.
    pub(crate) fn idle_bytes(&self, now: Second, idle_secs: Second) -> u64 {
        match now.saturating_sub(self.active) >= idle_secs {
            true => self.holding.beyond_allowance(),
            false => 0,
        }
    }

    /// Counts that the connection is closed because of the memory it holds, and sends an error to a
    /// peer that has received all of its responses.
    pub(crate) fn give_up(&mut self, executor: &Executor, records: &mut Records) {
        executor.counters().bump(match self.holding.is_mostly_output() {
            true => Counter::ResponseOom,
            false => Counter::ReadBufferOom,
        });
        if !self.has_unsent() {
            let error = ServerError::OutOfMemoryReadingRequest.into();
            let mut words = Output::default();
            render::response(&mut words.bytes, &error, &self.session.unasked());
            // The connection is closed in any case.
            let _ = self.send(executor, records, &mut words);
        }
    }

    /// Releases the connection's share of the budget, and sends a TLS close to a peer that has
    /// received everything. Returns the socket, still open: a ring may have operations on it.
    pub(crate) fn end(mut self, executor: &Executor) -> HangUp {
        if let (Some(tls), true) = (&mut self.tls, self.output.is_empty()) {
            tls.say_goodbye(&self.socket);
        }
        self.holding.end(&executor.server().budget, executor.counters());
        HangUp::new(self.socket, self.has_left)
    }

    /// True if a TCP connection has made no progress for longer than `idle_secs`.
    pub(crate) fn is_idle(&self, now: Second, idle_secs: Second) -> bool {
        self.transport == Transport::Tcp
            && self.next != Next::Lines
            && now.saturating_sub(self.active) > idle_secs
    }

    /// Returns the peer's address, or `None` if it has no address or is gone.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        getpeername(&self.socket).ok()??.try_into().ok()
    }

    /// Returns why the connection is over, unless the server closes it.
    pub(crate) fn closing(&self) -> Closing {
        if self.has_left || self.session.has_quit() { Closing::Normal } else { Closing::Error }
    }

    /// Writes the shared entry only when the second changes, not in each turn.
    fn note_active(&mut self, now: Second) {
        if self.active != now {
            self.active = now;
            self.conn_stats.note_active(now);
        }
    }

    fn note_stage(&mut self) {
        // A ring's send usually completes before anything could read the stage.
        let is_sending = match &self.uring {
            None => self.has_unsent(),
            Some(uring) => uring.stuck_bytes > 0,
        };
        let stage = if is_sending { Stage::Answer } else { self.session.stage() };
        if self.stage != stage {
            self.stage = stage;
            self.conn_stats.note_stage(stage);
        }
    }

    /// Returns the id of the connection in the log.
    pub(crate) fn id(&self) -> i32 {
        self.socket.as_raw_fd()
    }
}

/// Sends as much of an output as the socket accepts.
fn try_send(
    socket: &OwnedFd,
    tls: &mut Option<Box<Tls>>,
    executor: &Executor,
    records: &mut Records,
    output: &mut Output,
) -> Result<(), Broken> {
    let sent = match tls {
        Some(tls) => tls.send(socket, records, output.parts()),
        None if output.is_whole() => send(socket, output.rest(), SendFlags::NOSIGNAL),
        None => {
            let parts: Vec<IoSlice<'_>> = output.parts().map(IoSlice::new).collect();
            let ancillary = &mut SendAncillaryBuffer::default();
            sendmsg(socket, &parts, ancillary, SendFlags::NOSIGNAL)
        }
    };
    match sent {
        Ok(sent) => {
            executor.counters().add(Counter::WireBytesWritten, sent as u64);
            output.note_sent(sent);
            Ok(())
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(()),
        Err(_) => Err(Broken),
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Edge-triggered: epoll reports new input once, instead of again and again until everything is
/// received.
pub(crate) const AWAIT_INPUT: EventFlags =
    EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// While output waits, input is ignored.
pub(crate) const AWAIT_OUTPUT: EventFlags = EventFlags::OUT;

/// The beginning of a line up to this length is copied in front of the input that follows it.
const COPIED_BYTES_MAX: usize = 4 * 1024;

/// How many keys of a connection are prefetched in each turn.
const KEYS_AHEAD_MAX: usize = 16;

/// Minimum room for input behind the beginning of a longer line.
const RECEIVED_BYTES_MIN: usize = 16 * 1024;

/// The same with TLS, where received bytes are appended to an incomplete record.
const RECORDS_BYTES_MIN: usize = INCOMING_BYTES_MAX + RECEIVED_BYTES_MIN;
