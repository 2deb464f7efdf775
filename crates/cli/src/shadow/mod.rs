//! `larder shadow`: tries a candidate server with the requests of real clients.
//!
//! ```text
//! clients ─▶ live/ ─▶ live server          the bytes of both directions, unchanged
//!              │
//!              └─▶ feed ─▶ compare/ ─▶ candidate
//!                             └─▶ tally ─▶ report
//! ```
//!
//! The forwarding threads never parse bytes and never wait for the comparer. The comparer parses
//! copies of the bytes, sends the requests to the candidate, and compares the responses.
//!
//! Files in reading order: [`feed`], [`live`], [`compare`], [`tally`], [`report`]; [`capture`]
//! takes the requests from a packet capture, [`watch`] from the log of a server.

mod capture;
mod compare;
mod feed;
mod live;
mod report;
mod tally;
mod watch;

use std::fs::{File, OpenOptions};
use std::net::ToSocketAddrs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use larder_loadgen::address::Address;
use larder_loadgen::argument::whole;
use larder_loadgen::connect::{connect, hint};
use signal_hook::consts::{SIGINT, SIGTERM};

use self::compare::{Comparer, Limits, Settings, Target};
use self::feed::{Batch, Feed};
use self::live::{Forwarder, listener};
use self::report::Report;
use self::tally::{Tally, Uncompared};
use crate::outcome::{EXIT_FAILED, Outcome};
use crate::replay::amount;

/// Try a candidate server with the requests of real clients
///
/// Clients connect to --listen and receive the responses of --live. The candidate receives copies
/// of the requests, and its responses are compared with those of the live server.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Listen at this address, in place of the live server
    #[arg(
        long,
        value_name = "ADDR",
        requires = "live",
        required_unless_present_any = ["pcap", "watch"],
        conflicts_with_all = ["pcap", "watch"]
    )]
    listen: Option<Address>,
    /// The server that answers the clients; with --pcap, the address of the server in the capture
    #[arg(long, value_name = "ADDR", conflicts_with = "watch")]
    live: Option<Address>,
    /// The server to compare with it
    #[arg(long, value_name = "ADDR")]
    candidate: Address,
    /// Take the requests from this packet capture (pcap or pcapng) in place of clients
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pcap: Option<PathBuf>,
    /// Replay the capture at this multiple of its speed [default: as fast as the candidate answers]
    #[arg(long, value_name = "FACTOR", requires = "pcap", value_parser = speed)]
    speed: Option<f64>,
    /// Take the requests from the log (watch) of this server; only hits and sizes are compared
    #[arg(long, value_name = "ADDR")]
    watch: Option<Address>,
    /// Stop after this time [default: on SIGINT or SIGTERM]
    #[arg(
        long,
        value_name = "SECS",
        value_parser = whole::<u32>(1..=u32::MAX),
        conflicts_with = "pcap"
    )]
    seconds: Option<u32>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Seconds between two lines of progress on stderr; 0: none
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = whole::<u32>(0..=u32::MAX))]
    every: u32,
    /// Memory for requests and responses that wait for the candidate. What does not fit is not
    /// compared
    #[arg(long, value_name = "BYTES", default_value = "64m", value_parser = memory)]
    memory: u64,
    /// How long a response of the candidate may take
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = whole::<u32>(1..=3600))]
    patience: u32,
    /// Ignore differences of times to live up to this number of seconds
    #[arg(long, value_name = "SECS", default_value_t = 2, value_parser = whole::<u32>(0..=u32::MAX))]
    ttl_tolerance: u32,
    /// Maximum number of clients [default: as many as the limit of descriptors allows]
    #[arg(long, value_name = "N", requires = "listen", value_parser = whole::<u32>(1..=1_000_000))]
    connections: Option<u32>,
    /// Number of threads that forward bytes [default: one for each processor, at most 4]
    #[arg(long, value_name = "N", requires = "listen", value_parser = whole::<u32>(1..=256))]
    threads: Option<u32>,
    /// Write every difference to this new file, one JSON object per line, with mode 0600
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    capture: Option<PathBuf>,
    /// Show keys in the report and in the capture; without this option they are hashes
    #[arg(long)]
    show_keys: bool,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text.parse().ok().filter(|speed| (0.001..=1000.0).contains(speed));
    speed.ok_or_else(|| "expected a number from 0.001 to 1000".to_owned())
}

fn memory(text: &str) -> Result<u64, String> {
    let bytes = amount::parse(text)?;
    (1 << 20..=1 << 40)
        .contains(&bytes)
        .then_some(bytes)
        .ok_or_else(|| "expected 1m to 1024g".to_owned())
}

