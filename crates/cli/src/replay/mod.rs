//! `larder replay`: plays the requests of a trace on a cache, the *target*, and prints the miss
//! ratio.
//!
//! ```text
//! trace, sizes ─▶ Trace ─▶ play ─▶ Target ─▶ library: a cache of this process, in virtual time
//!                            │             ├▶ server: connections, in real time
//!                            │             └▶ near: near caches and their origin, in virtual time
//!                            └─▶ Counts ─▶ report
//! ```
//!
//! Files in reading order: [`trace`], [`sizes`], [`key`], [`pace`], [`play`], [`library`],
//! [`server`], [`near`], [`report`], [`amount`].

pub(crate) mod amount;
mod key;
mod library;
#[cfg(test)]
mod lru;
mod near;
mod pace;
mod play;
mod report;
mod server;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result};

use crate::outcome::Outcome;
use crate::replay::key::Key;
use larder_loadgen::address::Address;
use larder_loadgen::argument::{skew, whole};
use larder_loadgen::connect::dialer::AccessArguments;
use larder_loadgen::trace::{Drawing, Trace};

/// Replay a request trace on the library, or on a server, and print the miss ratio
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The trace: zstd-compressed lines of key[,size[,ttl[,op]]]
    #[arg(long, value_name = "FILE", required_unless_present = "keys")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    drawn: DrawnArguments,
    /// Turn this share of the requests into sets, chosen at random: 0 to 1
    #[arg(long, value_name = "W", default_value_t = 0.0, value_parser = part)]
    writes: f64,
    /// Replay on this number of near caches in front of one origin
    #[arg(long, value_name = "F", requires = "near_memory", conflicts_with_all = ["server", "threads"], value_parser = whole::<u32>(1..=4096))]
    near: Option<u32>,
    /// Memory limit of each near cache, like -m of a larderd with --origin. --memory is the limit
    /// of the origin; without it, the origin has all items from the start
    #[arg(long, value_name = "BYTES", value_parser = amount::parse, requires = "near")]
    near_memory: Option<u64>,
    /// Memory limit of the cache, including all overhead: bytes, or a number with k, m or g after
    /// it
    #[arg(long, value_name = "BYTES", value_parser = amount::parse, required_unless_present_any = ["server", "near"])]
    memory: Option<u64>,
    /// Size of the largest item that the cache accepts, like larderd's -I [default: half of
    /// --memory]
    #[arg(long, value_name = "BYTES", value_parser = amount::parse, conflicts_with = "server")]
    item_bytes_max: Option<u64>,
    /// Multiply all sizes of the trace
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=u32::MAX))]
    scale: u32,
    /// Sizes for traces without sizes [default: sizes-kvcache_reg.txt in the folder of the trace]
    #[arg(long, value_name = "FILE")]
    sizes: Option<PathBuf>,
    /// Replay on this server, which must be empty
    #[arg(short, long, value_name = "ADDR")]
    server: Option<Address>,
    #[command(flatten)]
    access: AccessArguments,
    /// Empty the server first (flush_all)
    #[arg(long, requires = "server")]
    flush: bool,
    /// Number of connections to the server
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = whole::<u32>(1..=10_000))]
    connections: u32,
    /// Number of threads that share the keys; with one thread every replay gives the same result
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=1024))]
    threads: u32,
}

/// The options of a trace that is drawn at random.
#[derive(Debug, clap::Args)]
struct DrawnArguments {
    /// Draw the requests from this number of keys, instead of --trace
    #[arg(long, value_name = "N", conflicts_with_all = ["trace", "sizes", "scale"], value_parser = whole::<u32>(1..=u32::MAX))]
    keys: Option<u32>,
    /// Skew of the drawn keys: the exponent of a Zipf distribution; 0 is uniform
    #[arg(long, value_name = "S", requires = "keys", default_value_t = 0.99, value_parser = skew)]
    skew: f64,
    /// Number of drawn requests [default: 10 for each key]
    #[arg(long, value_name = "N", requires = "keys", value_parser = whole::<u32>(1..=u32::MAX))]
    requests: Option<u32>,
    /// Bytes of each value of the drawn requests
    #[arg(long, value_name = "BYTES", requires = "keys", default_value_t = 100, value_parser = whole::<u32>(0..=1 << 30))]
    value_bytes: u32,
    /// Seed of the random numbers of --keys, --writes and --near
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
}

/// Parses a share.
fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

