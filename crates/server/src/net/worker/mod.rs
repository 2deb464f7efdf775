//! A worker: one thread, its connections, and the loop that runs the turns of the connections.

mod closing;
mod disk_waiters;
mod drain;
mod parking;
mod slow;
mod ticks;
mod timing;
mod udp;
mod uring;
mod wakes;
mod welcome;

use std::collections::{HashSet, VecDeque};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use larder::{Deferred, DurabilityTicket};
use larder_item::Second;
use larder_options::Io;
use larder_protocol::text::watched::CloseReason;
use rustix::event::epoll::EventFlags;

use crate::buffers::budget::Allotment;
use crate::buffers::output::{OUTPUT_BYTES_HIGH, Output};
use crate::clock::Clock;
use crate::net::connection::turn::{Begun, Input, TurnOutcome, TurnTerms};
use crate::net::connection::{AWAIT_INPUT, AWAIT_OUTPUT, Connection};
use crate::net::connections::Connections;
use crate::net::datagrams::Datagrams;
use crate::net::inbox::Inbox;
use crate::net::poller::{NoRing, Poller};
use crate::net::ring::event::Event;
use crate::net::scratch::Scratch;
use crate::net::token::Token;
use crate::server::Server;
use crate::session::execute::Executor;
use crate::session::execute::disk_threads::DiskThreads;
use crate::stop::Manner;
use crate::tls::Records;
use disk_waiters::{Answers, DiskWaiters};
use drain::DrainProgress;
use slow::SlowWatch;
use ticks::{TICKS, Ticks};
use timing::{Stopwatch, Stopwatches};
use udp::INBOX;

/// The state of a worker's thread.
#[derive(Debug)]
pub(crate) struct Worker {
    /// The number of the worker, counted from 0.
    number: usize,
    executor: Executor,
    inbox: Arc<Inbox>,
    poller: Poller,
    no_ring: Option<NoRing>,
    connections: Connections,
    /// UDP sockets. They stay open for the worker's lifetime, because entries of the ring's queue
    /// may refer to them until the end.
    datagrams: Arc<[Datagrams]>,
    /// The threads that execute UDP requests which wait for the disk.
    disk_threads: Option<DiskThreads>,
    /// True while this worker waits for datagrams.
    takes_datagrams: bool,
    /// Numbers of the UDP sockets with waiting requests.
    datagrams_ready: Vec<usize>,
    /// Connections in `watch` mode, and those whose login is being verified.
    watching: Vec<Token>,
    /// The change streams.
    following: HashSet<Token>,
    ticks: Ticks,
    /// Connections that can continue without waiting, each of them once.
    ready: VecDeque<Token>,
    /// Turns that have begun. Their input is in the scratch.
    turns: Vec<PendingTurn>,
    /// Turns whose output waits for the disk.
    parked: Vec<PendingTurn>,
    asking: DiskWaiters,
    /// The disk writes that the operations of turns have deferred waiting for.
    deferred: Deferred,
    /// Connections whose outputs were passed to the ring in the last turn of the loop.
    sending: Vec<Token>,
    /// Connections for which the ring had no buffers, in the order in which they wait. Connections
    /// that need a buffer later are appended.
    starved: VecDeque<Token>,
    /// Number of events and of connections with more to do in this turn of the loop.
    crowd: usize,
    scratch: Scratch,
    clock: Clock,
    stopwatches: Stopwatches,
    /// `None` without `--log-slower-than`.
    slow: Option<SlowWatch>,
    unreported: UnreportedOutput,
    /// The number of kills when the worker last closed killed connections.
    kill_count: u64,
    /// When the log last reported a connection that was closed because of the memory it held.
    gave_up: Option<Second>,
    /// When the last search found no connection to close for its memory.
    none_idle: Option<Second>,
    /// The reason why connections are closed between requests; `None` during normal service.
    ending: Option<CloseCause>,
}

/// The reason why a worker closes connections between requests.
#[derive(Debug)]
enum CloseCause {
    /// A graceful stop. At the deadline, unsent output is dropped.
    Stop { until: Second },
    /// The server is being drained.
    Drain(Box<DrainProgress>),
}

/// A turn that has begun and whose output is not sent yet.
#[derive(Debug)]
struct PendingTurn {
    token: Token,
    input: Input,
    output: Output,
    /// The disk writes that the output waits for; `None` without a disk tier.
    awaited: Option<DurabilityTicket>,
    /// True if the next command needs the disk.
    needs_disk: bool,
    /// The results of the disk lookups for the next commands.
    answers: Answers,
    /// Set if the batch is timed.
    stopwatch: Option<Stopwatch>,
}

