//! The status page: one document without data and without external parts.
//!
//! It is the same for every role. Its script fetches what it shows, with the token that the reader
//! of the page types, which it keeps in memory only. The policy in its headers allows this script
//! and this style, by their digests, and requests to this listener; so a key or a value that ever
//! reached the document as markup could run nothing.

use std::sync::LazyLock;

use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{IntoResponse, Response};
use larder_protocol::base64;
use ring::digest::{SHA256, digest};

/// Returns the page.
pub(super) fn page() -> Response {
    let Page { document, policy } = &*PAGE;
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, policy),
        (REFERRER_POLICY, "no-referrer"),
    ];
    (headers, document.as_str()).into_response()
}

#[derive(Debug)]
struct Page {
    document: String,
    policy: String,
}

static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let document = DOCUMENT.replace("{style}", STYLE).replace("{script}", SCRIPT);
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        source(SCRIPT),
        source(STYLE)
    );
    Page { document, policy }
});

/// Returns a text's digest as a source of a policy.
///
/// Source: Content Security Policy Level 3, section 2.3.1.
fn source(text: &str) -> String {
    let mut encoded = Vec::new();
    base64::encode(&mut encoded, digest(&SHA256, text.as_bytes()).as_ref());
    format!("sha256-{}", String::from_utf8_lossy(&encoded))
}

const DOCUMENT: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

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
    fn the_document_is_whole_and_self_contained() {
        let document = &PAGE.document;
        assert!(!document.contains("{style}") && !document.contains("{script}"));
        for foreign in ["src=\"http", "href=\"http", "@import", "innerHTML", "eval("] {
            assert!(!document.contains(foreign), "the page contains {foreign}");
        }
        for id in SCRIPT.split("$(\"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(DOCUMENT.contains(&format!("id=\"{id}\"")), "no element {id}");
        }
    }
}
