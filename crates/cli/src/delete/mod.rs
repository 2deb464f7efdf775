//! `larder delete`.
//!
//! | file | what it does |
//! |---|---|
//! | `mod.rs` | removes keys; the options |
//! | `everywhere.rs` | removes a prefix from several servers, and reports each of them |
//! | `removal.rs` | the removal of a prefix from one server, and its state |

mod everywhere;
mod removal;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use larder_protocol::text::client::{Reply, request};
use larder_protocol::{Command, Delete};

use crate::admin;
use crate::admin::address::ListenerArguments;
use crate::connection::{Connection, unexpected};
use crate::get::{shown, unsendable};
use crate::outcome::Outcome;
use larder_loadgen::address::Address;
use larder_loadgen::argument::{Quoted, whole};
use larder_loadgen::connect::dialer::AccessArguments;

/// Remove items by their keys, or all items whose keys begin with a prefix
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The server: host[:port], [IPv6][:port], or the path of a Unix socket; the default port is
    /// 11211 [default: 127.0.0.1:11211]. With --prefix: the admin listener of larderd, whose port
    /// must be given [default: LARDER_ADMIN, or /run/larder/admin.sock]
    #[arg(short, long, value_name = "ADDR", value_parser = NamedServer::parse)]
    server: Option<NamedServer>,
    /// The keys
    #[arg(value_name = "KEY", required_unless_present = "prefix")]
    keys: Vec<OsString>,
    /// Remove all items whose keys begin with this; needs --servers, or larderd's admin listener
    /// and the role full
    #[arg(long, value_name = "PREFIX", conflicts_with = "keys")]
    prefix: Option<OsString>,
    /// With --prefix: remove it from all of these servers, which are caches as without --prefix,
    /// not admin listeners
    #[arg(long, value_name = "ADDR,...", value_delimiter = ',')]
    #[arg(requires = "prefix", conflicts_with = "server")]
    servers: Vec<Address>,
    /// With --servers: how long the command waits for the servers
    #[arg(long, value_name = "SECS", default_value_t = 60, requires = "servers")]
    #[arg(value_parser = whole::<u32>(1..=u32::MAX))]
    timeout: u32,
    #[command(flatten)]
    admin: ListenerArguments,
    #[command(flatten)]
    access: AccessArguments,
}

const AFTER_HELP: &str = "\
A key without an item is reported on stderr.

With --prefix the server removes the items that it holds when the command begins. It works in the
background and removes about a million items per second. Items that are stored later remain. Ctrl-C
cancels the removal.

With --servers each server removes the prefix, and the command prints a line for each one. Unless
all of them have removed it, the error names those that have not, with the reasons, and those that
have. Ctrl-C does not cancel: the error names the state of each server.

Examples:
  larder delete greeting
  larder delete user:1 user:2 user:3
  larder delete --prefix user:7: --server 127.0.0.1:11212
  larder delete --prefix user:7: --servers cache-1,cache-2,cache-3:11311
  larder delete --prefix user:7: --servers cache-1,/run/larder.sock --timeout 10

Exit code: 0 done; 1 a key has no item, or the removal was cancelled; 2 bad usage, or a server could
not be reached or refused (-F forbids --prefix), or with --servers one of them has not removed the
prefix.";

/// The address of `--server`: a cache, or with `--prefix` an admin listener.
#[derive(Clone, Debug)]
struct NamedServer {
    text: String,
    cache: Address,
}

impl NamedServer {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self { text: text.to_owned(), cache: text.parse()? })
    }

    /// Returns the address of an admin listener, which has no default port.
    fn listener(&self) -> Result<Address> {
        Address::with_port(&self.text)
            .map_err(|error| anyhow!("--server is {}: {error}", Quoted::text(&self.text)))
    }
}

/// Runs `larder delete`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    if let Some(prefix) = &arguments.prefix {
        return remove_prefix(arguments, prefix);
    }
    arguments.admin.refuse(
        "requires --prefix: to delete keys, name the server with --server",
        "requires --prefix: to log in to the cache, use --user",
    )?;
    if !arguments.servers.is_empty() {
        bail!("--servers requires --prefix: to delete keys, name one server with --server");
    }
    let keys: Vec<&[u8]> = arguments.keys.iter().map(|key| key.as_bytes()).collect();
    // If one key is invalid, nothing is deleted.
    let requests = keys.iter().map(|key| request_of(key)).collect::<Result<Vec<_>>>()?;
    let address = &match &arguments.server {
        Some(named) => named.cache.clone(),
        None => Address::default(),
    };
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

fn remove_prefix(arguments: &Arguments, prefix: &OsStr) -> Result<Outcome> {
    if !arguments.servers.is_empty() {
        arguments.admin.refuse(
            "has no effect with --servers, which names caches",
            "has no effect with --servers: to log in to the caches, use --user",
        )?;
        let dialers = arguments.access.dialers(&arguments.servers)?;
        let time_max = Duration::from_secs(arguments.timeout.into());
        return everywhere::run(&dialers, prefix.as_bytes(), time_max);
    }
    arguments.access.refuse_login("--prefix uses the admin listener, which takes a token")?;
    let listener = arguments.server.as_ref().map(NamedServer::listener).transpose()?;
    admin::removal::run(&arguments.admin.client(listener, &arguments.access.tls)?, prefix)
}

fn request_of(key: &[u8]) -> Result<Vec<u8>> {
    let mut request = Vec::new();
    request::command(&mut request, &Command::Delete(Delete::of(key)), false)
        .map_err(|error| unsendable(key, &error))?;
    Ok(request)
}
