//! Server addresses and the `--server` option.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::str::FromStr;

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
        default_value = "127.0.0.1:11211",
        help = "The server: host:port, [IPv6]:port, or the path of a Unix socket"
    )]
    pub server: Address,
}

impl Address {
    /// Returns a remedy for the case that no server accepts connections at this address.
    pub fn hint(&self) -> String {
        match self {
            Self::Tcp { host, .. } if !is_this_machine(host) => {
                "is larderd running there, and does it listen on that address (-l)?".to_owned()
            }
            Self::Tcp { port: 11211, .. } => format!("{IS_IT_RUNNING}larderd"),
            Self::Tcp { port, .. } => format!("{IS_IT_RUNNING}larderd -p {port}"),
            Self::Unix(path) => format!("{IS_IT_RUNNING}larderd -s {}", path.display()),
        }
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let path = match text.strip_prefix("unix:") {
            Some(path) => Some(path),
            None => (text.starts_with('/') || text.starts_with("./")).then_some(text),
        };
        match path {
            Some("") => Err("expected a path after unix:".to_owned()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => tcp(text),
        }
    }
}

fn tcp(text: &str) -> Result<Address, String> {
    let (host, port) = match text.strip_prefix('[').map(|rest| rest.split_once("]:")) {
        Some(Some((host, port))) if host.parse::<Ipv6Addr>().is_ok() => (host, port),
        Some(_) => return Err(EXPECTED.to_owned()),
        None => text.split_once(':').ok_or(EXPECTED)?,
    };
    if host.is_empty() || (host.contains(':') != text.starts_with('[')) || port.contains(':') {
        return Err(EXPECTED.to_owned());
    }
    match port.parse() {
        Ok(port @ 1..) => Ok(Address::Tcp { host: host.to_owned(), port }),
        _ => Err(format!("the port is {port:?}, expected 1 to 65535")),
    }
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
const EXPECTED: &str = "expected host:port, [IPv6]:port, or the path of a Unix socket \
                        (/path, ./path or unix:path)";

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
    fn an_invalid_address_is_refused_with_the_expected_form() {
        for bad in ["", "localhost", ":1", "::1", "::1:11211", "[::1]", "[host]:1", "[::1]:1:2"] {
            let expected = bad.parse::<Address>().unwrap_err();
            assert!(expected.starts_with("expected host:port"), "{bad:?}: {expected}");
        }
        for bad in ["localhost:", "localhost:0", "localhost:65536", "localhost:x", "[::1]:-1"] {
            let expected = bad.parse::<Address>().unwrap_err();
            assert!(expected.contains("expected 1 to 65535"), "{bad:?}: {expected}");
        }
        assert!("unix:".parse::<Address>().unwrap_err().contains("expected a path"));
    }
}
