//! A connection: a socket, its session, and the bytes that wait on either side.

mod epoll;
pub(crate) mod io;
mod leave;
mod region;
mod send;
mod serve;
pub(crate) mod turn;
pub(crate) mod uring;

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use larder_item::Second;
use larder_options::ClientCertificates;
use larder_protocol::text::watched::CloseReason;
use larder_protocol::{ServerError, render};
use larder_stats::Counter;
use rustix::event::epoll::EventFlags;
use rustix::net::getpeername;

use crate::buffers::backlog::Backlog;
use crate::buffers::budget::ConnectionBytes;
use crate::buffers::output::Output;
use crate::net::hangup::HangUp;
use crate::net::inbox::{NewConnection, Transport};
use crate::observe::conn_table::{ConnStats, Stage};
use crate::observe::slow::{Peer, TimedRequests};
use crate::server::Server;
use crate::session::execute::Executor;
use crate::session::{Next, Session};
use crate::tls::Records;
use crate::users::login::Origin;
use io::Io;
use turn::TurnState;

/// A connection. While it waits for a command it owns only its socket and this struct.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: OwnedFd,
    io: Io,
    transport: Transport,
    session: Session,
    turn: TurnState,
    /// Input that the session has not consumed.
    input: Backlog,
    /// Output that the socket did not accept. While this is not empty, the connection does not
    /// read.
    output: Output,
    holding: ConnectionBytes,
    /// The second of the last progress: a command, a part of a value or a response. Handshakes and
    /// bytes of an incomplete command do not count.
    active: Second,
    /// When the worker learned of the last input: the time at which its wait for events returned.
    arrived_ns: u64,
    /// The connection's entry in `stats conns`; mirrors `active` and `stage`.
    conn_stats: Arc<ConnStats>,
    stage: Stage,
    /// True if the peer has closed its side.
    has_left: bool,
}

impl Connection {
    pub(crate) fn new(
        server: &Server,
        accepted: NewConnection,
        io: Io,
        conn_stats: Arc<ConnStats>,
        now: Second,
    ) -> Self {
        let is_encrypted = io.is_encrypted();
        let NewConnection { socket, transport, terms } = accepted;
        let id = u64::from(socket.as_raw_fd().unsigned_abs());
        let mut session = Session::new(server, id, terms.protocol);
        if let (Some(readers), true) = (&server.access.readers, terms.has_readers)
            && readers.admits(&socket)
        {
            session.let_read();
        }
        if terms.needs_no_login {
            session.waive_login(terms.protocol);
        }
        if terms.is_readonly {
            session.limit_to_reading();
        }
        if terms.client_certificates.is_some_and(|asked| asked != ClientCertificates::None) {
            session.await_certificate();
        }
        session.note_origin(|| Origin::of(conn_stats.peer_ip()));
        Self {
            socket,
            io,
            transport,
            session,
            turn: TurnState::default(),
            input: Backlog::default(),
            output: Output::default(),
            holding: ConnectionBytes::new(is_encrypted),
            active: now,
            arrived_ns: 0,
            conn_stats,
            stage: Stage::Command,
            has_left: false,
        }
    }

    /// Handles a readiness event of the socket.
    pub(crate) fn note_event(&mut self, event: EventFlags) {
        self.io.note_event(event);
    }

    /// Records that the poll of the socket is over.
    pub(crate) fn note_poll_over(&mut self) {
        if let Io::Epoll(epoll) = &mut self.io {
            epoll.note_poll_over();
        }
    }

    /// Makes the poller wait for `event` on the socket from now on. Returns what it waited for
    /// before; `None` if nothing changes.
    pub(crate) fn change_awaited(&mut self, event: EventFlags) -> Option<EventFlags> {
        match &mut self.io {
            Io::Epoll(epoll) => epoll.change_awaited(event),
            Io::Uring(_) => None,
        }
    }

    /// True if the connection waits for another turn.
    pub(crate) fn is_queued(&self) -> bool {
        self.turn.is_queued()
    }

    /// Queues the connection for another turn.
    pub(crate) fn queue(&mut self) {
        self.turn.queue();
    }

