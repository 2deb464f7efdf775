//! The status page and the page of keys: documents for browsers, without data and without external
//! parts.
//!
//! They are the same for every role. A script fetches the data with the token that the user types
//! on the page, and keeps the token only in memory. The policy in the headers of a page allows only
//! this script and this style, by their digests, and requests to this listener. So even if a key or
//! a value reached the document as markup, it could not run anything.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{IntoResponse, Response};
use larder_protocol::base64;
use ring::digest::{SHA256, digest};

/// Returns the status page.
pub(super) fn status() -> Response {
    STATUS.response()
}

/// Returns the page of keys.
pub(super) fn keys() -> Response {
    KEYS.response()
}

#[derive(Debug)]
struct Page {
    document: String,
    policy: String,
}

static STATUS: LazyLock<Page> =
    LazyLock::new(|| Page::new(STATUS_DOCUMENT, &[COMMON, CHART, STATUS_SCRIPT]));

static KEYS: LazyLock<Page> = LazyLock::new(|| Page::new(KEYS_DOCUMENT, &[COMMON, KEYS_SCRIPT]));

impl Page {
    /// Creates a page from its document and the parts of its script.
    fn new(document: &str, scripts: &[&str]) -> Self {
        let script = scripts.join("\n");
        let document = document.replace("{style}", STYLE).replace("{script}", &script);
        let policy = format!(
            "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src \
             'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            source(&script),
            source(STYLE)
        );
        Self { document, policy }
    }

    fn response(&'static self) -> Response {
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (CONTENT_SECURITY_POLICY, &self.policy),
            (REFERRER_POLICY, "no-referrer"),
        ];
        (headers, self.document.as_str()).into_response()
    }
}

/// Returns the digest of a text in the form of a policy source.
///
/// Source: Content Security Policy Level 3, section 2.3.1.
fn source(text: &str) -> String {
    let mut encoded = Vec::new();
    base64::encode(&mut encoded, digest(&SHA256, text.as_bytes()).as_ref());
    format!("sha256-{}", String::from_utf8_lossy(&encoded))
}

const STYLE: &str = include_str!("page.css");
const COMMON: &str = include_str!("common.js");
const CHART: &str = include_str!("chart.js");
const STATUS_DOCUMENT: &str = include_str!("status.html");
const STATUS_SCRIPT: &str = include_str!("status.js");
const KEYS_DOCUMENT: &str = include_str!("keys.html");
const KEYS_SCRIPT: &str = include_str!("keys.js");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_specification() {
        // The example of the specification, section 8.4.
        let expected = "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=";
        assert_eq!(source("alert('Hello, world.');"), expected);
    }

    #[test]
    fn the_documents_are_whole_and_self_contained() {
        for Page { document, policy } in [&*STATUS, &*KEYS] {
            assert!(!document.contains("{style}") && !document.contains("{script}"));
            for foreign in [
                "src=\"http",
                "href=\"http",
                "@import",
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "style=\"",
            ] {
                assert!(!document.contains(foreign), "the page contains {foreign}");
            }
            let (_, script) = document.split_once("<script>").unwrap();
            let (script, _) = script.split_once("</script>").unwrap();
            assert!(policy.contains(&source(script)), "the digest is that of the script");
            for id in script.split("$(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(document.contains(&format!("id=\"{id}\"")), "no element {id}");
            }
        }
    }
}
