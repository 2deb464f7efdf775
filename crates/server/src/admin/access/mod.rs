//! Access control: roles, each of which permits more than the previous one (probe, read, full),
//! tokens, and the checks against foreign web pages.

pub(super) mod journal;
pub(crate) mod tokens;
pub(crate) mod users;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode, Uri};
use larder_options::Role;

use crate::net::sockets::Address;
use tokens::Tokens;

/// The access rules of a listener.
#[derive(Debug)]
pub(crate) struct Rules {
    /// The highest role that any request can have.
    pub(crate) role: Role,
    /// The highest role that a request without a token can have.
    pub(crate) without_token: Role,
    /// The host names of the listener, in lower case, without a port.
    pub(crate) hosts: Vec<String>,
}

/// The reason why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    /// The request needs a token but carries none.
    NoToken,
    /// The request carries a token that is not in the file.
    BadToken,
    /// The request's role is too low.
    LowRole,
    /// The request names a host that is not the listener's.
    ForeignHost,
    /// A page of another site sends the request.
    ForeignOrigin,
    /// A page sends a change whose body is not declared as JSON, so it may come from a form.
    NotJson,
}

/// The parts of a request that the rules check.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccessRequest<'a> {
    pub(crate) headers: &'a HeaderMap,
    pub(crate) uri: &'a Uri,
    /// False if the request only reads.
    pub(crate) writes: bool,
    /// The role that the request needs.
    pub(crate) needed: Role,
    /// The role of the user whose token the request carries, or whom the certificate names.
    pub(crate) user_role: Option<Role>,
}

impl Rules {
    /// Creates the rules of a listener with this address.
    pub(crate) fn new(
        role: Role,
        without_token: Role,
        address: &Address,
        names: &[String],
    ) -> Self {
        let mut hosts = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).to_vec();
        match address {
            Address::Tcp(address) if address.is_ipv6() => hosts.push(format!("[{}]", address.ip())),
            Address::Tcp(address) => hosts.push(address.ip().to_string()),
            Address::Unix(_) => {}
        }
        hosts.extend(names.iter().map(|name| name.to_ascii_lowercase()));
        Self { role, without_token: without_token.min(role), hosts }
    }

    /// Returns the role of a request that needs the role `needed`.
    ///
    /// # Errors
    /// Fails if the token does not exist, if the role is too low, or if a foreign page may have
    /// caused the request.
    pub(crate) fn admit(
        &self,
        asked: &AccessRequest<'_>,
        tokens: Option<&Tokens>,
    ) -> Result<Role, RefusalReason> {
        let &AccessRequest { headers, uri, writes, needed, user_role } = asked;
        if !self.origin_is_own(headers) || writes && !site_is_own(headers) {
            return Err(RefusalReason::ForeignOrigin);
        }
        if writes && is_of_page(headers) && !is_json(headers) {
            return Err(RefusalReason::NotJson);
        }
        if let Some(token) = token(headers) {
            let of_file = |token: &[u8]| tokens.and_then(|tokens| tokens.role_of(token));
            let role = token.ok().and_then(|token| of_file(token).or(user_role));
            let role = role.ok_or(RefusalReason::BadToken)?.min(self.role);
            return if role >= needed { Ok(role) } else { Err(RefusalReason::LowRole) };
        }
        let of_user = user_role.unwrap_or(Role::Probe).min(self.role);
        let role = self.without_token.max(of_user);
        if role < needed {
            let refused =
                if self.role < needed { RefusalReason::LowRole } else { RefusalReason::NoToken };
            return Err(refused);
        }
        // Protects against DNS rebinding: a foreign page lets its own host name resolve to this
        // machine, so that the browser considers the listener a part of the page's site. The name
        // in the request then is not one of the listener's.
        if self.host_is_own(headers, uri) { Ok(role) } else { Err(RefusalReason::ForeignHost) }
    }

    /// True unless a foreign page sends the request. A request without this header does not come
    /// from a page, or it only reads and the browser considers the page our own. An origin is
    /// scheme, host and port (RFC 6454, section 4), so a page on another port of this machine is
    /// foreign.
    fn origin_is_own(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        headers.get_all(ORIGIN).iter().all(|origin| {
            let origin = origin.to_str().unwrap_or_default();
            let schemes = [("http://", "80"), ("https://", "443")];
            schemes.into_iter().any(|(scheme, port)| {
                let authority = origin.strip_prefix(scheme);
                authority.is_some_and(|authority| {
                    self.names(authority) && is_same(authority, host, port)
                })
            })
        })
    }

    fn host_is_own(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        let mut given = headers.get_all(HOST).iter();
        let host = given.next().and_then(|host| host.to_str().ok());
        let of_uri = uri.authority().is_none_or(|authority| self.names(authority.as_str()));
        of_uri && given.next().is_none() && host.is_some_and(|host| self.names(host))
    }

    /// True if `host`, with or without a port, is one of the listener's host names.
    fn names(&self, host: &str) -> bool {
        let (name, _) = parts(host);
        self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Splits an authority into its name and its port, if it has one.
fn parts(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => {
            (name, Some(port).filter(|port| !port.is_empty()))
        }
        _ => (authority, None),
    }
}

