//! `larder keys`.

use std::ffi::OsString;
use std::io::{BufWriter, Write};
use std::os::unix::ffi::OsStrExt;

use anyhow::Result;
use larder_loadgen::argument;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;

use super::address::AdminArguments;
use super::client::{Ask, Client};
use super::json::{rows, shown_key, whole};
use crate::outcome::Outcome;
use crate::units;

/// List keys of a server with the size and age of their items
///
/// Needs larderd's admin listener, and the role read.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// List only keys that begin with this
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: OsString,
    /// List at most this many keys
    #[arg(long, value_name = "KEYS", default_value_t = 100)]
    #[arg(value_parser = argument::whole::<u64>(1..=u64::MAX))]
    limit: u64,
    #[command(flatten)]
    admin: AdminArguments,
}

const AFTER_HELP: &str = "\
Each line contains the bytes of the value, the time to live, the time since the item was last stored
or read, and the key. Bytes of a key outside 0x21 to 0x7e are escaped, for example as \\x20. The
order is that of the server's index. Listing does not count as a use of the items.

Examples:
  larder keys --prefix user:7:
  larder keys --limit 1000000 --server 127.0.0.1:11212 | awk '$1 > 100000'

Exit code: 0 done; 2 the server refused (-X forbids it) or could not be reached.";

/// Runs `larder keys`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let client = arguments.admin.client()?;
    let mut output = BufWriter::new(std::io::stdout().lock());
    let prefix = percent_encode(arguments.prefix.as_bytes(), NON_ALPHANUMERIC).to_string();
    let mut left = arguments.limit;
    let mut cursor = None;
    loop {
        let page = page(&client, &prefix, left, cursor.as_deref())?;
        for row in rows(&page, "keys")?.iter().take(left as usize) {
            writeln!(output, "{}", line(row)?)?;
            left -= 1;
        }
        // The server may have searched for a long time for a page of few rows, so the rows are
        // printed immediately.
        output.flush()?;
        cursor = page["cursor"].as_str().map(str::to_owned);
        match cursor {
            None => return Ok(Outcome::Done),
            Some(_) if left == 0 => {
                eprintln!("larder: there may be more keys: --limit lists more");
                return Ok(Outcome::Done);
            }
            Some(_) => {}
        }
    }
}

fn page(client: &Client, prefix: &str, left: u64, cursor: Option<&str>) -> Result<Value> {
    let limit = left.min(PAGE_ROWS_MAX);
    let mut path = format!("/api/v1/keys?prefix={prefix}&limit={limit}");
    if let Some(cursor) = cursor {
        path.push_str("&cursor=");
        path.extend(percent_encode(cursor.as_bytes(), NON_ALPHANUMERIC));
    }
    client.json(&Ask::get(path))
}

/// Returns the line of a row.
fn line(row: &Value) -> Result<String> {
    let ttl = match row["ttl_secs"].as_u64() {
        Some(secs) => units::duration(secs as f64),
        None => "forever".to_owned(),
    };
    let idle = units::duration(whole(row, "idle_secs")? as f64);
    Ok(format!("{:>10} {ttl:>9} {idle:>9}  {}", whole(row, "bytes")?, shown_key(row)?))
}

/// The most rows that the server puts into a page.
const PAGE_ROWS_MAX: u64 = 1000;
