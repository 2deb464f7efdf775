//! The table of all sockets, for `stats conns`. The worker of a socket updates its entry.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::Bound;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder_item::Second;

use crate::waker::Waker;

/// The entries of all sockets, in the order in which they are listed.
#[derive(Debug, Default)]
pub(crate) struct ConnTable {
    entries: Mutex<BTreeMap<Place, Arc<ConnStats>>>,
    /// How often connections were killed. Workers compare it with the number that they have
    /// handled.
    kill_count: AtomicU64,
}

/// The position of a socket in the list. The listening and UDP sockets come first. In memcached
/// they do so because they have the lowest descriptors. In Larder that is not certain: a start that
/// reads a directory closes files afterwards, and the first connections receive their lower
/// descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    is_connection: bool,
    pub(crate) descriptor: RawFd,
}

/// The entry of a socket in `stats conns`. One worker writes it; any thread reads it.
#[derive(Debug)]
pub(crate) struct ConnStats {
    ends: Ends,
    active: AtomicU32,
    stage: AtomicU8,
    is_killed: AtomicBool,
    /// Wakes the worker of the connection; `None` for sockets that are not connections.
    waker: Option<Arc<Waker>>,
    labels: Mutex<Labels>,
}

/// The user of a connection, and the name that its client has given it. Empty: none.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    pub(crate) user: Box<str>,
    pub(crate) name: Box<str>,
}

/// The endpoints of a socket.
#[derive(Clone, Debug)]
pub(crate) enum Ends {
    /// A listening TCP socket.
    ListeningTcp(SocketAddr),
    /// A listening unix socket.
    ListeningUnix(PathBuf),
    /// A UDP socket.
    Udp(SocketAddr),
    /// A TCP connection: the peer's address and the local address. Either may no longer be
    /// available.
    Tcp { peer: Option<SocketAddr>, local: Option<SocketAddr> },
    /// A unix connection, with the path that accepted it. Its peer has no address.
    Unix(PathBuf),
}

/// The current activity of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Waits for a command.
    Command,
    /// Waits for more of a value.
    Value,
    /// Skips an unwanted value.
    Swallow,
    /// Waits until the peer receives its responses.
    Answer,
    /// Sends watch lines.
    Watch,
}

impl ConnTable {
    /// Adds a socket. `waker` wakes the worker of a connection.
    pub(crate) fn add(
        &self,
        descriptor: RawFd,
        ends: Ends,
        waker: Option<Arc<Waker>>,
        now: Second,
    ) -> Arc<ConnStats> {
        let conn_stats = Arc::new(ConnStats {
            ends,
            active: AtomicU32::new(now),
            stage: AtomicU8::new(Stage::Command as u8),
            is_killed: AtomicBool::new(false),
            waker,
            labels: Mutex::default(),
        });
        let place = Place { is_connection: conn_stats.is_connection(), descriptor };
        let mut entries = self.entries();
        entries.insert(place, Arc::clone(&conn_stats));
        conn_stats
    }

    /// Removes a socket. Called before the socket is closed, because its number may be reused
    /// afterwards.
    pub(crate) fn remove(&self, descriptor: RawFd) {
        let mut entries = self.entries();
        for is_connection in [false, true] {
            entries.remove(&Place { is_connection, descriptor });
        }
    }

    /// Makes the worker of a connection close it. Returns the number of connections: 0 or 1.
    pub(crate) fn kill(&self, descriptor: RawFd) -> usize {
        let place = Place { is_connection: true, descriptor };
        let found = self.entries().get(&place).cloned();
        self.kill_all(found.into_iter().collect())
    }

    /// Makes the workers close all connections of a user. Returns the number of connections.
    pub(crate) fn kill_user(&self, name: &[u8]) -> usize {
        let is_of_user = |conn_stats: &&Arc<ConnStats>| {
            let user = conn_stats.labels().user;
            !user.is_empty() && user.as_bytes() == name
        };
        let found = self.entries().values().filter(is_of_user).cloned().collect();
        self.kill_all(found)
    }

    fn kill_all(&self, killed: Vec<Arc<ConnStats>>) -> usize {
        for conn_stats in &killed {
            conn_stats.is_killed.store(true, Relaxed);
        }
        // Pairs with the load of `kill_count`: a worker that sees the number sees the marks.
        self.kill_count.fetch_add(1, Release);
        for waker in killed.iter().filter_map(|conn_stats| conn_stats.waker.as_ref()) {
            waker.wake();
        }
        killed.len()
    }

    /// Returns how often connections were killed.
    pub(crate) fn kill_count(&self) -> u64 {
        // Pairs with the add of `kill_all`.
        self.kill_count.load(Acquire)
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Place, Arc<ConnStats>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the entry after `last`, or the first one.
    pub(crate) fn next(&self, last: Option<Place>) -> Option<(Place, Arc<ConnStats>)> {
        let entries = self.entries();
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let (place, conn_stats) = entries.range((from, Bound::Unbounded)).next()?;
        Some((*place, Arc::clone(conn_stats)))
    }
}

impl ConnStats {
    /// Records progress in this second.
    pub(crate) fn note_active(&self, now: Second) {
        self.active.store(now, Relaxed);
    }

