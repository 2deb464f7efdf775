//! `larder replay`: plays the requests of a trace on a cache, the *target*, and prints the miss
//! ratio.
//!
//! ```text
//! trace, sizes ─▶ Trace ─▶ play ─▶ Target ─▶ library: a cache of this process, in virtual time
//!                            │             └▶ server: connections, in real time
//!                            └─▶ Counts ─▶ report
//! ```
//!
//! Files in reading order: [`trace`], [`sizes`], [`key`], [`pace`], [`play`], [`library`],
//! [`server`], [`report`], [`amount`].

mod amount;
mod key;
mod library;
#[cfg(test)]
mod lru;
mod pace;
mod play;
mod report;
mod server;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::outcome::Outcome;
use larder_loadgen::address::Address;
use larder_loadgen::argument::whole;
use larder_loadgen::connect::dialer::AccessArguments;
use larder_loadgen::trace::Trace;

/// Replay a request trace on the library, or on a server, and print the miss ratio
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The trace: zstd-compressed lines of key[,size[,ttl[,op]]]
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Memory limit of the cache, including all overhead: bytes, or a number with k, m or g after
    /// it
    #[arg(long, value_name = "BYTES", value_parser = amount::parse, required_unless_present = "server")]
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

const AFTER_HELP: &str = "\
Each request of the trace is a set, or a get followed by a set if it misses. Every value read is
checked against the last one stored. All requests of a key use the same thread and connection, in
their order.

With the library (the default) time is virtual: it follows the trace, however fast the replay runs.
The clock of a server cannot be changed: the TTLs of the trace run in real time, so that few items
expire during a replay. A server also has its own memory limit: --memory only warns if it differs.

Examples:
  larder replay --trace web07.csv.zst --memory 16m --scale 16
  larder replay --trace web07.csv.zst --scale 16 --server 127.0.0.1:11211 --flush

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
  server_*, agree           counts of the server over the replay, and whether they equal the client's;
                            exit code 1 if not, or if a value was wrong";

/// Runs `larder replay`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let trace = Trace::read(&arguments.trace, arguments.sizes.as_deref(), arguments.scale)?;
    let started = Instant::now();
    let mut report = match &arguments.server {
        Some(address) => {
            let dialer = arguments.access.dialer(address)?;
            server::replay(&trace, &dialer, arguments)?
        }
        None => library::replay(&trace, arguments)?,
    };
    let seconds = started.elapsed().as_secs_f64();
    report.push("seconds", format!("{seconds:.2}"));
    report.push("requests_per_second", format!("{:.0}", trace.request_count() as f64 / seconds));
    write!(std::io::stdout(), "{report}")?;
    Ok(if report.is_sound() { Outcome::Done } else { Outcome::Missed })
}
