//! Server addresses and the `--server` option.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

use crate::argument::Quoted;

/// The address of a server. A host name is not resolved yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A host name or IP address, and a port.
    Tcp {
        /// The host name or IP address, without brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket.
    Unix(PathBuf),
}

/// The `--server` option of every subcommand that talks to one server.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArgument {
    /// The address of the server.
    #[arg(
        short,
        long,
        value_name = "ADDR",
        default_value_t,
        help = "The server: host[:port], [IPv6][:port], or the path of a Unix socket; the default \
                port is 11211"
    )]
    pub server: Address,
}

impl Default for Address {
    /// Returns the address at which larderd and memcached listen by default, on this machine.
    fn default() -> Self {
        Self::Tcp { host: "127.0.0.1".to_owned(), port: PORT }
    }
}

impl Address {
    /// Parses an address that must include the port, because the listener has no default port.
    ///
    /// # Errors
    /// The text is not an address, or has no port; the message names the expected form.
    pub fn with_port(text: &str) -> Result<Self, String> {
        Self::parse(text, None)
    }

    /// Returns a remedy for the case that no server accepts connections at this address.
    pub fn hint(&self) -> String {
        match self {
            Self::Tcp { host, .. } if !is_this_machine(host) => {
                "is larderd running there, and does it listen on that address (-l)?".to_owned()
            }
            Self::Tcp { port: PORT, .. } => format!("{IS_IT_RUNNING}larderd"),
            Self::Tcp { port, .. } => format!("{IS_IT_RUNNING}larderd -p {port}"),
            Self::Unix(path) => format!("{IS_IT_RUNNING}larderd -s {}", path.display()),
        }
    }

    fn parse(text: &str, default_port: Option<u16>) -> Result<Self, String> {
        let path = match text.strip_prefix("unix:") {
            Some(path) => Some(path),
            None => (text.starts_with('/') || text.starts_with("./") || text.starts_with("../"))
                .then_some(text),
        };
        match path {
            Some("") => Err("expected a path after unix:".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => tcp(text, default_port),
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl FromStr for Address {
    type Err = String;

    /// Parses an address. The default port is memcached's.
    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, Some(PORT))
    }
}

fn tcp(text: &str, default_port: Option<u16>) -> Result<Address, String> {
    let expected = || match default_port {
        Some(_) => EXPECTED.to_owned(),
        None => EXPECTED_PORT.to_owned(),
    };
    let is_host = |host: &str| {
        !host.is_empty()
            && !host.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
    };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(expected)?;
            host.parse::<Ipv6Addr>().map_err(|_| expected())?;
            let port = rest.strip_prefix(':');
            if port.is_none() && !rest.is_empty() {
                return Err(expected());
            }
            (host, port)
        }
        None if text.parse::<Ipv6Addr>().is_ok() => {
            return Err(format!("an IPv6 address must be in brackets: [{text}]:PORT"));
        }
        None => match text.split_once(':') {
            Some((host, port)) if is_host(host) && !port.contains(':') => (host, Some(port)),
            None if is_host(text) => (text, None),
            _ => return Err(expected()),
        },
    };
    let port = match port {
        None => default_port.ok_or_else(expected)?,
        Some(port) => {
            let number = port.parse().ok().filter(|port| *port > 0);
            number.ok_or_else(|| {
                format!("the port is {}, expected a number from 1 to 65535", Quoted::text(port))
            })?
        }
    };
    Ok(Address::Tcp { host: host.to_owned(), port })
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

const IS_IT_RUNNING: &str = "is larderd running? start it with: ";
const EXPECTED: &str = "expected host, host:port, [IPv6]:port, or the path of a Unix socket \
                        (/path, ./path or unix:path)";
const EXPECTED_PORT: &str = "expected host:port, [IPv6]:port, or the path of a Unix socket \
                             (/path, ./path or unix:path)";

/// The port of an address without a port: the default of memcached and larderd.
const PORT: u16 = 11211;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_ports_and_paths_are_unix_sockets() {
        let tcp = |host: &str, port| Ok(Address::Tcp { host: host.to_owned(), port });
        assert_eq!("127.0.0.1:11211".parse(), tcp("127.0.0.1", 11211));
        assert_eq!("cache.example:1".parse(), tcp("cache.example", 1));
        assert_eq!("[::1]:11211".parse(), tcp("::1", 11211));
        for (text, path) in [("/a/b", "/a/b"), ("./b", "./b"), ("unix:b:c", "b:c")] {
            assert_eq!(text.parse(), Ok(Address::Unix(path.into())), "{text}");
        }
    }

    #[test]
    fn an_address_is_shown_as_it_can_be_given() {
        for text in ["127.0.0.1:11211", "[::1]:7", "unix:/run/larder.sock", "unix:b"] {
            assert_eq!(
                text.parse::<Address>().map(|address| address.to_string()).as_deref(),
                Ok(text)
            );
        }
    }

    #[test]
    fn the_hint_names_the_command_that_starts_larderd_at_the_address() {
        for (address, end) in [
            ("127.0.0.1:11211", "start it with: larderd"),
            ("localhost:7", "start it with: larderd -p 7"),
            ("./larder.sock", "start it with: larderd -s ./larder.sock"),
            ("cache.example:11211", "does it listen on that address (-l)?"),
        ] {
            let hint = address.parse::<Address>().unwrap().hint();
            assert!(hint.ends_with(end), "{address}: {hint}");
        }
    }

    #[test]
    fn a_server_without_a_port_has_the_port_of_memcached() {
        for (text, shown) in [
            ("127.0.0.1", "127.0.0.1:11211"),
            ("cache.example", "cache.example:11211"),
            ("[::1]", "[::1]:11211"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
            let refused = Address::with_port(text).unwrap_err();
            assert!(refused.starts_with("expected host:port, "), "{text}: {refused}");
        }
        assert_eq!(Address::with_port("[::1]:7").unwrap().to_string(), "[::1]:7");
    }

    #[test]
    fn an_invalid_address_is_refused_with_the_expected_form() {
        for bad in [
            "",
            ":1",
            "host::1",
            "::1:11211",
            "[::1",
            "[host]:1",
            "[::1]1",
            "[::1]:1:2",
            "a b",
            "a/b",
        ] {
            let expected = bad.parse::<Address>().unwrap_err();
            let form = expected.starts_with("expected host") || expected.contains("1 to 65535");
            assert!(form, "{bad:?}: {expected}");
        }
        for bad in ["localhost:", "localhost:0", "localhost:65536", "localhost:x", "[::1]:-1"] {
            let expected = bad.parse::<Address>().unwrap_err();
            assert!(expected.contains("expected a number from 1 to 65535"), "{bad:?}: {expected}");
        }
        for bad in ["::1", "fe80::1"] {
            let expected = bad.parse::<Address>().unwrap_err();
            assert!(expected.contains(&format!("brackets: [{bad}]")), "{bad:?}: {expected}");
        }
        assert!("unix:".parse::<Address>().unwrap_err().contains("expected a path"));
    }
}
