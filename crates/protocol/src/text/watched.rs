//! The log lines that the server writes to clients that have sent `watch`. Each line consists of a
//! stamp and one event.

use std::fmt::Display;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use super::dump::push_uri;

/// The result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchResult {
    /// The item does not exist.
    NotFound,
    /// The item exists.
    Found,
    /// The item was flushed.
    Flushed,
    /// The item has expired.
    Expired,
}

/// The result of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// The condition of the store did not hold.
    NotStored,
    /// The item was stored.
    Stored,
    /// The item has a different cas token.
    Exists,
    /// The item to change does not exist.
    NotFound,
    /// The item exceeds the item size limit.
    TooLarge,
    /// The server is out of memory.
    NoMemory,
}

/// The reason why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// An error of the client or the server.
    Error,
    /// The client closed it.
    Normal,
    /// It was idle for too long.
    IdleTimeout,
    /// The server is stopping.
    Shutdown,
}

/// The size class and the value length of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// The size class that memcached would use for it; 0 if the item does not exist.
    pub class: u8,
    /// Length of its value in bytes.
    pub value_bytes: usize,
}

/// Appends the stamp, the beginning of every line: time and line number.
pub fn stamp(out: &mut Vec<u8>, unix: Duration, number: u64) {
    push(out, format_args!("ts={}.{:06} gid={number} ", unix.as_secs(), unix.subsec_micros()));
}

/// Appends the rest of the line of a lookup.
pub fn item_get(out: &mut Vec<u8>, key: &[u8], sought: FetchResult, size: Size, connection: u64) {
    out.extend_from_slice(b"type=item_get key=");
    push_uri(out, key);
    let status = match sought {
        FetchResult::NotFound => "not_found",
        FetchResult::Found => "found",
        FetchResult::Flushed => "flushed",
        FetchResult::Expired => "expired",
    };
    let Size { class, value_bytes } = size;
    push(out, format_args!(" status={status} clsid={class} cfd={connection} size={value_bytes}\n"));
}

/// Appends the rest of the line of a store by `command`; `ttl_secs` is 0 for an item that does not
/// expire.
#[allow(clippy::too_many_arguments, reason = "each is a field of the line")]
pub fn item_store(
    out: &mut Vec<u8>,
    key: &[u8],
    outcome: StoreOutcome,
    command: &str,
    ttl_secs: u32,
    size: Size,
    connection: u64,
) {
    out.extend_from_slice(b"type=item_store key=");
    push_uri(out, key);
    let status = match outcome {
        StoreOutcome::NotStored => "not_stored",
        StoreOutcome::Stored => "stored",
        StoreOutcome::Exists => "exists",
        StoreOutcome::NotFound => "not_found",
        StoreOutcome::TooLarge => "too_large",
        StoreOutcome::NoMemory => "no_memory",
    };
    let Size { class, value_bytes } = size;
    push(
        out,
        format_args!(
            " status={status} cmd={command} ttl={ttl_secs} clsid={class} cfd={connection} size={value_bytes}\n"
        ),
    );
}

/// Appends the rest of the line of an eviction; `ttl_secs` is `None` for an item that does not
/// expire, `idle_secs` counts from its last use.
pub fn eviction(
    out: &mut Vec<u8>,
    key: &[u8],
    fetched: bool,
    ttl_secs: Option<u32>,
    idle_secs: u32,
    size: Size,
) {
    out.extend_from_slice(b"type=eviction key=");
    push_uri(out, key);
    let fetch = if fetched { "yes" } else { "no" };
    let ttl_secs = ttl_secs.map_or(-1, i64::from);
    let Size { class, value_bytes } = size;
    push(
        out,
        format_args!(
            " fetch={fetch} ttl={ttl_secs} la={idle_secs} clsid={class} size={value_bytes}\n"
        ),
    );
}

/// Appends the rest of the line of a deletion by `command`.
pub fn deleted(out: &mut Vec<u8>, key: &[u8], command: &str, size: Size) {
    out.extend_from_slice(b"type=deleted key=");
    push_uri(out, key);
    let Size { class, value_bytes } = size;
    push(out, format_args!(" cmd={command} clsid={class} size={value_bytes}\n"));
}

/// Appends the rest of the line of a new connection. `peer` is `None` for a unix socket.
pub fn connection_new(out: &mut Vec<u8>, peer: Option<SocketAddr>, connection: u64) {
    out.extend_from_slice(b"type=conn_new ");
    push_peer(out, peer);
    push(out, format_args!(" cfd={connection}\n"));
}

/// Appends the rest of the line of a closed connection.
pub fn connection_close(
    out: &mut Vec<u8>,
    peer: Option<SocketAddr>,
    closing: CloseReason,
    connection: u64,
) {
    out.extend_from_slice(b"type=conn_close ");
    push_peer(out, peer);
    let reason = match closing {
        CloseReason::Error => "error",
        CloseReason::Normal => "normal",
        CloseReason::IdleTimeout => "idle_timeout",
        CloseReason::Shutdown => "shutdown",
    };
    push(out, format_args!(" reason={reason} cfd={connection}\n"));
}

/// Appends the line that tells a slow client how many lines were left out. It has no stamp.
pub fn skipped(out: &mut Vec<u8>, count: u64) {
    push(out, format_args!("skipped={count}\n"));
}

fn push_peer(out: &mut Vec<u8>, peer: Option<SocketAddr>) {
    match peer {
        Some(peer) => {
            push(out, format_args!("rip={} rport={} transport=tcp", peer.ip(), peer.port()));
        }
        None => out.extend_from_slice(b"rip=unix rport=0 transport=local"),
    }
}

fn push(out: &mut Vec<u8>, words: impl Display) {
    write!(out, "{words}").expect("writing to a Vec cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        stamp(&mut out, Duration::from_micros(1_700_000_000_000_042), 7);
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    const STAMP: &str = "ts=1700000000.000042 gid=7 ";

    #[test]
    fn lines_match_those_of_memcached() {
        let size = Size { class: 1, value_bytes: 5 };
        let peer = Some("192.0.2.1:80".parse().unwrap());
        for (shown, expected) in [
            (
                line(|out| item_get(out, b"a b", FetchResult::Found, size, 24)),
                "type=item_get key=a%20b status=found clsid=1 cfd=24 size=5\n",
            ),
            (
                line(|out| item_store(out, b"k", StoreOutcome::Exists, "cas", 9, size, 24)),
                "type=item_store key=k status=exists cmd=cas ttl=9 clsid=1 cfd=24 size=5\n",
            ),
            (
                line(|out| eviction(out, b"k", true, None, 3, size)),
                "type=eviction key=k fetch=yes ttl=-1 la=3 clsid=1 size=5\n",
            ),
            (
                line(|out| deleted(out, b"k", "md", size)),
                "type=deleted key=k cmd=md clsid=1 size=5\n",
            ),
            (
                line(|out| connection_new(out, None, 24)),
                "type=conn_new rip=unix rport=0 transport=local cfd=24\n",
            ),
            (
                line(|out| connection_close(out, peer, CloseReason::IdleTimeout, 24)),
                "type=conn_close rip=192.0.2.1 rport=80 transport=tcp reason=idle_timeout cfd=24\n",
            ),
        ] {
            assert_eq!(shown, format!("{STAMP}{expected}"));
        }
    }
}
