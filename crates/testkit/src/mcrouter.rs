//! The requests that mcrouter, Facebook's router, sends to a backend, and a parser of replies that
//! is as strict as mcrouter's. mcrouter closes the connection, with all pending requests, at the
//! first unexpected byte; here that is an error.

use std::str;

use anyhow::{Context, Result, bail, ensure};

/// A request in mcrouter's form: one key, never `noreply`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// `get`, `gets`, `gat`, `gats`.
    Get {
        /// The key.
        key: String,
        /// True if the request also asks for the cas token.
        with_cas: bool,
        /// The new exptime.
        touch: Option<i32>,
    },
    /// `set`, `add`, `replace`, `append`, `prepend`, `cas`, `lease-set`.
    Store {
        /// The command.
        word: &'static str,
        /// The key.
        key: String,
        /// The token of a `cas` or of a lease.
        token: Option<u64>,
        /// The client's flags; a backend may store fewer bits.
        flags: u64,
        /// The exptime.
        exptime: i32,
        /// The value.
        value: Vec<u8>,
    },
    /// `delete`, with the exptime that some clients append.
    Delete {
        /// The key.
        key: String,
        /// The exptime; 0 is omitted.
        exptime: i32,
    },
    /// `incr`, `decr`.
    Count {
        /// The command.
        word: &'static str,
        /// The key.
        key: String,
        /// The amount.
        delta: u64,
    },
    /// `touch`; a client's -1 arrives as 4294967295.
    Touch {
        /// The key.
        key: String,
        /// The exptime.
        exptime: u32,
    },
    /// `lease-get`.
    LeaseGet {
        /// The key.
        key: String,
    },
    /// `metaget`.
    MetaGet {
        /// The key.
        key: String,
    },
    /// `version`, which probes a backend that was down.
    Version,
    /// `flush_all`.
    Flush {
        /// Delay in seconds.
        delay: Option<u32>,
    },
}

/// A reply that mcrouter accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An item.
    Hit {
        /// The client's flags.
        flags: u64,
        /// The value.
        value: Vec<u8>,
        /// The token.
        cas: Option<u64>,
    },
    /// A miss.
    Miss,
    /// A miss with a lease.
    Lease {
        /// The token for the `lease-set`.
        token: u64,
    },
    /// Metadata of an item.
    Meta,
    /// A status word.
    Word(String),
    /// The new number of a counter.
    Number(u64),
    /// The version.
    Version(String),
    /// The request was wrong.
    ClientError(String),
    /// The backend could not execute the request.
    ServerError(String),
}

