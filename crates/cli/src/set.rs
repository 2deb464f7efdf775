//! `larder set`.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{IsTerminal, Read};
use std::os::unix::ffi::OsStrExt;

use anyhow::{Context, Result, bail};
use larder::StoreMode;
use larder_protocol::Store;
use larder_protocol::text::client::{Reply, request};

use crate::connection::{Connection, unexpected};
use crate::exptime::exptime_of;
use crate::get::{shown, unsendable};
use crate::outcome::Outcome;
use larder_loadgen::argument::whole;
use larder_loadgen::connect::dialer::ServerArguments;

/// Store an item
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerArguments,
    /// Seconds until the item expires; without it the item never expires
    #[arg(long, value_name = "SECS", value_parser = whole(1..=u32::MAX))]
    ttl: Option<u32>,
    /// Store this number with the item
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole(0..=u32::MAX))]
    flags: u32,
    #[command(flatten)]
    condition: Condition,
    /// The key
    key: OsString,
    /// The value; without it, or with -, stdin
    #[arg(allow_negative_numbers = true)]
    value: Option<OsString>,
}

/// The condition of the store. At most one is set.
#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Condition {
    /// Store only if the key has no item
    #[arg(long)]
    add: bool,
    /// Store only if the key has an item
    #[arg(long)]
    replace: bool,
    /// Append the value to that of the item
    #[arg(long)]
    append: bool,
    /// Prepend the value to that of the item
    #[arg(long)]
    prepend: bool,
    /// Store only if the item has this cas token, which `larder get --cas` shows
    #[arg(long, value_name = "TOKEN", value_parser = token)]
    cas: Option<u64>,
}

const AFTER_HELP: &str = "\
The value is the second argument, byte for byte; without it, or if it is -, all of stdin. Prints
nothing if the item is stored. Otherwise prints the reason on stderr.

Examples:
  larder set greeting 'hello, world' --ttl 60
  larder set page:front < front.html
  larder set lock mine --add --ttl 5 && work
  larder set counter 7 --cas 42

Exit code: 0 stored; 1 not stored, because the condition (--add, --replace, --append, --prepend,
--cas) does not hold; 2 not stored for any other reason: bad usage, the server could not be
reached, or it answered with an error, for example because the value is larger than its option -I.";

/// Parses a cas token: the number, or the field that `larder get --cas` prints.
fn token(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("cas=").unwrap_or(text);
    digits
        .parse()
        .map_err(|_| "expected the token that larder get --cas prints, as 42 or cas=42".to_owned())
}

/// Runs `larder set`.
pub(crate) fn run(arguments: &Arguments) -> Result<Outcome> {
    let key = arguments.key.as_bytes();
    let value = arguments.value()?;
    let head = Store {
        key,
        mode: arguments.condition.mode(),
        cas: arguments.condition.cas,
        flags: arguments.flags,
        exptime: arguments.ttl.map_or(0, exptime_of),
        value_bytes: value.len(),
        ..Store::PLAIN
    };
    let mut asked = Vec::new();
    request::store(&mut asked, &head, &value, false).map_err(|error| unsendable(key, &error))?;
    let address = arguments.server.address();
    let mut connection = Connection::open(&arguments.server.dialer()?)?;
    connection.send(&asked)?;
    let why_not = match connection.reply()? {
        Reply::Stored => return Ok(Outcome::Done),
        Reply::NotStored if arguments.condition.add => "the key has an item already",
        Reply::NotStored | Reply::NotFound => "the key has no item",
        Reply::Exists => "the item now has another cas token",
        other => {
            let asked = || format!("set {} at {address}", shown(key));
            return Err(unexpected(other)).with_context(asked);
        }
    };
    eprintln!("larder: {} not stored at {address}: {why_not}", shown(key));
    Ok(Outcome::Missed)
}

impl Condition {
    fn mode(&self) -> StoreMode {
        match self {
            Self { add: true, .. } => StoreMode::Add,
            Self { replace: true, .. } => StoreMode::Replace,
            Self { append: true, .. } => StoreMode::Append,
            Self { prepend: true, .. } => StoreMode::Prepend,
            Self { .. } => StoreMode::Set,
        }
    }
}

impl Arguments {
    fn value(&self) -> Result<Cow<'_, [u8]>> {
        match &self.value {
            Some(value) if value != "-" => Ok(value.as_bytes().into()),
            _ => Ok(value_of_stdin()?.into()),
        }
    }
}

fn value_of_stdin() -> Result<Vec<u8>> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        eprintln!("larder: type the value and end it with Ctrl-D at the beginning of a line");
    }
    let mut value = Vec::new();
    stdin
        .lock()
        .take(VALUE_BYTES_MAX + 1)
        .read_to_end(&mut value)
        .context("cannot read the value from stdin")?;
    if value.len() as u64 > VALUE_BYTES_MAX {
        bail!(
            "the value on stdin has more than {VALUE_BYTES_MAX} bytes, which no server accepts: \
             store a smaller value"
        );
    }
    Ok(value)
}

/// The largest value that larderd and memcached can be configured to accept, 1 GiB.
const VALUE_BYTES_MAX: u64 = 1 << 30;
