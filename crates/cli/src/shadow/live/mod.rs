//! Forwards bytes between clients and the live server, in one thread. The comparer only receives
//! copies through a [`Feed`], so that it cannot delay or change them.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the event loop |
//! | `listener.rs` | the listening socket and the limit of descriptors |
//! | `client.rs` | a client's connection |
//! | `flow.rs` | one direction of it |

mod client;
mod flow;
pub(crate) mod listener;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::Timespec;
use slab::Slab;
use socket2::Socket;

use self::client::{Client, Shared};
use self::listener::Listener;
use super::compare::Target;
use super::feed::{Feed, Kind};

/// Counts of the forwarded connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LiveCounts {
    /// Connections that the live server did not accept.
    pub(crate) refused_by_live: u64,
    /// Connections that were closed at the end with a response outstanding.
    pub(crate) cut: u64,
}

/// Forwards connections until the end.
#[derive(Debug)]
pub(crate) struct Forwarder<'a> {
    shared: Shared<'a>,
    listener: Option<Listener>,
    is_accepting: bool,
    clients: Slab<Client>,
    clients_max: usize,
    next_connection: u64,
    /// Clients that wait for the queue of the live server.
    retries: Vec<usize>,
    counts: LiveCounts,
}

impl<'a> Forwarder<'a> {
    /// Creates a forwarder for at most this number of clients.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub(crate) fn new(
        listener: Listener,
        target: &'a Target,
        feed: &'a Feed,
        clients_max: usize,
    ) -> Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        let buffer = vec![0; BUFFER_BYTES];
        Ok(Self {
            shared: Shared { poller, feed, target, buffer },
            listener: Some(listener),
            is_accepting: false,
            clients: Slab::new(),
            clients_max,
            next_connection: 0,
            retries: Vec::new(),
            counts: LiveCounts::default(),
        })
    }

    /// Forwards bytes until `stop` is set or the time has come. Then accepts no more clients, waits
    /// for outstanding responses for a short time, and closes the connections.
    ///
    /// # Errors
    /// The kernel does not report events.
    pub(crate) fn run(mut self, stop: &AtomicBool, until: Option<Instant>) -> Result<LiveCounts> {
        let mut swept_at = Instant::now();
        let mut stopping_since: Option<Instant> = None;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        while stopping_since.is_none_or(|_| !self.clients.is_empty()) {
            self.update_listener()?;
            self.wait(&mut events)?;
            for event in &events {
                if event.data.u64() != LISTENER {
                    self.forward(event);
                }
            }
            if events.iter().any(|event| event.data.u64() == LISTENER) {
                self.accept();
            }
            if swept_at.elapsed() < SWEEP_PERIOD {
                continue;
            }
            swept_at = Instant::now();
            if stopping_since.is_none()
                && (stop.load(Relaxed) || until.is_some_and(|until| swept_at >= until))
            {
                stopping_since = Some(swept_at);
                self.listener = None;
            }
            self.sweep(stopping_since);
        }
        Ok(self.counts)
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<()> {
        events.clear();
        let millis = if self.retries.is_empty() { SWEEP_PERIOD.as_millis() } else { 2 };
        let wait = Timespec { tv_sec: 0, tv_nsec: millis as i64 * 1_000_000 };
        let waited =
            epoll::wait(&self.shared.poller, rustix::buffer::spare_capacity(events), Some(&wait));
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("epoll"),
        }
    }

    /// Accepts connections only while there are descriptors for them.
    fn update_listener(&mut self) -> Result<()> {
        let wants = self.clients.len() < self.clients_max;
        let Some(listener) = self.listener.as_ref().filter(|_| wants != self.is_accepting) else {
            return Ok(());
        };
        let updated = match wants {
            true => epoll::add(
                &self.shared.poller,
                listener.socket(),
                EventData::new_u64(LISTENER),
                EventFlags::IN,
            ),
            false => epoll::delete(&self.shared.poller, listener.socket()),
        };
        self.is_accepting = wants;
        updated.context("epoll")
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_TURN {
            let Some(listener) = &self.listener else { return };
            if self.clients.len() >= self.clients_max {
                return;
            }
            match listener.accept() {
                Ok(Some(socket)) => self.open(socket),
                Ok(None) => return,
                Err(error) => {
                    eprintln!("larder: cannot accept a connection: {error}");
                    // The listener stays ready, and the error may last.
                    std::thread::sleep(Duration::from_millis(10));
                    return;
                }
            }
        }
    }

    fn open(&mut self, socket: Socket) {
        self.next_connection += 1;
        let connection = self.next_connection;
        let entry = self.clients.vacant_entry();
        let place = entry.key();
        let client = entry.insert(Client::new(connection, socket, place as u64 * 2));
        self.shared.feed.push(connection, Kind::Opened, b"");
        match client.connect(&self.shared) {
            Ok(()) if client.wants_connect() => self.retries.push(place),
            Ok(()) => {}
            Err(error) => self.refuse(place, &error),
        }
    }

    fn refuse(&mut self, place: usize, error: &io::Error) {
        self.counts.refused_by_live += 1;
        if self.counts.refused_by_live.is_power_of_two() {
            eprintln!("larder: the live server does not accept a connection: {error}");
        }
        self.close(place);
    }

    fn close(&mut self, place: usize) {
        if let Some(client) = self.clients.try_remove(place) {
            self.shared.feed.push(client.connection(), Kind::Closed, b"");
        }
    }

    fn forward(&mut self, event: &epoll::Event) {
        let (token, flags) = (event.data.u64(), event.flags);
        let (place, is_of_live) = ((token / 2) as usize, token % 2 == 1);
        let Some(client) = self.clients.get_mut(place) else { return };
        let was_open = !client.is_connecting();
        match client.forward(&mut self.shared, is_of_live, flags) {
            Ok(()) => {}
            Err(error) if !was_open && client.is_connecting() => self.refuse(place, &error),
            Err(_) => self.close(place),
        }
    }

    /// Does what depends on time.
    fn sweep(&mut self, stopping_since: Option<Instant>) {
        for place in std::mem::take(&mut self.retries) {
            let Some(client) = self.clients.get_mut(place) else { continue };
            match client.connect(&self.shared) {
                Ok(()) if client.wants_connect() => self.retries.push(place),
                Ok(()) => {}
                Err(error) => self.refuse(place, &error),
            }
        }
        let stopping_for = stopping_since.map(|since| since.elapsed());
        let mut finished = Vec::new();
        for (place, client) in &mut self.clients {
            let is_finished = client.is_finished(stopping_since.is_some())
                || stopping_for.is_some_and(|time| time > STOP_TIME_MAX)
                || stopping_for.is_some_and(|time| time > BUSY_TIME_MAX) && client.is_between();
            if is_finished {
                self.counts.cut += u64::from(stopping_since.is_some() && !client.is_between());
                finished.push(place);
            }
        }
        finished.into_iter().for_each(|place| self.close(place));
    }
}

/// The number of the events of the listener.
const LISTENER: u64 = u64::MAX;

const BUFFER_BYTES: usize = 64 << 10;

const EVENTS_MAX: usize = 256;

const ACCEPTS_PER_TURN: u32 = 64;

const SWEEP_PERIOD: Duration = Duration::from_millis(50);

/// How long a client that always has requests outstanding keeps its connection while the subcommand
/// stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a busy client keeps its connection while the subcommand stops.
const BUSY_TIME_MAX: Duration = Duration::from_secs(1);
