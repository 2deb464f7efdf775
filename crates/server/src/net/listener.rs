//! The listener accepts connections, enforces their limit, and advances the clock.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use larder_protocol::ServerError;
use larder_protocol::text::render;
use larder_stats::{Counter, Counters};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, send};

use crate::clock::{Clock, Stopwatch};
use crate::log::Level;
use crate::net::inbox::{Inbox, NewConnection};
use crate::net::sockets::Socket;
use crate::server::Server;
use crate::server::statistics::threads::Thread;

/// The listening sockets, and the workers that receive their connections in turn.
#[derive(Debug)]
pub(crate) struct Listener {
    server: Arc<Server>,
    counters: Arc<Counters>,
    sockets: Vec<Socket>,
    inboxes: Vec<Arc<Inbox>>,
    /// The inbox of the worker that receives the next connection.
    next_inbox: usize,
    clock: Clock,
    /// Runs while accepting is suspended.
    suspended: Option<Stopwatch>,
}

/// The reason why accepting from a socket pauses.
enum Pause {
    /// No connection waits.
    Empty,
    /// The connection limit is reached, for this reason.
    Full(String),
}

impl Listener {
    pub(crate) fn new(
        server: &Arc<Server>,
        sockets: Vec<Socket>,
        inboxes: Vec<Arc<Inbox>>,
    ) -> Self {
        Self {
            counters: Arc::clone(server.counters(Thread::Listener)),
            clock: server.clock(),
            server: Arc::clone(server),
            sockets,
            inboxes,
            next_inbox: 0,
            suspended: None,
        }
    }

    /// Returns the sockets from which the listener accepts.
    pub(crate) fn sockets(&self) -> &[Socket] {
        &self.sockets
    }

    /// Advances the clock, and accepts from the sockets with these numbers.
    pub(crate) fn accept_from(&mut self, sockets: Vec<usize>) {
        self.clock.turn();
        for socket in sockets {
            self.accept(socket);
        }
    }

    /// Stops accepting, because the successor accepts from now on.
    pub(crate) fn retire(&mut self) {
        self.resume();
        self.server.connections.set_accepting(false);
        for socket in self.sockets.drain(..) {
            self.server.connections.table.remove(socket.descriptor.as_raw_fd());
        }
        self.server.life.hand_over();
        self.server.upkeep.prefix_removals.retire();
        self.wake_workers();
    }

    /// Wakes the workers, so that they notice a change immediately.
    pub(crate) fn wake_workers(&self) {
        for inbox in &self.inboxes {
            inbox.waker().wake();
        }
    }

    /// Waits for connections or for one of the `others`, at most until the timeout. Returns the
    /// numbers of the sockets with waiting connections. While accepting is suspended, returns all
    /// sockets after a pause.
    pub(crate) fn wait<'fd>(&'fd self, others: Vec<PollFd<'fd>>, timeout: &Timespec) -> Vec<usize> {
        let (others_count, mut waited) = (others.len(), others);
        if self.suspended.is_none() {
            let sockets = self.sockets.iter();
            waited.extend(sockets.map(|socket| PollFd::new(&socket.descriptor, PollFlags::IN)));
        }
        let timeout = if self.suspended.is_some() { &SUSPENDED_TIMEOUT } else { timeout };
        match poll(&mut waited, Some(timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("the listener cannot wait for connections: {error}"),
        }
        if self.suspended.is_some() {
            return (0..self.sockets.len()).collect();
        }
        let sockets = waited[others_count..].iter().zip(0..);
        sockets.filter(|(waited, _)| !waited.revents().is_empty()).map(|(_, at)| at).collect()
    }

    /// Accepts the connections that wait on a socket, up to a limit.
    fn accept(&mut self, socket: usize) {
        for _ in 0..ACCEPTED_MAX {
            match self.accept_one(socket) {
                Ok(()) => self.resume(),
                Err(Pause::Empty) => return self.resume(),
                Err(Pause::Full(why)) => return self.suspend(&why),
            }
        }
    }

    fn accept_one(&mut self, socket: usize) -> Result<(), Pause> {
        let options = &self.server.options;
        let is_full = self.server.connection_count() >= self.server.connections.count_max;
        if is_full && !options.maxconns_fast {
            return Err(Pause::Full("as many connections are open as -c allows".to_owned()));
        }
        let Socket { descriptor, transport, terms, .. } = &self.sockets[socket];
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = match accept_with(descriptor, flags) {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Err(Pause::Empty),
            Err(error) => return Err(Pause::Full(error.to_string())),
        };
        if is_full {
            self.reject(&accepted, terms.is_encrypted());
            return Ok(());
        }
        self.counters.bump(Counter::ConnectionsTotal);
        self.counters.bump(Counter::ConnectionsCurrent);
        self.inboxes[self.next_inbox].put(NewConnection {
            socket: accepted,
            transport: *transport,
            terms: *terms,
        });
        self.next_inbox = (self.next_inbox + 1) % self.inboxes.len();
        Ok(())
    }

    fn reject(&self, socket: &OwnedFd, is_tls: bool) {
        self.counters.bump(Counter::ConnectionsRejected);
        if is_tls {
            // An error response over TLS would need a handshake.
            return;
        }
        let mut words = Vec::new();
        let error = ServerError::TooManyConnections.into();
        render::response(&mut words, &error);
        // If the send fails, the peer only notices that the connection is closed.
        let _ = send(socket.as_fd(), &words, SendFlags::NOSIGNAL);
    }

    /// Suspends accepting: connections wait in the kernel, and the listener retries after a pause,
    /// so that it does not spin.
    fn suspend(&mut self, why: &str) {
        if self.suspended.is_none() {
            self.server.log.event(Level::Warn, format_args!("accepting is suspended: {why}"));
            self.counters.bump(Counter::ListenDisabled);
            self.server.connections.set_accepting(false);
            self.suspended = Some(Stopwatch::start());
        }
    }

    fn resume(&mut self) {
        if let Some(suspended) = self.suspended.take() {
            self.server.log.event(Level::Info, format_args!("accepting resumes"));
            self.counters.add(Counter::ListenDisabledUs, suspended.elapsed_us());
            self.server.connections.set_accepting(true);
        }
    }
}

/// How often the listener retries while accepting is suspended.
const SUSPENDED_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// How many connections are accepted from one socket before the other sockets take their turn.
const ACCEPTED_MAX: usize = 64;
