//! The terms of a store: the attributes of an item that a request sets in addition to key and
//! value, which are its time to live and its flags.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_RANGE, HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE,
};
use axum::http::{HeaderMap, StatusCode, Uri};

use super::Refusal;

/// How long an item lives, and its client flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Terms {
    /// The time to live; `None` if the item does not expire.
    pub(super) ttl_secs: Option<u32>,
    pub(super) flags: u32,
}

impl Terms {
    /// Reads the terms of a store.
    ///
    /// # Errors
    /// Fails if the terms contradict each other, are not numbers, or are unknown to the API.
    pub(super) fn read(uri: &Uri, headers: &HeaderMap) -> Result<Self, Refusal> {
        without_conditions(headers)?;
        if headers.contains_key(CONTENT_RANGE) {
            return refused("a value must be sent as a whole: omit Content-Range");
        }
        let mut found = max_ages(headers)?;
        for parameter in uri.query().unwrap_or_default().split('&').filter(|one| !one.is_empty()) {
            match parameter.split_once('=') {
                Some(("ttl", secs)) => found.push(secs.to_owned()),
                _ => return refused(UNKNOWN_PARAMETER),
            }
        }
        let mut ttl_secs = None;
        for secs in found {
            let secs = ttl_of(&secs)?;
            if ttl_secs.replace(secs).is_some_and(|other| other != secs) {
                return refused("the TTLs of ?ttl= and Cache-Control differ: send one of them");
            }
        }
        Ok(Self { ttl_secs, flags: flags(headers)? })
    }
}

/// Refuses query parameters, for methods that do not have any.
pub(super) fn without_query(uri: &Uri) -> Result<(), Refusal> {
    match uri.query() {
        None | Some("") => Ok(()),
        Some(_) => refused(UNKNOWN_PARAMETER),
    }
}

/// Refuses a conditional write. If it were executed without the condition, it could destroy the
/// item that the condition protects.
pub(super) fn without_conditions(headers: &HeaderMap) -> Result<(), Refusal> {
    match CONDITIONS.iter().any(|name| headers.contains_key(name)) {
        true => refused("conditions (such as If-Match) are not supported: omit them"),
        false => Ok(()),
    }
}

/// Returns the seconds of all `max-age` directives. Other directives are for caches on the path.
fn max_ages(headers: &HeaderMap) -> Result<Vec<String>, Refusal> {
    let mut found = Vec::new();
    for value in headers.get_all(CACHE_CONTROL) {
        let Ok(value) = value.to_str() else {
            return refused("Cache-Control is not text: expected max-age=SECONDS");
        };
        for directive in value.split(',').map(str::trim) {
            let (name, secs) = directive.split_once('=').unwrap_or((directive, ""));
            if name.eq_ignore_ascii_case("max-age") {
                found.push(secs.trim_matches('"').to_owned());
            }
        }
    }
    Ok(found)
}

/// Parses a time to live.
fn ttl_of(text: &str) -> Result<u32, Refusal> {
    match number(text) {
        Some(secs @ 1..=TTL_SECS_MAX) => Ok(secs),
        _ => refused("a TTL is 1 to 2147483647 seconds; without one the item does not expire"),
    }
}

fn flags(headers: &HeaderMap) -> Result<u32, Refusal> {
    let mut given = headers.get_all(FLAGS).iter();
    let Some(flags) = given.next() else { return Ok(0) };
    let flags = flags.to_str().ok().and_then(number).filter(|_| given.next().is_none());
    flags.map_or_else(|| refused("X-Larder-Flags must be one number from 0 to 4294967295"), Ok)
}

/// Parses a decimal number that consists only of digits.
fn number(text: &str) -> Option<u32> {
    let is_digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    is_digits.then(|| text.parse().ok())?
}

fn refused<T>(words: &str) -> Result<T, Refusal> {
    Err((StatusCode::BAD_REQUEST, words.to_owned()))
}

