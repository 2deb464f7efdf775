//! A thread that forwards the bytes of its clients. It never waits for anything but events.

use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::Timespec;
use slab::Slab;
use socket2::Socket;

use super::client::{Client, Shared};
use super::{Forwarder, LiveCounts};
use crate::shadow::feed::{ConnectionId, Kind};

/// New clients for a worker.
#[derive(Debug)]
pub(super) struct Inbox {
    arrived: Mutex<Vec<(ConnectionId, Socket)>>,
    wake: OwnedFd,
    is_stopping: AtomicBool,
}

impl Inbox {
    /// Creates an empty inbox.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub(super) fn new() -> Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).context("eventfd")?;
        Ok(Self { arrived: Mutex::default(), wake, is_stopping: AtomicBool::new(false) })
    }

    /// Gives a client to the worker.
    pub(super) fn push(&self, connection: ConnectionId, socket: Socket) {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner).push((connection, socket));
        self.notify();
    }

    /// Tells the worker that no more clients follow, and that it ends soon.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Relaxed);
        self.notify();
    }

    fn notify(&self) {
        // The only possible error is that the counter is full, and then the worker wakes anyway.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn take(&self) -> Vec<(ConnectionId, Socket)> {
        let _ = rustix::io::read(&self.wake, &mut [0; 8]);
        mem::take(&mut *self.arrived.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The state of a worker.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    shared: Shared<'a>,
    inbox: &'a Inbox,
    counts: &'a LiveCounts,
    clients: Slab<Client>,
    /// Clients that wait for the queue of the live server.
    retries: Vec<usize>,
}

impl<'a> Worker<'a> {
    /// Creates a worker without clients.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub(super) fn new(
        forwarder: &Forwarder<'a>,
        inbox: &'a Inbox,
        counts: &'a LiveCounts,
    ) -> Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        epoll::add(&poller, &inbox.wake, EventData::new_u64(INBOX), EventFlags::IN)
            .context("epoll")?;
        let (target, feed, buffer) = (forwarder.target, forwarder.feed, vec![0; BUFFER_BYTES]);
        let shared = Shared { poller, feed, target, buffer };
        Ok(Self { shared, inbox, counts, clients: Slab::new(), retries: Vec::new() })
    }

    /// Forwards bytes until the inbox stops. Then waits for outstanding responses for a short time.
    ///
    /// # Errors
    /// The kernel does not report events.
    pub(super) fn run(mut self) -> Result<()> {
        let mut swept_at = Instant::now();
        let mut stopping_since: Option<Instant> = None;
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            self.wait(&mut events)?;
            for event in &events {
                match event.data.u64() {
                    INBOX => {}
                    _ => self.forward(event),
                }
            }
            if events.iter().any(|event| event.data.u64() == INBOX) {
                self.inbox.take().into_iter().for_each(|(connection, socket)| {
                    self.open(connection, socket);
                });
            }
            if self.inbox.is_stopping.load(Relaxed) {
                stopping_since.get_or_insert_with(Instant::now);
                if self.clients.is_empty() {
                    return Ok(());
                }
            }
            let period = if self.retries.is_empty() { SWEEP_PERIOD } else { RETRY_PERIOD };
            if swept_at.elapsed() >= period {
                swept_at = Instant::now();
                self.retry();
                self.sweep(stopping_since);
            }
        }
    }

    fn wait(&self, events: &mut Vec<epoll::Event>) -> Result<()> {
        events.clear();
        let period = if self.retries.is_empty() { SWEEP_PERIOD } else { RETRY_PERIOD };
        let wait = Timespec { tv_sec: 0, tv_nsec: period.subsec_nanos().into() };
        let room = rustix::buffer::spare_capacity(events);
        match epoll::wait(&self.shared.poller, room, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("epoll"),
        }
    }

    fn open(&mut self, connection: ConnectionId, socket: Socket) {
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
        let refused = self.counts.refused_by_live.fetch_add(1, Relaxed) + 1;
        if refused.is_power_of_two() {
            eprintln!("larder: the live server does not accept a connection: {error}");
        }
        self.close(place);
    }

    fn close(&mut self, place: usize) {
        if let Some(client) = self.clients.try_remove(place) {
            self.counts.open.fetch_sub(1, Relaxed);
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

    /// Tries again to connect to a live server whose queue was full.
    fn retry(&mut self) {
        for place in mem::take(&mut self.retries) {
            let Some(client) = self.clients.get_mut(place) else { continue };
            match client.connect(&self.shared) {
                Ok(()) if client.wants_connect() => self.retries.push(place),
                Ok(()) => {}
                Err(error) => self.refuse(place, &error),
            }
        }
    }

    /// Removes connections that have ended, and at the end all others.
    fn sweep(&mut self, stopping_since: Option<Instant>) {
        let stopping_for = stopping_since.map(|since| since.elapsed());
        let mut finished = Vec::new();
        for (place, client) in &mut self.clients {
            let is_finished = client.is_finished(stopping_since.is_some())
                || stopping_for.is_some_and(|time| time > STOP_TIME_MAX)
                || stopping_for.is_some_and(|time| time > BUSY_TIME_MAX) && client.is_between();
            if is_finished {
                let is_cut = stopping_since.is_some() && !client.is_between();
                self.counts.cut.fetch_add(is_cut.into(), Relaxed);
                finished.push(place);
            }
        }
        finished.into_iter().for_each(|place| self.close(place));
    }
}

/// The number of the events of the inbox.
const INBOX: u64 = u64::MAX;

const BUFFER_BYTES: usize = 64 << 10;

const EVENTS_MAX: usize = 256;

const SWEEP_PERIOD: Duration = Duration::from_millis(50);

const RETRY_PERIOD: Duration = Duration::from_millis(2);

/// How long a client that always has requests outstanding keeps its connection while the subcommand
/// stops.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a busy client keeps its connection while the subcommand stops.
const BUSY_TIME_MAX: Duration = Duration::from_secs(1);
