//! Fetches the items of a server.

use std::collections::VecDeque;
use std::io::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use larder_dump::{Entry, VALUE_BYTES_MAX, Writer};
use larder_loadgen::connect::dialer::Dialer;

use super::keys::KeyList;
use super::progress::{Pace, Progress};
use super::wire::{escaped, may_be_refused, push_key, takes_batches};
use crate::connection::{Broken, Connection};

/// The outcomes of the listed keys. The dump counts the items that are written.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Bytes of keys and values that were written.
    pub(super) bytes: u64,
    /// Items that did not exist any more when they were requested.
    pub(super) gone: u64,
    /// Items that are marked stale, or that a client is loading.
    pub(super) stale: u64,
    /// Items whose value the server could not send completely.
    pub(super) lost: u64,
    /// Items whose key memcached does not accept in its text protocol.
    pub(super) unreachable: u64,
}

/// The header of a hit.
struct Head {
    value_bytes: u32,
    flags: u32,
    ttl_secs: Option<u64>,
    is_stale: bool,
}

/// Requests items from a server, up to [`PENDING_MAX`] at a time.
#[derive(Debug)]
struct Fetcher {
    connection: Connection,
    /// The requested keys without a response.
    pending: VecDeque<Vec<u8>>,
    pending_max: usize,
    pending_bytes: usize,
    counts: Counts,
}

/// Writes the items of a server whose keys begin with `prefix`.
///
/// # Errors
/// The server cannot be reached, refuses, or stops answering; or the output cannot be written.
pub(super) fn export<W: Write>(
    dialer: &Dialer,
    prefix: &[u8],
    mut pace: Pace,
    writer: &mut Writer<W>,
    progress: &mut Progress,
) -> Result<Counts> {
    let mut keys = KeyList::begin(dialer)?;
    let mut fetcher = Fetcher::open(dialer)?;
    let (batch_max, mut listed) = (pace.batch_max(fetcher.pending_max.div_ceil(2)), 0);
    let (mut key, mut has_keys) = (Vec::new(), true);
    while has_keys || !fetcher.pending.is_empty() {
        let mut asked = Vec::new();
        let mut batch = 0;
        while has_keys && fetcher.has_room() && batch < batch_max {
            has_keys = keys.next(&mut key)?;
            listed += u64::from(has_keys);
            if has_keys && key.starts_with(prefix) {
                fetcher.ask(&key, &mut asked);
                batch += 1;
            }
            progress.show(listed, writer.items(), fetcher.counts.bytes);
        }
        pace.wait(batch);
        fetcher.connection.send(&asked)?;
        // Half of the responses are read before the next keys are requested, so that the server
        // always has requests to work on.
        let part = if has_keys && !pace.is_limited() { 2 } else { usize::MAX };
        fetcher.take_answers(fetcher.pending_max / part, PENDING_BYTES_MAX / part, writer)?;
    }
    fetcher.counts.lost += keys.unreadable();
    Ok(fetcher.counts)
}

impl Fetcher {
    fn open(dialer: &Dialer) -> Result<Self> {
        let mut connection = Connection::open(dialer)?;
        let pending_max = if takes_batches(&mut connection)? { PENDING_MAX } else { 1 };
        Ok(Self {
            connection,
            pending: VecDeque::new(),
            pending_max,
            pending_bytes: 0,
            counts: Counts::default(),
        })
    }

    fn has_room(&self) -> bool {
        self.pending.len() < self.pending_max && self.pending_bytes < PENDING_BYTES_MAX
    }

    fn ask(&mut self, key: &[u8], out: &mut Vec<u8>) {
        push_request(out, key);
        self.pending_bytes += key.len();
        self.pending.push_back(key.to_vec());
    }

    /// Reads responses until at most `keys_max` keys with at most `bytes_max` bytes are pending.
    fn take_answers<W: Write>(
        &mut self,
        keys_max: usize,
        bytes_max: usize,
        writer: &mut Writer<W>,
    ) -> Result<()> {
        while self.pending.len() > keys_max || self.pending_bytes > bytes_max {
            self.take_answer(writer)?;
        }
        Ok(())
    }

