//! `larder drain`.

use std::io::Write;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use hyper::Method;
use larder_loadgen::argument::{self, agree, counted};
use serde_json::Value;

use super::address::AdminArguments;
use super::client::Ask;
use super::json::{text, whole};
use crate::outcome::Outcome;

/// Take a server out of service without interrupting requests, so that it can be stopped
///
/// Needs larderd's admin listener, and the role full.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Put the server back into service
    #[arg(long, conflicts_with = "wait")]
    undo: bool,
    /// Wait until no connection is open, for at most this many seconds
    #[arg(long, value_name = "SECS", value_parser = argument::whole::<u32>(0..=u32::MAX))]
    wait: Option<u32>,
    #[command(flatten)]
    admin: AdminArguments,
}

const AFTER_HELP: &str = "\
/ready fails immediately. For --drain-grace seconds (5) the server serves all requests as before.
Then it closes each connection between two requests. Without busy connections that takes a second,
otherwise at most 6. The server continues to run until it is stopped.

Examples:
  larder drain --wait 15 && systemctl stop larderd
  larder drain --undo
  larder drain --wait 10 --server /run/larder/admin.sock

Exit code: 0 the server is drained, or without --wait draining; 1 connections are still open after
--wait, or another command undid the drain; 2 the server refused or could not be reached.";

/// Runs `larder drain`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let began = Instant::now();
    let client = arguments.admin.client()?;
    let method = if arguments.undo { Method::DELETE } else { Method::POST };
    let mut drain = client.json(&Ask::change(method, PATH))?;
    let Some(wait_secs) = arguments.wait else {
        return show(&drain);
    };
    let deadline = began + Duration::from_secs(wait_secs.into());
    loop {
        let connections = whole(&drain, "connections")?;
        match text(&drain, "state")? {
            "drained" => return show(&drain),
            "draining" if Instant::now() < deadline => {}
            "draining" => {
                let open = open(connections);
                eprintln!("larder: still draining after {wait_secs} s: {open}");
                return Ok(Outcome::Missed);
            }
            _ => {
                eprintln!("larder: another command undid the drain: the server is in service");
                return Ok(Outcome::Missed);
            }
        }
        sleep(PERIOD.min(deadline.saturating_duration_since(Instant::now())));
        drain = client.json(&Ask::get(PATH))?;
    }
}

fn show(drain: &Value) -> Result<Outcome> {
    let (state, connections) = (text(drain, "state")?, whole(drain, "connections")?);
    let state = state.escape_default();
    writeln!(std::io::stdout(), "{state}, {}", open(connections))?;
    Ok(Outcome::Done)
}

fn open(connections: u64) -> String {
    let are = agree(connections, "is", "are");
    format!("{} {are} open", counted(connections, "connection"))
}

const PATH: &str = "/api/v1/drain";

/// Time between two queries of the server.
const PERIOD: Duration = Duration::from_millis(100);
