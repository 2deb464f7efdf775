//! Takes requests and the live server's responses from a packet capture. The candidate
//! receives the requests in the order of the capture.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | finds the connections, and replays them |
//! | `packets.rs` | reads the TCP segments of a file |
//! | `stream.rs` | puts the segments of a connection into order |

mod packets;
mod stream;

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use larder_loadgen::address::Address;

use self::packets::{Endpoint, Segment};
use self::stream::Stream;
use super::compare::Comparer;
use super::feed::{ConnectionId, Kind};
use super::report::Report;
use super::{Arguments, conclude, stop_signals};
use crate::outcome::Outcome;

/// Compares the responses in a capture with those of the candidate.
pub(super) fn run(path: &Path, arguments: &Arguments) -> Result<Outcome> {
    let server = server(arguments.live.as_ref())?;
    let comparer = Comparer::new(arguments.settings()?)?;
    let mut replay = Replay::new(comparer, server, arguments)?;
    let read = packets::read(path, |time, segment| replay.take(time, &segment));
    let packets = match read {
        Err(error) if error.is::<Stopped>() => None,
        read => Some(read?),
    };
    let holes = replay.holes();
    let Replay { comparer, counts, .. } = replay;
    let tally = comparer.finish(FINISH_WAIT)?;
    if tally.connections == 0 {
        bail!(
            "{} has no connection to a server at port {}: name its address with --live",
            path.display(),
            server.1
        );
    }
    let packets = packets.unwrap_or_default();
    let more = vec![
        ("packets", packets.packets.into()),
        ("packets_unusable", packets.unusable.into()),
        ("streams_begun_before_capture", counts.begun_before.into()),
        ("streams_with_missing_segments", (counts.missing + holes).into()),
        ("streams_ignored", counts.ignored.into()),
    ];
    conclude(&tally, &Report { tally: &tally, live: None, more }, arguments)
}

/// Returns the address of the server in the capture; any host without `--live`.
fn server(live: Option<&Address>) -> Result<(Option<IpAddr>, u16)> {
    match live {
        None => Ok((None, MEMCACHED_PORT)),
        Some(Address::Unix(_)) => bail!("a capture has no Unix sockets: --live takes IP:PORT"),
        Some(Address::Tcp { host, port }) => match host.parse() {
            Ok(ip) => Ok((Some(ip), *port)),
            Err(_) => bail!("with --pcap, --live takes the IP address in the capture, not {host}"),
        },
    }
}

/// A signal ended the replay.
#[derive(Debug)]
struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped by a signal")
    }
}

impl std::error::Error for Stopped {}

/// Counts of connections in the capture.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    begun_before: u64,
    missing: u64,
    ignored: u64,
}

/// A connection in the capture.
#[derive(Debug)]
struct Flow {
    connection: ConnectionId,
    requests: Stream,
    answers: Stream,
    /// True if a segment is missing, so that the rest is ignored.
    is_lost: bool,
}

impl Flow {
    /// Returns the number of bytes that wait for missing ones.
    fn early_bytes(&self) -> usize {
        self.requests.early_bytes() + self.answers.early_bytes()
    }
}

/// Replays connections.
#[derive(Debug)]
struct Replay {
    comparer: Comparer,
    server: (Option<IpAddr>, u16),
    flows: HashMap<(Endpoint, Endpoint), Flow>,
    connections: u64,
    /// The connection of the latest request.
    latest: ConnectionId,
    counts: Counts,
    /// Bytes of all connections that wait for missing segments.
    early_bytes: usize,
    speed: Option<f64>,
    memory_bytes: usize,
    /// The time of the first packet in the capture, and now.
    begun: Option<(Duration, Instant)>,
    stop: Arc<AtomicBool>,
    every: Duration,
    shown_at: Instant,
}

impl Replay {
    fn new(
        comparer: Comparer,
        server: (Option<IpAddr>, u16),
        arguments: &Arguments,
    ) -> Result<Self> {
        Ok(Self {
            comparer,
            server,
            flows: HashMap::new(),
            connections: 0,
            latest: 0,
            counts: Counts::default(),
            early_bytes: 0,
            speed: arguments.speed,
            memory_bytes: usize::try_from(arguments.memory).unwrap_or(usize::MAX),
            begun: None,
            stop: stop_signals()?,
            every: Duration::from_secs(arguments.every.into()),
            shown_at: Instant::now(),
        })
    }

    /// Takes a segment of the capture.
    fn take(&mut self, time: Duration, segment: &Segment<'_>) -> Result<()> {
        let is_server = |(ip, port): Endpoint| {
            port == self.server.1 && self.server.0.is_none_or(|server| server == ip)
        };
        let is_request = is_server(segment.to);
        if !is_request && !is_server(segment.from) {
            return Ok(());
        }
        if self.stop.load(Relaxed) {
            return Err(Stopped.into());
        }
        self.wait_for(time)?;
        let key = match is_request {
            true => (segment.from, segment.to),
            false => (segment.to, segment.from),
        };
        if segment.is_syn && is_request {
            self.close(key);
        }
        let Some(mut flow) = self.flows.remove(&key).or_else(|| self.open(segment)) else {
            return Ok(());
        };
        self.early_bytes -= flow.early_bytes();
        let is_open = self.advance(&mut flow, segment, is_request)?;
        if is_open {
            self.early_bytes += flow.early_bytes();
            self.flows.insert(key, flow);
        } else {
            self.comparer.take(flow.connection, Kind::Closed, b"");
        }
        self.exchange(Duration::ZERO)
    }

