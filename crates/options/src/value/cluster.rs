//! The name of `--cluster-dns`, and the names of servers.

use std::fmt;
use std::net::Ipv4Addr;

/// The DNS name of the servers of a cluster, and the port that they listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName {
    /// The name.
    pub host: String,
    /// The port of all servers.
    pub port: u16,
}

/// The form of the name, for errors and documents.
pub(crate) const CLUSTER_NAME_EXPECTED: &str =
    "a DNS name, which a colon and a port from 1 to 65535 may follow";

impl ClusterName {
    /// The port of a server whose port is not given.
    pub const PORT: u16 = 11211;

    /// Parses a name; `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Self::parse_port(port)?),
            None => (text, Self::PORT),
        };
        Self::is_host(host).then(|| Self { host: host.to_owned(), port })
    }

    /// Parses a port; `None` if it is not a number from 1 to 65535.
    pub fn parse_port(text: &str) -> Option<u16> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
    }

    /// True if the text can be a host name or is an IPv4 address. A text of digits and dots that is
    /// not an address is probably a part of one.
    pub fn is_host(text: &str) -> bool {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_number = |byte: u8| byte.is_ascii_digit() || byte == b'.';
        (1..=HOST_BYTES_MAX).contains(&text.len())
            && text.bytes().all(is_name)
            && (!text.bytes().all(is_number) || text.parse::<Ipv4Addr>().is_ok())
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The longest DNS name, with a dot at its end.
const HOST_BYTES_MAX: usize = 254;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_port() {
        for (text, shown) in [
            ("larder", "larder:11211"),
            ("larder.default.svc.cluster.local.:11212", "larder.default.svc.cluster.local.:11212"),
            ("_memcached._tcp.a-b", "_memcached._tcp.a-b:11211"),
            ("10.0.0.1", "10.0.0.1:11211"),
        ] {
            let name = ClusterName::parse(text).map(|name| name.to_string());
            assert_eq!(name.as_deref(), Some(shown), "{text:?}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        let long = "a".repeat(255);
        for text in [
            "", ":1", "a:", "a:0", "a:65536", "a:+1", "a:1:2", "a b", "a,b", "[::1]:1", "::1",
            "10.0.0", "1", "a/b", "a|b", "\u{e4}", &long,
        ] {
            assert_eq!(ClusterName::parse(text), None, "{text:?} is accepted");
        }
    }
}
