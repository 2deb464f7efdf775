//! `larder ping`.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use larder_protocol::Command;
use larder_protocol::text::client::{Reply, request};

use crate::connection::{Connection, unexpected};
use crate::outcome::Outcome;
use larder_loadgen::connect::dialer::{Dialer, ServerArguments};

/// Query the version of a server and measure the round trip
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Retry until the server answers, for at most this many seconds
    #[arg(long, value_name = "SECS", default_value_t = 0)]
    wait: u32,
    #[command(flatten)]
    server: ServerArguments,
}

const AFTER_HELP: &str = "\
The printed time is the fastest of three round trips on an open connection.

Examples:
  larder ping
  larder ping --wait 10 && larder set greeting hello
  larder ping --server ./larder.sock && echo up";

/// Runs `larder ping`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let dialer = arguments.server.dialer()?;
    let deadline = Instant::now() + Duration::from_secs(arguments.wait.into());
    let (version, fastest) = loop {
        match measure(&dialer) {
            Err(_) if Instant::now() < deadline => sleep(PAUSE),
            measured => break measured?,
        }
    };
    let milliseconds = fastest.as_secs_f64() * 1000.0;
    writeln!(std::io::stdout(), "{}: version {version}, {milliseconds:.3} ms", dialer.address())?;
    Ok(Outcome::Done)
}

/// Returns the version of the server and the time of a round trip on a new connection.
fn measure(dialer: &Dialer) -> Result<(String, Duration)> {
    let mut connection = Connection::open(dialer)?;
    let mut asked = Vec::new();
    request::command(&mut asked, &Command::Version, false)?;
    let mut fastest = Duration::MAX;
    let mut version = String::new();
    for _ in 0..ROUND_TRIP_COUNT {
        let started = Instant::now();
        connection.send(&asked)?;
        version = match connection.reply()? {
            Reply::Version(version) => version.escape_ascii().to_string(),
            other => {
                return Err(unexpected(other))
                    .with_context(|| format!("ping {}", dialer.address()));
            }
        };
        fastest = fastest.min(started.elapsed());
    }
    Ok((version, fastest))
}

const ROUND_TRIP_COUNT: u32 = 3;
/// Time between two attempts of `--wait`.
const PAUSE: Duration = Duration::from_millis(20);
