//! Requests to the server, and the interpretation of the replies.

use std::io::ErrorKind;
use std::sync::PoisonError;
use std::time::Duration;

use larder_item::Direction;
use larder_protocol::meta::client::Reply;

use super::ask::MetaRequest;
use super::connection::{Connection, ExchangeError};
use super::error::ClientError;
use super::hit::Hit;
use super::inner::Inner;

/// The outcome of a change. It was not done (`NotDone`) if its condition did not hold. With a cas
/// token in the request, the item may have another token (`Changed`) or be absent (`Missing`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExchangeOutcome {
    Done { cas: u64 },
    NotDone,
    Changed,
    Missing,
}

/// Maximum number of request bytes that are sent before the first reply is read. It is less than a
/// socket buffer, so that client and server cannot wait for each other.
const BYTES_AHEAD: usize = 16 << 10;

/// Number of new connections that may break during a read before the read fails.
const NEW_BROKEN_MAX: u32 = 1;

/// Largest value, in bytes, that is copied into one buffer with its request line.
const COPIED_BYTES_MAX: usize = 16 << 10;

/// Returns the metadata in the reply to a get.
fn hit(reply: &Reply<'_>) -> Hit {
    let mut hit = Hit::default();
    for word in reply.line.split(|byte| *byte == b' ').skip(2) {
        let Some((letter, token)) = word.split_first() else { continue };
        let token = std::str::from_utf8(token).unwrap_or_default();
        match letter {
            b'f' => hit.flags = token.parse().unwrap_or(0),
            b'c' => hit.cas = token.parse().unwrap_or(0),
            // Negative: no time limit.
            b't' => hit.ttl_secs = token.parse().ok(),
            b'X' => hit.stale = true,
            b'W' => hit.has_token = true,
            _ => {}
        }
    }
    hit
}

/// Returns the cas token in the reply to a store.
fn cas(reply: &Reply<'_>) -> u64 {
    let mut words = reply.line.split(|byte| *byte == b' ').skip(1);
    let token = words.find_map(|word| word.strip_prefix(b"c"));
    token.and_then(|token| std::str::from_utf8(token).ok()?.parse().ok()).unwrap_or(0)
}

/// Returns the error for an unexpected reply.
fn unexpected(reply: &Reply<'_>) -> ClientError {
    let line = reply.line.escape_ascii().to_string();
    let is_error = [&b"ER"[..], b"CL", b"SE"].contains(&&reply.code[..]);
    if is_error { ClientError::Server(line) } else { ClientError::Protocol(line) }
}

impl Inner {
    /// Requests a value from the server, and appends it to `out`.
    pub(super) fn fetch(
        &self,
        key: &[u8],
        ttl: Option<Option<Duration>>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Hit>, ClientError> {
        let mut lines = Vec::new();
        MetaRequest { words: " v f c t", ttl, ..MetaRequest::of(b"mg", key) }
            .write(None, &mut lines)?;
        self.ask(&[&lines], ttl.is_none(), |connection| {
            let reply = connection.reply()?;
            Ok(match (&reply.code, reply.value) {
                (b"VA", Some(value)) => {
                    out.extend_from_slice(value);
                    Ok(Some(hit(&reply)))
                }
                (b"EN", _) => Ok(None),
                _ => Err(unexpected(&reply)),
            })
        })?
    }

    /// Requests the values of the keys at the given positions, and passes the values that exist to
    /// `look`. Each batch of keys is one round trip.
    pub(super) fn fetch_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut places: &[usize],
        mut look: impl FnMut(usize, &[u8], &Hit),
    ) -> Result<(), ClientError> {
        while !places.is_empty() {
            let (mut lines, mut count) = (Vec::new(), 0);
            while count < places.len() && lines.len() < BYTES_AHEAD {
                let key = keys[places[count]].as_ref();
                MetaRequest { words: " v f c t", ..MetaRequest::of(b"mg", key) }
                    .write(None, &mut lines)?;
                count += 1;
            }
            let (batch, rest) = places.split_at(count);
            self.fetch_batch(&lines, batch, &mut look)?;
            places = rest;
        }
        Ok(())
    }

    fn fetch_batch(
        &self,
        lines: &[u8],
        places: &[usize],
        look: &mut impl FnMut(usize, &[u8], &Hit),
    ) -> Result<(), ClientError> {
        // If the connection breaks, the requests are sent again on a new connection.
        let mut looked_at = 0;
        self.ask(&[lines], true, |connection| {
            let mut outcome = Ok(());
            // Reads all replies, even after an error.
            for (at, place) in places.iter().enumerate() {
                let reply = connection.reply()?;
                match (&reply.code, reply.value) {
                    (b"VA", Some(value)) if at >= looked_at => look(*place, value, &hit(&reply)),
                    (b"VA", Some(_)) | (b"EN", _) => {}
                    _ => outcome = Err(unexpected(&reply)),
                }
                looked_at = looked_at.max(at + 1);
            }
            Ok(outcome)
        })?
    }

