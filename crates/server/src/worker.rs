//! A worker: one thread, its connections, and the loop that gives each its turn.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use larder_item::Second;
use larder_protocol::Topics;
use larder_protocol::text::watched::{self, Closing};
use larder_stats::Counter;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::{self, Errno};
use rustix::net::{getpeername, getsockname};

use crate::Server;
use crate::clock::Clock;
use crate::connection::{AWAIT_INPUT, AWAIT_OUTPUT, Begun, Connection, Input, Outcome};
use crate::connections::{Connections, Token};
use crate::datagrams::Datagrams;
use crate::execute::Executor;
use crate::inbox::{Accepted, Inbox, Transport};
use crate::roster::{Card, Ends};
use crate::scratch::Scratch;
use crate::session::OUTPUT_BYTES_HIGH;
use crate::stop::Manner;
use crate::tls::{Records, Tls};

/// The state of a worker's thread.
#[derive(Debug)]
pub(crate) struct Worker {
    executor: Executor,
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    connections: Connections,
    datagrams: Arc<[Datagrams]>,
    /// Those of them, by number, on which requests wait.
    datagrams_ready: Vec<usize>,
    /// Connections that are shown what happens.
    watching: Vec<Token>,
    /// Connections that can go on without waiting for anything, each once.
    ready: VecDeque<Token>,
    /// Those whose turn has begun: their input is in the scratch.
    turns: Vec<Turn>,
    scratch: Scratch,
    clock: Clock,
    /// Set in a graceful stop: whatever cannot be sent by then is not sent.
    drain_until: Option<Second>,
}

/// A connection's turn.
#[derive(Debug)]
struct Turn {
    token: Token,
    input: Input,
    output: Range<usize>,
}

