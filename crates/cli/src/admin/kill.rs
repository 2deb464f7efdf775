//! `larder kill`.

use std::io::Write;

use anyhow::Result;
use hyper::Method;
use larder_loadgen::argument::counted;
use serde_json::json;

use super::address::AdminArguments;
use super::client::Ask;
use super::json::whole;
use crate::outcome::Outcome;

/// Close a connection, or all connections of a user
///
/// Needs larderd's admin listener, and the role full.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The number of a connection in larder stats conns, or the name of a user of --users; a number
    /// always means a connection
    #[arg(value_name = "CONN|USER")]
    target: String,
    #[command(flatten)]
    admin: AdminArguments,
}

const AFTER_HELP: &str = "\
The connections are closed immediately, without the responses to requests in progress. To keep a
user out, remove it from the file of --users first: clients reconnect.

Examples:
  larder stats conns
  larder kill 34
  larder kill shop

Exit code: 0 connections are closed; 1 there is no such connection, or the user has none; 2 the
server refused or could not be reached.";

/// Runs `larder kill`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let body = match arguments.target.parse::<u32>() {
        Ok(number) => json!({ "connection": number }),
        Err(_) => json!({ "user": arguments.target }),
    };
    let asked = Ask { body: Some(body), ..Ask::change(Method::POST, "/api/v1/kill") };
    let killed = whole(&arguments.admin.client()?.json(&asked)?, "killed")?;
    writeln!(std::io::stdout(), "closed {}", counted(killed, "connection"))?;
    Ok(if killed == 0 { Outcome::Missed } else { Outcome::Done })
}