    /// Reads the response for the oldest key, and writes its item.
    fn take_answer<W: Write>(&mut self, writer: &mut Writer<W>) -> Result<()> {
        let Some(key) = self.pending.pop_front() else { return Ok(()) };
        self.pending_bytes -= key.len();
        let Some(head) = self.read_head(&key).with_context(|| escaped(&key))? else {
            return Ok(());
        };
        let value_bytes = head.value_bytes;
        let read = if head.is_stale {
            self.counts.stale += 1;
            self.connection.value(value_bytes, |_| Ok(()))
        } else {
            let deadline_unix_secs = head.ttl_secs.map(|ttl| now_unix_secs().saturating_add(ttl));
            let entry = Entry { key: &key, flags: head.flags, deadline_unix_secs, value_bytes };
            writer.begin(&entry).map_err(as_message)?;
            self.connection.value(value_bytes, |piece| writer.push(piece).map_err(as_message))
        };
        match read {
            Ok(()) if !head.is_stale => {
                self.counts.bytes += u64::from(value_bytes) + key.len() as u64;
            }
            Ok(()) => {}
            Err(Broken::Lost(_)) => {
                // A server that evicts a value while it sends this value can only close the
                // connection.
                writer.abandon().map_err(as_message)?;
                self.counts.lost += 1;
                self.ask_again()?;
            }
            Err(Broken::Other(error)) => return Err(error),
        }
        Ok(())
    }

    /// Opens a new connection and requests the pending keys again.
    fn ask_again(&mut self) -> Result<()> {
        self.connection.reopen()?;
        let mut asked = Vec::new();
        self.pending.iter().for_each(|key| push_request(&mut asked, key));
        Ok(self.connection.send(&asked)?)
    }

    /// Reads the first line of a response. Returns `None` on a miss.
    fn read_head(&mut self, key: &[u8]) -> Result<Option<Head>> {
        let line = self.connection.line()?;
        let mut words = line.split(|byte| *byte == b' ');
        match words.next().unwrap_or_default() {
            b"VA" => {
                let Some(head) = head_of(words) else { return Err(self.connection.foreign()) };
                Ok(Some(head))
            }
            b"EN" => {
                self.counts.gone += 1;
                Ok(None)
            }
            b"CLIENT_ERROR" if may_be_refused(key) => {
                self.counts.unreachable += 1;
                Ok(None)
            }
            b"ERROR" => {
                bail!(
                    "the server has no meta commands: expected larderd, or memcached 1.6.10 or \
                     newer"
                )
            }
            b"CLIENT_ERROR" | b"SERVER_ERROR" => {
                bail!("the server answered: {}", line.escape_ascii())
            }
            _ => Err(self.connection.foreign()),
        }
    }
}

/// Parses the words after `VA`.
fn head_of<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<Head> {
    let number = |word: &[u8]| std::str::from_utf8(word).ok()?.parse::<i64>().ok();
    let value_bytes = u32::try_from(number(words.next()?)?).ok()?;
    if value_bytes > VALUE_BYTES_MAX {
        return None;
    }
    let mut head = Head { value_bytes, flags: 0, ttl_secs: None, is_stale: false };
    for word in words {
        match word.split_first() {
            Some((b'f', flags)) => head.flags = u32::try_from(number(flags)?).ok()?,
            // -1 means that the item never expires.
            Some((b't', ttl)) => head.ttl_secs = u64::try_from(number(ttl)?).ok(),
            // `X`: the value is stale. `W` and `Z`: a client is loading a new value, and this one
            // may be empty.
            Some((b'X' | b'W' | b'Z', _)) => head.is_stale = true,
            _ => {}
        }
    }
    Some(head)
}

/// Appends the request for an item: its value, flags and TTL, without counting a use (`u`).
fn push_request(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"mg ");
    let is_binary = push_key(out, key);
    out.extend_from_slice(if is_binary { b" b v f t u\r\n" } else { b" v f t u\r\n" });
}

/// Returns the current Unix time in seconds.
pub(crate) fn now_unix_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Converts an error of the output to text, so that a closed pipe is not treated as success.
pub(super) fn as_message(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow::anyhow!("cannot write the dump: {error}")
}

/// Requests without a response. Together they are smaller than the buffers of two sockets, so that
/// server and tool never wait for each other.
const PENDING_MAX: usize = 256;
const PENDING_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn head(line: &str) -> Option<(u32, u32, Option<u64>, bool)> {
        let head = head_of(line.split(' ').map(str::as_bytes))?;
        Some((head.value_bytes, head.flags, head.ttl_secs, head.is_stale))
    }

    #[test]
    fn the_head_of_a_value_is_read() {
        assert_eq!(head("5 f7 t100"), Some((5, 7, Some(100), false)));
        assert_eq!(head("0 f4294967295 t-1 b"), Some((0, u32::MAX, None, false)));
        for mark in ["W", "X", "Z"] {
            assert_eq!(head(&format!("5 f0 t-1 {mark}")), Some((5, 0, None, true)));
        }
        for bad in ["", "x", "-1", "5 f-1", "5 fx", "5 tx", "1073741825 f0 t-1", "99999999999"] {
            assert_eq!(head(bad), None, "{bad:?}");
        }
    }
}