    /// True if a turn with input has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.turn.has_begun()
    }

    /// Parks the connection: its turn does not end before the disk contains the changes that the
    /// output confirms.
    pub(crate) fn park(&mut self) {
        self.turn.park();
    }

    /// Allows the turn to end.
    pub(crate) fn unpark(&mut self) {
        self.turn.execute();
    }

    /// True if the connection holds output that the socket has not accepted.
    fn has_unsent(&self) -> bool {
        !self.output.is_empty() || self.io.has_unsent()
    }

    /// Reports the held bytes to the budget.
    fn report_holding(&mut self, executor: &Executor) {
        let (io_input_bytes, io_output_bytes) = self.io.held_bytes();
        let input_bytes = self.input.held_bytes() + self.session.held_bytes() + io_input_bytes;
        let output_bytes = self.output.held_bytes() + io_output_bytes;
        let (budget, counters) = (&executor.server().connections.budget, executor.counters());
        self.holding.change(budget, counters, input_bytes, output_bytes);
    }

    /// Returns the bytes that count against the budget if the connection has made no progress for
    /// `idle_secs`; otherwise 0.
    pub(crate) fn idle_bytes(&self, now: Second, idle_secs: Second) -> u64 {
        match now.saturating_sub(self.active) >= idle_secs {
            true => self.holding.beyond_allowance(),
            false => 0,
        }
    }

    /// Counts a connection that is closed because of the memory it holds. Sends an error to the
    /// peer if it has received all of its responses.
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

    /// Releases the connection's share of the budget. Sends a TLS close to a peer that has received
    /// everything. Returns the socket, which is still open because a ring may have operations on
    /// it.
    pub(crate) fn end(mut self, executor: &Executor) -> HangUp {
        if let (Some(tls), true) = (self.io.tls_mut(), self.output.is_empty()) {
            tls.say_goodbye(&self.socket);
        }
        self.holding.end(&executor.server().connections.budget, executor.counters());
        HangUp::new(self.socket, self.has_left)
    }

    /// True if a TCP connection has made no progress for longer than `idle_secs`.
    pub(crate) fn is_idle(&self, now: Second, idle_secs: Second) -> bool {
        self.transport == Transport::Tcp
            && !matches!(self.turn.next(), Next::Lines | Next::Changes)
            && now.saturating_sub(self.active) > idle_secs
    }

    /// True if the peer copies items into this server.
    pub(crate) fn copies_items(&self) -> bool {
        self.session.copies_items()
    }

    /// True if the connection is a change stream, or copies items, and its peer has been silent for
    /// a long time.
    pub(crate) fn is_silent_stream(&self) -> bool {
        self.session.is_silent_stream()
    }

    /// Returns the peer's address, or `None` if it has no address or is gone.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        getpeername(&self.socket).ok()??.try_into().ok()
    }

    /// Returns why the connection ended, if the server did not close it.
    pub(crate) fn closing(&self) -> CloseReason {
        if self.has_left || self.session.has_quit() {
            CloseReason::Normal
        } else {
            CloseReason::Error
        }
    }

    /// True if the connection must be closed because of a `larder_kill`.
    pub(crate) fn is_killed(&self) -> bool {
        self.conn_stats.is_killed()
    }

    /// Writes the shared entry only when the second changes, not in each turn.
    fn note_active(&mut self, now: Second) {
        if self.active != now {
            self.active = now;
            self.conn_stats.note_active(now);
        }
    }

    /// Records when the worker learned of input: the time at which its wait for events returned.
    pub(crate) fn note_arrival(&mut self, ns: u64) {
        self.arrived_ns = ns;
    }

    /// Begins to time the requests of a turn, with `--log-slower-than`.
    #[cold]
    pub(crate) fn begin_timing(&mut self) {
        self.session.note_arrival(self.arrived_ns);
    }

    /// Returns the requests whose responses are handed over now; `None` if no
    /// request is complete.
    #[cold]
    pub(crate) fn take_timed(&mut self) -> Option<TimedRequests> {
        self.session.take_timed()
    }

    /// Returns the peer as the log shows it.
    pub(crate) fn peer_shown(&self) -> Peer {
        match (self.transport, self.peer()) {
            (Transport::Unix, _) => Peer::UnixSocket,
            (Transport::Tcp, Some(address)) => Peer::Address(address),
            (Transport::Tcp, None) => Peer::Gone,
        }
    }

    /// Returns when the worker learned of the last input: the time at which its wait for events
    /// returned.
    pub(crate) fn arrived_ns(&self) -> u64 {
        self.arrived_ns
    }

    /// Records what `stats conns` shows, if it has changed.
    fn note_stage(&mut self) {
        // A send by a ring usually completes before anyone could read the stage.
        let is_sending = match &self.io {
            Io::Epoll(_) => self.has_unsent(),
            Io::Uring(uring) => uring.stuck_bytes() > 0,
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

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Edge-triggered: epoll reports new input only once, not repeatedly until everything is received.
pub(crate) const AWAIT_INPUT: EventFlags =
    EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

/// While output waits, input is ignored.
pub(crate) const AWAIT_OUTPUT: EventFlags = EventFlags::OUT;
