//! Lists of servers, as clients receive them, and the order of their versions.

use std::collections::HashSet;
use std::fmt::{self, Write};
use std::net::IpAddr;

/// A server of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// The host name, or the IP address.
    pub(super) host: String,
    /// The IP address; `None` if only the name is known.
    pub(super) ip: Option<IpAddr>,
    pub(super) port: u16,
}

impl Node {
    /// Creates a server without a name.
    pub(super) fn of(ip: IpAddr, port: u16) -> Self {
        Self { host: ip.to_string(), ip: Some(ip), port }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}|", self.host)?;
        if let Some(ip) = self.ip {
            ip.fmt(f)?;
        }
        write!(f, "|{}", self.port)
    }
}

/// At least one server, in the form that clients receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    /// `host|ip|port`, with spaces between servers.
    text: String,
    count: usize,
}

/// The reason why servers are not a list.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodesError {
    #[error("it names no server")]
    None,
    #[error("it names more than {COUNT_MAX} servers")]
    Many,
    #[error("it names {0} twice")]
    Twice(String),
}

impl Nodes {
    /// Creates a list in the order of `nodes`.
    ///
    /// # Errors
    /// Fails without servers, with too many servers, or if a server is in the list twice.
    pub(super) fn of(nodes: &[Node]) -> Result<Self, NodesError> {
        if nodes.is_empty() {
            return Err(NodesError::None);
        }
        if nodes.len() > COUNT_MAX {
            return Err(NodesError::Many);
        }
        let (mut seen, mut text) = (HashSet::new(), String::new());
        for node in nodes {
            let host = (node.host.to_ascii_lowercase(), node.port);
            let ip = node.ip.map(|ip| (ip.to_string(), node.port)).filter(|ip| *ip != host);
            // Both are inserted, because `&` has no shortcut.
            let is_new = seen.insert(host) & ip.is_none_or(|ip| seen.insert(ip));
            if !is_new {
                return Err(NodesError::Twice(node.to_string()));
            }
            let space = if text.is_empty() { "" } else { " " };
            write!(text, "{space}{node}").expect("writing to a String cannot fail");
        }
        Ok(Self { text, count: nodes.len() })
    }
}

/// The source of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stamp {
    /// The file states the version.
    Given(u64),
    /// The Unix time of the change, in seconds. xmemcached reads versions of 31 bits, which fit
    /// until 2038.
    Time(u64),
}

/// A list with its version, as a client receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct List {
    nodes: Nodes,
    version: u64,
    stamp: Stamp,
    /// The version, and the servers.
    body: Box<[u8]>,
}

/// The reason why a list cannot follow the current one. Clients would ignore it.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its version {given} is not higher than {current}, the version of the current list, so clients \
     would ignore it; raise it"
)]
pub(super) struct OldVersion {
    given: u64,
    current: u64,
}

impl List {
    /// Creates the first list of a server.
    pub(super) fn first(nodes: Nodes, stamp: Stamp) -> Self {
        let (Stamp::Given(version) | Stamp::Time(version)) = stamp;
        Self::new(nodes, version.clamp(1, VERSION_MAX), stamp)
    }

    fn new(nodes: Nodes, version: u64, stamp: Stamp) -> Self {
        let body = format!("{version}\n{}\n", nodes.text).into_bytes().into();
        Self { nodes, version, stamp, body }
    }

    /// Returns the list that follows this one; `None` if it is the same.
    ///
    /// # Errors
    /// Fails if the file states a version that is too low.
    pub(super) fn next(&self, nodes: Nodes, stamp: Stamp) -> Result<Option<Self>, OldVersion> {
        let (is_same, current) = (nodes == self.nodes, self.version);
        let version = match stamp {
            Stamp::Given(given) if is_same && given == current => return Ok(None),
            Stamp::Given(given) if given <= current => return Err(OldVersion { given, current }),
            Stamp::Given(given) => given,
            Stamp::Time(_) if is_same => return Ok(None),
            // There may be several changes in a second, and the clock may have been set back.
            Stamp::Time(secs) => secs.max(current + 1).min(VERSION_MAX),
        };
        Ok(Some(Self::new(nodes, version, stamp)))
    }

    /// Returns the list to use after an upgrade, in which the predecessor had `handed`.
    ///
    /// # Errors
    /// Same as [`List::next`].
    pub(super) fn after(self, handed: Self) -> Result<Self, OldVersion> {
        let Self { nodes, stamp, .. } = self;
        let next = handed.next(nodes, stamp)?;
        Ok(next.unwrap_or(Self { stamp, ..handed }))
    }

