//! Slow requests (`--log-slower-than`): a line of the log for each, and a list of the latest ones.
//!
//! The time of a request runs from the moment at which its worker learned of it until its response
//! is handed over to the kernel. So it includes the wait for the worker, for the disk, and for
//! durability. It does not include the time that a client needs to send a value, or to receive the
//! response. Requests that arrive together are answered together. They count as one, which is named
//! after the request that ran for the longest time.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use larder_stats::{Counter, Counters};
use serde_json::{Map, Value};

use crate::clock::{Rfc3339, monotonic_ns};
use crate::log;
use crate::words::insert_bytes;

/// The threshold and the latest slow requests.
#[derive(Debug)]
pub(crate) struct SlowRequests {
    slower_than: Duration,
    /// At most [`LATEST_MAX`], the newest last.
    latest: Mutex<VecDeque<Arc<SlowRequest>>>,
}

/// Requests that are answered together, as measured before the response is handed over.
#[derive(Debug, Default)]
pub(crate) struct TimedRequests {
    /// When the worker learned of them: the time at which its wait for events returned.
    pub(crate) arrived_ns: u64,
    /// Their number. Each key of a list counts.
    pub(crate) count: u32,
    /// The one that ran for the longest time.
    pub(crate) longest: TimedRequest,
}

/// A request that has been executed.
#[derive(Debug, Default)]
pub(crate) struct TimedRequest {
    pub(crate) command: &'static str,
    /// Empty for a command without a key.
    pub(crate) key: Vec<u8>,
    /// Length of the value of a store, otherwise of the response.
    pub(crate) bytes: u64,
    /// How long it was executed, including its waits for the disk.
    pub(crate) run_ns: u64,
}

/// The client that sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// A connection of this number, as in the log.
    Connection(i32, Peer),
    /// The sender of a datagram.
    Datagram(SocketAddr),
}

/// The peer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    Address(SocketAddr),
    UnixSocket,
    /// The peer has closed the connection.
    Gone,
}

/// A slow request.
#[derive(Debug)]
pub(crate) struct SlowRequest {
    at: Rfc3339,
    duration_ns: u64,
    requests: TimedRequests,
    client: Client,
}

impl SlowRequests {
    pub(crate) fn new(slower_than: Duration) -> Self {
        Self { slower_than, latest: Mutex::default() }
    }

    /// Returns the time from which a request is slow.
    pub(crate) fn slower_than(&self) -> Duration {
        self.slower_than
    }

    /// Logs and lists requests whose response is handed over now, if they were slow.
    #[cold]
    pub(crate) fn judge(
        &self,
        requests: TimedRequests,
        counters: &Counters,
        client: impl FnOnce() -> Client,
    ) {
        let duration_ns = monotonic_ns().saturating_sub(requests.arrived_ns);
        if u128::from(duration_ns) < self.slower_than.as_nanos() {
            return;
        }
        let slow = SlowRequest { at: Rfc3339::now(), duration_ns, requests, client: client() };
        log::warn_with(format_args!("larderd: slow request: {slow}"), || slow.members(true));
        let mut latest = self.lock();
        if latest.len() == LATEST_MAX {
            latest.pop_front();
        }
        latest.push_back(Arc::new(slow));
        // Last, because the status page reads the list after the number has changed.
        counters.bump(Counter::SlowRequests);
    }

