//! Addresses to listen on: the list of `-l`.

use std::path::PathBuf;
use std::{fmt, net::Ipv6Addr};

use crate::value::prefixes::{self, Prefixes, UnixWords};
use crate::value::protocol::Protocol;

/// An address to listen on, not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Where it listens.
    pub place: ListenPlace,
    /// The protocol of its clients; `None`: the protocol of `-B`.
    pub protocol: Option<Protocol>,
    /// `readonly`: its clients may change nothing.
    pub is_readonly: bool,
}

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenPlace {
    /// A TCP port.
    Tcp {
        /// A host name or an address; `None`: every address of the machine.
        host: Option<String>,
        /// Its port; 0: any free one; `None`: the port of `-p`.
        port: Option<u16>,
        /// The encryption of its connections.
        security: Security,
    },
    /// A unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// `mode=`: its permissions; `None`: the permissions of `-a`.
        mode: Option<u32>,
        /// `readers`: local readers may connect here.
        has_readers: bool,
        /// `noauth`: its clients need not log in, although others must.
        needs_no_login: bool,
    },
}

/// The encryption of an address's connections. All variants except the default need `-Z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Security {
    /// `-Z` and `-o ssl_verify_mode` decide.
    #[default]
    Default,
    /// `notls:`: not encrypted.
    Plain,
    /// `btls:`: encrypted, without client certificates.
    Tls,
    /// `mtls:`: encrypted; clients need certificates.
    MutualTls,
}

impl Security {
    /// Returns the prefix that selects it; empty for the default.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Plain => "notls:",
            Self::Tls => "btls:",
            Self::MutualTls => "mtls:",
        }
    }
}

impl Listen {
    /// Every address of the machine, with the defaults.
    pub(crate) const EVERYWHERE: Self = Self {
        place: ListenPlace::Tcp { host: None, port: None, security: Security::Default },
        protocol: None,
        is_readonly: false,
    };

    /// Returns the encryption of an address of TCP, and the default for a unix socket.
    pub(crate) fn security(&self) -> Security {
        match self.place {
            ListenPlace::Tcp { security, .. } => security,
            ListenPlace::Unix { .. } => Security::Default,
        }
    }

    /// True for a unix socket.
    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.place, ListenPlace::Unix { .. })
    }

    /// True for a unix socket to which local readers may connect.
    pub(crate) fn has_readers(&self) -> bool {
        matches!(self.place, ListenPlace::Unix { has_readers: true, .. })
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.security().word())?;
        f.write_str(match self.protocol {
            None => "",
            Some(Protocol::Auto) => "proto[negotiating]:",
            Some(Protocol::Ascii) => "proto[ascii]:",
            Some(Protocol::Binary) => "proto[binary]:",
        })?;
        match &self.place {
            ListenPlace::Tcp { host, port, .. } => {
                f.write_str(if self.is_readonly { "readonly:" } else { "" })?;
                match host {
                    Some(host) if host.contains(':') => write!(f, "[{host}]")?,
                    Some(host) => f.write_str(host)?,
                    None => f.write_str("*")?,
                }
                port.map_or(Ok(()), |port| write!(f, ":{port}"))
            }
            ListenPlace::Unix { path, mode, has_readers, needs_no_login } => {
                let mode = mode.map(|mode| format!("mode={mode:o}"));
                let word = |is_given: bool, word: &str| is_given.then(|| word.to_owned());
                let words = [
                    mode,
                    word(*has_readers, "readers"),
                    word(self.is_readonly, "readonly"),
                    word(*needs_no_login, "noauth"),
                ];
                let words: Vec<_> = words.into_iter().flatten().collect();
                match words.is_empty() {
                    true => write!(f, "unix:{}", path.display()),
                    false => write!(f, "unix[{}]:{}", words.join(","), path.display()),
                }
            }
        }
    }
}

/// Returns the list as `-l` takes it.
pub(crate) fn text(list: &[Listen]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Parses a list: its members are separated by `,` or `;`, except between `[` and `]`. Empty ones
/// are skipped.
///
/// # Errors
/// The expected form.
pub(crate) fn parse(text: &str) -> Result<Vec<Listen>, String> {
    let members = prefixes::members(text, &[',', ';']);
    let list = members.map(member).collect::<Result<Vec<_>, _>>()?;
    if list.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(list) }
}

fn member(text: &str) -> Result<Listen, String> {
    let (words, text) = Prefixes::strip(text, prefixes::OF_CACHE)?;
    let Prefixes { security, protocol, is_readonly, unix, .. } = words;
    let place = match unix {
        Some(UnixWords { mode, has_readers, needs_no_login }) => {
            let path = prefixes::unix_path(text)?;
            if let Some(word) = words.of_tcp_only() {
                let path = path.display();
                return Err(format!("an address of TCP after {word}: unix:{path} is not one"));
            }
            ListenPlace::Unix { path, mode, has_readers, needs_no_login }
        }
        None => {
            let (host, port) = host_and_port(text)?;
            let port = match port {
                Some(port) => Some(port.parse().map_err(|_| bad_port(host))?),
                // Otherwise `readonly:5` would be both this and the port 5 of a host.
                None if is_readonly && host.bytes().all(|byte| byte.is_ascii_digit()) => {
                    return Err("a host or an address after readonly:, not a number".to_owned());
                }
                None => None,
            };
            let host = (host != "*").then(|| host.to_owned());
            let security = security.map_or(Security::Default, |word| word.security);
            ListenPlace::Tcp { host, port, security }
        }
    };
    Ok(Listen { place, protocol, is_readonly })
}

/// Returns the expected form for an address with a bad port. Words of a unix socket look like hosts
/// if they stand before an address of TCP.
fn bad_port(host: &str) -> String {
    match host {
        "readers" | "noauth" => format!("unix[{host}]:PATH: {host} is for unix sockets only"),
        "tls" => NO_TLS_WORD.to_owned(),
        _ => format!("{EXPECTED}, port 0 to 65535"),
    }
}

/// Splits `host:port`; the port may be missing.
pub(crate) fn host_and_port(text: &str) -> Result<(&str, Option<&str>), String> {
    let (host, port) = if let Some(after) = text.strip_prefix('[') {
        let (host, rest) = after.split_once(']').ok_or(BRACKETS)?;
        if !is_ipv6(host) {
            return Err(BRACKETS.to_owned());
        }
        match rest.strip_prefix(':') {
            Some(port) => (host, Some(port)),
            None if rest.is_empty() => (host, None),
            None => return Err(EXPECTED.to_owned()),
        }
    } else if is_ipv6(text) {
        (text, None)
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if host == "*" || is_ipv6(host) || (!host.is_empty() && host.bytes().all(is_name)) {
        Ok((host, port))
    } else {
        Err(EXPECTED.to_owned())
    }
}

/// True for an IPv6 address, with or without an interface name after `%`.
fn is_ipv6(host: &str) -> bool {
    let (address, name) = host.split_once('%').unwrap_or((host, ""));
    !name.contains(['[', ']']) && address.parse::<Ipv6Addr>().is_ok()
}

/// The form of a list.
pub(crate) const EXPECTED: &str =
    "a list of host, host:port, [IPv6]:port, * or unix:PATH, separated by , or ;";
const BRACKETS: &str = "an IPv6 address between [ and ]";
const NO_TLS_WORD: &str = "an address after btls: (TLS) or mtls: (TLS with client certificates): \
     memcached has no word tls:, and with -Z an address without a word has TLS";

#[cfg(test)]
mod tests;