    /// Begins a connection; `None` if there are very many.
    fn open(&mut self, segment: &Segment<'_>) -> Option<Flow> {
        let is_idle = segment.payload.is_empty() && !segment.is_syn;
        if is_idle || self.flows.len() >= FLOWS_MAX {
            self.counts.ignored += u64::from(!is_idle);
            return None;
        }
        self.connections += 1;
        let connection = self.connections;
        self.comparer.take(connection, Kind::Opened, b"");
        if !segment.is_syn {
            // The first request may have begun before the capture.
            self.counts.begun_before += 1;
            self.comparer.take(connection, Kind::Gap, b"");
        }
        let (requests, answers) = (Stream::default(), Stream::default());
        Some(Flow { connection, requests, answers, is_lost: false })
    }

    /// Takes the bytes of a segment. Returns false if the connection has ended.
    fn advance(
        &mut self,
        flow: &mut Flow,
        segment: &Segment<'_>,
        is_request: bool,
    ) -> Result<bool> {
        let stream = if is_request { &mut flow.requests } else { &mut flow.answers };
        if segment.is_reset {
            return Ok(false);
        }
        if segment.is_syn {
            if !stream.is_open() {
                stream.open(segment.sequence);
            }
            return Ok(true);
        }
        if flow.is_lost {
            return Ok(!segment.is_fin);
        }
        let mut delivered = Vec::new();
        let taken = stream.take(segment.sequence, segment.payload, segment.is_fin, |bytes| {
            delivered.extend_from_slice(bytes);
        });
        let is_ended = flow.requests.is_ended() && flow.answers.is_ended();
        let opposite = if is_request { &flow.answers } else { &flow.requests };
        let is_missing = taken.is_err()
            || segment.expected.is_some_and(|expected| opposite.lacks(expected))
            || self.early_bytes + flow.early_bytes() > EARLY_BYTES_MAX;
        if is_missing {
            self.counts.missing += 1;
            self.wait_for_candidate(flow.connection)?;
            self.comparer.take(flow.connection, Kind::Gap, b"");
            let (requests, answers) = (Stream::default(), Stream::default());
            *flow = Flow { connection: flow.connection, requests, answers, is_lost: true };
        } else if !delivered.is_empty() {
            if is_request {
                self.wait_for_others(flow.connection)?;
            }
            let kind = if is_request { Kind::Request } else { Kind::Answer };
            self.comparer.take(flow.connection, kind, &delivered);
        }
        Ok(!is_ended)
    }

    fn close(&mut self, key: (Endpoint, Endpoint)) {
        if let Some(flow) = self.flows.remove(&key) {
            self.early_bytes -= flow.early_bytes();
            self.comparer.take(flow.connection, Kind::Closed, b"");
        }
    }

    /// Waits until the candidate has answered the latest requests of another connection, so that
    /// it executes the requests in the order of the capture.
    fn wait_for_others(&mut self, connection: ConnectionId) -> Result<()> {
        let latest = std::mem::replace(&mut self.latest, connection);
        if latest != connection {
            self.wait_for_candidate(latest)?;
        }
        let begun = Instant::now();
        // The whole capture is there, so that it can wait for a slow candidate.
        while self.comparer.held_bytes() > self.memory_bytes / 8 && begun.elapsed() < MEMORY_WAIT {
            self.exchange(POLL)?;
        }
        Ok(())
    }

    /// Waits for the candidate's responses on a connection.
    fn wait_for_candidate(&mut self, connection: ConnectionId) -> Result<()> {
        let begun = Instant::now();
        while self.comparer.owes(connection) && begun.elapsed() < ORDER_WAIT {
            self.exchange(POLL)?;
        }
        Ok(())
    }

    /// Waits for the time of a packet.
    fn wait_for(&mut self, time: Duration) -> Result<()> {
        let Some(speed) = self.speed else { return Ok(()) };
        let (first, begun) = *self.begun.get_or_insert((time, Instant::now()));
        let due = time.saturating_sub(first).div_f64(speed);
        while begun.elapsed() < due && !self.stop.load(Relaxed) {
            self.exchange(POLL.min(due.saturating_sub(begun.elapsed())))?;
        }
        Ok(())
    }

    fn exchange(&mut self, wait: Duration) -> Result<()> {
        self.comparer.exchange(wait)?;
        if !self.every.is_zero() && self.shown_at.elapsed() >= self.every {
            self.shown_at = Instant::now();
            eprintln!("shadow: {}", self.comparer.tally().progress());
        }
        Ok(())
    }

    /// Returns the number of connections that still wait for a missing segment.
    fn holes(&self) -> u64 {
        let has_hole = |flow: &&Flow| flow.requests.has_hole() || flow.answers.has_hole();
        self.flows.values().filter(has_hole).count() as u64
    }
}

const MEMCACHED_PORT: u16 = 11211;

/// The number of connections at a time.
const FLOWS_MAX: usize = 65_536;

/// The number of bytes of all connections that may wait for missing segments.
const EARLY_BYTES_MAX: usize = 64 << 20;

/// How long the requests of one connection wait for the responses to those of another one.
const ORDER_WAIT: Duration = Duration::from_secs(2);

/// How long requests wait for memory.
const MEMORY_WAIT: Duration = Duration::from_secs(10);

const FINISH_WAIT: Duration = Duration::from_secs(5);

const POLL: Duration = Duration::from_millis(1);