/// Memory of output that was passed to a ring and that no connection has reported. The worker
/// learns only one turn of the loop later how much of it the socket does not accept.
#[derive(Debug, Default)]
struct UnreportedOutput {
    this_turn_bytes: u64,
    last_turn_bytes: u64,
    /// True from the moment memory becomes short until well after it is sufficient again.
    was_tight: bool,
}

impl PendingTurn {
    fn new(token: Token, input: Input) -> Self {
        let (output, answers) = Default::default();
        let (awaited, stopwatch, needs_disk) = (None, None, false);
        Self { token, input, output, awaited, needs_disk, answers, stopwatch }
    }
}

impl Worker {
    /// Creates the worker number `number`, counted from 0.
    ///
    /// # Errors
    /// Fails if no file descriptors are left, or if the system lacks what `--io` requires.
    pub(crate) fn new(server: &Arc<Server>, number: usize, inbox: Arc<Inbox>) -> io::Result<Self> {
        let io = match server.options.io {
            // The system call filter cannot inspect the operations of a ring.
            Io::Auto if server.options.drop_privileges => Io::Epoll,
            io => io,
        };
        let (mut poller, no_ring) = Poller::new(io)?;
        poller.watch(inbox.waker(), INBOX)?;
        let asking = DiskWaiters::new(server.cache.tier().is_some(), &poller, &inbox)?;
        let write_bytes = server.options.tls.as_ref().map_or(0, |tls| tls.write_bytes);
        Ok(Self {
            number,
            executor: Executor::new(Arc::clone(server), number).waking(inbox.answered()),
            inbox,
            poller,
            no_ring,
            connections: Connections::default(),
            datagrams: Arc::default(),
            disk_threads: None,
            takes_datagrams: false,
            datagrams_ready: Vec::new(),
            watching: Vec::new(),
            following: HashSet::new(),
            ticks: Ticks::default(),
            ready: VecDeque::new(),
            turns: Vec::with_capacity(TURNS_MAX),
            parked: Vec::new(),
            asking,
            deferred: Deferred::default(),
            sending: Vec::new(),
            starved: VecDeque::new(),
            crowd: 0,
            scratch: Scratch::new(Records::new(write_bytes)),
            clock: server.clock(),
            stopwatches: Stopwatches::new(server.statistics.latencies.worker(number)),
            slow: server.statistics.slow.as_ref().map(|_| SlowWatch::default()),
            unreported: UnreportedOutput::default(),
            kill_count: 0,
            gave_up: None,
            none_idle: None,
            ending: None,
        })
    }

    /// Returns why the worker has no ring, if it was supposed to have one.
    pub(crate) fn no_ring(&self) -> Option<&NoRing> {
        self.no_ring.as_ref()
    }

