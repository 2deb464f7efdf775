//! `larder delete`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, bail};
use larder_protocol::text::client::{Reply, request};
use larder_protocol::{Command, Delete};

use crate::admin::address::ListenerArguments;
use crate::admin::removal;
use crate::connection::{Connection, unexpected};
use crate::get::{shown, unsendable};
use crate::outcome::Outcome;
use larder_loadgen::address::ServerArgument;
use larder_loadgen::connect::dialer::AccessArguments;

/// Remove items, by their keys or all with a prefix
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArgument,
    /// The keys
    #[arg(value_name = "KEY", required_unless_present = "prefix")]
    keys: Vec<OsString>,
    /// Remove all items whose keys begin with this; needs larderd's admin listener, and the role
    /// full
    #[arg(long, value_name = "PREFIX", conflicts_with_all = ["keys", "server"])]
    prefix: Option<OsString>,
    #[command(flatten)]
    admin: ListenerArguments,
    #[command(flatten)]
    access: AccessArguments,
}

const AFTER_HELP: &str = "\
A key without an item is named on stderr.

With --prefix the server removes the items that it holds when the command begins, in the background,
about a million per second; an item stored later stays. Ctrl-C cancels the removal.

Examples:
  larder delete greeting
  larder delete user:1 user:2 user:3
  larder delete --prefix user:7: --admin 127.0.0.1:11212

Exit code: 0 done; 1 a key has no item, or the removal was cancelled; 2 bad usage, or no server was
reached or it refused (-F forbids --prefix).";

/// Runs `larder delete`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    if let Some(prefix) = &arguments.prefix {
        arguments.access.refuse_login("--prefix uses the admin listener, which takes a token")?;
        return removal::run(&arguments.admin.client(&arguments.access.tls)?, prefix);
    }
    if arguments.admin.is_given() {
        bail!("--admin and --token-file go with --prefix; --server is where keys are deleted");
    }
    let keys: Vec<&[u8]> = arguments.keys.iter().map(|key| key.as_bytes()).collect();
    // If one key is invalid, nothing is deleted.
    let requests = keys.iter().map(|key| request_of(key)).collect::<Result<Vec<_>>>()?;
    let address = &arguments.server.server;
    let mut connection = Connection::open(&arguments.access.dialer(address)?)?;
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
        .map_err(|error| unsendable(key, &error))?;
    Ok(request)
}
