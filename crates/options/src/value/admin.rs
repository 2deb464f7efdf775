//! Admin listeners: the list of `--admin-listen`.

use std::fmt;
use std::path::PathBuf;

use crate::value::listen::{Security, host_and_port};
use crate::value::prefixes::{self, Prefixes};

/// An admin listener, not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminListen {
    /// Where it listens.
    pub address: AdminAddress,
    /// The highest role that a request may have at this address, even if its token allows more.
    pub role: Role,
    /// The encryption of its connections, with the certificates of `-Z`. Without a word for TLS
    /// they are not encrypted, also with `-Z`.
    pub security: Security,
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

impl AdminListen {
    /// True if its connections are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.security != Security::Plain
    }
}

impl fmt::Display for AdminListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_encrypted() {
            f.write_str(self.security.word())?;
        }
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
        if self.security == Security::Default {
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

/// Parses a list: its members are separated by `;`, except between `[` and `]`. Empty ones are
/// skipped.
///
/// # Errors
/// The expected form.
pub(crate) fn parse(text: &str) -> Result<Vec<AdminListen>, String> {
    let list = prefixes::members(text, &[';']).map(member).collect::<Result<Vec<_>, _>>()?;
    if list.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(list) }
}

/// The words after an address.
#[derive(Debug, Default)]
struct Suffixes {
    role: Option<Role>,
    mode: Option<u32>,
    has_tls: bool,
}

impl Suffixes {
    fn parse<'a>(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let mut found = Self::default();
        for word in words {
            match word.split_once('=') {
                Some(("role", name)) => found.role = Some(Role::parse(name).ok_or(ROLES)?),
                Some(("mode", octal)) => found.mode = Some(prefixes::mode(octal)?),
                None if word == "tls" => found.has_tls = true,
                _ => return Err(EXPECTED.to_owned()),
            }
        }
        Ok(found)
    }
}

fn member(text: &str) -> Result<AdminListen, String> {
    let (prefixes, text) = Prefixes::strip(text, prefixes::OF_ADMIN)?;
    let mut words = text.split(',').map(str::trim_ascii);
    let address = words.next().unwrap_or_default();
    let suffixes = Suffixes::parse(words)?;
    let security = security(&prefixes, suffixes.has_tls)?;
    if prefixes.protocol.is_some() {
        return Err(ONLY_HTTP.to_owned());
    }
    let address = if prefixes.unix.is_some() || address.starts_with(['/', '.']) {
        if security != Security::Plain {
            return Err(NO_TLS.to_owned());
        }
        unix(address, &prefixes, suffixes.mode)?
    } else {
        let (host, port) = host_and_port(address).map_err(|_| EXPECTED)?;
        let port = port.ok_or(EXPECTED)?.parse().map_err(|_| PORTS)?;
        if suffixes.mode.is_some() {
            return Err(NO_MODE.to_owned());
        }
        AdminAddress::Tcp { host: (host != "*").then(|| host.to_owned()), port }
    };
    let role = match (prefixes.is_readonly, suffixes.role) {
        (true, Some(Role::Full)) => return Err(READONLY.to_owned()),
        (true, None) => Role::Read,
        (_, role) => role.unwrap_or(Role::Full),
    };
    Ok(AdminListen { address, role, security })
}

/// Returns the selected encryption. `has_suffix`: `,tls` stands after the address.
fn security(prefixes: &Prefixes, has_suffix: bool) -> Result<Security, String> {
    match (prefixes.security, has_suffix) {
        (Some(before), true) => {
            let word = before.word;
            Err(format!("an address with one word for TLS: {word} and ,tls are two"))
        }
        (None, true) => Ok(Security::Default),
        (before, false) => Ok(before.map_or(Security::Plain, |word| word.security)),
    }
}

fn unix(path: &str, prefixes: &Prefixes, mode: Option<u32>) -> Result<AdminAddress, String> {
    let words = prefixes.unix.unwrap_or_default();
    if words.has_readers || words.needs_no_login {
        return Err(ONLY_CACHE.to_owned());
    }
    if prefixes.security.is_some() {
        return Err(NO_TLS.to_owned());
    }
    let mode = match (words.mode, mode) {
        (Some(_), Some(_)) => return Err("a path with one mode: mode= is there twice".to_owned()),
        (inside, after) => inside.or(after).unwrap_or(MODE),
    };
    Ok(AdminAddress::Unix { path: prefixes::unix_path(path)?, mode })
}

/// The permissions of a unix socket without `mode=`.
const MODE: u32 = 0o600;

/// The form of a list.
pub(crate) const EXPECTED: &str = "host:port, [IPv6]:port, *:port or the path of a unix socket \
    that begins with / or ., then perhaps ,role=probe|read|full, for a port ,tls and for a path \
    ,mode=OCTAL; several are separated by ;";
