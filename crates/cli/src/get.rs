//! `larder get`.

use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, anyhow};
use larder_protocol::text::client::reply::Hit;
use larder_protocol::text::client::{Reply, UnsendableKey, request};

use crate::connection::{Connection, unexpected};
use crate::outcome::Outcome;
use larder_loadgen::argument::Quoted;
use larder_loadgen::connect::dialer::ServerArguments;

/// Print the values of items
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Show the flags stored with each item
    #[arg(long)]
    flags: bool,
    /// Show the cas token of each item, for `larder set --cas`
    #[arg(long)]
    cas: bool,
    /// The keys
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<OsString>,
}

const AFTER_HELP: &str = "\
With one key, prints its value byte for byte; on a terminal, adds a newline if the value does not
end with one. With several keys, --flags or --cas, prints a line for each item: the key, the
requested fields, and the value, separated by tabs. A key without an item is reported on stderr.

Examples:
  larder get page:front > front.html
  larder get --cas counter
  larder get user:1 user:2 user:3

Exit code: 0 every key has an item; 1 a key has no item; 2 bad usage, or the server could not be
reached or answered with an error.";

/// Runs `larder get`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let keys: Vec<&[u8]> = arguments.keys.iter().map(|key| key.as_bytes()).collect();
    let mut asked = Vec::new();
    for key in &keys {
        // Checks each key before all are sent in one request, so that the error names the invalid
        // key.
        request::get(&mut Vec::new(), &[key], false, None)
            .map_err(|error| unsendable(key, &error))?;
    }
    request::get(&mut asked, &keys, arguments.cas, None)?;
    let address = arguments.server.address();
    let mut connection = Connection::open(&arguments.server.dialer()?)?;
    connection.send(&asked)?;

    let mut output = std::io::stdout().lock();
    let mut missing = keys.iter().copied();
    let mut missed = Vec::new();
    loop {
        match connection.reply()? {
            Reply::Value(hit) => {
                // Hits arrive in the order of the keys, so a skipped key has no item.
                missed.extend(missing.by_ref().take_while(|key| *key != hit.key));
                let line = arguments.line(&hit, output.is_terminal());
                output.write_all(&line)?;
            }
            Reply::End => break,
            other => return Err(unexpected(other)).with_context(|| format!("get at {address}")),
        }
    }
    output.flush()?;
    missed.extend(missing);
    for key in &missed {
        eprintln!("larder: {address} has no item {}", shown(key));
    }
    Ok(if missed.is_empty() { Outcome::Done } else { Outcome::Missed })
}

impl Arguments {
    /// Returns the output for an item.
    fn line(&self, hit: &Hit<'_>, on_terminal: bool) -> Vec<u8> {
        let alone = self.keys.len() == 1 && !self.flags && !self.cas;
        if alone {
            let needs_newline = on_terminal && !hit.value.ends_with(b"\n");
            return [hit.value, if needs_newline { b"\n" } else { b"" }].concat();
        }
        let mut line = [hit.key, b"\t"].concat();
        if self.flags {
            line.extend(format!("flags={}\t", hit.flags).into_bytes());
        }
        if let Some(cas) = hit.cas {
            line.extend(format!("cas={cas}\t").into_bytes());
        }
        line.extend_from_slice(hit.value);
        line.push(b'\n');
        line
    }
}

/// Returns a key for a message: in quotes, with unprintable bytes escaped.
pub(crate) fn shown(key: &[u8]) -> Quoted<'_> {
    Quoted(key)
}

/// Returns the error for a key that a request line cannot contain.
pub(crate) fn unsendable(key: &[u8], error: &UnsendableKey) -> anyhow::Error {
    match key.len() {
        ..=SHOWN_BYTES_MAX => anyhow!("{}: {error}", shown(key)),
        _ => anyhow!("{}…: {error}", shown(&key[..SHOWN_BYTES_MAX])),
    }
}

/// A longer key does not fit in one line of most terminals.
const SHOWN_BYTES_MAX: usize = 60;
