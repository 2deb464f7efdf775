//! Admin listeners: the list of `--admin-listen`.

use std::fmt;
use std::path::PathBuf;

use crate::value::listen::host_and_port;

/// An admin listener, not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminListen {
    /// Where it listens.
    pub address: AdminAddress,
    /// The highest role that a request may have at this address, even if its token allows more.
    pub role: Role,
    /// True if connections are encrypted, with the certificates of `-Z`.
    pub tls: bool,
}

/// Where an admin listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// A TCP port.
    Tcp {
        /// A host name or an address; `None`: every address of the machine.
        host: Option<String>,
        /// Its port; 0: any free one.
        port: u16,
    },
    /// A unix socket.
    Unix {
        /// Its path.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// The permissions of a request to an admin listener. A higher role includes the lower ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Read health, readiness and metrics: no keys, no values, no configuration.
    Probe,
    /// Also read everything else.
    Read,
    /// Also change the cache and the server.
    Full,
}

impl Role {
    /// Parses a role; `None` if the name is unknown.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Probe, Self::Read, Self::Full].into_iter().find(|role| role.name() == text)
    }

    /// Returns the name of the role.
    pub fn name(self) -> &'static str {
        match self {
            Self::Probe => "probe",
            Self::Read => "read",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for AdminListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            AdminAddress::Tcp { host, port } => match host {
                Some(host) if host.contains(':') => write!(f, "[{host}]:{port}")?,
                Some(host) => write!(f, "{host}:{port}")?,
                None => write!(f, "*:{port}")?,
            },
            AdminAddress::Unix { path, .. } => write!(f, "{}", path.display())?,
        }
        if self.role != Role::Full {
            write!(f, ",role={}", self.role.name())?;
        }
        if self.tls {
            write!(f, ",tls")?;
        }
        match self.address {
            AdminAddress::Unix { mode, .. } if mode != MODE => write!(f, ",mode={mode:o}"),
            _ => Ok(()),
        }
    }
}

/// Returns the list as `--admin-listen` takes it.
pub(crate) fn text(list: &[AdminListen]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
}

/// Parses a list: its members are separated by `;`, empty ones are skipped.
///
/// # Errors
/// The expected form.
pub(crate) fn parse(text: &str) -> Result<Vec<AdminListen>, String> {
    let members = text.split(';').map(str::trim_ascii).filter(|member| !member.is_empty());
    let list = members.map(member).collect::<Result<Vec<_>, _>>()?;
    if list.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(list) }
}

fn member(text: &str) -> Result<AdminListen, String> {
    let mut words = text.split(',').map(str::trim_ascii);
    let address = words.next().unwrap_or_default();
    let (mut role, mut mode, mut tls) = (Role::Full, None, false);
    for word in words {
        match word.split_once('=') {
            Some(("role", name)) => role = Role::parse(name).ok_or(ROLES)?,
            Some(("mode", octal)) => {
                let parsed = u32::from_str_radix(octal, 8).ok().filter(|mode| *mode <= 0o777);
                mode = Some(parsed.ok_or(MODES)?);
            }
            None if word == "tls" => tls = true,
            _ => return Err(EXPECTED.to_owned()),
        }
    }
    let address = if address.starts_with(['/', '.']) {
        if tls {
            return Err(NO_TLS.to_owned());
        }
        AdminAddress::Unix { path: address.into(), mode: mode.unwrap_or(MODE) }
    } else {
        let (host, port) = host_and_port(address).map_err(|_| EXPECTED)?;
        let port = port.ok_or(EXPECTED)?.parse().map_err(|_| PORTS)?;
        if mode.is_some() {
            return Err(NO_MODE.to_owned());
        }
        AdminAddress::Tcp { host: (host != "*").then(|| host.to_owned()), port }
    };
    Ok(AdminListen { address, role, tls })
}

/// The permissions of a unix socket without `mode=`.
const MODE: u32 = 0o600;

/// The form of a list.
pub(crate) const EXPECTED: &str = "host:port, [IPv6]:port, *:port or the path of a unix socket \
    that begins with / or ., then perhaps ,role=probe|read|full, for a port ,tls and for a path ,mode=OCTAL; several are separated by ;";
const ROLES: &str = "an address with a role of probe, read or full";
const MODES: &str = "a path with a mode from 0 to 777, in octal";
const NO_MODE: &str = "a path, which alone has a mode: an address of TCP has no permissions";
const NO_TLS: &str = "a port with tls: a unix socket does not leave the machine";
const PORTS: &str = "an address with a port from 0 to 65535";

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: Option<&str>, port: u16, role: Role) -> AdminListen {
        let host = host.map(str::to_owned);
        AdminListen { address: AdminAddress::Tcp { host, port }, role, tls: false }
    }

    fn unix(path: &str, mode: u32, role: Role) -> AdminListen {
        AdminListen { address: AdminAddress::Unix { path: path.into(), mode }, role, tls: false }
    }

    #[test]
    fn an_address_has_a_role_and_a_path_also_a_mode() {
        assert_eq!(
            parse("127.0.0.1:9150; [::1]:0,role=read;*:9150,role=probe;/run/a.sock;./b,mode=660"),
            Ok(vec![
                tcp(Some("127.0.0.1"), 9150, Role::Full),
                tcp(Some("::1"), 0, Role::Read),
                tcp(None, 9150, Role::Probe),
                unix("/run/a.sock", 0o600, Role::Full),
                unix("./b", 0o660, Role::Full),
            ])
        );
    }

    #[test]
    fn a_bad_listener_is_refused_with_what_was_expected() {
        for (text, words) in [
            ("", "host:port"),
            (";", "host:port"),
            ("127.0.0.1", "host:port"),
            ("9150", "host:port"),
            (":9150", "host:port"),
            ("a b:1", "host:port"),
            ("run/s", "begins with / or ."),
            ("127.0.0.1:65536", "0 to 65535"),
            ("127.0.0.1:x", "0 to 65535"),
            ("127.0.0.1:1,role=admin", "probe, read or full"),
            ("127.0.0.1:1,role=", "probe, read or full"),
            ("127.0.0.1:1,rolle=read", "host:port"),
            ("127.0.0.1:1,read", "host:port"),
            ("127.0.0.1:1,mode=600", "no permissions"),
            ("/s,tls", "unix socket"),
            ("127.0.0.1:1,tls=yes", "host:port"),
            ("/s,mode=8", "in octal"),
            ("/s,mode=1000", "in octal"),
        ] {
            let expected = parse(text).unwrap_err();
            assert!(expected.contains(words), "{text:?}: {expected}");
        }
    }

    #[test]
    fn a_list_is_shown_as_it_is_given() {
        let given = "127.0.0.1:1;127.0.0.1:2,role=read,tls;[::1]:2,role=read;*:3,role=probe;/a/b,role=read,mode=660;/c";
        assert_eq!(text(&parse(given).unwrap()), given);
    }

    #[test]
    fn a_higher_role_includes_the_lower_ones() {
        assert!(Role::Probe < Role::Read && Role::Read < Role::Full);
    }
}