impl Worker {
    /// The worker with this number, counted from 0.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub(crate) fn new(server: &Arc<Server>, number: usize, inbox: Arc<Inbox>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, inbox.waker(), epoll::EventData::new_u64(INBOX), epoll::EventFlags::IN)?;
        let write_bytes = server.options.tls.as_ref().map_or(0, |tls| tls.write_bytes);
        Ok(Self {
            executor: Executor::new(Arc::clone(server), number).waking(&inbox),
            inbox,
            epoll,
            connections: Connections::default(),
            datagrams: Arc::default(),
            datagrams_ready: Vec::new(),
            watching: Vec::new(),
            ready: VecDeque::new(),
            turns: Vec::with_capacity(TURNS_MAX),
            scratch: Scratch::new(Records::new(write_bytes)),
            clock: Clock::new(Arc::clone(server)),
            drain_until: None,
        })
    }

    /// Lets the worker take its part of the requests that come by UDP. Of all workers that wait, one is woken.
    ///
    /// # Errors
    /// The system does not let it wait for them.
    pub(crate) fn share(&mut self, datagrams: Arc<[Datagrams]>) -> io::Result<()> {
        for (socket, number) in datagrams.iter().zip(1..) {
            let data = epoll::EventData::new_u64(INBOX - number);
            let event = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
            epoll::add(&self.epoll, socket, data, event)?;
        }
        self.datagrams = datagrams;
        Ok(())
    }

    /// Serves connections until the server stops, then closes them.
    pub(crate) fn run(mut self) {
        let server = Arc::clone(self.executor.server());
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            self.wait(&mut events);
            if self.clock.turn() {
                self.close_idle();
            }
            self.give_turns(&events);
            match server.stop.requested() {
                None => {}
                Some(Manner::Graceful) if !self.is_drained() => {}
                Some(Manner::Graceful | Manner::Now) => break,
            }
        }
        for token in self.connections.tokens(|_| true) {
            self.close(token, Closing::Shutdown);
        }
    }

    /// Waits until there is something to do.
    fn wait(&self, events: &mut Vec<epoll::Event>) {
        let options = &self.executor.server().options;
        let timeout = if !self.ready.is_empty() {
            Some(&NOT_AT_ALL)
        } else if options.idle_timeout_secs > 0 || self.drain_until.is_some() {
            Some(&ONE_SECOND)
        } else {
            None
        };
        events.clear();
        match epoll::wait(&self.epoll, spare_capacity(events), timeout) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => panic!("a worker cannot wait for its connections: {error}"),
        }
    }

    /// A turn for every connection that something happened to, then for those that had more to do.
    fn give_turns(&mut self, events: &[epoll::Event]) {
        let ready_count = self.ready.len();
        let contended = events.len() + ready_count > 1;
        let mut is_woken = false;
        for event in events {
            if event.data.u64() == INBOX {
                self.welcome();
                is_woken = true;
                continue;
            }
            let datagrams = INBOX - event.data.u64() - 1;
            if datagrams < self.datagrams.len() as u64 {
                self.datagrams_ready.push(datagrams as usize);
                continue;
            }
            let token = Token::from(event.data.u64());
            if let Some(connection) = self.connections.of_mut(token) {
                connection.notice(event.flags);
                if !connection.is_ready {
                    self.begin_turn(token, contended);
                }
            }
        }
        for _ in 0..ready_count {
            if let Some(token) = self.ready.pop_front() {
                self.begin_turn(token, contended);
            }
        }
        self.end_turns(contended);
        if is_woken {
            // Not before: a connection whose turn has begun must not get a second one.
            self.show_lines(contended);
            self.end_turns(contended);
        }
        for number in self.datagrams_ready.drain(..) {
            self.datagrams[number].serve(&self.executor, &mut self.scratch);
        }
    }

    /// A turn for every connection that is shown what happens.
    fn show_lines(&mut self, contended: bool) {
        for token in self.watching.clone() {
            if self.connections.of(token).is_some_and(|connection| !connection.is_ready) {
                self.begin_turn(token, contended);
            }
        }
    }

    fn begin_turn(&mut self, token: Token, contended: bool) {
        let Some(connection) = self.connections.of_mut(token) else {
            return;
        };
        connection.is_ready = false;
        match connection.begin_turn(&self.executor, &mut self.scratch, self.clock.second()) {
            Begun::Over(outcome) => self.conclude(token, outcome),
            Begun::Ready(input) => {
                self.turns.push(Turn { token, input, output: 0..0 });
                if self.turns.len() == TURNS_MAX || self.scratch.is_full() {
                    self.end_turns(contended);
                }
            }
        }
    }

    /// Executes what has been received in all turns that have begun, then sends all output.
    fn end_turns(&mut self, contended: bool) {
        let mut turns = std::mem::take(&mut self.turns);
        self.executor.prefetch(turns.iter().flat_map(|turn| self.keys_ahead(turn)));
        let mut unsent = 0;
        let now = self.clock.second();
        for at in 0..turns.len() {
            let turn = &mut turns[at];
            if let Some(connection) = self.connections.of_mut(turn.token) {
                let input = std::mem::replace(&mut turn.input, Input::Backlog);
                turn.output =
                    connection.execute(&self.executor, &mut self.scratch, input, contended, now);
            }
            if self.scratch.output.len() >= OUTPUT_BYTES_HIGH {
                self.send(&turns[unsent..=at]);
                unsent = at + 1;
            }
        }
        self.send(&turns[unsent..]);
        self.scratch.clear_input();
        turns.clear();
        self.turns = turns;
    }

    fn keys_ahead(&self, turn: &Turn) -> impl Iterator<Item = &[u8]> {
        let connection = self.connections.of(turn.token).into_iter();
        connection.flat_map(|connection| connection.keys_ahead(&self.scratch, &turn.input))
    }

    fn send(&mut self, turns: &[Turn]) {
        for turn in turns {
            if let Some(connection) = self.connections.of_mut(turn.token) {
                let output = &self.scratch.output[turn.output.clone()];
                let records = &mut self.scratch.records;
                let outcome = connection.end_turn(&self.executor, records, output);
                self.conclude(turn.token, outcome);
            }
        }
        self.scratch.clear_output();
    }

    fn conclude(&mut self, token: Token, outcome: Outcome) {
        match outcome {
            Outcome::AwaitInput | Outcome::AwaitLines if self.drain_until.is_some() => {
                self.close(token, Closing::Shutdown);
            }
            Outcome::AwaitLines => {
                if !self.watching.contains(&token) {
                    self.watching.push(token);
                }
                self.await_event(token, AWAIT_INPUT);
            }
            Outcome::AwaitInput => self.await_event(token, AWAIT_INPUT),
            Outcome::AwaitOutput => self.await_event(token, AWAIT_OUTPUT),
            Outcome::Again => {
                if let Some(connection) = self.connections.of_mut(token) {
                    connection.is_ready = true;
                    self.ready.push_back(token);
                }
            }
            Outcome::Close => {
                let closing = self.connections.of(token).map(Connection::closing);
                self.close(token, closing.unwrap_or(Closing::Error));
            }
        }
    }

    /// Sees to it that the worker is woken for one kind of event. A request and its answer change nothing
    /// about that and cost no system call here.
    fn await_event(&mut self, token: Token, event: epoll::EventFlags) {
        let Some(connection) = self.connections.of_mut(token) else {
            return;
        };
        if connection.awaited == event {
            return;
        }
        connection.awaited = event;
        let data = epoll::EventData::new_u64(token.into());
        if epoll::modify(&self.epoll, &*connection, data, event).is_err() {
            self.close(token, Closing::Error);
        }
    }

    /// Takes in the connections that the listener has accepted for this worker.
    fn welcome(&mut self) {
        for accepted in self.inbox.take() {
            let log = self.executor.log();
            let tls = match self.tls(&accepted) {
                Ok(tls) => tls,
                Err(error) => {
                    self.executor.counters().add(Counter::ConnectionsCurrent, 1u64.wrapping_neg());
                    log.event(format_args!("a connection cannot be encrypted: {error}"));
                    continue;
                }
            };
            let card = self.card(&accepted);
            let server = self.executor.server();
            let connection = Connection::new(server, accepted, tls, card, self.clock.second());
            log.event(format_args!("<{} new client connection", connection.id()));
            let (id, peer) = (connection.id(), || connection.peer());
            self.executor.server().watchers.tell(Topics::CONNEVENTS, |out| {
                watched::connection_new(out, peer(), u64::from(id.unsigned_abs()));
            });
            let awaited = connection.awaited;
            let token = self.connections.add(connection);
            let Some(connection) = self.connections.of_mut(token) else {
                continue;
            };
            let data = epoll::EventData::new_u64(token.into());
            if let Err(error) = epoll::add(&self.epoll, &*connection, data, awaited) {
                log.event(format_args!("<{} cannot be served: {error}", connection.id()));
                self.close(token, Closing::Error);
            }
        }
    }

    /// The TLS of a new connection, if it is to have any.
    fn tls(&self, accepted: &Accepted) -> Result<Option<Box<Tls>>, rustls::Error> {
        let certificates = self.executor.server().certificates.as_ref();
        let (Some(certificates), Some(asked)) = (certificates, accepted.client_certificates) else {
            return Ok(None);
        };
        let config = certificates
            .config(asked)
            .ok_or_else(|| rustls::Error::General("there are no authorities".to_owned()))?;
        Ok(Some(Box::new(Tls::new(config, certificates.has_sessions())?)))
    }

    /// The card of a new connection.
    fn card(&self, accepted: &Accepted) -> Arc<Card> {
        let server = self.executor.server();
        let ends = match accepted.transport {
            Transport::Tcp => Ends::Tcp {
                peer: getpeername(&accepted.socket)
                    .ok()
                    .flatten()
                    .and_then(|peer| peer.try_into().ok()),
                local: getsockname(&accepted.socket).ok().and_then(|local| local.try_into().ok()),
            },
            Transport::Unix => Ends::Unix(server.options.unix_socket.clone().unwrap_or_default()),
        };
        server.roster.add(accepted.socket.as_raw_fd(), ends, self.clock.second())
    }

    fn close(&mut self, token: Token, closing: Closing) {
        let Some(mut connection) = self.connections.remove(token) else {
            return;
        };
        self.executor.server().roster.remove(connection.id());
        self.watching.retain(|watching| *watching != token);
        let (id, peer) = (connection.id(), || connection.peer());
        self.executor.server().watchers.tell(Topics::CONNEVENTS, |out| {
            watched::connection_close(out, peer(), closing, u64::from(id.unsigned_abs()));
        });
        connection.end(&self.executor);
        self.executor.counters().add(Counter::ConnectionsCurrent, 1u64.wrapping_neg());
        self.executor.log().event(format_args!("<{} connection closed", connection.id()));
    }

    fn close_idle(&mut self) {
        let idle_secs = self.executor.server().options.idle_timeout_secs;
        if idle_secs == 0 {
            return;
        }
        let second = self.clock.second();
        for token in self.connections.tokens(|connection| connection.is_idle(second, idle_secs)) {
            self.executor.counters().count(Counter::IdleKicks);
            self.close(token, Closing::IdleTimeout);
        }
    }

    /// In a graceful stop: is nothing left to be sent, or no time? The first time every connection has a
    /// last turn, for what has arrived.
    fn is_drained(&mut self) -> bool {
        let Some(drain_until) = self.drain_until else {
            self.drain_until = Some(self.clock.second() + DRAIN_SECS);
            for token in self.connections.tokens(|connection| !connection.is_ready) {
                if let Some(connection) = self.connections.of_mut(token) {
                    connection.notice(epoll::EventFlags::IN);
                }
                self.begin_turn(token, true);
            }
            self.end_turns(true);
            return self.connections.is_empty();
        };
        self.connections.is_empty() || self.clock.second() >= drain_until
    }
}

/// The event of the inbox; those of UDP sockets come before it. No token is like them: so many connections
/// there cannot be.
const INBOX: u64 = u64::MAX;

const NOT_AT_ALL: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
const ONE_SECOND: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// So many turns are under way at the same time: their input is received, then all of it is executed, then
/// all output is sent. So the keys of all of them can be prefetched together.
const TURNS_MAX: usize = 16;

/// So many connections have a turn before the worker looks for others.
const EVENTS_MAX: usize = 256;

/// How long a graceful stop waits for peers to take their answers.
const DRAIN_SECS: Second = 5;

#[cfg(test)]
mod tests;
