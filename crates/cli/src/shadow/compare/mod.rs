//! Sends copies of the requests to the candidate and compares its responses with those of the live
//! server.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | the comparer, one thread: takes events, sends and receives |
//! | `pair.rs` | one connection of a client and its connection to the candidate |
//! | `link.rs` | the connection to the candidate, translates tokens |
//! | `token.rs` | finds the token in a request |
//! | `asked.rs` | a request, and which responses belong to it |
//! | `answers.rs` | splits the bytes of a server into units |
//! | `unit.rs` | a line, or a binary response |
//! | `judge.rs` | compares the responses to one request |
//! | `keys.rs` | facts about keys: changes in flight, doubts, tokens |

mod answers;
mod asked;
mod judge;
mod keys;
mod link;
mod pair;
mod token;
mod unit;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rustix::event::epoll;
use rustix::time::Timespec;
use serde_json::json;
use socket2::{Domain, SockAddr, Socket, Type};

use self::keys::Keys;
use self::link::Link;
use self::pair::{BACKOFF_MIN, Flushed, Pair};
use self::unit::Hashing;
use super::feed::{ConnectionId, Kind};
use super::tally::{Sample, Tally, Uncompared};

/// The address of the candidate, resolved.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// The addresses of its host. Connections try the first one.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Target {
    /// Begins a connection that does not block.
    ///
    /// # Errors
    /// The kernel refuses the connection.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        let (domain, address) = match self {
            Self::Tcp(address) => (Domain::for_address(*address), (*address).into()),
            Self::Unix(path) => (Domain::UNIX, SockAddr::unix(path)?),
        };
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        match socket.connect(&address) {
            Err(error) if error.raw_os_error() == Some(IN_PROGRESS) => {}
            connected => connected?,
        }
        if matches!(self, Self::Tcp(_)) {
            socket.set_tcp_nodelay(true)?;
        }
        Ok(socket)
    }
}

/// `EINPROGRESS`
const IN_PROGRESS: i32 = rustix::io::Errno::INPROGRESS.raw_os_error();

/// The limits of the comparer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The memory of all connections, in bytes.
    pub(crate) total_bytes: usize,
    /// The memory of one connection, in bytes.
    pub(crate) connection_bytes: usize,
    /// How long a response of the candidate may take.
    pub(crate) patience: Duration,
}

/// The options of a comparison.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The candidate.
    pub(crate) candidate: Target,
    /// The limits.
    pub(crate) limits: Limits,
    /// The difference of times to live that is ignored.
    pub(crate) ttl_tolerance_secs: u64,
    /// True if reports contain keys.
    pub(crate) shows_keys: bool,
    /// A file for all differences.
    pub(crate) capture: Option<File>,
}

/// The state that all connections share.
#[derive(Debug)]
struct Context {
    hashing: Hashing,
    keys: Keys,
    tally: Tally,
    candidate: Target,
    limits: Limits,
    ttl_tolerance_secs: u64,
    shows_keys: bool,
    capture: Option<File>,
    captured: u64,
    poller: OwnedFd,
    scratch: Vec<u8>,
    held_bytes: usize,
    last_failure: Uncompared,
    retry_at: Instant,
    backoff: Duration,
}

impl Context {
    /// Connects to the candidate, unless that has failed a short time ago.
    fn connect(&mut self, connection: ConnectionId) -> Option<Link> {
        if Instant::now() < self.retry_at {
            return None;
        }
        let link = self.candidate.connect();
        match link.and_then(|socket| Link::new(socket, &self.poller, connection)) {
            Ok(link) => {
                self.tally.candidate_connects += 1;
                Some(link)
            }
            Err(_) => {
                self.note_failure(Uncompared::Unreachable);
                None
            }
        }
    }

    /// Delays the next connection to the candidate.
    fn note_failure(&mut self, reason: Uncompared) {
        self.last_failure = reason;
        self.tally.candidate_failures += 1;
        let now = Instant::now();
        if now >= self.retry_at {
            self.retry_at = now + self.backoff;
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// Counts a difference, and writes it to the capture.
    fn differ(&mut self, sample: Sample) {
        if let Some(file) = &mut self.capture
            && self.captured < CAPTURED_MAX
        {
            self.captured += 1;
            let line = format!("{}\n", shown(&sample));
            if let Err(error) = file.write_all(line.as_bytes()) {
                eprintln!("larder: the capture ends here, it cannot be written: {error}");
                self.capture = None;
            }
        }
        self.tally.differ(sample);
    }
}

/// Returns a difference as JSON.
pub(crate) fn shown(sample: &Sample) -> serde_json::Value {
    json!({
        "kind": sample.kind.word(),
        "command": sample.command,
        "key": sample.key,
        "live": sample.live,
        "candidate": sample.candidate,
    })
}

/// Compares the responses of two servers.
#[derive(Debug)]
pub(crate) struct Comparer {
    context: Context,
    pairs: HashMap<ConnectionId, Pair>,
    /// Connections with bytes to send.
    unsent: Vec<ConnectionId>,
    swept_at: Instant,
}

impl Comparer {
    /// Creates a comparer.
    ///
    /// # Errors
    /// The kernel has no more descriptors.
    pub(crate) fn new(settings: Settings) -> Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC).context("epoll")?;
        let Settings { candidate, limits, ttl_tolerance_secs, shows_keys, capture } = settings;
        let context = Context {
            hashing: Hashing::random(),
            keys: Keys::new(KEYS_MAX),
            tally: Tally::default(),
            candidate,
            limits,
            ttl_tolerance_secs,
            shows_keys,
            capture,
            captured: 0,
            poller,
            scratch: vec![0; SCRATCH_BYTES],
            held_bytes: 0,
            last_failure: Uncompared::Unreachable,
            retry_at: Instant::now(),
            backoff: BACKOFF_MIN,
        };
        let swept_at = Instant::now();
        Ok(Self { context, pairs: HashMap::new(), unsent: Vec::new(), swept_at })
    }