    /// Returns the latest slow requests, the newest first.
    pub(crate) fn list(&self) -> Vec<Arc<SlowRequest>> {
        self.lock().iter().rev().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<SlowRequest>>> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SlowRequest {
    /// Returns when its response was handed over.
    pub(crate) fn at(&self) -> Rfc3339 {
        self.at
    }

    /// Returns its key; empty for a command without a key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.requests.longest.key
    }

    /// Returns its fields as members of a JSON object. A key that is not valid UTF-8 is in base64.
    pub(crate) fn members(&self, has_key: bool) -> Map<String, Value> {
        let Self { duration_ns, requests, client, .. } = self;
        let TimedRequests { count, longest, .. } = requests;
        let mut members = Map::new();
        let mut insert = |name: &str, value: Value| members.insert(name.to_owned(), value);
        insert("duration_us", (duration_ns / 1000).into());
        insert("run_us", (longest.run_ns / 1000).into());
        insert("command", longest.command.into());
        insert("bytes", longest.bytes.into());
        insert("requests", (*count).into());
        match client {
            Client::Connection(number, peer) => {
                insert("peer", peer.to_string().into());
                insert("connection", (*number).into());
            }
            Client::Datagram(peer) => {
                insert("peer", format!("udp {peer}").into());
            }
        }
        if has_key && !longest.key.is_empty() {
            insert_bytes(&mut members, "key", &longest.key);
        }
        members
    }
}

impl fmt::Display for SlowRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { duration_ns, requests, client, .. } = self;
        let TimedRequests { count, longest, .. } = requests;
        let ms = |ns: u64| ns as f64 / 1e6;
        write!(f, "{:.3} ms for {}", ms(*duration_ns), longest.command)?;
        if !longest.key.is_empty() {
            let shown = &longest.key[..longest.key.len().min(KEY_BYTES_SHOWN)];
            let more = if shown.len() < longest.key.len() { "..." } else { "" };
            write!(f, " {}{more}", shown.escape_ascii())?;
        }
        write!(f, ", which ran {:.3} ms, {} bytes", ms(longest.run_ns), longest.bytes)?;
        if *count > 1 {
            write!(f, ", with {} more requests", count - 1)?;
        }
        match client {
            Client::Connection(number, peer) => write!(f, ", from <{number} {peer}"),
            Client::Datagram(peer) => write!(f, ", from udp {peer}"),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::UnixSocket => f.write_str("unix"),
            Self::Gone => f.write_str("gone"),
        }
    }
}

/// How many slow requests are listed.
const LATEST_MAX: usize = 128;

/// Length to which a key in the text of a line is truncated.
const KEY_BYTES_SHOWN: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(key: &[u8], count: u32) -> TimedRequests {
        let longest =
            TimedRequest { command: "get", key: key.to_vec(), bytes: 5, run_ns: 1_234_567 };
        TimedRequests { arrived_ns: 0, count, longest }
    }

    #[test]
    fn only_the_latest_are_listed_and_all_are_counted() {
        let slow = SlowRequests::new(Duration::from_micros(1));
        let counters = Counters::default();
        for number in 0..200 {
            let key = format!("k{number}");
            slow.judge(timed(key.as_bytes(), 1), &counters, || Client::Connection(7, Peer::Gone));
        }
        let fast = TimedRequests { arrived_ns: u64::MAX, ..timed(b"fast", 1) };
        slow.judge(fast, &counters, || unreachable!("it was fast"));
        let list = slow.list();
        assert_eq!((list.len(), counters.read(Counter::SlowRequests)), (LATEST_MAX, 200));
        assert_eq!((list[0].key(), list[127].key()), (&b"k199"[..], &b"k72"[..]));
        assert_eq!(list[0].members(true)["key"], "k199");
        assert!(!list[0].members(false).contains_key("key"));
    }

    #[test]
    fn a_line_shows_no_byte_that_a_terminal_obeys() {
        let client = Client::Connection(7, Peer::Address(([127, 0, 0, 1], 9).into()));
        let key = [&b"\"\n\x1b\xff"[..], &[b'k'; 246]].concat();
        let requests = timed(&key, 3);
        let slow = SlowRequest { at: Rfc3339::now(), duration_ns: 12_345_678, requests, client };
        let shown = slow.to_string();
        let begin = r#"12.346 ms for get \"\n\x1b\xffkkk"#;
        let end = "kkk..., which ran 1.235 ms, 5 bytes, with 2 more requests, from <7 127.0.0.1:9";
        assert!(shown.starts_with(begin) && shown.ends_with(end), "{shown}");
        assert!(slow.members(true).contains_key("key_base64"));
    }
}
