//! JSON that contains keys. A key is an arbitrary byte string: if it is not valid UTF-8, it is
//! encoded in base64 in a field with another name.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use larder_protocol::base64;
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::routes::BODY_BYTES_MAX;
pub(super) use crate::words::insert_bytes;

/// Reads the body of a request as a JSON object.
///
/// # Errors
/// Returns the response if the body is too long, does not arrive, or is not an object.
pub(super) async fn read_object(body: Body) -> Result<Map<String, Value>, Response> {
    let read = axum::body::to_bytes(body, BODY_BYTES_MAX);
    let bytes = match timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            return Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"));
        }
        Err(_) => return Err(refusal(StatusCode::REQUEST_TIMEOUT, "the body does not arrive")),
    };
    match serde_json::from_slice(&bytes) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(refusal(StatusCode::BAD_REQUEST, "the body is not a JSON object")),
    }
}

/// Decodes standard base64; `None` if the result is longer than `bytes_max` or the text is
/// malformed.
pub(super) fn decoded(text: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut bytes = vec![0; bytes_max];
    let decoded = base64::decode(text, &mut bytes)?.len();
    bytes.truncate(decoded);
    Some(bytes)
}

/// Decodes base64 for URLs (RFC 4648, section 5) without padding; `None` if the result is longer
/// than `bytes_max` or the text is malformed.
pub(super) fn decoded_for_url(text: &[u8], bytes_max: usize) -> Option<Vec<u8>> {
    let mut text = str::from_utf8(text).ok()?.replace('-', "+").replace('_', "/");
    if text.len() > bytes_max.saturating_mul(2).saturating_add(4) {
        return None;
    }
    text.extend(std::iter::repeat_n('=', text.len().next_multiple_of(4) - text.len()));
    decoded(text.as_bytes(), bytes_max)
}

/// Returns an error response with its reason in one line.
pub(super) fn refusal(status: StatusCode, words: impl std::fmt::Display) -> Response {
    (status, format!("{words}\n")).into_response()
}

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_up_to_a_length() {
        assert_eq!(decoded(b"/wA=", 2), Some(vec![255, 0]));
        assert_eq!(
            (decoded(b"/wA=", 1), decoded(b"/wA", 9), decoded(b"", 0)),
            (None, None, Some(vec![]))
        );
        assert_eq!(decoded_for_url(b"_-w", 2), Some(vec![255, 236]));
        assert_eq!(decoded_for_url(b"Li4", 2), Some(b"..".to_vec()));
        for bad in [&b"_-w"[..], b"!", b"a", b"\xff"] {
            assert_eq!(decoded_for_url(bad, 1), None, "{bad:?}");
        }
    }
}
