//! The listener: accepts connections, enforces their limit, advances the clock, handles signals,
//! and hands its sockets to a successor process.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use larder_protocol::ServerError;
use larder_protocol::text::render;
use larder_stats::{Counter, Counters};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, SocketFlags, accept_with, send};

use crate::clock::{Clock, Stopwatch};
use crate::net::sockets::Socket;
use crate::net::worker::inbox::{Accepted, Inbox};
use crate::process::signals::{Asked, Signals};
use crate::process::upgrade::Upgrade;
use crate::server::Server;
use crate::stop::Manner;

/// The state of the main thread while the server runs.
#[derive(Debug)]
pub(crate) struct Listener {
    server: Arc<Server>,
    counters: Arc<Counters>,
    sockets: Vec<Socket>,
    inboxes: Vec<Arc<Inbox>>,
    /// The inbox of the worker that gets the next connection.
    next_inbox: usize,
    signals: Signals,
    upgrade: Upgrade,
    clock: Clock,
    /// Runs while accepting is suspended.
    suspended: Option<Stopwatch>,
}

/// Why accepting from a socket pauses.
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
        signals: Signals,
        upgrade: Upgrade,
    ) -> Self {
        Self {
            counters: server.listener_counters(),
            clock: Clock::new(server.cache.clone(), server.warp.clone()),
            server: Arc::clone(server),
            sockets,
            inboxes,
            next_inbox: 0,
            signals,
            upgrade,
            suspended: None,
        }
    }

    /// Accepts connections until the server stops.
    pub(crate) fn run(&mut self) {
        while self.server.stop.requested().is_none() {
            let readable = self.wait();
            let asked = self.signals.take();
            self.obey(asked);
            self.clock.turn();
            for socket in readable {
                self.accept(socket);
            }
            if self.upgrade.turn(&self.server) {
                self.retire();
            }
            if self.upgrade.is_drained(&self.server) {
                self.server.stop.request(Manner::Graceful);
            }
        }
    }

    /// True if a successor process serves.
    pub(crate) fn has_successor(&self) -> bool {
        self.upgrade.is_done()
    }

    fn obey(&mut self, asked: Asked) {
        if let Some(manner) = asked.stop {
            self.server.stop.request(manner);
        }
        if asked.reload {
            self.server.supervisor.notify_reloading();
            // Without TLS there are no certificates, and a file error has been logged already.
            let _ = self.server.refresh_certificates(false);
            self.server.reload_users();
            self.server.supervisor.notify_ready();
        }
        if asked.upgrade {
            self.upgrade.begin(&self.server, &self.sockets);
        }
    }

    /// Stops accepting: the successor accepts from now on.
    fn retire(&mut self) {
        self.resume();
        self.server.set_accepting(false);
        for socket in self.sockets.drain(..) {
            self.server.conn_table.remove(socket.descriptor.as_raw_fd());
        }
        self.server.handed_over.store(true, Relaxed);
        for inbox in &self.inboxes {
            inbox.waker().wake();
        }
    }

    /// Waits for connections, signals, or the next second. Returns the numbers of the sockets with
    /// waiting connections. While accepting is suspended, returns all sockets after a pause.
    fn wait(&self) -> Vec<usize> {
        let mut waited = vec![
            PollFd::new(&self.signals, PollFlags::IN),
            PollFd::new(self.server.stop.waker(), PollFlags::IN),
        ];
        waited.extend(self.upgrade.channel().map(|channel| PollFd::new(channel, PollFlags::IN)));
        let others_count = waited.len();
        if self.suspended.is_none() {
            let sockets = self.sockets.iter();
            waited.extend(sockets.map(|socket| PollFd::new(&socket.descriptor, PollFlags::IN)));
        }
        let timeout = match (&self.suspended, self.upgrade.is_done()) {
            (Some(_), _) => SUSPENDED_TIMEOUT,
            (None, true) => RETIRED_TIMEOUT,
            (None, false) => TIMEOUT,
        };
        match poll(&mut waited, Some(&timeout)) {
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
        let is_full = self.server.connection_count() >= self.server.connection_count_max;
        if is_full && !options.maxconns_fast {
            return Err(Pause::Full("there are as many as -c allows".to_owned()));
        }
        let Socket { descriptor, transport, client_certificates, protocol, .. } =
            &self.sockets[socket];
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = match accept_with(descriptor, flags) {
            Ok(accepted) => accepted,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Err(Pause::Empty),
            Err(error) => return Err(Pause::Full(error.to_string())),
        };
        if is_full {
            self.reject(&accepted, client_certificates.is_some());
            return Ok(());
        }
        self.counters.bump(Counter::ConnectionsTotal);
        self.counters.bump(Counter::ConnectionsCurrent);
        self.inboxes[self.next_inbox].put(Accepted {
            socket: accepted,
            transport: *transport,
            client_certificates: *client_certificates,
            protocol: *protocol,
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
        // If the send fails, the peer still sees the connection close.
        let _ = send(socket.as_fd(), &words, SendFlags::NOSIGNAL);
    }

    /// Suspends accepting: connections wait in the kernel, and the listener retries after a pause,
    /// so that it does not spin.
    fn suspend(&mut self, why: &str) {
        if self.suspended.is_none() {
            self.server.log.event(format_args!("accepting is suspended: {why}"));
            self.counters.bump(Counter::ListenDisabled);
            self.server.set_accepting(false);
            self.suspended = Some(Stopwatch::start());
        }
    }

    fn resume(&mut self) {
        if let Some(suspended) = self.suspended.take() {
            self.server.log.event(format_args!("accepting resumes"));
            self.counters.add(Counter::ListenDisabledUs, suspended.elapsed_us());
            self.server.set_accepting(true);
        }
    }
}

/// The clock advances also while no connection arrives.
const TIMEOUT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// How often the listener retries while accepting is suspended.
const SUSPENDED_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// How often the listener checks whether all connections are closed after a successor has taken
/// over.
const RETIRED_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// How many connections are accepted from one socket before the others get their turn.
const ACCEPTED_MAX: usize = 64;
