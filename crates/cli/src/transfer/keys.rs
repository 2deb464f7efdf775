//! Lists the keys of a server.

use anyhow::{Result, bail};
use larder_loadgen::connect::dialer::Dialer;

use super::wire::escaped;
use crate::connection::{Broken, Connection};

/// The keys of a server, listed on a separate connection. The server lists them as fast as they are
/// read. During the list it keeps a position in its index, but holds no lock.
#[derive(Debug)]
pub(crate) struct KeyList {
    connection: Connection,
    has_ended: bool,
    unreadable: u64,
    /// When the item of the last key was stored or read, as a Unix time; 0 if it is unknown.
    last_used: u64,
}

impl KeyList {
    /// Requests the list.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub(crate) fn begin(dialer: &Dialer) -> Result<Self> {
        let mut connection = Connection::open(dialer)?;
        connection.send(b"lru_crawler metadump all\r\n")?;
        Ok(Self { connection, has_ended: false, unreadable: 0, last_used: 0 })
    }

    /// The number of items that are missing in the list because the server's disk did not return
    /// them. Valid after the last key.
    pub(crate) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Returns when the item of the last key was stored or read, as a Unix time; 0 if it is
    /// unknown.
    pub(crate) fn last_used(&self) -> u64 {
        self.last_used
    }

    /// Replaces `key` with the next key, and returns false at the end.
    ///
    /// # Errors
    /// The server refuses the list, or ends it early.
    pub(crate) fn next(&mut self, key: &mut Vec<u8>) -> Result<bool> {
        while !self.has_ended {
            let line = self.connection.line().map_err(|error| match error {
                Broken::Lost(reason) => anyhow::anyhow!("cannot list the keys: {reason}"),
                Broken::Other(error) => error,
            })?;
            match line {
                // memcached 1.6.18 does not send the first line.
                b"OK" => {}
                b"END" => self.has_ended = true,
                _ if unreadable(line).is_some() => {
                    (self.has_ended, self.unreadable) = (true, unreadable(line).unwrap_or(0));
                }
                _ if line.starts_with(b"key=") => {
                    self.last_used = last_used_of(line);
                    match decode(&line[4..], key) {
                        true => return Ok(true),
                        false => return Err(self.connection.foreign()),
                    };
                }
                _ => {
                    let line = escaped(line).replace("\\x20", " ");
                    bail!(
                        "{} does not list keys: {line}{}",
                        self.connection.address(),
                        remedy(&line)
                    );
                }
            }
        }
        Ok(false)
    }
}

/// Returns the number of missing items from the last line of an incomplete list.
fn unreadable(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"SERVER_ERROR the disk did not return ")?;
    str::from_utf8(rest.strip_suffix(b" items")?).ok()?.parse().ok()
}

fn remedy(line: &str) -> &'static str {
    match line {
        _ if line.contains("not allowed") => "; it was started with -X, which forbids it",
        _ if line.starts_with("BUSY") => "; another crawl or dump is in progress: try again later",
        _ if line.contains("disabled") => "; enable the crawler: lru_crawler enable",
        _ if line.contains("unauthenticated") => {
            "; it requires a login (-Y): give --user NAME and --password-file FILE"
        }
        "ERROR" => "; it is older than memcached 1.4.31",
        _ => "",
    }
}

/// Returns the time of the last use in a line of the list; 0 if there is none.
fn last_used_of(line: &[u8]) -> u64 {
    let mut words = line.split(|byte| *byte == b' ');
    let time = words.find_map(|word| word.strip_prefix(b"la="));
    time.and_then(|time| str::from_utf8(time).ok()?.parse().ok()).unwrap_or(0)
}

/// Decodes the URI encoding of a key up to the first space. Returns false if the encoding is
/// invalid.
fn decode(text: &[u8], key: &mut Vec<u8>) -> bool {
    key.clear();
    let mut bytes = text.iter().copied().take_while(|byte| *byte != b' ');
    while let Some(byte) = bytes.next() {
        let decoded = match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else { return false };
                (high << 4 | low) as u8
            }
            _ => byte,
        };
        key.push(decoded);
    }
    (1..=250).contains(&key.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_list_that_lacks_items_says_how_many() {
        let line = |text: &str| unreadable(format!("SERVER_ERROR {text}").as_bytes());
        assert_eq!(line("the disk did not return 3 items"), Some(3));
        assert_eq!(line("the disk did not return -3 items"), None);
        assert_eq!(line("out of memory"), None);
    }

    #[test]
    fn keys_are_decoded_up_to_the_first_space() {
        let mut key = Vec::new();
        assert!(decode(b"a%20b%0A%ff~%25 exp=-1 la=7", &mut key));
        assert_eq!(key, b"a b\n\xff~%");
        for bad in [&b""[..], b" exp=-1", b"a%2", b"a%", b"%g0 ", &[b'k'; 251]] {
            assert!(!decode(bad, &mut key), "{bad:?}");
        }
    }
}
