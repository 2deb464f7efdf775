//! A client's connection and the connection to the live server that belongs to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use socket2::Socket;

use super::flow::Flow;
use crate::shadow::compare::Target;
use crate::shadow::feed::{ConnectionId, Feed, Kind};

/// A client's connection.
#[derive(Debug)]
pub(super) struct Client {
    connection: ConnectionId,
    /// The sockets of the client and of the live server.
    client: Registered,
    live: Option<Registered>,
    /// True if the connection to the live server is not open yet.
    is_connecting: bool,
    opened_at: Instant,
    up: Flow,
    down: Flow,
    /// True if the comparer lacks the latest bytes.
    has_gap: bool,
    /// True if the latest bytes were a request.
    awaits_answer: bool,
    /// True if bytes have moved since the last call of [`Self::is_finished`].
    has_moved: bool,
    ended_at: Option<Instant>,
}

/// A socket and the events for which it is registered.
#[derive(Debug)]
struct Registered {
    socket: Socket,
    token: u64,
    interest: Option<EventFlags>,
}

impl Registered {
    /// Changes the events. Without events the socket is not registered, because the kernel always
    /// reports closed connections otherwise.
    fn watch(&mut self, poller: &OwnedFd, interest: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(self.token);
        match (self.interest, interest.is_empty()) {
            (Some(current), _) if current == interest => return Ok(()),
            (None, true) => return Ok(()),
            (Some(_), true) => epoll::delete(poller, self.socket.as_fd())?,
            (Some(_), false) => epoll::modify(poller, self.socket.as_fd(), data, interest)?,
            (None, false) => epoll::add(poller, self.socket.as_fd(), data, interest)?,
        }
        self.interest = Some(interest).filter(|interest| !interest.is_empty());
        Ok(())
    }
}

/// The parts of a worker that every connection uses.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    /// The events of all sockets.
    pub(super) poller: OwnedFd,
    /// The queue of the comparer.
    pub(super) feed: &'a Feed,
    /// The live server.
    pub(super) target: &'a Target,
    /// Receives the bytes.
    pub(super) buffer: Vec<u8>,
}

impl Client {
    /// Begins a connection to the live server. `token` is the number of the events of the client's
    /// socket, and the next number is that of the live server's socket.
    pub(super) fn new(connection: ConnectionId, socket: Socket, token: u64) -> Self {
        Self {
            connection,
            client: Registered { socket, token, interest: None },
            live: None,
            is_connecting: true,
            opened_at: Instant::now(),
            up: Flow::default(),
            down: Flow::default(),
            has_gap: false,
            awaits_answer: false,
            has_moved: false,
            ended_at: None,
        }
    }

    /// Returns the number of the connection.
    pub(super) fn connection(&self) -> ConnectionId {
        self.connection
    }

    /// True if the connection to the live server is not open yet.
    pub(super) fn is_connecting(&self) -> bool {
        self.is_connecting
    }

    /// True if the connection to the live server could not be begun yet.
    pub(super) fn wants_connect(&self) -> bool {
        self.live.is_none()
    }

    /// Begins the connection to the live server. Its queue of connections may be full; then the
    /// caller tries again later.
    ///
    /// # Errors
    /// The live server does not accept connections.
    pub(super) fn connect(&mut self, shared: &Shared<'_>) -> io::Result<()> {
        match shared.target.connect() {
            Ok(socket) => {
                let token = self.client.token + 1;
                self.live = Some(Registered { socket, token, interest: None });
                self.check_connected(shared)
            }
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    && self.opened_at.elapsed() < CONNECT_TIME_MAX =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Checks whether the connection to the live server is open now.
    ///
    /// # Errors
    /// The live server does not accept it.
    pub(super) fn check_connected(&mut self, shared: &Shared<'_>) -> io::Result<()> {
        let Some(live) = self.live.as_ref().filter(|_| self.is_connecting) else { return Ok(()) };
        if let Some(error) = live.socket.take_error()? {
            return Err(error);
        }
        match live.socket.peer_addr() {
            Ok(_) => self.is_connecting = false,
            Err(error) if error.kind() == io::ErrorKind::NotConnected => {}
            Err(error) => return Err(error),
        }
        self.update(shared)
    }

    /// Moves the bytes that are ready after events of one of the sockets.
    ///
    /// # Errors
    /// The connection has ended.
    pub(super) fn forward(
        &mut self,
        shared: &mut Shared<'_>,
        is_of_live: bool,
        events: EventFlags,
    ) -> io::Result<()> {
        if self.is_connecting {
            return self.check_connected(shared);
        }
        let Some(live) = &self.live else { return Ok(()) };
        let (client, live) = (&self.client.socket, &live.socket);
        let (feed, connection) = (shared.feed, self.connection);
        let (has_gap, awaits_answer, has_moved) =
            (&mut self.has_gap, &mut self.awaits_answer, &mut self.has_moved);
        let mut copy = |kind, bytes: &[u8]| {
            *awaits_answer = kind == Kind::Request;
            *has_moved = true;
            let is_copied = feed.push(connection, kind, bytes);
            if !is_copied && !*has_gap {
                feed.push(connection, Kind::Gap, b"");
            }
            *has_gap = !is_copied;
        };
        // Other events than these report the end of the connection, which a read also reports.
        let (reads, writes) = (events != EventFlags::OUT, events.contains(EventFlags::OUT));
        if if is_of_live { writes } else { reads } {
            self.up.pump(client, live, &mut shared.buffer, |bytes| copy(Kind::Request, bytes))?;
        }
        if if is_of_live { reads } else { writes } {
            self.down.pump(live, client, &mut shared.buffer, |bytes| copy(Kind::Answer, bytes))?;
        }
        if self.down.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if self.down.is_shut {
            self.ended_at.get_or_insert_with(Instant::now);
        }
        if self.down.is_shut && self.up.is_ended {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.update(shared)
    }

    /// Registers the sockets for the events that are needed next.
    fn update(&mut self, shared: &Shared<'_>) -> io::Result<()> {
        let when = |flag, condition| if condition { flag } else { EventFlags::empty() };
        let Some(live) = &mut self.live else { return Ok(()) };
        if self.is_connecting {
            return live.watch(&shared.poller, EventFlags::OUT);
        }
        let of_client = when(EventFlags::IN, self.up.wants_bytes())
            | when(EventFlags::OUT, self.down.is_held());
        let of_live = when(EventFlags::IN, self.down.wants_bytes())
            | when(EventFlags::OUT, self.up.is_held());
        self.client.watch(&shared.poller, of_client)?;
        live.watch(&shared.poller, of_live)
    }

    /// True if the connection can be removed: the live server has closed it some time ago or, while
    /// the subcommand stops, no response is outstanding. Call periodically.
    pub(super) fn is_finished(&mut self, is_stopping: bool) -> bool {
        let has_moved = std::mem::take(&mut self.has_moved);
        let is_quiet = !has_moved && !self.awaits_answer;
        self.ended_at.is_some_and(|ended_at| ended_at.elapsed() > LINGER)
            || self.is_connecting && self.opened_at.elapsed() > CONNECT_TIME_MAX
            || is_stopping && is_quiet && !self.is_held()
    }

    /// True if no response is outstanding at this moment.
    pub(super) fn is_between(&self) -> bool {
        !self.awaits_answer && !self.is_held()
    }

    fn is_held(&self) -> bool {
        self.up.is_held() || self.down.is_held()
    }
}

/// How long a client may keep a connection that the live server has closed.
const LINGER: Duration = Duration::from_secs(2);

/// How long a connection to the live server may take.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
