//! `larder delete`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, anyhow};
use larder_protocol::text::client::{Reply, request};
use larder_protocol::{Command, Delete};

use crate::admin::address::ListenerArguments;
use crate::admin::removal;
use crate::connection::{Connection, unexpected};
use crate::get::{shown, unsendable};
use crate::outcome::Outcome;
use larder_loadgen::address::Address;
use larder_loadgen::argument::Quoted;
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
    /// Remove all items whose keys begin with this; needs larderd's admin listener, and the role
    /// full
    #[arg(long, value_name = "PREFIX", conflicts_with = "keys")]
    prefix: Option<OsString>,
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

Examples:
  larder delete greeting
  larder delete user:1 user:2 user:3
  larder delete --prefix user:7: --server 127.0.0.1:11212

Exit code: 0 done; 1 a key has no item, or the removal was cancelled; 2 bad usage, or the server
could not be reached or refused (-F forbids --prefix).";

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
        arguments.access.refuse_login("--prefix uses the admin listener, which takes a token")?;
        let listener = arguments.server.as_ref().map(NamedServer::listener).transpose()?;
        return removal::run(&arguments.admin.client(listener, &arguments.access.tls)?, prefix);
    }
    arguments.admin.refuse()?;
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

fn request_of(key: &[u8]) -> Result<Vec<u8>> {
    let mut request = Vec::new();
    request::command(&mut request, &Command::Delete(Delete::of(key)), false)
        .map_err(|error| unsendable(key, &error))?;
    Ok(request)
}
