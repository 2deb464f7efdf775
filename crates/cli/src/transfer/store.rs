//! Sends items to a server.

use std::collections::VecDeque;

use anyhow::{Context, Result, bail};
use larder_dump::ReadEntry;
use larder_loadgen::argument::were;
use larder_loadgen::connect::dialer::Dialer;

use super::wire::{escaped, may_be_refused, push_key, takes_batches};
use crate::connection::{Broken, Connection, LOGIN_DEMANDED};

/// The outcomes of the items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Items that the server stored.
    pub(super) stored: u64,
    /// Bytes of keys and values that the server stored.
    pub(super) bytes: u64,
    /// Items that already existed in the server.
    pub(super) kept: u64,
    /// Items that exceed the server's limit for an item (`-I`).
    pub(super) too_large: u64,
    /// Items that the server refused for another reason.
    pub(super) refused: u64,
}

/// A request without a response.
#[derive(Debug)]
struct UnansweredRequest {
    key: Vec<u8>,
    bytes: u64,
}

/// Stores items, up to [`PENDING_MAX`] at a time.
#[derive(Debug)]
pub(super) struct Target {
    connection: Connection,
    overwrites: bool,
    /// Requests that are not sent yet.
    unsent: Vec<u8>,
    /// The items without a response, including those of requests that are not sent yet.
    pending: VecDeque<UnansweredRequest>,
    pending_max: usize,
    counts: Counts,
}

impl Target {
    /// Connects, and checks that the server stores by the meta protocol.
    ///
    /// # Errors
    /// The server cannot be reached, or does not respond like memcached from 1.6.10 on.
    pub(super) fn open(dialer: &Dialer, overwrites: bool) -> Result<Self> {
        let mut target = Self {
            connection: Connection::open(dialer)?,
            overwrites,
            unsent: Vec::new(),
            pending: VecDeque::new(),
            pending_max: PENDING_MAX,
            counts: Counts::default(),
        };
        target.check_dialect()?;
        if !takes_batches(&mut target.connection)? {
            target.pending_max = 1;
        }
        Ok(target)
    }

    /// Returns the counts of the items with a response.
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// Checks that the server understands `ms`: sends an item that expires immediately. A server
    /// without `ms` executes the value as a command. The value of this item is a harmless command,
    /// but the values of a dump could be any command.
    fn check_dialect(&mut self) -> Result<()> {
        self.connection.send(b"ms larder-import-probe 2 T-1 ME\r\nmn\r\nmn\r\n")?;
        let address = self.connection.address().clone();
        let line = self.connection.line()?;
        match line {
            b"HD" | b"NS" => {}
            b"CLIENT_ERROR unauthenticated" => {
                bail!("{address}: {LOGIN_DEMANDED}");
            }
            _ => bail!(
                "{address} does not store by the meta protocol; it answered: {}; expected larderd, \
                 or memcached 1.6.10 or newer",
                escaped(line).replace("\\x20", " ")
            ),
        }
        match self.connection.line()? {
            b"MN" => Ok(()),
            _ => Err(self.connection.foreign()),
        }
    }

    /// Begins an item. The caller passes its value to [`Target::push`]. Waits for responses to
    /// earlier items if too many are pending. Returns false if the server does not accept the key.
    pub(super) fn begin(&mut self, entry: &ReadEntry, exptime: i64) -> Result<bool> {
        if self.pending.len() >= self.pending_max {
            self.send()?;
            self.take_answers(self.pending_max / 2)?;
        }
        if may_be_refused(entry.key()) && !self.takes_key(entry.key())? {
            self.refuse(entry.key(), "the key in base64 is longer than the server accepts");
            return Ok(false);
        }
        self.unsent.extend_from_slice(b"ms ");
        let is_binary = push_key(&mut self.unsent, entry.key());
        let words = format!(" {} T{exptime} F{}", entry.value_bytes, entry.flags);
        self.unsent.extend_from_slice(words.as_bytes());
        let flags: [&[u8]; 2] = [if is_binary { b" b" } else { b"" }, self.mode()];
        flags.iter().for_each(|flag| self.unsent.extend_from_slice(flag));
        let bytes = u64::from(entry.value_bytes) + entry.key().len() as u64;
        self.pending.push_back(UnansweredRequest { key: entry.key().to_vec(), bytes });
        Ok(true)
    }