    pub(super) fn store(
        &self,
        ask: &MetaRequest<'_>,
        value: &[u8],
    ) -> Result<ExchangeOutcome, ClientError> {
        let mut lines = Vec::new();
        MetaRequest { words: " c", ..*ask }.write(Some(value), &mut lines)?;
        let parts: &[&[u8]] = match value.len() {
            ..=COPIED_BYTES_MAX => {
                lines.extend_from_slice(value);
                lines.extend_from_slice(b"\r\n");
                &[&lines]
            }
            _ => &[&lines, value, b"\r\n"],
        };
        self.ask(parts, false, |connection| {
            let reply = connection.reply()?;
            Ok(match &reply.code {
                b"HD" => Ok(ExchangeOutcome::Done { cas: cas(&reply) }),
                b"NS" => Ok(ExchangeOutcome::NotDone),
                b"EX" => Ok(ExchangeOutcome::Changed),
                b"NF" => Ok(ExchangeOutcome::Missing),
                _ => Err(unexpected(&reply)),
            })
        })?
    }

    /// Requests a change without a value. Returns false if the item is absent.
    pub(super) fn change(&self, ask: &MetaRequest<'_>) -> Result<bool, ClientError> {
        let mut lines = Vec::new();
        ask.write(None, &mut lines)?;
        self.ask(&[&lines], false, |connection| {
            let reply = connection.reply()?;
            Ok(match &reply.code {
                b"HD" => Ok(true),
                b"NF" | b"EN" => Ok(false),
                // The item's cas token differs from the token in the request.
                b"EX" if ask.cas.is_some() => Ok(false),
                _ => Err(unexpected(&reply)),
            })
        })?
    }

    pub(super) fn count(
        &self,
        key: &[u8],
        direction: Direction,
        delta: u64,
    ) -> Result<Option<u64>, ClientError> {
        let mut lines = Vec::new();
        let ask = MetaRequest {
            words: " v",
            delta: Some((direction, delta)),
            ..MetaRequest::of(b"ma", key)
        };
        ask.write(None, &mut lines)?;
        self.ask(&[&lines], false, |connection| {
            let reply = connection.reply()?;
            let number =
                reply.value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
            Ok(match (&reply.code, number) {
                (b"VA", Some(number)) => Ok(Some(number)),
                (b"NF", _) => Ok(None),
                _ => Err(unexpected(&reply)),
            })
        })?
    }

    /// Sends a request and reads its replies.
    ///
    /// A request that `changes_nothing` is sent again if a pooled connection breaks, since the
    /// server may have been restarted. If a new connection breaks, it is sent again once, since a
    /// server that was about to end may have accepted the connection.
    fn ask<T>(
        &self,
        parts: &[&[u8]],
        changes_nothing: bool,
        mut read: impl FnMut(&mut Connection) -> Result<T, ExchangeError>,
    ) -> Result<T, ClientError> {
        let mut new_broken = 0;
        loop {
            let (mut connection, is_new) = self.connection()?;
            if let Ok(mut hints) = self.hints.try_lock() {
                connection.take_along(&mut hints);
            }
            let sent = connection.send(parts).map_err(ExchangeError::Io);
            match sent.and_then(|()| read(&mut connection)) {
                Ok(answer) => {
                    self.put_back(connection);
                    return Ok(answer);
                }
                Err(ExchangeError::Protocol(line)) => return Err(ClientError::Protocol(line)),
                Err(ExchangeError::Io(error)) => {
                    // The other idle connections are to the same server, so they are probably
                    // broken as well.
                    self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    let is_late = error.kind() == ErrorKind::TimedOut;
                    new_broken += u32::from(is_new);
                    if new_broken > NEW_BROKEN_MAX || is_late || !changes_nothing {
                        return Err(error.into());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_a_reply_are_parsed_and_malformed_ones_ignored() {
        let read = |line: &'static [u8]| hit(&Reply { code: *b"VA", line, value: None });
        let expected = Hit {
            flags: 5,
            cas: 9,
            ttl_secs: Some(60),
            stale: true,
            has_token: true,
            is_local: false,
        };
        assert_eq!(read(b"VA 3 f5 c9 t60 X W"), expected);
        assert_eq!(read(b"VA 3 f-1 cx t-1  \xff"), Hit::default());
    }
}