const AFTER_HELP: &str = "\
The live path does not depend on the candidate: if the candidate is stopped, slow, or sends garbage,
requests to it are dropped and counted as not compared. Clients may speak the text, the meta and the
binary protocol. Connections with TLS, or with bytes that are not memcached's protocol, are only
forwarded. The candidate receives all requests except shutdown, watch, lru_crawler, slabs, lru,
cache_memlimit, refresh_certs, stats detail, debugtime, and Larder's own administrative commands. It
begins cold: a hit at the live server only is not a difference.

Examples:
  larder shadow --listen 127.0.0.1:11311 --live 127.0.0.1:11211 --candidate 127.0.0.1:11212
  larder shadow --listen /run/cache.sock --live /run/memcached.sock --candidate ./larder.sock \\
    --seconds 3600 --json > report.json
  larder shadow --pcap traffic.pcap --candidate 127.0.0.1:11212 --speed 1
  larder shadow --watch cache7:11211 --candidate 127.0.0.1:11212 --seconds 60

Report, one name=value per line:
  requests             requests of clients; each key of a get counts as one
  compared             identical + differences.total + explained.total
  differences.*        differences without a known reason: value, flags, status, ttl, errors of one
                       server only, and responses that are not memcached's protocol (malformed)
  explained.*          hit_at_live_only, hit_at_candidate_only: the servers evict differently, and
                       the candidate begins cold; raced: another connection changed the key at the
                       same time; diverged: an earlier explained difference; after_gap: requests were
                       not compared before; volatile: version, statistics; cas_not_comparable: the
                       candidate's token is not known; unidentified: quiet reads without key and
                       opaque
  not_compared.*       the reasons why requests were not compared
  candidate.lost_items of hit_at_live_only, the items that both servers had stored in this run

The candidate's cas tokens are put into its copies of requests with tokens of the live server.

Exit code: 0 no differences, or only explained ones; 1 differences; 2 the command could not listen,
the live server could not be reached at the beginning, or no request could be compared.";

/// Runs `larder shadow`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    match (&arguments.pcap, &arguments.watch, &arguments.listen, &arguments.live) {
        (Some(path), ..) => capture::run(path, arguments),
        (None, Some(address), ..) => watch::run(address, arguments),
        (None, None, Some(listen), Some(live)) => forward(listen, live, arguments),
        _ => bail!("--listen and --live are required, or --pcap, or --watch"),
    }
}

/// Forwards clients to the live server until the end.
fn forward(listen: &Address, live: &Address, arguments: &Arguments) -> Result<Outcome> {
    let live_target = reachable(live)?;
    let clients_max = match (listener::clients_max()?, arguments.connections) {
        (possible, Some(wanted)) if wanted as usize > possible => bail!(
            "the limit of descriptors allows {possible} clients, and --connections is {wanted}: \
             raise the limit with ulimit -n"
        ),
        (possible, wanted) => wanted.map_or(possible, |wanted| wanted as usize),
    };
    let listener = listener::Listener::open(listen)?;
    let settings = arguments.settings()?;
    let stop = stop_signals()?;
    let until = arguments.seconds.map(|secs| Instant::now() + Duration::from_secs(secs.into()));
    let feed = Feed::new(FEED_BYTES_MAX);
    eprintln!(
        "shadow: {listen} forwards to {live}; the candidate is {}; up to {clients_max} clients",
        arguments.candidate
    );
    let every = Duration::from_secs(arguments.every.into());
    let comparer = Comparer::new(settings)?;
    let (live_counts, tally) = thread::scope(|scope| {
        let comparing = thread::Builder::new()
            .name("comparer".to_owned())
            .spawn_scoped(scope, || compare_all(comparer, &feed, every))
            .context("cannot start a thread")?;
        let threads = arguments.threads.map_or_else(default_threads, |threads| threads as usize);
        let forwarder = Forwarder { target: &live_target, feed: &feed, clients_max, threads };
        let counts = forwarder.run(listener, &stop, until);
        feed.end();
        let tally = comparing.join().map_err(|_| anyhow!("the comparer has panicked"))?;
        Ok::<_, anyhow::Error>((counts?, tally?))
    })?;
    conclude(
        &tally,
        &Report { tally: &tally, live: Some(&live_counts), more: Vec::new() },
        arguments,
    )
}

fn default_threads() -> usize {
    thread::available_parallelism().map_or(1, |processors| processors.get().min(THREADS_MAX))
}