    /// Records the stage.
    pub(crate) fn note_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
    }

    /// True if the connection must be closed.
    pub(crate) fn is_killed(&self) -> bool {
        self.is_killed.load(Relaxed)
    }

    /// Records the user and the name.
    pub(crate) fn set_labels(&self, labels: Labels) {
        *self.labels.lock().unwrap_or_else(PoisonError::into_inner) = labels;
    }

    /// Returns the user and the name.
    pub(crate) fn labels(&self) -> Labels {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the second of the last progress.
    pub(crate) fn active(&self) -> Second {
        self.active.load(Relaxed)
    }

    /// True for the socket of a client.
    fn is_connection(&self) -> bool {
        matches!(self.ends, Ends::Tcp { .. } | Ends::Unix(_))
    }

    /// Returns the IP address of a TCP connection's peer, if it is still available.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        match &self.ends {
            Ends::Tcp { peer, .. } => peer.map(|peer| peer.ip()),
            _ => None,
        }
    }

    /// True for a UDP socket.
    pub(crate) fn is_udp(&self) -> bool {
        matches!(self.ends, Ends::Udp(_))
    }

    /// Returns memcached's name of the stage. The connection that requests the list is executing a
    /// command.
    pub(crate) fn state(&self, asks: bool) -> &'static str {
        if matches!(self.ends, Ends::ListeningTcp(_) | Ends::ListeningUnix(_)) {
            return "conn_listening";
        }
        match self.stage.load(Relaxed) {
            _ if asks => "conn_parse_cmd",
            stage if stage == Stage::Value as u8 => "conn_nread",
            stage if stage == Stage::Swallow as u8 => "conn_swallow",
            stage if stage == Stage::Answer as u8 => "conn_mwrite",
            stage if stage == Stage::Watch as u8 => "conn_watch",
            _ => "conn_read",
        }
    }

    /// Returns the peer's address, or the address on which the socket listens.
    pub(crate) fn address(&self) -> String {
        match &self.ends {
            Ends::ListeningTcp(address) => of_tcp(address),
            Ends::ListeningUnix(path) => of_path(path),
            Ends::Udp(address) => with_family("udp", address),
            Ends::Tcp { peer: Some(peer), .. } => of_tcp(peer),
            // memcached's notation for a missing address.
            Ends::Tcp { peer: None, .. } | Ends::Unix(_) => "?:<AF 0>".to_owned(),
        }
    }

    /// Returns the address that accepted the connection; `None` if it is not a connection.
    pub(crate) fn listen_address(&self) -> Option<String> {
        match &self.ends {
            Ends::Tcp { local, .. } => local.as_ref().map(of_tcp),
            Ends::Unix(path) => Some(of_path(path)),
            Ends::ListeningTcp(_) | Ends::ListeningUnix(_) | Ends::Udp(_) => None,
        }
    }
}

fn of_tcp(address: &SocketAddr) -> String {
    with_family("tcp", address)
}

fn with_family(protocol: &str, address: &SocketAddr) -> String {
    match address {
        SocketAddr::V4(_) => format!("{protocol}:{address}"),
        SocketAddr::V6(address) => format!("{protocol}6:[{}]:{}", address.ip(), address.port()),
    }
}

fn of_path(path: &Path) -> String {
    format!("unix:{}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_have_memcacheds_format() {
        let conn_table = ConnTable::default();
        let [local, peer, v6] =
            ["0.0.0.0:11211", "127.0.0.1:7", "[::1]:7"].map(|text| text.parse().unwrap());
        conn_table.add(3, Ends::ListeningTcp(local), None, 1);
        conn_table.add(4, Ends::Udp(v6), None, 1);
        let conn_stats =
            conn_table.add(9, Ends::Tcp { peer: Some(v6), local: Some(peer) }, None, 1);
        conn_table.add(5, Ends::Unix("/tmp/s".into()), None, 1);
        conn_table.add(6, Ends::ListeningUnix("/tmp/s".into()), None, 1);
        conn_stats.note_active(7);
        conn_stats.note_stage(Stage::Value);
        let (mut shown, mut last) = (Vec::new(), None);
        while let Some((place, conn_stats)) = conn_table.next(last) {
            let descriptor = place.descriptor;
            let listen = conn_stats.listen_address().unwrap_or_default();
            let (state, active) = (conn_stats.state(descriptor == 5), conn_stats.active());
            shown.push(format!("{descriptor} {} {listen} {state} {active}", conn_stats.address()));
            last = Some(place);
        }
        assert_eq!(
            shown,
            [
                "3 tcp:0.0.0.0:11211  conn_listening 1",
                "4 udp6:[::1]:7  conn_read 1",
                "6 unix:/tmp/s  conn_listening 1",
                "5 ?:<AF 0> unix:/tmp/s conn_parse_cmd 1",
                "9 tcp6:[::1]:7 tcp:127.0.0.1:7 conn_nread 7",
            ]
        );
        conn_table.remove(9);
        conn_table.remove(3);
        let (first, _) = conn_table.next(None).unwrap();
        assert_eq!(first.descriptor, 4);
        assert!(conn_table.next(Some(Place { is_connection: true, descriptor: 5 })).is_none());
    }
}
