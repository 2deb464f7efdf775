//! `larder ping`.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use larder_protocol::Command;
use larder_protocol::text::client::{Reply, request};

use crate::connection::{Connection, unexpected};
use crate::outcome::Outcome;
use larder_load::connect::dialer::ServerArguments;

/// Ask a server for its version and measure the round trip
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
}

const AFTER_HELP: &str = "\
The time is that of one round trip on an open connection, the fastest of three.

Examples:
  larder ping
  larder ping --server ./larder.sock && echo up";

/// Runs `larder ping`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let address = arguments.server.address();
    let mut connection = Connection::open(&arguments.server.dialer()?)?;
    let mut asked = Vec::new();
    request::command(&mut asked, &Command::Version, false)?;
    let mut fastest = Duration::MAX;
    let mut version = String::new();
    for _ in 0..ROUND_TRIP_COUNT {
        let started = Instant::now();
        connection.send(&asked)?;
        version = match connection.reply()? {
            Reply::Version(version) => version.escape_ascii().to_string(),
            other => return Err(unexpected(other)).with_context(|| format!("ping {address}")),
        };
        fastest = fastest.min(started.elapsed());
    }
    let milliseconds = fastest.as_secs_f64() * 1000.0;
    writeln!(std::io::stdout(), "{address}: version {version}, {milliseconds:.3} ms")?;
    Ok(Outcome::Done)
}

const ROUND_TRIP_COUNT: u32 = 3;