/// The client flags of an item.
pub(super) const FLAGS: HeaderName = HeaderName::from_static("x-larder-flags");

/// The seconds until the item expires. This is not a `max-age`: the item may change or disappear
/// earlier, and no cache on the path is notified.
pub(super) const TTL: HeaderName = HeaderName::from_static("x-larder-ttl");

const CONDITIONS: [HeaderName; 4] =
    [IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE];

const UNKNOWN_PARAMETER: &str =
    "the only parameter is ttl=SECONDS, and only for PUT; in a key write ? as %3F";

/// The longest time that an HTTP header expresses exactly.
const TTL_SECS_MAX: u32 = (1 << 31) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, headers: &[(HeaderName, &str)]) -> Result<Terms, Refusal> {
        let uri = format!("/api/v1/cache/k{query}").parse().unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(name, value.parse().unwrap());
        }
        Terms::read(&uri, &map)
    }

    #[test]
    fn header_and_parameter_give_the_ttl_and_have_to_agree() {
        let ttl = |query, headers: &[_]| read(query, headers).map(|terms| terms.ttl_secs);
        let max_age = |secs| (CACHE_CONTROL, secs);
        assert_eq!(ttl("", &[]), Ok(None));
        assert_eq!(ttl("?", &[]), Ok(None));
        assert_eq!(ttl("?ttl=60", &[]), Ok(Some(60)));
        assert_eq!(ttl("", &[max_age("max-age=60")]), Ok(Some(60)));
        assert_eq!(ttl("", &[max_age("private, Max-Age=\"60\" , no-transform")]), Ok(Some(60)));
        assert_eq!(ttl("", &[max_age("no-cache")]), Ok(None));
        assert_eq!(ttl("?ttl=60&ttl=60", &[max_age("max-age=60")]), Ok(Some(60)));
        assert_eq!(ttl("?ttl=2147483647", &[]), Ok(Some(TTL_SECS_MAX)));
        for (query, headers) in [
            ("?ttl=60", &[max_age("max-age=61")][..]),
            ("?ttl=1&ttl=2", &[]),
            ("", &[max_age("max-age=1"), max_age("max-age=2")]),
            ("?ttl=", &[]),
            ("?ttl=0", &[]),
            ("?ttl=-1", &[]),
            ("?ttl=+1", &[]),
            ("?ttl=1.5", &[]),
            ("?ttl=2147483648", &[]),
            ("?TTL=60", &[]),
            ("?ttl", &[]),
            ("?ttl=60&x=y", &[]),
            ("", &[max_age("max-age")]),
            ("", &[max_age("max-age=0")]),
        ] {
            let found = ttl(query, headers);
            let is_refused = matches!(found, Err((StatusCode::BAD_REQUEST, _)));
            assert!(is_refused, "{query} {headers:?}: {found:?}");
        }
    }

    #[test]
    fn flags_are_one_number_of_32_bits() {
        let flags = |values: &[&'static str]| {
            let headers: Vec<_> = values.iter().map(|value| (FLAGS, *value)).collect();
            read("", &headers).map(|terms| terms.flags).map_err(|(status, _)| status)
        };
        assert_eq!(flags(&[]), Ok(0));
        assert_eq!(flags(&["4294967295"]), Ok(u32::MAX));
        for bad in [&["4294967296"][..], &["-1"], &["0x1"], &[""], &["1", "1"]] {
            assert_eq!(flags(bad), Err(StatusCode::BAD_REQUEST), "{bad:?}");
        }
    }

    #[test]
    fn conditions_and_ranges_are_not_passed_over() {
        for name in CONDITIONS.into_iter().chain([CONTENT_RANGE]) {
            let found = read("", &[(name.clone(), "*")]);
            assert!(matches!(found, Err((StatusCode::BAD_REQUEST, _))), "{name}: {found:?}");
        }
    }
}
