//! `larder hot`.

use std::io::Write;

use anyhow::{Result, bail};
use hyper::StatusCode;
use larder_loadgen::argument::whole;
use serde_json::Value;

use super::address::AdminArguments;
use super::client::{Ask, Client};
use super::json::{number, rows, shown_key};
use crate::outcome::Outcome;
use crate::units;

/// Show the most frequently used keys
///
/// Needs larderd's admin listener, and the role read.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Show at most this many keys in each list
    #[arg(long, value_name = "KEYS", default_value_t = 20)]
    #[arg(value_parser = whole::<u32>(1..=u32::MAX))]
    limit: u32,
    #[command(flatten)]
    admin: AdminArguments,
}

const AFTER_HELP: &str = "\
The first list is ordered by requests, the second by bytes of values. The server samples requests,
so rates are estimates: the second column is the most by which the first may exceed the true rate.
Reads by processes that map the memory are counted only in part. Bytes of a key outside 0x21 to 0x7e
are escaped, for example as \\x20.

Examples:
  larder hot
  larder hot --limit 5 --server 127.0.0.1:11212

Exit code: 0 done; 2 the server refused (-X forbids it) or could not be reached.";

/// Runs `larder hot`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let client = arguments.admin.client()?;
    let limit = arguments.limit as usize;
    let hot = ask(&client, limit)?;
    let mut output = std::io::stdout().lock();
    let sampled = units::count(number(&hot, "sampled")?);
    let window = units::duration(number(&hot, "window_secs")?);
    writeln!(output, "{sampled} sampled requests of about the last {window}\n")?;
    writeln!(output, "{:>10} {:>10} {:>12}  key", "requests/s", "±", "bytes/s")?;
    for row in rows(&hot, "by_rate")?.iter().take(limit) {
        let rate = units::count(number(row, "per_sec")?);
        let error = units::count(number(row, "error_per_sec")?);
        let bytes = units::bytes(number(row, "bytes_per_sec")?);
        writeln!(output, "{rate:>10} {error:>10} {bytes:>12}  {}", shown_key(row)?)?;
    }
    writeln!(output, "\n{:>12} {:>12}  key", "bytes/s", "±")?;
    for row in rows(&hot, "by_bytes")?.iter().take(limit) {
        let bytes = units::bytes(number(row, "bytes_per_sec")?);
        let error = units::bytes(number(row, "error_bytes_per_sec")?);
        writeln!(output, "{bytes:>12} {error:>12}  {}", shown_key(row)?)?;
    }
    Ok(Outcome::Done)
}

/// Requests the hot keys.
fn ask(client: &Client, limit: usize) -> Result<Value> {
    let ask = Ask::get(format!("/api/v1/hot?limit={limit}"));
    let answer = client.ask(&ask)?;
    if answer.status == StatusCode::NOT_FOUND {
        bail!("{} reports no hot keys: this larderd does not sample requests", client.address());
    }
    client.document(&ask, &answer)
}