const ROLES: &str = "an address with a role of probe, read or full";
const NO_MODE: &str = "a path, which alone has a mode: an address of TCP has no permissions";
const NO_TLS: &str = "a port with tls: a unix socket does not leave the machine";
const PORTS: &str = "an address with a port from 0 to 65535";
const ONLY_HTTP: &str = "an address without proto[…]: the admin listener speaks HTTP only";
const ONLY_CACHE: &str = "a unix socket without readers and noauth: they are words of -l";
const READONLY: &str = "an address with readonly or with role=full, not with both";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tcp(host: Option<&str>, port: u16, role: Role) -> AdminListen {
        let host = host.map(str::to_owned);
        AdminListen { address: AdminAddress::Tcp { host, port }, role, security: Security::Plain }
    }

    fn unix(path: &str, mode: u32, role: Role) -> AdminListen {
        AdminListen {
            address: AdminAddress::Unix { path: path.into(), mode },
            role,
            security: Security::Plain,
        }
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
    fn the_words_of_l_stand_before_an_address() {
        let secured = |security, port| AdminListen { security, ..tcp(None, port, Role::Full) };
        assert_eq!(
            parse(
                "unix[mode=0660,readonly]:/a; readonly:*:1;readonly:*:2,role=probe;tls:*:3;\
                 mtls:*:4;btls:*:5;notls:*:6;unix:./b,mode=640;readonly:tls:*:7;tls:8"
            ),
            Ok(vec![
                unix("/a", 0o660, Role::Read),
                tcp(None, 1, Role::Read),
                tcp(None, 2, Role::Probe),
                secured(Security::Default, 3),
                secured(Security::MutualTls, 4),
                secured(Security::Tls, 5),
                secured(Security::Plain, 6),
                unix("./b", 0o640, Role::Full),
                AdminListen { role: Role::Read, ..secured(Security::Default, 7) },
                tcp(Some("tls"), 8, Role::Full),
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
            ("unix[mode=9]:/s", "in octal"),
            ("unix:s", "begins with / or ."),
            ("unix[mode=600]:/s,mode=600", "mode= is there twice"),
            ("unix[readers]:/s", "words of -l"),
            ("unix[noauth]:/s", "words of -l"),
            ("mtls:unix:/s", "does not leave the machine"),
            ("tls:/s", "does not leave the machine"),
            ("proto[ascii]:127.0.0.1:1", "HTTP only"),
            ("readonly:127.0.0.1:1,role=full", "not with both"),
            ("notls:127.0.0.1:1,tls", "notls: and ,tls are two"),
            ("tls:mtls:127.0.0.1:1", "contradict each other"),
            ("notls:mtls:127.0.0.1:1", "contradict each other"),
        ] {
            let expected = parse(text).unwrap_err();
            assert!(expected.contains(words), "{text:?}: {expected}");
        }
    }

    #[test]
    fn a_list_is_shown_as_it_is_given() {
        let hosts = "readonly:5,role=read;tls:6,tls;unix:7,role=probe";
        assert_eq!(text(&parse(hosts).unwrap()), hosts);
        let given = "127.0.0.1:1;127.0.0.1:2,role=read,tls;mtls:*:5,role=read;[::1]:2,role=read;*:3,role=probe;/a/b,role=read,mode=660;/c";
        assert_eq!(text(&parse(given).unwrap()), given);
    }

    #[test]
    fn a_higher_role_includes_the_lower_ones() {
        assert!(Role::Probe < Role::Read && Role::Read < Role::Full);
    }

    proptest! {
        #[test]
        fn any_text_is_an_error_or_is_shown_as_a_text_with_the_same_meaning(
            pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14),
            other in ".{0,30}",
        ) {
            for given in [pieces.concat(), pieces.concat() + &other] {
                if let Ok(list) = parse(&given) {
                    let shown = text(&list);
                    prop_assert_eq!(parse(&shown), Ok(list), "{:?}: {:?}", given, shown);
                }
            }
        }
    }

    /// Pieces of addresses. Texts made of them are often valid and often almost valid.
    const PIECES: [&str; 26] = [
        "notls:",
        "btls:",
        "mtls:",
        "tls:",
        "proto[ascii]:",
        "readonly",
        "readonly:",
        "unix:",
        "unix[",
        "mode=660",
        "readers",
        "[",
        "]",
        "]:",
        ":",
        ",",
        ";",
        "/run/s",
        "./s",
        "*:1",
        "[::1]:5",
        "5",
        "127.0.0.1:2",
        ",role=read",
        ",tls",
        ",mode=600",
    ];
}