const AFTER_HELP: &str = "\
Each request of the trace is a set, or a get followed by a set if it misses. Every value read is
checked against the last one stored. All requests of a key use the same thread and connection, in
their order.

With the library (the default) time is virtual: it follows the trace, however fast the replay runs.
The clock of a server cannot be changed: the TTLs of the trace run in real time, so that few items
expire during a replay. A server also has its own memory limit: --memory only warns if it differs.

With --near each request goes to one of the near caches, chosen at random. They and their origin are
caches inside the tool; a message of the origin arrives before the set that causes it returns. The
first half of the requests fills the near caches. The near_* lines and those after them count the
second half.

Examples:
  larder replay --trace web07.csv.zst --memory 16m --scale 16
  larder replay --trace web07.csv.zst --scale 16 --server 127.0.0.1:11211 --flush
  larder replay --keys 1000000 --near 4 --near-memory 94m --value-bytes 300 --writes 0.01

Output, one name=value per line:
  requests                  lines of the trace: gets and its own sets
  gets, hits, misses        look-aside gets; miss_ratio=misses/gets
  missed_bytes              bytes of the keys and values that were missed
  sets, sets_refused        all sets, including sets after misses; refused: the item is too large or
                            the cache has no memory
  wrong_values              values read that are not the last stored value; must be 0
  evictions                 live items removed for space
  evictions_small           evictions from the small pool (this line and the next ones, down to
                            segments_main, only with the library)
  ghost_hits                items stored again soon after such an eviction, and so into the main pool
  segments_*                segments evicted, compacted, reclaimed without live items; segments of
                            each pool at the end
  items                     items held at the end
  bytes_written             bytes of items that sets wrote into segments (library)
  bytes_relocated           bytes of items copied from one segment to another to keep them
  live_share                bytes of items / memory of the segments that hold items
                            (memcached: bytes of items / memory limit)
  overhead_bytes_per_item   all memory in use / items, less the mean of key + value (library)
  near_capacity             items of the trace that a near cache holds, if it reads each of them once
                            (this line and the next ones, down to origin_evictions, with --near)
  near_copies               copies in a near cache at the end, the mean of all
  near_gets, near_hits      gets, and those that a copy answers; near_hit_ratio=near_hits/near_gets
  near_hit_ratio_fifo       the same ratio for near caches of near_capacity copies that evict in the
                            order of fetching, with a second chance for copies that were read
  near_writes               sets, each of which reports a change to the near caches with an interest
  messages                  these reports; messages_per_write=messages/near_writes
  copies_dropped            copies that near caches have dropped because of the reports
  origin_fetches            gets that have asked the origin
  origin_misses             gets of items that the origin does not have; _alone: without near caches
  origin_evictions          live items that the origin has removed for space, in the whole replay
  server_*, agree           counts of the server over the replay, and whether they equal the client's;
                            exit code 1 if not, or if a value was wrong";

impl Arguments {
    /// Reads or draws the trace.
    fn trace(&self) -> Result<Trace> {
        let Some(path) = &self.trace else {
            let drawn = &self.drawn;
            let key_count = drawn.keys.context("--trace FILE or --keys N is required")?;
            return Ok(Trace::draw(&Drawing {
                key_count,
                skew: drawn.skew,
                request_count: drawn.requests.unwrap_or(key_count.saturating_mul(10)),
                item_bytes: drawn.value_bytes + Key::BYTES as u32,
                seed: drawn.seed,
            }));
        };
        Trace::read(path, self.sizes.as_deref(), self.scale)
    }
}

/// Runs `larder replay`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let trace = arguments.trace()?.with_writes(arguments.writes, arguments.drawn.seed);
    let (started, request_count) = (Instant::now(), trace.request_count());
    let mut report = match (&arguments.server, arguments.near) {
        (Some(address), _) => {
            let dialer = arguments.access.dialer(address)?;
            server::replay(&trace, &dialer, arguments)?
        }
        (None, Some(near_count)) => near::replay(trace, near_count, arguments)?,
        (None, None) => library::replay(&trace, arguments)?,
    };
    let seconds = started.elapsed().as_secs_f64();
    report.push("seconds", format!("{seconds:.2}"));
    report.push("requests_per_second", format!("{:.0}", request_count as f64 / seconds));
    write!(std::io::stdout(), "{report}")?;
    Ok(if report.is_sound() { Outcome::Done } else { Outcome::Missed })
}