impl Request {
    /// Appends the request's bytes.
    pub fn push_to(&self, out: &mut Vec<u8>) {
        let line = match self {
            Self::Get { key, with_cas, touch } => {
                let tail = if *with_cas { "s" } else { "" };
                match touch {
                    Some(exptime) => format!("gat{tail} {exptime} {key}"),
                    None => format!("get{tail} {key}"),
                }
            }
            Self::Store { word, key, token, flags, exptime, value } => {
                let bytes = value.len();
                match (*word, token) {
                    ("lease-set", Some(token)) => {
                        format!("lease-set {key} {token} {flags} {exptime} {bytes}")
                    }
                    (_, Some(token)) => format!("{word} {key} {flags} {exptime} {bytes} {token}"),
                    (_, None) => format!("{word} {key} {flags} {exptime} {bytes}"),
                }
            }
            Self::Delete { key, exptime: 0 } => format!("delete {key}"),
            Self::Delete { key, exptime } => format!("delete {key} {exptime}"),
            Self::Count { word, key, delta } => format!("{word} {key} {delta}"),
            Self::Touch { key, exptime } => format!("touch {key} {exptime}"),
            Self::LeaseGet { key } => format!("lease-get {key}"),
            Self::MetaGet { key } => format!("metaget {key}"),
            Self::Version => "version".into(),
            Self::Flush { delay: Some(secs) } => format!("flush_all {secs}"),
            Self::Flush { delay: None } => "flush_all".into(),
        };
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(b"\r\n");
        if let Self::Store { value, .. } = self {
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }

    /// Parses the reply to this request at the beginning of the received bytes. Returns the reply
    /// and its length, or `None` if the reply is incomplete.
    ///
    /// # Errors
    /// mcrouter would not accept the reply. The error shows the line.
    pub fn read_reply(&self, received: &[u8]) -> Result<Option<(Reply, usize)>> {
        let mut input = Input { received, at: 0 };
        let Some(line) = input.line()? else { return Ok(None) };
        let read = self.read_from(line, &mut input);
        let Some(reply) = read.with_context(|| format!("{line:?} answers {self:?}"))? else {
            return Ok(None);
        };
        Ok(Some((reply, input.at)))
    }

    fn read_from(&self, line: &str, input: &mut Input<'_>) -> Result<Option<Reply>> {
        if let Some(text) = line.strip_prefix("CLIENT_ERROR") {
            return Ok(Some(Reply::ClientError(text.into())));
        }
        if let Some(text) = line.strip_prefix("SERVER_ERROR") {
            return Ok(Some(Reply::ServerError(text.into())));
        }
        let words: &[&str] = match self {
            Self::Get { with_cas, .. } => return input.value(line, *with_cas, false),
            Self::LeaseGet { .. } => return input.value(line, false, true),
            Self::MetaGet { .. } => return input.meta(line),
            Self::Version => {
                let version = line.strip_prefix("VERSION ").context("no version")?;
                return Ok(Some(Reply::Version(version.into())));
            }
            Self::Count { .. } if line.starts_with(|first: char| first.is_ascii_digit()) => {
                return Ok(Some(Reply::Number(line.trim_end_matches(' ').parse()?)));
            }
            Self::Store { .. } => {
                &["STORED", "STALE_STORED", "NOT_STORED", "EXISTS", "NOT_FOUND", "DELETED"]
            }
            Self::Count { .. } => &["NOT_FOUND"],
            Self::Delete { .. } => &["DELETED", "NOT_FOUND"],
            Self::Touch { .. } => &["TOUCHED", "NOT_FOUND"],
            Self::Flush { .. } => &["OK"],
        };
        ensure!(words.contains(&line), "none of {words:?}");
        Ok(Some(Reply::Word(line.into())))
    }
}

/// The received bytes, and the number of bytes parsed.
struct Input<'a> {
    received: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    /// Returns the next line without its end, which may be a newline without a carriage return.
    fn line(&mut self) -> Result<Option<&'a str>> {
        let rest = &self.received[self.at..];
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        self.at += end + 1;
        let line = str::from_utf8(&rest[..end])?;
        Ok(Some(line.strip_suffix('\r').unwrap_or(line)))
    }

    /// Returns a block of `bytes` bytes and checks its end.
    fn block(&mut self, bytes: usize) -> Result<Option<&'a [u8]>> {
        let rest = &self.received[self.at..];
        if rest.len() < bytes + 2 {
            return Ok(None);
        }
        ensure!(&rest[bytes..bytes + 2] == b"\r\n", "no line end after {bytes} bytes of a value");
        self.at += bytes + 2;
        Ok(Some(&rest[..bytes]))
    }

    /// Parses the reply to a get. The reply to a `lease-get` is an item or a lease, never only
    /// `END`.
    fn value(&mut self, line: &str, with_cas: bool, leases: bool) -> Result<Option<Reply>> {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = match (words.as_slice(), with_cas, leases) {
            (["END"], _, false) => return Ok(Some(Reply::Miss)),
            (["VALUE", _key, flags, bytes], false, _) => {
                let Some(value) = self.block(bytes.parse()?)? else { return Ok(None) };
                Reply::Hit { flags: flags.parse()?, value: value.into(), cas: None }
            }
            (["VALUE", _key, flags, bytes, cas], true, _) => {
                let Some(value) = self.block(bytes.parse()?)? else { return Ok(None) };
                Reply::Hit { flags: flags.parse()?, value: value.into(), cas: Some(cas.parse()?) }
            }
            (["LVALUE", _key, token, flags, bytes], _, true) => {
                let _flags: u64 = flags.parse()?;
                let Some(_value) = self.block(bytes.parse()?)? else { return Ok(None) };
                Reply::Lease { token: token.parse()? }
            }
            _ => bail!("neither an item nor END"),
        };
        self.end(reply)
    }

    fn meta(&mut self, line: &str) -> Result<Option<Reply>> {
        if line == "END" {
            return Ok(Some(Reply::Miss));
        }
        let rest = line.strip_prefix("META ").context("no META")?;
        let (_key, facts) = rest.split_once(' ').context("no key")?;
        let facts: Vec<&str> = facts.split("; ").collect();
        let [age, exptime, from] = facts.as_slice() else { bail!("not three facts") };
        let age = age.strip_prefix("age: ").context("no age")?;
        ensure!(age == "unknown" || age.parse::<u32>().is_ok(), "no number of seconds");
        exptime.strip_prefix("exptime: ").context("no exptime")?.parse::<u32>()?;
        from.strip_prefix("from: ").context("no from")?;
        self.end(Reply::Meta)
    }

    /// Parses the line after an item.
    fn end(&mut self, reply: Reply) -> Result<Option<Reply>> {
        let Some(line) = self.line()? else { return Ok(None) };
        ensure!(line == "END", "{line:?} instead of END");
        Ok(Some(reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_reply_is_awaited() {
        let get = Request::Get { key: "k".into(), with_cas: false, touch: None };
        let reply = b"VALUE k 7 2\r\nab\r\nEND\r\nrest";
        for length in 0..reply.len() - 4 {
            assert_eq!(get.read_reply(&reply[..length]).expect("a beginning"), None, "{length}");
        }
        let hit = Reply::Hit { flags: 7, value: b"ab".into(), cas: None };
        assert_eq!(get.read_reply(reply).expect("a reply"), Some((hit, reply.len() - 4)));
    }

    #[test]
    fn a_reply_that_mcrouter_does_not_expect_is_an_error() {
        let get = Request::Get { key: "k".into(), with_cas: false, touch: None };
        let gets = Request::Get { key: "k".into(), with_cas: true, touch: None };
        let lease = Request::LeaseGet { key: "k".into() };
        let touch = Request::Touch { key: "k".into(), exptime: 0 };
        for (request, reply) in [
            (&get, "ERROR\r\n"),
            (&get, "VALUE k 0 1 9\r\na\r\nEND\r\n"),
            (&get, "VALUE k 0 1\r\nab\r\nEND\r\n"),
            (&get, "VALUE k 0 1\r\na\r\nSTORED\r\n"),
            (&gets, "VALUE k 0 1\r\na\r\nEND\r\n"),
            (&lease, "END\r\n"),
            (&touch, "STORED\r\n"),
            (&Request::Version, "1.6\r\n"),
        ] {
            assert!(request.read_reply(reply.as_bytes()).is_err(), "{reply:?} to {request:?}");
        }
    }
}