/// True if two authorities are the same after a missing port is replaced by `default`.
fn is_same(one: &str, other: &str, default: &str) -> bool {
    let ((one, one_port), (other, other_port)) = (parts(one), parts(other));
    one.eq_ignore_ascii_case(other) && one_port.unwrap_or(default) == other_port.unwrap_or(default)
}

/// With each request, browsers send which kind of site caused it (Fetch Metadata, section 2.2).
const SITE: &str = "sec-fetch-site";

/// True if a browser sends the request.
pub(crate) fn is_of_page(headers: &HeaderMap) -> bool {
    headers.contains_key(ORIGIN) || headers.contains_key(SITE)
}

fn site_is_own(headers: &HeaderMap) -> bool {
    headers.get_all(SITE).iter().all(|site| site == "same-origin")
}

/// True if the body is declared as JSON. The form of a foreign page cannot do that.
fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let (kind, _) = kind.split_once(';').unwrap_or((kind, ""));
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// True if the request carries a token, be it valid or not.
pub(crate) fn has_token(headers: &HeaderMap) -> bool {
    token(headers).is_some()
}

/// Returns the token of a request; `None` without exactly one.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    token(headers)?.ok()
}

/// Returns the token of a request. `None` without one, `Err` if there are several or it is
/// malformed.
fn token(headers: &HeaderMap) -> Option<Result<&[u8], ()>> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let first = given.next()?.as_bytes();
    let token = match first.split_at_checked(BEARER.len()) {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case(BEARER) => Ok(token.trim_ascii()),
        _ => Err(()),
    };
    Some(if given.next().is_some() { Err(()) } else { token })
}

impl RefusalReason {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::NoToken | Self::BadToken => StatusCode::UNAUTHORIZED,
            Self::LowRole | Self::ForeignHost | Self::ForeignOrigin | Self::NotJson => {
                StatusCode::FORBIDDEN
            }
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::NoToken => "this needs a token: Authorization: Bearer TOKEN",
            Self::BadToken => "no such token",
            Self::LowRole => "the role of this request is too low here",
            Self::ForeignHost => "the Host header names another server; see --admin-host",
            Self::ForeignOrigin => {
                "a page of another site sends this request: its Origin is not the host and port of \
                 this listener; see --admin-host"
            }
            Self::NotJson => {
                "a page that changes something must send Content-Type: \
                              application/json"
            }
        }
    }
}

