//! The command line of `larder bench`.

use std::path::PathBuf;

use crate::compare;
use crate::options::LoadArguments;

/// Measure the throughput and the latency of any server that speaks memcached's protocols
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) verb: Option<Verb>,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Print one JSON object: all counts, percentiles, one row per second
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a report with plots to this file, as one self-contained HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Verb {
    Compare(compare::Arguments),
}

const AFTER_HELP: &str = "\
Closed loop (without --rate): every connection sends its next requests once it has read all
responses to the previous ones. This finds the highest throughput. A stall of the server also stops
the load, so that it is barely visible in the percentiles.

Open loop (--rate): requests fall due at fixed times. Latency counts from the due time, not from
the time of sending, so that a stall is fully visible (no coordinated omission). A request that is
sent more than 1 ms after it was due is late, either because no connection was free (the server is
too slow, or --connections times --pipeline is too small), or because this generator was slow. A
request that was due but not sent before the end counts with the time that it has waited.

A login (--user) uses the text protocol, or with --dialect binary SASL PLAIN (-S).

With UDP, a request whose response does not arrive within --timeout counts as an error.

The generator measures itself. If it was busy nearly all the time, or had to wait for a processor,
the last lines report that, and the numbers show its limit rather than the server's. In that case,
give it more --threads or processors.

Every value read is checked against the value that this tool stores under the key. Before gets are
measured, all keys are stored. Ctrl-C ends a run early and prints the results so far.

Examples:
  larder bench
  larder bench --mode mix --get-share 0.8 --value-bytes 1024 --connections 100 --threads 2
  larder bench --server ./larder.sock --dialect binary --pipeline 16 --json
  larder bench --rate 50000 --seconds 60 --skew 0.99 --keys 1000000 --html report.html
  larder bench --trace web07.csv.zst --rate 20000
  larder bench --multiget 20 --value-bytes 10-4096
  larder bench --server cache.example:11211 --udp --multiget 5
  larder bench --server cache.example:11211 --tls --tls-ca authority.pem
  larder bench --user bench --password-file ./password --dialect binary
  larder bench compare 'memcached=memcached -t 1 -s @SOCK' 'larderd=larderd -t 1 -s @SOCK'

A lost connection is reopened, and its pending requests count as errors. The run ends once the
server has not been reachable for --timeout.

Exit code: 0 all values were right and all requests were served; 1 some were not; 2 all
connections failed, or the responses on one cannot be trusted.";
