//! `larder bench`.
//!
//! Files in reading order: this one, [`load`] with what a thread does, [`tally`] with what it counts
//! and how that is printed.

mod load;
mod tally;

use std::io::Write;
use std::sync::Barrier;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::address::ServerArgument;
use crate::outcome::Outcome;
use load::Load;
use tally::Tally;

/// Measure the throughput and the latency of a server
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArgument,
    /// What to send
    #[arg(long, value_enum, default_value_t = Mode::Get)]
    mode: Mode,
    /// With --mode mix: the share of gets, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.9, value_parser = share)]
    get_share: f64,
    /// How long to measure
    #[arg(long, value_name = "SECS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Connections
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Threads that share the connections
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Requests sent at once on a connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pipeline: u32,
    /// Keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..))]
    keys: u32,
    /// Bytes of each value
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    value_bytes: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
A closed loop: every connection sends its next requests once it has read all answers to the last.
Keys are drawn at random, all alike; every value read is checked. For gets and mixes all keys are
stored first.

Server and client are measured together: this first form has blocking sockets, a thread serves
its connections in turn, and what a reply waits for its turn counts as latency. Unless the server
is busy all the time, the numbers say more about this client and the machine than about the
server. Compare servers by the processor time they use for a request.

Examples:
  larder bench
  larder bench --mode mix --get-share 0.8 --value-bytes 1024 --connections 100 --threads 2
  larder bench --server ./larder.sock --pipeline 16 --json

Exit code: 0 all values were right; 1 some were not; 2 a connection failed.";

/// What to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    Get,
    Set,
    Mix,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

/// Runs `larder bench`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    // Were more under way in both directions than sockets hold, both ends would wait for the other.
    let sent_bytes = u64::from(arguments.pipeline) * u64::from(arguments.value_bytes);
    ensure!(
        arguments.mode != Mode::Mix || arguments.pipeline == 1 || sent_bytes <= SENT_BYTES_MAX,
        "with --mode mix, --pipeline times --value-bytes is {sent_bytes}, expected at most {SENT_BYTES_MAX}"
    );
    let at = || format!("bench at {}", arguments.server.server);
    if arguments.mode != Mode::Set {
        Load::new(arguments, 0..1)?.store_all_keys().with_context(at)?;
    }
    let tally = measure(arguments).with_context(at)?;
    let mut output = std::io::stdout();
    match arguments.json {
        true => writeln!(output, "{}", tally.json(arguments))?,
        false => write!(output, "{}", tally.text(arguments))?,
    }
    Ok(if tally.wrong_values == 0 { Outcome::Done } else { Outcome::Missed })
}

/// Lets all threads begin once all connections are open.
fn measure(arguments: &Arguments) -> Result<Tally> {
    let thread_count = arguments.threads.min(arguments.connections);
    let opened = Barrier::new(thread_count as usize);
    std::thread::scope(|scope| {
        let start = |thread: u32| {
            let opened = &opened;
            let first = arguments.connections * thread / thread_count;
            let end = arguments.connections * (thread + 1) / thread_count;
            scope.spawn(move || {
                let load = Load::new(arguments, first..end);
                opened.wait();
                load?.run(Duration::from_secs(arguments.seconds))
            })
        };
        let threads: Vec<_> = (0..thread_count).map(start).collect();
        let mut tally = Tally::default();
        for thread in threads {
            tally.add(&thread.join().expect("a thread that measures does not panic")?);
        }
        Ok(tally)
    })
}

/// What sockets hold on any system.
const SENT_BYTES_MAX: u64 = 64 << 10;