/// Compares until the feed ends.
fn compare_all(mut comparer: Comparer, feed: &Feed, every: Duration) -> Result<Tally> {
    // The live path comes first. Without the permission both have the same priority.
    let _ = rustix::process::setpriority_process(None, COMPARER_NICE);
    let mut batch = Batch::default();
    let mut idle_turns = 0;
    let mut shown_at = Instant::now();
    loop {
        let patience = if idle_turns < IDLE_TURNS { Duration::ZERO } else { IDLE_WAIT };
        if !feed.take(&mut batch, patience) {
            return comparer.finish(FINISH_WAIT);
        }
        batch.for_each(|connection, kind, bytes| comparer.take(connection, kind, bytes));
        let is_busy = comparer.exchange(Duration::ZERO)?;
        idle_turns = if is_busy || !batch.is_empty() { 0 } else { idle_turns + 1 };
        if !every.is_zero() && shown_at.elapsed() >= every {
            shown_at = Instant::now();
            eprintln!("shadow: {}", comparer.tally().progress());
        }
        if idle_turns < IDLE_TURNS && !is_busy {
            // Requests that arrive in this time share a system call.
            thread::sleep(if batch.len() > BUSY_EVENTS { BUSY_TURN } else { TURN });
        }
    }
}

/// Prints the report and decides on the outcome.
fn conclude(tally: &Tally, report: &Report<'_>, arguments: &Arguments) -> Result<Outcome> {
    report.print(arguments.json)?;
    if tally.difference_count() > 0 {
        return Ok(Outcome::Missed);
    }
    if tally.requests > 0 && tally.compared_count() == 0 {
        let most = Uncompared::ALL.iter().max_by_key(|kind| tally.uncompared[**kind as usize]);
        bail!(
            "none of the {} requests could be compared ({}): check the address of the candidate {}",
            tally.requests,
            most.map_or("", |kind| kind.word()),
            arguments.candidate
        );
    }
    Ok(Outcome::Done)
}

impl Arguments {
    fn settings(&self) -> Result<Settings> {
        let total_bytes = usize::try_from(self.memory).unwrap_or(usize::MAX);
        Ok(Settings {
            candidate: resolve(&self.candidate)?,
            limits: Limits {
                total_bytes,
                connection_bytes: total_bytes / 4,
                patience: Duration::from_secs(self.patience.into()),
            },
            ttl_tolerance_secs: self.ttl_tolerance.into(),
            shows_keys: self.show_keys,
            capture: self.capture.as_ref().map(create_private).transpose()?,
        })
    }
}

/// Creates a file that only this user can read.
fn create_private(path: &PathBuf) -> Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.with_context(|| {
        format!("cannot create the capture {}: name a file that does not exist", path.display())
    })
}

/// Returns the address of a server that accepts connections.
fn reachable(address: &Address) -> Result<Target> {
    let socket = connect(address).map_err(|error| {
        anyhow!("cannot connect to {address}: {error:#}; {}", hint(address, &error))
    })?;
    match address {
        Address::Unix(path) => Ok(Target::Unix(path.clone())),
        Address::Tcp { .. } => {
            let peer = socket.peer_addr()?.as_socket();
            peer.map(Target::Tcp).with_context(|| format!("{address} is not an IP address"))
        }
    }
}

/// Returns the address of a server that need not run yet.
fn resolve(address: &Address) -> Result<Target> {
    if let Ok(target) = reachable(address) {
        return Ok(target);
    }
    match address {
        Address::Unix(path) => Ok(Target::Unix(path.clone())),
        Address::Tcp { host, port } => {
            let mut found = (host.as_str(), *port)
                .to_socket_addrs()
                .with_context(|| format!("the candidate {address}: check the name"))?;
            found.next().map(Target::Tcp).with_context(|| format!("{address} has no address"))
        }
    }
}

/// Returns a flag that the first signal sets. A second signal ends the process.
fn stop_signals() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The order matters: the second signal finds the flag set.
        let exit_code = EXIT_FAILED.into();
        signal_hook::flag::register_conditional_shutdown(signal, exit_code, stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}

/// The memory of the queue between the forwarder and the comparer, in bytes.
const FEED_BYTES_MAX: usize = 16 << 20;

/// The time between two turns of the comparer.
const TURN: Duration = Duration::from_millis(1);

/// The time between two turns under load: less processor time for each request.
const BUSY_TURN: Duration = Duration::from_millis(4);

/// The number of events in one turn that is load.
const BUSY_EVENTS: usize = 100;

/// The number of turns without an event after which the comparer waits longer.
const IDLE_TURNS: u32 = 20;

const IDLE_WAIT: Duration = Duration::from_millis(50);

/// How long the comparer waits for outstanding responses at the end.
const FINISH_WAIT: Duration = Duration::from_secs(2);

/// One comparer does not keep up with more forwarding threads.
const THREADS_MAX: usize = 4;

const COMPARER_NICE: i32 = 5;