    /// Reads the list that a predecessor has handed over; `None` if it has another form.
    pub(super) fn handed(body: &str) -> Option<Self> {
        let (version, text) = body.strip_suffix('\n')?.split_once('\n')?;
        let version = version.parse().ok().filter(|version| (1..=VERSION_MAX).contains(version))?;
        let is_node = |node: &str| node.split('|').count() == 3;
        if !text.split(' ').all(is_node) {
            return None;
        }
        let nodes = Nodes { text: text.to_owned(), count: text.split(' ').count() };
        Some(Self::new(nodes, version, Stamp::Time(version)))
    }

    /// Returns the version, and the servers, in the form that clients receive.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Returns the version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Returns the number of servers, at least 1.
    pub(crate) fn count(&self) -> usize {
        self.nodes.count
    }
}

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = crate::words::CountedNoun(self.nodes.count as u64, "server");
        write!(f, "{count}, version {}", self.version)
    }
}

/// The longest list. A list of host names is bounded by the length of its file.
pub(super) const COUNT_MAX: usize = 1024;

/// The highest version. Clients read it as a signed number.
pub(super) const VERSION_MAX: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(ports: &[u16]) -> Nodes {
        let node = |port: &u16| Node::of([10, 0, 0, 1].into(), *port);
        Nodes::of(&ports.iter().map(node).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_version_grows_whenever_the_servers_change() {
        let first = List::first(nodes(&[1]), Stamp::Time(100));
        assert_eq!(first.body(), b"100\n10.0.0.1|10.0.0.1|1\n");
        assert_eq!(first.next(nodes(&[1]), Stamp::Time(200)), Ok(None), "only the time differs");
        let second = first.next(nodes(&[1, 2]), Stamp::Time(200)).unwrap().unwrap();
        assert_eq!(second.body(), b"200\n10.0.0.1|10.0.0.1|1 10.0.0.1|10.0.0.1|2\n");
        let third = second.next(nodes(&[1]), Stamp::Time(150)).unwrap().unwrap();
        assert_eq!(third.version(), 201, "the clock was set back");
    }

    #[test]
    fn a_stated_version_must_grow() {
        let list = List::first(nodes(&[1]), Stamp::Given(7));
        let too_low = |given| Err(OldVersion { given, current: 7 });
        assert_eq!(list.next(nodes(&[1]), Stamp::Given(7)), Ok(None));
        assert_eq!(list.next(nodes(&[2]), Stamp::Given(7)), too_low(7));
        assert_eq!(list.next(nodes(&[1]), Stamp::Given(6)), too_low(6));
        assert_eq!(list.next(nodes(&[1]), Stamp::Given(8)).unwrap().unwrap().version(), 8);
    }

    #[test]
    fn a_successor_continues_the_versions_of_its_predecessor() {
        let of = |ports: &[u16], stamp| List::first(nodes(ports), stamp);
        let handed = List::handed("300\n10.0.0.1|10.0.0.1|1\n").unwrap();
        let version = |list: List| list.after(handed.clone()).map(|list| list.version());
        assert_eq!(version(of(&[1], Stamp::Time(100))), Ok(300));
        assert_eq!(version(of(&[1], Stamp::Time(900))), Ok(300));
        assert_eq!(version(of(&[2], Stamp::Time(100))), Ok(301));
        assert_eq!(version(of(&[2], Stamp::Time(900))), Ok(900));
        assert_eq!(version(of(&[1], Stamp::Given(300))), Ok(300));
        assert!(version(of(&[2], Stamp::Given(300))).is_err());
        for other in ["", "\n", "300\n\n", "300\na|b\n", "x\na|b|1\n", "0\na|b|1\n", "300\na||1"] {
            assert_eq!(List::handed(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_server_is_in_a_list_once() {
        let node =
            |host: &str, ip: [u8; 4]| Node { host: host.into(), ip: Some(ip.into()), port: 1 };
        let (a, b) = (node("a", [10, 0, 0, 1]), node("b", [10, 0, 0, 1]));
        let twice = |nodes: &[Node]| matches!(Nodes::of(nodes), Err(NodesError::Twice(_)));
        assert!(twice(&[a.clone(), b]), "the same address");
        assert!(twice(&[a.clone(), node("A", [10, 0, 0, 2])]), "the same name");
        assert!(!twice(&[a.clone(), Node { port: 2, ..a }]), "another port");
        assert_eq!(Nodes::of(&[]), Err(NodesError::None));
    }
}
