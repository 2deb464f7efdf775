//! The server into which items are copied.

use anyhow::{Context, Result, bail};
use larder_loadgen::connect::dialer::Dialer;

use crate::connection::Connection;
use crate::transfer::wire::push_key;

/// The connection to the target. The order of its requests matters: a drop follows the store that
/// it undoes.
// Rule: OneConnection
#[derive(Debug)]
pub(super) struct Target {
    connection: Connection,
    pub(super) use_of_target: Use,
    /// Items that were not stored, because a client had changed their keys or stored an item.
    pub(super) kept: u64,
    /// Items that the target could not store.
    pub(super) refused: u64,
}

/// Requests that are not sent yet.
#[derive(Debug)]
pub(super) struct Requests {
    use_of_target: Use,
    bytes: Vec<u8>,
    count: usize,
}

/// What the target is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Clients use it, or will: only items whose keys they have not changed are stored, and they
    /// are removed if the copy fails.
    Member,
    /// No client uses it: it has the items of the source, and keeps them if the source is lost.
    Standby,
}

impl Requests {
    pub(super) fn new(use_of_target: Use) -> Self {
        Self { use_of_target, bytes: Vec::new(), count: 0 }
    }

    /// Appends the store of an item. `exptime` is that of the protocol.
    pub(super) fn store(&mut self, key: &[u8], value: &[u8], flags: u32, exptime: i64) {
        self.bytes.extend_from_slice(b"ms ");
        let is_binary = push_key(&mut self.bytes, key);
        let mode = match self.use_of_target {
            Use::Member => "ME",
            Use::Standby => "MS",
        };
        let words = format!(" {} {mode} T{exptime} F{flags} q", value.len());
        self.bytes.extend_from_slice(words.as_bytes());
        self.bytes.extend_from_slice(if is_binary { b" b\r\n" } else { b"\r\n" });
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(b"\r\n");
        self.count += 1;
    }

    /// Appends the removal of a copied item.
    pub(super) fn drop(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(b"md ");
        let is_binary = push_key(&mut self.bytes, key);
        self.bytes.extend_from_slice(if is_binary { b" q b\r\n" } else { b" q\r\n" });
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if the requests should be sent before others are added.
    pub(super) fn are_many(&self) -> bool {
        self.bytes.len() >= BYTES_MAX || self.count >= COUNT_MAX
    }
}

impl Target {
    /// Connects and begins the copy.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the copy. The message names the remedy.
    pub(super) fn begin(dialer: &Dialer, use_of_target: Use) -> Result<Self> {
        let mut connection = Connection::open(dialer)?;
        let address = connection.address().clone();
        if use_of_target == Use::Standby {
            return Ok(Self { connection, use_of_target, kept: 0, refused: 0 });
        }
        connection.send(format!("larder_warm {SILENCE_MS_MAX}\r\n").as_bytes())?;
        match connection.line()? {
            b"OK" => Ok(Self { connection, use_of_target, kept: 0, refused: 0 }),
            b"ERROR" => bail!("{address} does not know larder_warm: expected a current larderd"),
            line => bail!("{address} does not accept a copy: {}", shown(line)),
        }
    }

    /// Executes requests, and waits for all responses. Without requests this only tells the target
    /// that the copy continues.
    ///
    /// # Errors
    /// The connection has failed, or the target has ended the copy.
    pub(super) fn execute(&mut self, requests: &mut Requests) -> Result<()> {
        // The responses of quiet requests are few and short: the target never waits until they are
        // read.
        requests.bytes.extend_from_slice(b"mn\r\n");
        self.connection.send(&requests.bytes)?;
        requests.bytes.clear();
        requests.count = 0;
        let address = self.connection.address().clone();
        loop {
            match self.connection.line().with_context(|| format!("copying to {address}"))? {
                b"MN" => return Ok(()),
                b"NS" => self.kept += 1,
                line if line.starts_with(b"SERVER_ERROR the copy has ended") => {
                    bail!("{address}: {}", shown(line));
                }
                line if line.starts_with(b"SERVER_ERROR ") => self.refused += 1,
                line => bail!("{address}: unexpected response: {}", shown(line)),
            }
        }
    }

    /// Ends the copy.
    ///
    /// # Errors
    /// The connection has failed, or the target has ended the copy before.
    pub(super) fn end(&mut self) -> Result<()> {
        if self.use_of_target == Use::Standby {
            return Ok(());
        }
        self.connection.send(b"larder_warm end\r\n")?;
        let address = self.connection.address().clone();
        match self.connection.line()? {
            b"OK" => Ok(()),
            line => bail!("{address}: {}", shown(line)),
        }
    }
}

fn shown(line: &[u8]) -> String {
    line[..line.len().min(SHOWN_BYTES_MAX)].escape_ascii().to_string()
}

/// The longest time without a request, after which the target undoes the copy.
const SILENCE_MS_MAX: u32 = 5_000;

const BYTES_MAX: usize = 256 << 10;
const COUNT_MAX: usize = 1024;
const SHOWN_BYTES_MAX: usize = 200;