    /// Appends bytes to the value.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<()> {
        self.unsent.extend_from_slice(bytes);
        match self.unsent.len() {
            0..UNSENT_BYTES_MAX => Ok(()),
            _ => self.send(),
        }
    }

    /// Ends the value.
    pub(super) fn end(&mut self) -> Result<()> {
        self.push(b"\r\n")
    }

    /// Abandons the item whose value is incomplete. The server drops it when the connection is
    /// closed.
    pub(super) fn abandon(&mut self) -> Result<()> {
        self.pending.pop_back();
        // The requests before it are complete, so their responses are read first.
        self.send()?;
        self.take_answers(0)?;
        self.connection.reopen()?;
        self.unsent.clear();
        Ok(())
    }

    /// Waits for all responses.
    ///
    /// # Errors
    /// The connection ends before the last response.
    pub(super) fn finish(&mut self) -> Result<Counts> {
        self.send()?;
        self.take_answers(0)?;
        Ok(self.counts)
    }

    fn mode(&self) -> &'static [u8] {
        if self.overwrites { b"\r\n" } else { b" ME\r\n" }
    }

    /// Requests the item of a binary key to test whether the server accepts the key. A server that
    /// refuses the key of a store would execute the value as commands.
    fn takes_key(&mut self, key: &[u8]) -> Result<bool> {
        self.finish()?;
        let mut asked = b"mg ".to_vec();
        push_key(&mut asked, key);
        asked.extend_from_slice(b" b u\r\n");
        self.connection.send(&asked)?;
        Ok(matches!(self.connection.line()?, b"HD" | b"EN"))
    }

    fn send(&mut self) -> Result<()> {
        let sent = self.connection.send(&self.unsent);
        self.unsent.clear();
        sent.with_context(|| unanswered(self.pending.len()))
    }

    /// Reads responses until at most `pending_max` are missing.
    fn take_answers(&mut self, pending_max: usize) -> Result<()> {
        while self.pending.len() > pending_max {
            let Some(item) = self.pending.pop_front() else { break };
            let line = match self.connection.line() {
                Ok(line) => line,
                Err(Broken::Lost(reason)) => {
                    bail!("{reason}; {}", unanswered(self.pending.len() + 1));
                }
                Err(Broken::Other(error)) => return Err(error),
            };
            match line {
                b"HD" => {
                    self.counts.stored += 1;
                    self.counts.bytes += item.bytes;
                }
                b"NS" => self.counts.kept += 1,
                b"SERVER_ERROR object too large for cache" => self.counts.too_large += 1,
                _ if line.starts_with(b"SERVER_ERROR ") || line.starts_with(b"CLIENT_ERROR ") => {
                    let line = escaped(line).replace("\\x20", " ");
                    self.refuse(&item.key, &line);
                }
                _ => return Err(self.connection.foreign()),
            }
        }
        Ok(())
    }

    fn refuse(&mut self, key: &[u8], why: &str) {
        self.counts.refused += 1;
        match self.counts.refused {
            ..=SHOWN_MAX => eprintln!("larder: refused: {}: {why}", escaped(key)),
            more if more == SHOWN_MAX + 1 => eprintln!("larder: more items are refused"),
            _ => {}
        }
    }
}

fn unanswered(items: usize) -> String {
    format!("{} sent and not answered", were(items as u64, "item"))
}

/// Requests without a response. Their responses together are smaller than the buffers of a socket,
/// so that server and tool never wait for each other.
const PENDING_MAX: usize = 256;
const UNSENT_BYTES_MAX: usize = 64 << 10;
/// The number of refused items that are reported by name.
const SHOWN_MAX: u64 = 5;
