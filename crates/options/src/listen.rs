//! Addresses to listen on: the list after `-l`.

use std::{fmt, net::Ipv6Addr};

/// An address to listen on. Nothing has been looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// A host name or an address; `None`: every address of the machine.
    pub host: Option<String>,
    /// Its port; 0: any free one; `None`: the port of `-p`.
    pub port: Option<u16>,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Some(host) if host.contains(':') => write!(f, "[{host}]")?,
            Some(host) => f.write_str(host)?,
            None => f.write_str("*")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// The list as `-l` takes it.
pub(crate) fn text(list: &[Listen]) -> String {
    list.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// Reads a list: its members are separated by `,` or `;`, an empty one is skipped.
///
/// # Errors
/// What was expected instead.
pub(crate) fn parse(text: &str) -> Result<Vec<Listen>, String> {
    let members = text.split([',', ';']).map(str::trim_ascii).filter(|member| !member.is_empty());
    let list = members.map(member).collect::<Result<Vec<_>, _>>()?;
    if list.is_empty() { Err(EXPECTED.to_owned()) } else { Ok(list) }
}

fn member(text: &str) -> Result<Listen, String> {
    let (host, port) = host_and_port(without_prefixes(text)?)?;
    let port = match port {
        Some(port) => Some(port.parse().map_err(|_| format!("{EXPECTED}, port 0 to 65535"))?),
        None => None,
    };
    let host = (host != "*").then(|| host.to_owned());
    Ok(Listen { host, port })
}

/// Takes off what memcached allows before the host: the TLS mode, the protocol and a tag. A tag has
/// a meaning only in memcached's proxy.
fn without_prefixes(text: &str) -> Result<&str, String> {
    let mut rest = text;
    if let Some(after) = rest.strip_prefix("notls:") {
        rest = after;
    } else if rest.starts_with("btls:") || rest.starts_with("mtls:") {
        return Err("an address without TLS, which comes with a later version".to_owned());
    }
    if let Some((protocol, after)) = bracketed(rest, "proto") {
        if !["ascii", "negotiating"].contains(&protocol) {
            return Err(format!(
                "proto[ascii] or proto[negotiating]: Larder cannot serve proto[{protocol}]"
            ));
        }
        rest = after;
    }
    let underlined = || rest.strip_prefix("tag_").and_then(|after| after.split_once("_:"));
    if let Some((tag, after)) = bracketed(rest, "tag").or_else(underlined) {
        if !(1..=8).contains(&tag.len()) {
            return Err("a tag of 1 to 8 characters".to_owned());
        }
        rest = after;
    }
    Ok(rest)
}

/// Splits `word[inside]:rest`.
fn bracketed<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    text.strip_prefix(word)?.strip_prefix('[')?.split_once("]:")
}

fn host_and_port(text: &str) -> Result<(&str, Option<&str>), String> {
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

/// An IPv6 address, with or without the name of an interface after it.
fn is_ipv6(host: &str) -> bool {
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    address.parse::<Ipv6Addr>().is_ok()
}

/// What a list looks like.
pub(crate) const EXPECTED: &str =
    "a list of host, host:port, [IPv6]:port or *, separated by , or ;";
const BRACKETS: &str = "an IPv6 address between [ and ]";

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(host: impl Into<Option<&'static str>>, port: impl Into<Option<u16>>) -> Listen {
        Listen { host: host.into().map(str::to_owned), port: port.into() }
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
    fn memcacheds_prefixes_that_mean_nothing_here_are_taken_off() {
        for text in [
            "notls:10.0.0.1:1",
            "proto[ascii]:10.0.0.1:1",
            "notls:proto[negotiating]:tag[rack]:10.0.0.1:1",
            "tag_rack_:10.0.0.1:1",
        ] {
            assert_eq!(parse(text), Ok(vec![listen("10.0.0.1", 1)]), "{text}");
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
            ("mtls:127.0.0.1", "without TLS"),
            ("proto[proxy]:127.0.0.1", "proto[proxy]"),
            ("proto[binary]:127.0.0.1", "proto[binary]"),
            ("tag[123456789]:127.0.0.1", "1 to 8"),
        ] {
            let expected = parse(text).unwrap_err();
            assert!(expected.contains(words), "{text:?}: {expected}");
        }
    }

    #[test]
    fn a_list_is_shown_as_it_is_given() {
        let given = "127.0.0.1,[::1]:11213,*:0";
        assert_eq!(text(&parse(given).unwrap()), given);
    }
}
