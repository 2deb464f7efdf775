//! The origins of a near cache: the servers whose items it copies.

use std::fmt;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// An origin: an address, and the share of the keys that it owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The address.
    pub address: OriginAddress,
    /// The share of the keys, in relation to the weights of the other origins.
    pub weight: u32,
}

/// The address of an origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginAddress {
    /// A host name or IP address, without brackets, and a port.
    Tcp {
        /// The host name or IP address.
        host: String,
        /// The port.
        port: u16,
        /// True if the connection is encrypted.
        has_tls: bool,
    },
    /// The path of a unix socket.
    Unix(PathBuf),
}

/// The form of a list of origins, for errors and documents.
pub(crate) const ORIGINS_EXPECTED: &str = "host:port, [IPv6]:port, tls:host:port, or the path of a unix socket that begins with /; a \
     weight from 1 to 65535 may follow after a colon; up to 64 of these, with commas between them";

/// The maximum number of origins. Each has a thread with its connections.
const ORIGINS_MAX: usize = 64;

const WEIGHTS: RangeInclusive<u32> = 1..=65535;

impl Origin {
    /// Parses a list with commas; `None` if it has another form, or is empty.
    pub fn parse_list(text: &str) -> Option<Vec<Self>> {
        let origins = text.split(',').map(Self::parse).collect::<Option<Vec<_>>>()?;
        (origins.len() <= ORIGINS_MAX).then_some(origins)
    }

    /// Parses an address, which a weight may follow.
    fn parse(text: &str) -> Option<Self> {
        let with_weight = || {
            let (address, weight) = text.rsplit_once(':')?;
            Some(Self { address: OriginAddress::parse(address)?, weight: Self::weight(weight)? })
        };
        let alone = || Some(Self { address: OriginAddress::parse(text)?, weight: 1 });
        // A path may contain colons, and an address with a weight is no address.
        if text.starts_with('/') {
            with_weight().or_else(alone)
        } else {
            alone().or_else(with_weight)
        }
    }

    /// Parses a weight.
    pub fn weight(text: &str) -> Option<u32> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().filter(|weight| WEIGHTS.contains(weight))
    }
}

impl OriginAddress {
    /// Parses an address; `None` if it has another form.
    pub fn parse(text: &str) -> Option<Self> {
        if text.starts_with('/') {
            return (!text.contains('\0')).then(|| Self::Unix(text.into()));
        }
        let (place, has_tls) = match text.strip_prefix("tls:") {
            Some(place) => (place, true),
            None => (text, false),
        };
        let (host, port) = place.rsplit_once(':')?;
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = digits.then(|| port.parse().ok()).flatten().filter(|port| *port > 0)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(address) => address.parse::<Ipv6Addr>().ok()?.to_string(),
            None => host.to_owned(),
        };
        let is_name = |byte: u8| byte.is_ascii_graphic() && !b",;/[]@".contains(&byte);
        let is_host = !host.is_empty() && host.bytes().all(is_name);
        let is_bare = !host.contains(':') || place.starts_with('[');
        (is_host && is_bare).then_some(Self::Tcp { host, port, has_tls })
    }

    /// Returns the name under which libmemcached places this server among others: `host` if the
    /// port is memcached's own, otherwise `host:port`, and `path:0` for a unix socket.
    pub fn ketama_name(&self) -> String {
        match self {
            Self::Unix(path) => format!("{}:0", path.display()),
            Self::Tcp { host, port: MEMCACHED_PORT, .. } => host.clone(),
            Self::Tcp { host, port, .. } => format!("{host}:{port}"),
        }
    }

    /// True if the connection is encrypted.
    pub fn has_tls(&self) -> bool {
        matches!(self, Self::Tcp { has_tls: true, .. })
    }
}

impl fmt::Display for OriginAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => path.display().fmt(f),
            Self::Tcp { host, port, has_tls } => {
                let tls = if *has_tls { "tls:" } else { "" };
                match host.contains(':') {
                    true => write!(f, "{tls}[{host}]:{port}"),
                    false => write!(f, "{tls}{host}:{port}"),
                }
            }
        }
    }
}

const MEMCACHED_PORT: u16 = 11211;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_it_is_written() {
        for text in [
            "localhost:11211",
            "127.0.0.1:1",
            "[::1]:11211",
            "tls:cache.internal:11211",
            "tls:[fe80::1]:2",
            "/run/larder.sock",
        ] {
            let shown = OriginAddress::parse(text).map(|address| address.to_string());
            assert_eq!(shown.as_deref(), Some(text));
        }
    }

    #[test]
    fn a_list_has_addresses_with_and_without_weights() {
        let origins = Origin::parse_list("a:1,[::1]:11211:3,tls:c:2:65535,/run/d,/run/e.sock:7");
        let shown = origins.map(|origins| {
            let shown = |origin: Origin| format!("{} {}", origin.address, origin.weight);
            origins.into_iter().map(shown).collect::<Vec<_>>()
        });
        let expected = ["a:1 1", "[::1]:11211 3", "tls:c:2 65535", "/run/d 1", "/run/e.sock 7"];
        assert_eq!(shown, Some(expected.map(str::to_owned).into()));
        for text in
            ["", "a:1,", ",a:1", "a:1,,b:1", "a:1:0", "a:1:65536", "a:1:-1", "a:1:", "a:1:2:3"]
        {
            assert_eq!(Origin::parse_list(text), None, "{text:?} is accepted");
        }
        let list = |count| vec!["a:1"; count].join(",");
        assert!(Origin::parse_list(&list(64)).is_some());
        assert_eq!(Origin::parse_list(&list(65)), None);
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "host",
            "host:",
            ":11211",
            "host:0",
            "host:65536",
            "host:+1",
            "::1:11211",
            "[::1]",
            "[x]:1",
            "a,b:1",
            "a b:1",
            "run/sock",
            "user@host:1",
            "tls:",
            "tls:/run/sock",
        ] {
            assert_eq!(OriginAddress::parse(text), None, "{text:?} is accepted");
        }
    }
}
