//! Addresses to listen on: the list of `-l`.

use std::{fmt, net::Ipv6Addr};

use crate::value::protocol::Protocol;

/// An address to listen on, not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// A host name or an address; `None`: every address of the machine.
    pub host: Option<String>,
    /// Its port; 0: any free one; `None`: the port of `-p`.
    pub port: Option<u16>,
    /// The encryption of its connections.
    pub security: Security,
    /// The protocol of its clients; `None`: the protocol of `-B`.
    pub protocol: Option<Protocol>,
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

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.security {
            Security::Default => "",
            Security::Plain => "notls:",
            Security::Tls => "btls:",
            Security::MutualTls => "mtls:",
        })?;
        f.write_str(match self.protocol {
            None => "",
            Some(Protocol::Auto) => "proto[negotiating]:",
            Some(Protocol::Ascii) => "proto[ascii]:",
            Some(Protocol::Binary) => "proto[binary]:",
        })?;
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]")?,
            Some(host) => f.write_str(host)?,
            None => f.write_str("*")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Returns the list as `-l` takes it.
pub(crate) fn text(list: &[Listen]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Parses a list: its members are separated by `,` or `;`, empty ones are skipped.
///
/// # Errors
/// The expected form.
pub(crate) fn parse(text: &str) -> Result<Vec<Listen>, String> {
    let members = text.split([',', ';']).map(str::trim_ascii).filter(|member| !member.is_empty());
    let list = members.map(member).collect::<Result<Vec<_>, _>>()?;
    if list.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(list) }
}

fn member(text: &str) -> Result<Listen, String> {
    let (security, text) = security(text);
    let (protocol, text) = protocol(text)?;
    let (host, port) = host_and_port(without_tag(text)?)?;
    let port = match port {
        Some(port) => Some(port.parse().map_err(|_| format!("{EXPECTED}, port 0 to 65535"))?),
        None => None,
    };
    let host = (host != "*").then(|| host.to_owned());
    Ok(Listen { host, port, security, protocol })
}

/// Strips the TLS mode.
fn security(text: &str) -> (Security, &str) {
    let modes =
        [("notls:", Security::Plain), ("btls:", Security::Tls), ("mtls:", Security::MutualTls)];
    let found =
        modes.iter().find_map(|(word, security)| Some((*security, text.strip_prefix(word)?)));
    found.unwrap_or((Security::Default, text))
}

/// Strips the protocol.
fn protocol(text: &str) -> Result<(Option<Protocol>, &str), String> {
    let Some((name, rest)) = bracketed(text, "proto") else {
        return Ok((None, text));
    };
    let protocol = match name {
        "ascii" => Protocol::Ascii,
        "binary" => Protocol::Binary,
        "negotiating" => Protocol::Auto,
        "proxy" => {
            return Err("proto[ascii], proto[binary] or proto[negotiating]: \
             Larder has no proxy; memcached's can run in front of it"
                .to_owned());
        }
        _ => return Err("proto[ascii], proto[binary] or proto[negotiating]".to_owned()),
    };
    Ok((Some(protocol), rest))
}

/// Strips a tag, which only memcached's proxy uses.
fn without_tag(text: &str) -> Result<&str, String> {
    let underlined = || text.strip_prefix("tag_").and_then(|after| after.split_once("_:"));
    match bracketed(text, "tag").or_else(underlined) {
        Some((tag, _)) if !(1..=8).contains(&tag.len()) => {
            Err("a tag of 1 to 8 characters".to_owned())
        }
        Some((_, rest)) => Ok(rest),
        None => Ok(text),
    }
}

/// Splits `word[inside]:rest`.
fn bracketed<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(word)?.strip_prefix('[')?.split_once("]:")
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
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    address.parse::<Ipv6Addr>().is_ok()
}

/// The form of a list.
pub(crate) const EXPECTED: &str =
    "a list of host, host:port, [IPv6]:port or *, separated by , or ;";
const BRACKETS: &str = "an IPv6 address between [ and ]";

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(host: impl Into<Option<&'static str>>, port: impl Into<Option<u16>>) -> Listen {
        Listen {
            host: host.into().map(str::to_owned),
            port: port.into(),
            security: Security::Default,
            protocol: None,
        }
    }

    #[test]
    fn hosts_with_and_without_ports_in_one_list() {
        assert_eq!(
            parse("127.0.0.1,cache-1.example:11212;[::1]:11213,*:0;*, ::1,,[fe80::1%eth0]"),
            Ok(vec![
                listen("127.0.0.1", None),
                listen("cache-1.example", 11_212),
                listen("::1", 11_213),
                listen(None, 0),
                listen(None, None),
                listen("::1", None),
                listen("fe80::1%eth0", None),
            ])
        );
    }

    #[test]
    fn prefixes_select_tls_mode_and_protocol() {
        let plain = listen("10.0.0.1", 1);
        for (text, security, protocol) in [
            ("notls:10.0.0.1:1", Security::Plain, None),
            ("btls:10.0.0.1:1", Security::Tls, None),
            ("mtls:10.0.0.1:1", Security::MutualTls, None),
            ("proto[ascii]:10.0.0.1:1", Security::Default, Some(Protocol::Ascii)),
            ("proto[binary]:10.0.0.1:1", Security::Default, Some(Protocol::Binary)),
            (
                "notls:proto[negotiating]:tag[rack]:10.0.0.1:1",
                Security::Plain,
                Some(Protocol::Auto),
            ),
            ("mtls:tag_rack_:10.0.0.1:1", Security::MutualTls, None),
        ] {
            let expected = Listen { security, protocol, ..plain.clone() };
            assert_eq!(parse(text), Ok(vec![expected]), "{text}");
        }
    }

    #[test]
    fn a_bad_address_is_refused_with_what_was_expected() {
        for (text, words) in [
            ("", "a list of"),
            (",;", "a list of"),
            ("foo:bar", "port 0 to 65535"),
            ("127.0.0.1:65536", "port 0 to 65535"),
            ("127.0.0.1:-1", "port 0 to 65535"),
            ("[::1", "between [ and ]"),
            ("[127.0.0.1]:1", "between [ and ]"),
            ("[::1]x", "a list of"),
            (":11211", "a list of"),
            ("a b", "a list of"),
            ("a/b", "a list of"),
            ("ssl:127.0.0.1", "port 0 to 65535"),
            ("proto[proxy]:127.0.0.1", "no proxy"),
            ("proto[xml]:127.0.0.1", "proto[binary]"),
            ("proto[ascii:127.0.0.1", "a list of"),
            ("tag[123456789]:127.0.0.1", "1 to 8"),
        ] {
            let expected = parse(text).unwrap_err();
            assert!(expected.contains(words), "{text:?}: {expected}");
        }
    }

    #[test]
    fn a_list_is_shown_as_it_is_given() {
        let given = "127.0.0.1,[::1]:11213,*:0,notls:proto[ascii]:*,mtls:10.0.0.1:3";
        assert_eq!(text(&parse(given).unwrap()), given);
    }
}
