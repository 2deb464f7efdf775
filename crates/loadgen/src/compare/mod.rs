//! `larder bench compare`: measures the cost of a request on several servers, the *contestants*.
//! The cost is the processor time that the server uses for a request.
//!
//! Files in reading order: this one, [`server`], which starts and stops servers, [`watchdog`],
//! [`version`], [`workload`], [`table`].

mod server;
mod table;
mod version;
mod watchdog;
mod workload;

use std::io::Write;

use anyhow::{Context, Result, bail, ensure};

use crate::argument::{skew, whole};
use crate::measure::Plan;
use crate::measure::live::Live;
use crate::measure::pin::processors;
use crate::measure::stop::Stop;
use crate::options::{LoadArguments, rate};
use crate::outcome::Outcome;
use server::{Contestant, Folder};
use table::{Row, Table};
use workload::Workload;

/// Compare servers by the processor time of a request
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The servers: a name and the command that starts the server; @SOCK is replaced by the path of
    /// a Unix socket, @PORT by a port of 127.0.0.1, @DIR by the path of a folder that the server
    /// creates
    #[arg(value_name = "NAME=COMMAND", required = true, value_parser = Contestant::parse)]
    servers: Vec<Contestant>,
    /// Rounds; each round measures each server once with each workload
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = whole::<u32>(1..=1000))]
    rounds: u32,
    /// Seconds of each measurement
    #[arg(long, value_name = "SECS", default_value_t = 3, value_parser = whole::<u64>(1..=3600))]
    seconds: u64,
    /// Number of connections
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = whole::<u32>(1..=10_000))]
    connections: u32,
    /// Number of keys
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole::<u32>(1..=u32::MAX))]
    keys: u32,
    /// Skew of the keys: the exponent of a Zipf distribution; 0 is uniform
    #[arg(long, value_name = "S", value_parser = skew, default_value_t = 0.0)]
    skew: f64,
    /// Workloads mode:bytes:pipeline, separated by commas; the modes are get, set, mix, and aside,
    /// in which a set of the key follows each miss
    #[arg(long, value_name = "MODE:BYTES:PIPELINE", value_delimiter = ',', value_parser = Workload::parse,
          default_value = "get:100:1,set:100:1,get:1024:1,get:10240:1,set:10240:1,get:100:16,set:100:16")]
    workloads: Vec<Workload>,
    /// Open loop: requests per second, the same for all servers; the latency of a request counts
    /// from its due time
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// Speak TLS and accept any certificate: this command starts the servers itself
    #[arg(long)]
    tls: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
The servers run one after the other (A B C, A B C), so that drift of the machine's speed affects all
of them. Each server has one processor for itself, and the load runs on another. The cost of a
request is the server's processor time divided by the number of requests; it barely depends on
whether the load kept the server busy. Each number is the median of the rounds; a ratio is the
median of the ratios within a round. A server must run with one worker thread.

The first lines show the version of each server, as the server reports it.

Columns: ns/request: processor time of the server; ratio: the first server's time divided by this
server's (above 1: cheaper); requests/s; busy: the share of its processor that the server used; hit:
hits divided by gets; p99: the latency.

@DIR is a path in the folder for temporary files (TMPDIR). It does not exist when the server starts,
and it is removed before the next server starts.

This command stops the servers that it has started, and no others, even on Ctrl-C and when it is
killed (a shell next to each server watches for that).

Examples:
  larder bench compare 'memcached=memcached -t 1 -m 1024 -s @SOCK' 'larderd=larderd -t 1 -m 1024 -s @SOCK'
  larder bench compare --rate 50000 --workloads mix:100:1 'a=memcached -s @SOCK' 'b=larderd -s @SOCK'
  larder bench compare --keys 500000 --skew 0.9 --workloads aside:100:1 'a=memcached -m 16 -s @SOCK' \
    'b=larderd -m 16 -s @SOCK'
  larder bench compare --rounds 9 --workloads mix:100:1,get:4096:8 'old=./old -p @PORT' 'new=./new -p @PORT'

Exit code: 0 all servers were measured and all values were right; 1 some values were wrong or some
requests failed; 2 a server failed.";

/// Runs `larder bench compare` and writes the table to `output`.
pub(crate) fn run(arguments: &Arguments, output: &mut impl Write) -> Result<Outcome> {
    for (at, server) in arguments.servers.iter().enumerate() {
        let is_double = arguments.servers[..at].iter().any(|other| other.name == server.name);
        ensure!(!is_double, "two servers are named {}: use different names", server.name);
    }
    // From here on a signal ends the servers before it ends this process.
    let comparison = Comparison {
        arguments,
        stop: Stop::on_signals(true)?,
        processors: Processors::choose()?,
        folder: Folder::new()?,
    };
    let mut table = Table::default();
    let mut is_sound = true;
    for round in 0..arguments.rounds {
        for contestant in &arguments.servers {
            for workload in &arguments.workloads {
                let measured = comparison.measure(contestant, workload, round);
                let (version, row) =
                    measured.with_context(|| format!("{} on {workload}", contestant.name))?;
                is_sound &= row.is_sound;
                table.name_version(&contestant.name, version)?;
                table.push(round, row);
            }
        }
    }
    match arguments.json {
        true => writeln!(output, "{}", table.json(comparison.processors.are_apart()))?,
        false => write!(output, "{}", table.text())?,
    }
    Ok(if is_sound { Outcome::Done } else { Outcome::Missed })
}

/// A comparison in progress.
struct Comparison<'a> {
    arguments: &'a Arguments,
    stop: Stop,
    processors: Processors,
    folder: Folder,
}

impl Comparison<'_> {
    /// Starts a server, stores the keys, measures the server and stops it. Also returns its
    /// version.
    fn measure(
        &self,
        contestant: &Contestant,
        workload: &Workload,
        round: u32,
    ) -> Result<(String, Row)> {
        let server = contestant.start(&self.folder, self.processors.server, &self.stop)?;
        let load = LoadArguments::of_comparison(server.address().clone(), workload, self.arguments);
        let plan = Plan::new(&load, &self.stop, self.processors.load)?;
        let version = version::ask(plan.dialer()).with_context(|| server.log())?;
        plan.store_every_key().with_context(|| server.log())?;
        let before_ns = server.processor_ns()?;
        let rounds = self.arguments.rounds;
        let prefix = format!("round {} of {rounds}, {}, {workload}: ", round + 1, contestant.name);
        let measured = plan.measure(&mut Live::new(&prefix))?;
        let spent_ns = server.processor_ns()?.saturating_sub(before_ns);
        if self.stop.is_asked() {
            bail!("stopped");
        }
        let tally = &measured.tally;
        if let Some(reason) = &tally.failed {
            return Err(plan.failure(reason)).with_context(|| server.log());
        }
        ensure!(tally.requests > 0, "the server did not answer any request");
        Ok((version, Row::new(contestant.name.clone(), workload.to_string(), spent_ns, tally)))
    }
}

/// The processors of the server and of the load.
struct Processors {
    server: Option<usize>,
    load: Option<usize>,
}

impl Processors {
    /// Chooses the first two processors that this process may use.
    fn choose() -> Result<Self> {
        let allowed = processors()?;
        Ok(match allowed[..] {
            [server, load, ..] => Self { server: Some(server), load: Some(load) },
            _ => {
                eprintln!(
                    "larder: warning: there is only one processor, which server and load share: \
                     latencies and rates are unreliable; the cost of a request is still comparable"
                );
                Self { server: None, load: None }
            }
        })
    }

    fn are_apart(&self) -> bool {
        self.server.is_some()
    }
}
