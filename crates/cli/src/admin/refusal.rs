//! The messages for responses that are errors.

use hyper::StatusCode;
use larder_loadgen::address::Address;
use larder_loadgen::connect::refusal::TLS_ONLY;

use super::client::{Answer, Ask};

/// Returns a message that names the refused request, the reason, and the remedy.
pub(super) fn words(address: &Address, ask: &Ask, answer: &Answer) -> String {
    // The query may contain keys, which are untrusted bytes.
    let path = ask.path.split('?').next().unwrap_or_default();
    let said = said(&answer.body);
    let because = if said.is_empty() { answer.status.to_string() } else { said.clone() };
    match answer.status {
        StatusCode::BAD_REQUEST if said.contains("speaks TLS only") => {
            format!("{address}: {TLS_ONLY}")
        }
        StatusCode::UNAUTHORIZED => format!(
            "{address} refuses {} {path}: {because}; the token of --token-file or LARDER_TOKEN \
             must have the role {}",
            ask.method, ask.role
        ),
        StatusCode::FORBIDDEN if said.contains("role") => format!(
            "{address} refuses {} {path}: {because}; it needs the role {}: use the Unix socket of \
             --admin-listen, or a token with that role (--token-file, LARDER_TOKEN)",
            ask.method, ask.role
        ),
        StatusCode::NOT_FOUND => {
            format!("{address} has no {path}: it is not a larderd, or an older one")
        }
        _ => format!("{address} answered {} {path}: {because}", ask.method),
    }
}

/// Returns the first line of a response, escaped, because another server may send any bytes.
fn said(body: &[u8]) -> String {
    let line = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = &line[..line.len().min(WORDS_BYTES_MAX)];
    line.trim_ascii().escape_ascii().to_string()
}

/// More than any reason that larderd sends.
const WORDS_BYTES_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: StatusCode, body: &[u8]) -> String {
        let address = Address::Unix("/a".into());
        let answer = Answer { status, body: body.to_vec() };
        words(&address, &Ask::get("/api/v1/keys?prefix=secret"), &answer)
    }

    #[test]
    fn a_refusal_names_the_role_that_is_needed() {
        let words = refused(StatusCode::FORBIDDEN, b"the role of this request is too low here\n");
        assert!(words.contains("needs the role read") && !words.contains("secret"), "{words}");
        let words = refused(StatusCode::FORBIDDEN, b"the server runs with -X\n");
        assert!(words.contains("-X") && !words.contains("role"), "{words}");
        let words = refused(StatusCode::UNAUTHORIZED, b"this needs a token");
        assert!(words.contains("LARDER_TOKEN must have the role read"), "{words}");
    }

    #[test]
    fn foreign_answers_are_shortened_and_escaped() {
        let words =
            refused(StatusCode::BAD_REQUEST, &[b"\x1b]0;x\x07".as_slice(), &[b'w'; 9999]].concat());
        assert!(words.contains("\\x1b]0;x\\x07w") && words.len() < 300, "{words}");
        let words = refused(StatusCode::SERVICE_UNAVAILABLE, b"");
        assert!(words.ends_with("503 Service Unavailable"), "{words}");
    }
}
