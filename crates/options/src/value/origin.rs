//! The address of an origin: the server whose items a near cache copies.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;

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

/// The form of an address, for errors and documents.
pub(crate) const ORIGIN_EXPECTED: &str =
    "host:port, [IPv6]:port, tls:host:port, or the path of a unix socket that begins with /";

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