    /// Takes an event of a client's connection.
    pub(crate) fn take(&mut self, connection: ConnectionId, kind: Kind, bytes: &[u8]) {
        let context = &mut self.context;
        if kind == Kind::Opened {
            context.tally.connections += 1;
            self.pairs.insert(connection, Pair::new(connection, context));
            return;
        }
        let Some(pair) = self.pairs.get_mut(&connection) else { return };
        match kind {
            Kind::Request => {
                pair.take_request(bytes, context);
                if self.unsent.last() != Some(&connection) {
                    self.unsent.push(connection);
                }
            }
            Kind::Answer => pair.take_answer(bytes, context),
            Kind::Gap => pair.lose_step(context),
            Kind::Closed => pair.end(context),
            Kind::Opened => {}
        }
        pair.account(context);
        let held_bytes = context.held_bytes;
        context.tally.queued_bytes_max = context.tally.queued_bytes_max.max(held_bytes);
    }

    /// Sends requests to the candidate and receives its responses, for which it waits up to `wait`.
    /// Returns true if anything happened, and more may happen immediately.
    ///
    /// # Errors
    /// The kernel does not report events.
    pub(crate) fn exchange(&mut self, wait: Duration) -> Result<bool> {
        let mut connections = std::mem::take(&mut self.unsent);
        connections.sort_unstable();
        connections.dedup();
        let mut has_sent = false;
        let context = &mut self.context;
        connections.retain(|connection| {
            let Some(pair) = self.pairs.get_mut(connection) else { return false };
            let flushed = pair.flush(context);
            pair.account(context);
            has_sent |= flushed == Flushed::Partly;
            flushed != Flushed::Done
        });
        // A connection may have become unsent in the meantime.
        self.unsent.extend(connections);
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let room = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&context.poller, room, Some(&wait)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("epoll"),
        }
        for event in &events {
            let Some(pair) = self.pairs.get_mut(&event.data.u64()) else { continue };
            pair.receive(context);
            pair.account(context);
        }
        if self.swept_at.elapsed() >= SWEEP_PERIOD {
            self.swept_at = Instant::now();
            self.pairs.retain(|_, pair| {
                let remains = pair.check(context);
                if !remains {
                    pair.finish(Uncompared::Slow, context);
                }
                remains
            });
        }
        Ok(has_sent)
    }

    /// True if the candidate owes a response on this connection.
    pub(crate) fn owes(&self, connection: ConnectionId) -> bool {
        self.pairs.get(&connection).is_some_and(Pair::is_owed)
    }

    /// True if the candidate owes no response on any connection.
    fn is_idle(&self) -> bool {
        !self.pairs.values().any(Pair::is_owed)
    }

    /// Returns the memory of requests and responses in progress, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.context.held_bytes
    }

    /// Returns the counts so far.
    pub(crate) fn tally(&self) -> &Tally {
        &self.context.tally
    }

    /// Waits for the candidate's outstanding responses, at most for some time, and returns the
    /// counts.
    ///
    /// # Errors
    /// Same as [`Self::exchange`].
    pub(crate) fn finish(mut self, patience: Duration) -> Result<Tally> {
        let begun = Instant::now();
        while !self.is_idle() && begun.elapsed() < patience {
            self.exchange(Duration::from_millis(1))?;
        }
        for pair in self.pairs.values_mut() {
            pair.finish(Uncompared::Ended, &mut self.context);
        }
        Ok(self.context.tally)
    }
}

const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// The number of keys whose facts are kept.
const KEYS_MAX: usize = 1 << 18;

const SCRATCH_BYTES: usize = 64 << 10;

const EVENTS_MAX: usize = 256;

const SWEEP_PERIOD: Duration = Duration::from_millis(100);

/// The number of differences that a capture holds.
const CAPTURED_MAX: u64 = 100_000;

#[cfg(test)]
mod tests;
