//! `larder delete`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result};
use larder_protocol::text::client::{Reply, request};
use larder_protocol::{Command, Delete};

use crate::connection::{Connection, unexpected};
use crate::get::shown;
use crate::outcome::Outcome;
use larder_load::address::ServerArgument;

/// Remove items
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArgument,
    /// The keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
}

const AFTER_HELP: &str = "\
A key without an item is named on stderr, and the exit code is 1.

Examples:
  larder delete greeting
  larder delete user:1 user:2 user:3";

/// Runs `larder delete`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let keys: Vec<&[u8]> = arguments.keys.iter().map(|key| key.as_bytes()).collect();
    // If one key is invalid, nothing is deleted.
    let requests = keys.iter().map(|key| request_of(key)).collect::<Result<Vec<_>>>()?;
    let address = &arguments.server.server;
    let mut connection = Connection::open(address)?;
    let mut outcome = Outcome::Done;
    for (key, request) in keys.iter().zip(requests) {
        connection.send(&request)?;
        match connection.reply()? {
            Reply::Deleted => {}
            Reply::NotFound => {
                eprintln!("larder: {address} has no item {}", shown(key));
                outcome = Outcome::Missed;
            }
            other => {
                let asked = || format!("delete {} at {address}", shown(key));
                return Err(unexpected(other)).with_context(asked);
            }
        }
    }
    Ok(outcome)
}

fn request_of(key: &[u8]) -> Result<Vec<u8>> {
    let mut request = Vec::new();
    request::command(&mut request, &Command::Delete(Delete::of(key)), false)
        .with_context(|| shown(key))?;
    Ok(request)
}