const BEARER: &[u8] = b"Bearer ";

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789-0123456789-0123456789";

    fn tokens() -> (tempfile::NamedTempFile, Tokens) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("read {SECRET}\nfull {SECRET}{SECRET}\n");
        std::fs::write(file.path(), text).unwrap();
        let tokens = Tokens::open(file.path().to_owned()).unwrap();
        (file, tokens)
    }

    fn rules(role: Role, is_trusted: bool) -> Rules {
        let address = Address::Tcp("10.0.0.7:9150".parse().unwrap());
        let without_token = if is_trusted { role } else { Role::Probe };
        Rules::new(role, without_token, &address, &["Cache.example".to_owned()])
    }

    impl Rules {
        /// Same as [`Rules::admit`], for a request that only reads.
        fn admit_reader(
            &self,
            headers: &HeaderMap,
            uri: &Uri,
            tokens: Option<&Tokens>,
            needed: Role,
        ) -> Result<Role, RefusalReason> {
            self.admit(
                &AccessRequest { headers, uri, writes: false, needed, user_role: None },
                tokens,
            )
        }
    }

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in list {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn tokens_give_their_role_up_to_that_of_the_listener() {
        let (_file, tokens) = tokens();
        let with = |token: &str| headers(&[("authorization", token), ("host", "elsewhere")]);
        let (read, full) = (format!("Bearer {SECRET}"), format!("bearer  {SECRET}{SECRET}"));
        for (role, trusted, token, expected) in [
            (Role::Full, false, &full, Ok(Role::Full)),
            (Role::Full, true, &read, Ok(Role::Read)),
            (Role::Read, false, &full, Ok(Role::Read)),
            (Role::Probe, false, &full, Ok(Role::Probe)),
            (Role::Full, true, &format!("Bearer {SECRET}x"), Err(RefusalReason::BadToken)),
            (Role::Full, true, &format!("Basic {SECRET}"), Err(RefusalReason::BadToken)),
            (Role::Full, true, &SECRET.to_owned(), Err(RefusalReason::BadToken)),
        ] {
            let uri = Uri::from_static("/");
            let given =
                rules(role, trusted).admit_reader(&with(token), &uri, Some(&tokens), Role::Probe);
            assert_eq!(given, expected, "{role:?} {trusted} {token}");
        }
        let twice = headers(&[("authorization", &read), ("authorization", &read)]);
        let uri = Uri::from_static("/");
        let given = rules(Role::Full, true).admit_reader(&twice, &uri, Some(&tokens), Role::Probe);
        assert_eq!(given, Err(RefusalReason::BadToken));
        let given = rules(Role::Full, true).admit_reader(&with(&read), &uri, None, Role::Probe);
        assert_eq!(given, Err(RefusalReason::BadToken), "without a file there are no tokens");
    }

    #[test]
    fn without_a_token_only_a_trusted_listener_gives_its_role() {
        let given = headers(&[("host", "localhost:9150")]);
        let uri = Uri::from_static("/");
        for (role, trusted, needed, expected) in [
            (Role::Full, true, Role::Full, Ok(Role::Full)),
            (Role::Read, true, Role::Read, Ok(Role::Read)),
            (Role::Read, true, Role::Full, Err(RefusalReason::LowRole)),
            (Role::Full, false, Role::Read, Err(RefusalReason::NoToken)),
            (Role::Full, false, Role::Probe, Ok(Role::Probe)),
            (Role::Probe, false, Role::Read, Err(RefusalReason::LowRole)),
        ] {
            let admitted = rules(role, trusted).admit_reader(&given, &uri, None, needed);
            assert_eq!(admitted, expected, "{role:?} {trusted} {needed:?}");
        }
    }

    #[test]
    fn host_and_origin_have_to_be_the_listeners_own() {
        let uri = Uri::from_static("/");
        let rules = rules(Role::Full, true);
        for host in [
            "localhost",
            "LOCALHOST:1",
            "127.0.0.1:9150",
            "[::1]",
            "[::1]:9150",
            "10.0.0.7:9150",
            "cache.EXAMPLE:80",
        ] {
            assert!(
                rules.admit_reader(&headers(&[("host", host)]), &uri, None, Role::Probe).is_ok(),
                "{host}"
            );
            for scheme in ["http", "https"] {
                let origin = format!("{scheme}://{host}");
                let given = headers(&[("host", host), ("origin", &origin)]);
                assert!(rules.admit_reader(&given, &uri, None, Role::Probe).is_ok(), "{origin}");
            }
        }
        for host in ["", "evil.example", "localhost.evil.example", "10.0.0.8", "[::2]", "::1"] {
            let given = rules.admit_reader(&headers(&[("host", host)]), &uri, None, Role::Probe);
            assert_eq!(given, Err(RefusalReason::ForeignHost), "{host}");
        }
        for origin in ["null", "", "http://evil.example", "file://localhost", "localhost"] {
            let given = headers(&[("host", "localhost"), ("origin", origin)]);
            let given = rules.admit_reader(&given, &uri, None, Role::Probe);
            assert_eq!(given, Err(RefusalReason::ForeignOrigin), "{origin}");
        }
        let none = rules.admit_reader(&headers(&[]), &uri, None, Role::Probe);
        assert_eq!(none, Err(RefusalReason::ForeignHost), "HTTP/1.0 without a host");
        let uri = Uri::from_static("http://evil.example/");
        let absolute =
            rules.admit_reader(&headers(&[("host", "localhost")]), &uri, None, Role::Probe);
        assert_eq!(absolute, Err(RefusalReason::ForeignHost), "the absolute form of a request");
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let (uri, rules) = (Uri::from_static("/"), rules(Role::Full, true));
        let admitted = |host: &str, origin: &str| {
            let given = headers(&[("host", host), ("origin", origin)]);
            rules.admit_reader(&given, &uri, None, Role::Probe).is_ok()
        };
        for (host, origin) in [
            ("localhost:9150", "http://localhost:9150"),
            ("localhost", "http://localhost"),
            ("localhost:80", "http://localhost"),
            ("cache.example", "https://cache.example:443"),
            ("[::1]:9150", "http://[::1]:9150"),
        ] {
            assert!(admitted(host, origin), "{host} {origin}");
        }
        for (host, origin) in [
            ("localhost:9150", "http://localhost:3000"),
            ("localhost:9150", "http://localhost"),
            ("localhost:9150", "http://127.0.0.1:9150"),
            ("localhost:443", "http://localhost"),
            ("localhost:80", "https://localhost"),
            ("localhost:9150", "null"),
        ] {
            assert!(!admitted(host, origin), "{host} {origin}");
        }
    }

    #[test]
    fn a_page_changes_something_by_json_of_its_own_origin_and_a_tool_by_anything() {
        let (uri, rules) = (Uri::from_static("/"), rules(Role::Full, true));
        let write = |more: &[(&'static str, &str)]| {
            let headers = headers(&[&[("host", "localhost:1")], more].concat());
            let asked = AccessRequest {
                headers: &headers,
                uri: &uri,
                writes: true,
                needed: Role::Full,
                user_role: None,
            };
            rules.admit(&asked, None)
        };
        let (origin, site) = (("origin", "http://localhost:1"), ("sec-fetch-site", "same-origin"));
        let json = ("content-type", "Application/JSON; charset=utf-8");
        let form = ("content-type", "application/x-www-form-urlencoded");
        assert_eq!(write(&[]), Ok(Role::Full), "a tool");
        assert_eq!(write(&[form]), Ok(Role::Full), "curl -d");
        assert_eq!(write(&[origin, site, json]), Ok(Role::Full), "our page");
        assert_eq!(write(&[site, json]), Ok(Role::Full));
        assert_eq!(write(&[origin, site]), Err(RefusalReason::NotJson));
        assert_eq!(write(&[site, form]), Err(RefusalReason::NotJson));
        for foreign in ["cross-site", "same-site", "none", ""] {
            let given = write(&[("sec-fetch-site", foreign), json]);
            assert_eq!(given, Err(RefusalReason::ForeignOrigin), "{foreign}");
        }
    }

    #[test]
    fn a_token_replaces_the_check_of_the_host_but_not_of_the_origin() {
        let (_file, tokens) = tokens();
        let token = format!("Bearer {SECRET}");
        let uri = Uri::from_static("/");
        let rules = rules(Role::Full, true);
        let given = [("authorization", token.as_str()), ("host", "evil.example")];
        assert_eq!(
            rules.admit_reader(&headers(&given), &uri, Some(&tokens), Role::Probe),
            Ok(Role::Read)
        );
        let given = [given[0], ("host", "localhost"), ("origin", "http://evil.example")];
        let refused = rules.admit_reader(&headers(&given), &uri, Some(&tokens), Role::Probe);
        assert_eq!(refused, Err(RefusalReason::ForeignOrigin));
    }
}