    /// Returns the name of its poller, for the log.
    pub(crate) fn waits_by(&self) -> &'static str {
        if self.has_ring() { "io_uring" } else { "epoll" }
    }

    fn has_ring(&self) -> bool {
        matches!(self.poller, Poller::Ring(_))
    }

    /// Serves connections until the server stops, then closes them.
    pub(crate) fn run(mut self) {
        let server = Arc::clone(self.executor.server());
        self.poller.enable().expect("a ring can be used by the thread that it was made for");
        self.watch_syncs();
        self.arm_ticks();
        let mut events = Vec::new();
        loop {
            self.wait(&mut events);
            self.stopwatches.begin_turn();
            if self.clock.turn() {
                self.close_idle();
                self.close_silent();
            }
            self.give_turns(&mut events);
            if server.connections.budget.is_exceeded() {
                self.close_greediest();
            }
            self.drain();
            match server.life.stop.requested() {
                None => {}
                Some(Manner::Graceful) if self.awaits_disk() || !self.is_drained() => {}
                Some(Manner::Graceful | Manner::Now) => break,
            }
            self.stopwatches.end_turn();
            if self.slow.is_some() {
                self.judge_queued();
            }
        }
        for token in self.connections.tokens(|_| true) {
            self.close(token, CloseReason::Shutdown);
        }
    }

    /// Waits until there is work.
    fn wait(&mut self, events: &mut Vec<Event>) {
        let goes_on = !self.ready.is_empty() || self.asking.is_ready();
        let timeout = if goes_on || !self.starved.is_empty() {
            Some(Duration::ZERO)
        } else if let Some(pause) = self.drain_pause() {
            Some(pause)
        } else if let Some(pause) = self.asking.pause() {
            Some(pause)
        } else if self.ending.is_some() || self.counts_seconds() && !self.ticks.is_armed() {
            Some(Duration::from_secs(1))
        } else {
            None
        };
        self.poll(timeout, events);
    }

    fn poll(&mut self, timeout: Option<Duration>, events: &mut Vec<Event>) {
        if let Err(error) = self.poller.wait(timeout, events) {
            panic!("a worker cannot wait for its connections: {error}");
        }
    }

    /// Runs a turn for every connection that had an event, then for those that had more to do.
    fn give_turns(&mut self, events: &mut Vec<Event>) {
        let ready_count = self.ready.len();
        let sent_count = events.iter().filter(|event| matches!(event, Event::Sent(..))).count();
        let closed_count = events.iter().filter(|event| matches!(event, Event::Closed(_))).count();
        self.crowd = events.len() - closed_count + ready_count;
        let contended = self.crowd - sent_count > 1;
        let mut sending = std::mem::take(&mut self.sending);
        let mut is_woken = false;
        for event in events.drain(..) {
            match event {
                Event::Ready(INBOX, ..) => {
                    self.poller.watch_on(self.inbox.waker(), INBOX);
                    self.welcome();
                    self.take_reads();
                    self.wake_connections(contended);
                    self.close_killed();
                    self.executor.server().life.heartbeats.answer(self.number);
                    if self.executor.server().life.is_handed_over() {
                        self.leave_datagrams();
                    }
                    is_woken = true;
                }
                Event::Ready(TICKS, ..) => self.take_tick(),
                Event::Ready(key, flags, is_over) => {
                    self.note_ready(key, flags, is_over, contended);
                }
                Event::Received(token, lent) => self.take_received(token, lent, contended),
                Event::Ended(token, reception) => self.note_reception(token, reception),
                Event::Sent(token, bytes, sent) => self.note_sent(token, bytes, sent, contended),
                Event::DirectDone(token, direct, received) => {
                    self.note_direct(token, direct, received, contended);
                }
                Event::Read(read) => {
                    self.take_read(read.map(|(read, bytes)| read.complete(bytes)));
                }
                Event::Closed(id) => self.note_closed(id),
            }
        }
        self.go_on();
        for _ in 0..ready_count {
            if let Some(token) = self.ready.pop_front() {
                self.begin_turn(token, contended);
            }
        }
        self.end_turns(contended);
        if !self.parked.is_empty() {
            self.send_parked();
        }
        self.ask_on();
        if is_woken {
            // Not earlier: a `watch` connection may have begun a turn above, and must not begin
            // another one.
            self.show_lines(contended);
            self.end_turns(contended);
        }
        self.serve_datagrams();
        for token in sending.drain(..) {
            self.note_stuck(token);
        }
        if self.sending.is_empty() {
            self.sending = sending;
        }
        let this_turn_bytes = std::mem::take(&mut self.unreported.this_turn_bytes);
        self.unreported.last_turn_bytes = this_turn_bytes;
        self.receive_for_starved();
    }

    /// Handles a ready descriptor. If `is_over`, the poll must be started again.
    fn note_ready(&mut self, key: u64, flags: EventFlags, is_over: bool, contended: bool) {
        let datagrams = INBOX - key - 1;
        if datagrams < self.datagrams.len() as u64 {
            self.datagrams_ready.push(datagrams as usize);
            return;
        }
        let token = Token::from(key);
        if let Some(connection) = self.connections.of_mut(token) {
            if is_over {
                connection.note_poll_over();
            }
            connection.note_event(flags);
            if !connection.is_queued() {
                self.begin_turn(token, contended);
            }
        }
    }

    fn begin_turn(&mut self, token: Token, contended: bool) {
        let Some(connection) = self.connections.of_mut(token) else {
            return;
        };
        let was_queued = connection.is_queued();
        match connection.begin_turn(&self.executor, &mut self.scratch, self.clock.second()) {
            Begun::Over(outcome) => self.conclude(token, outcome),
            // When the earlier turn ends, the connection is queued for this input.
            Begun::Earlier => {}
            Begun::Ready(input) => {
                // With a ring, the input has already been received.
                let is_new = !was_queued || matches!(input, Input::Scratch(_));
                if is_new && !connection.is_uring() {
                    connection.note_arrival(self.stopwatches.woken_ns());
                }
                self.turns.push(PendingTurn::new(token, input));
                if self.turns.len() == TURNS_MAX || self.scratch.is_full() {
                    self.end_turns(contended);
                }
            }
        }
    }

    /// Executes the input of all turns that have begun, then sends all output.
    fn end_turns(&mut self, contended: bool) {
        let mut turns = std::mem::take(&mut self.turns);
        self.executor.prefetch(turns.iter().flat_map(|turn| self.keys_ahead(turn)));
        let (mut unsent, mut unsent_bytes) = (0, 0);
        for at in 0..turns.len() {
            self.execute(&mut turns[at], contended);
            unsent_bytes += turns[at].output.len();
            if unsent_bytes >= OUTPUT_BYTES_HIGH {
                self.send(&mut turns[unsent..=at]);
                (unsent, unsent_bytes) = (at + 1, 0);
            }
        }
        if let Some(near) = self.executor.near() {
            near.wake_for_jobs();
        }
        self.send(&mut turns[unsent..]);
        self.scratch.clear_input();
        turns.clear();
        self.turns = turns;
    }

    fn execute(&mut self, turn: &mut PendingTurn, contended: bool) {
        let keys_max = match self.crowd {
            0..=CROWD_MIN => usize::MAX,
            crowd => (CROWD_KEYS / crowd).max(CROWDED_KEYS_MIN),
        };
        let allotment = self.allotment();
        let goes_on = turn.goes_on();
        if goes_on {
            self.give_answers(turn);
        }
        let Self { connections, poller, scratch, executor, stopwatches, .. } = self;
        let (wait, now) = (self.asking.wait(&self.deferred), self.clock.second());
        let terms = TurnTerms { wait, now, contended, keys_max, allotment };
        if let Some(connection) = connections.of_mut(turn.token) {
            if !goes_on {
                turn.output = scratch.take_output();
            }
            let received = received(&turn.input, scratch, poller);
            if !goes_on && stopwatches.chooses() {
                let timing = connection.timing_ahead(received);
                let arrived_ns = connection.arrived_ns();
                turn.stopwatch = timing.map(|timing| Stopwatch { timing, arrived_ns });
            }
            if self.slow.is_some() {
                connection.begin_timing();
            }
            executor.serve(turn.token.into());
            connection.execute(executor, received, &mut turn.output, terms);
            turn.awaited = turn.awaited.max(wait.take_awaited());
            turn.needs_disk = connection.needs_disk();
        }
        if goes_on {
            self.forget_answers();
        }
        if allotment.is_tight {
            turn.output.compact();
        }
        let input = std::mem::replace(&mut turn.input, Input::Backlog);
        if let (Input::Lent(lent), Some(ring)) = (input, self.poller.ring()) {
            ring.give_back(lent);
        }
    }

    /// Returns how much a connection may currently buffer. Assumes that each of the other workers
    /// has as much output in progress as this one.
    #[inline]
    fn allotment(&mut self) -> Allotment {
        let UnreportedOutput { this_turn_bytes, last_turn_bytes, was_tight } = self.unreported;
        let server = self.executor.server();
        let unreported_bytes = this_turn_bytes + last_turn_bytes;
        let unreported_bytes = unreported_bytes * server.options.worker_count as u64;
        let mut allotment = server.connections.budget.allotment(unreported_bytes);
        if self.crowd > CROWD_MIN {
            let share_bytes = CROWD_BYTES / self.crowd;
            let share_bytes = share_bytes.clamp(CROWDED_BYTES_MIN, OUTPUT_BYTES_HIGH);
            allotment.output_bytes_max = allotment.output_bytes_max.min(share_bytes);
        }
        if allotment.is_tight && !was_tight {
            self.unreported.was_tight = true;
            self.receive_less();
        } else if was_tight && server.connections.budget.is_relaxed(unreported_bytes) {
            self.unreported.was_tight = false;
        }
        allotment
    }

    fn keys_ahead(&self, turn: &PendingTurn) -> impl Iterator<Item = &[u8]> {
        let received = received(&turn.input, &self.scratch, &self.poller);
        let connection = self.connections.of(turn.token).into_iter();
        connection.flat_map(move |connection| connection.keys_ahead(received))
    }

    fn send(&mut self, turns: &mut [PendingTurn]) {
        for turn in turns {
            if turn.needs_disk {
                self.ask_disk(turn);
                continue;
            }
            if turn.awaited.is_some() && self.holds_back(turn) {
                continue;
            }
            let mut output = std::mem::take(&mut turn.output);
            let stopwatch = turn.stopwatch.filter(|_| !output.is_empty());
            let Some(connection) = self.connections.of_mut(turn.token) else {
                self.scratch.give_output(output);
                continue;
            };
            if let (false, true, Some(ring)) =
                (output.is_empty(), connection.is_uring(), self.poller.ring())
            {
                connection.note_sending(output.held_bytes());
                self.unreported.this_turn_bytes += output.held_bytes() as u64;
                ring.send(connection.as_fd(), turn.token, std::mem::take(&mut output));
                self.sending.push(turn.token);
            }
            let records = &mut self.scratch.records;
            let outcome = connection.end_turn(&self.executor, records, &mut output);
            if let Some(stopwatch) = stopwatch {
                match connection.is_uring() {
                    true => self.stopwatches.note_queued(stopwatch),
                    false => self.stopwatches.note_sent(stopwatch),
                }
            }
            self.scratch.give_output(output);
            if self.slow.is_some() {
                self.note_handed_over(turn.token);
            }
            self.conclude(turn.token, outcome);
        }
    }

    fn conclude(&mut self, token: Token, outcome: TurnOutcome) {
        match outcome {
            TurnOutcome::AwaitInput
            | TurnOutcome::AwaitWake
            | TurnOutcome::AwaitOrigin
            | TurnOutcome::AwaitChanges
                if self.ending.is_some() && self.leave(token) => {}
            TurnOutcome::AwaitWake => {
                if !self.watching.contains(&token) {
                    self.watching.push(token);
                }
                self.await_event(token, AWAIT_INPUT);
            }
            TurnOutcome::AwaitChanges => {
                self.following.insert(token);
                self.arm_ticks();
                self.await_event(token, AWAIT_INPUT);
            }
            TurnOutcome::AwaitInput | TurnOutcome::AwaitOrigin => {
                if self.executor.server().warming.is_open() {
                    self.watch_copies(token);
                }
                self.await_event(token, AWAIT_INPUT);
            }
            TurnOutcome::AwaitOutput => self.await_event(token, AWAIT_OUTPUT),
            TurnOutcome::Again => {
                if let Some(connection) = self.connections.of_mut(token) {
                    connection.queue();
                    self.ready.push_back(token);
                }
            }
            TurnOutcome::Close => {
                let closing = self.connections.of(token).map(Connection::closing);
                self.close(token, closing.unwrap_or(CloseReason::Error));
            }
        }
    }

    /// Makes sure that an event of this kind wakes the worker. A request and its response do not
    /// change the kind, so they cost no system call here.
    fn await_event(&mut self, token: Token, event: EventFlags) {
        let Some(connection) = self.connections.of_mut(token) else {
            return;
        };
        if connection.is_uring() {
            return self.receive(token);
        }
        let Some(before) = connection.change_awaited(event) else { return };
        if self.poller.await_event(&*connection, token, before, event).is_err() {
            self.close(token, CloseReason::Error);
        }
    }
}

