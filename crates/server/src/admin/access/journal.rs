//! The journal: a log of the admin requests that were allowed to change something, on standard
//! error.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{Method, StatusCode};
use larder_options::Role;

use crate::admin::cache;
use crate::clock::monotonic_us;
use crate::log;

/// Writes a line for each request that was allowed to change something. The number of lines per
/// period is limited; a line then counts the requests that were not shown.
#[derive(Debug)]
pub(in crate::admin) struct Journal {
    /// Limits writes of single keys, which a program may send by the thousand.
    keys: Mutex<Limiter>,
    /// Limits all other writes.
    others: Mutex<Limiter>,
}

/// The peer of a connection.
#[derive(Clone, Debug)]
pub(in crate::admin) struct Peer {
    /// Its address, in the form that the journal shows.
    pub(in crate::admin) address: String,
    /// The names in its verified certificate.
    pub(in crate::admin) names: Arc<[String]>,
}

impl Peer {
    /// Returns a peer without a certificate.
    pub(in crate::admin) fn at(address: String) -> Self {
        Self { address, names: Arc::default() }
    }
}

/// A request that was allowed.
#[derive(Debug)]
pub(in crate::admin) struct Write<'a> {
    pub(in crate::admin) role: Role,
    /// The user of `--users` whose token the request carries, or whom the certificate names.
    pub(in crate::admin) user: Option<&'a str>,
    pub(in crate::admin) peer: &'a Peer,
    pub(in crate::admin) method: &'a Method,
    pub(in crate::admin) path: &'a str,
    pub(in crate::admin) status: StatusCode,
}

/// Permits a limited number of lines in each period.
#[derive(Debug)]
struct Limiter {
    period_us: i64,
    lines_max: u32,
    /// The start of the period; `None` before the first line.
    began_us: Option<i64>,
    lines: u32,
    /// The number of lines that were suppressed since the last written line.
    suppressed: u64,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            keys: Mutex::new(Limiter::new(KEYS_PERIOD_US, 1)),
            others: Mutex::new(Limiter::new(OTHERS_PERIOD_US, OTHERS_LINES_MAX)),
        }
    }
}

impl Journal {
    /// Logs a request that was allowed, unless there were too many in this period.
    pub(in crate::admin) fn record(&self, write: &Write<'_>) {
        let limiter = match is_of_key(write.method, write.path) {
            true => &self.keys,
            false => &self.others,
        };
        let mut limiter = limiter.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(suppressed) = limiter.pass(monotonic_us()) {
            log::info_unlimited(format_args!("{}", line(write, suppressed)));
        }
    }
}

/// True for the write of a single key. `/api/v1/cache/clear` is not one.
fn is_of_key(method: &Method, path: &str) -> bool {
    let is_item = path.starts_with(cache::look::PREFIX);
    let key = path.strip_prefix(cache::PREFIX);
    is_item || key.is_some_and(|key| *method != Method::DELETE || key != "clear")
}

/// Formats a line.
fn line(write: &Write<'_>, suppressed: u64) -> String {
    let Write { role, user, peer, method, path, status } = write;
    let path = shown(path);
    let user = user.map_or_else(String::new, |user| format!(" user {}", shown(user)));
    let (role, peer, status) = (role.name(), &peer.address, status.as_u16());
    let unshown = match suppressed {
        0 => String::new(),
        count => format!("; {count} writes before it are not shown"),
    };
    format!("larderd: admin: {method} {path} by {peer}{user} as {role}: {status}{unshown}")
}

/// Truncates and escapes a path or a name, because it may be long and may contain characters that a
/// terminal would interpret or show in a different order.
fn shown(text: &str) -> String {
    let (shown, more) = match text.as_bytes().split_at_checked(TEXT_BYTES_MAX) {
        Some((shown, rest)) if !rest.is_empty() => (shown, "..."),
        _ => (text.as_bytes(), ""),
    };
    format!("{}{more}", shown.escape_ascii())
}

impl Limiter {
    fn new(period_us: i64, lines_max: u32) -> Self {
        Self { period_us, lines_max, began_us: None, lines: 0, suppressed: 0 }
    }

    /// Returns how many lines were suppressed before this one; `None` if this one is also
    /// suppressed.
    fn pass(&mut self, now_us: i64) -> Option<u64> {
        if self.began_us.is_none_or(|began_us| now_us - began_us >= self.period_us) {
            (self.began_us, self.lines) = (Some(now_us), 0);
        }
        if self.lines == self.lines_max {
            self.suppressed += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.suppressed))
    }
}

const KEYS_PERIOD_US: i64 = 10_000_000;

const OTHERS_PERIOD_US: i64 = 1_000_000;
const OTHERS_LINES_MAX: u32 = 10;

/// Length to which a path or a name is truncated.
const TEXT_BYTES_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut limiter = Limiter::new(1000, 2);
        let passed = [0, 1, 2, 999, 1000, 1001, 1002].map(|now_us| limiter.pass(now_us));
        assert_eq!(passed, [Some(0), Some(0), None, None, Some(2), Some(0), None]);
        assert_eq!(limiter.pass(5000), Some(1), "after a pause");
    }

    #[test]
    fn a_line_names_who_did_what() {
        let peer = Peer::at("127.0.0.1:9".to_owned());
        let path = format!("/api/v1/cache/{}", "k".repeat(400));
        let (method, status) = (&Method::PUT, StatusCode::CREATED);
        let (role, user) = (Role::Full, Some("shop"));
        let write = Write { role, user, peer: &peer, method, path: &path, status };
        let line = line(&write, 7);
        assert!(line.starts_with("larderd: admin: PUT /api/v1/cache/kkk"), "{line}");
        let end = "kkk... by 127.0.0.1:9 user shop as full: 201; 7 writes before it are not shown";
        assert!(line.ends_with(end), "{line}");
        assert!(line.len() < 450, "{line}");
    }

    #[test]
    fn a_line_holds_nothing_that_a_terminal_obeys() {
        let peer = Peer::at("127.0.0.1:9".to_owned());
        let path = "/api/v1/cache/\u{9b}31m\u{202e}gnp.\u{85}\x7f";
        let (method, status) = (&Method::PUT, StatusCode::CREATED);
        let (role, user) = (Role::Full, Some("a\\b"));
        let line = line(&Write { role, user, peer: &peer, method, path, status }, 0);
        assert!(line.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{line}");
        assert!(line.contains(r"\xc2\x9b31m\xe2\x80\xaegnp."), "{line}");
        assert!(line.ends_with(r" user a\\b as full: 201"), "{line}");
    }

    #[test]
    fn writes_of_keys_do_not_hide_others() {
        assert!(is_of_key(&Method::PUT, "/api/v1/cache/clear"));
        assert!(is_of_key(&Method::DELETE, "/api/v1/cache/a/b"));
        assert!(is_of_key(&Method::DELETE, "/api/v1/item/Li4"));
        assert!(!is_of_key(&Method::DELETE, "/api/v1/cache/clear"));
        assert!(!is_of_key(&Method::POST, "/api/v1/clear"));
    }
}