/// Returns the bytes of an input, or `None` if they are in the connection's backlog.
fn received<'a>(input: &Input, scratch: &'a Scratch, poller: &'a Poller) -> Option<&'a [u8]> {
    match (input, poller) {
        (Input::Scratch(range), _) => Some(&scratch.input[range.clone()]),
        (Input::Lent(lent), Poller::Ring(ring)) => Some(ring.bytes(lent)),
        (Input::Lent(_), Poller::Epoll(_)) | (Input::Backlog, _) => None,
    }
}

/// How many turns are in progress together. The worker receives all input, then executes it, then
/// sends all output, so that it can prefetch the keys of all turns together.
const TURNS_MAX: usize = 16;

/// Maximum output of one turn of the loop, in which the last connection waits for the output of all
/// others. With more than `CROWD_MIN` connections, each may therefore render less in its turn, but
/// at least `CROWDED_BYTES_MIN`.
const CROWD_BYTES: usize = 2 * 1024 * 1024;
const CROWD_MIN: usize = CROWD_BYTES / OUTPUT_BYTES_HIGH;
const CROWDED_BYTES_MIN: usize = 4 * 1024;

/// How many keys of lists all connections look up in one turn of the loop. It takes about 10 ms.
const CROWD_KEYS: usize = 64 * 1024;
const CROWDED_KEYS_MIN: usize = 100;

#[cfg(test)]
mod tests;
