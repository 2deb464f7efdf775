//! `/api/v1/item/{key}`: inspects an item, and removes it.
//!
//! The key is in base64 for URLs. As plain text it would be unsafe: browsers and proxies shorten
//! paths such as `..`, so that a removal could hit another item, or the path `clear`, which removes
//! all items. An inspection shows a limited part of the value as JSON, and does not count as a get.

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use larder_item::{KEY_BYTES_MAX, check_key};
use larder_protocol as protocol;
use serde_json::{Map, Value};

use super::{Refusal, failed, terms};
use crate::admin::json::{decoded_for_url, insert_bytes, refusal};
use crate::admin::routes::{Site, as_json, recovering};
use crate::session::execute::direct::InspectedItem;

/// The path of an item, up to its key.
pub(in crate::admin) const PREFIX: &str = "/api/v1/item/";

/// Shows an item.
pub(in crate::admin) async fn show(
    State(site): State<Site>,
    Path(key): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    let server = &serving.server;
    // The cache's clock may be up to a second old here: only workers advance it at each request.
    // This call advances it.
    server.clock();
    let asked = key_of(&key).and_then(|key| Ok((key, bytes_of(query.as_deref())?)));
    let (key, bytes_max) = match asked {
        Ok(asked) => asked,
        Err((status, words)) => return refusal(status, words),
    };
    let asked = key.clone();
    match serving.execute(move |direct| direct.look(&asked, bytes_max)).await {
        Ok(Ok(Some(looked))) => as_json((StatusCode::OK, document(&key, looked, bytes_max))),
        Ok(Ok(None)) => refusal(StatusCode::NOT_FOUND, "there is no such item"),
        Ok(Err(error)) => refusal(StatusCode::SERVICE_UNAVAILABLE, error),
        Err(error) => refusal(StatusCode::SERVICE_UNAVAILABLE, error),
    }
}

/// Removes an item.
pub(in crate::admin) async fn remove(
    State(site): State<Site>,
    Path(key): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    let server = &serving.server;
    server.clock();
    let asked = key_of(&key).and_then(|key| {
        terms::without_conditions(&headers)?;
        match query.as_deref() {
            None | Some("") => Ok(key),
            Some(_) => Err((StatusCode::BAD_REQUEST, "a removal accepts no parameters".to_owned())),
        }
    });
    let key = match asked {
        Ok(key) => key,
        Err((status, words)) => return refusal(status, words),
    };
    let response = match serving.execute(move |direct| direct.delete(&key)).await {
        Ok(response) => response,
        Err(error) => return refusal(StatusCode::SERVICE_UNAVAILABLE, error),
    };
    match response {
        protocol::Response::Deleted => StatusCode::OK.into_response(),
        protocol::Response::NotFound => refusal(StatusCode::NOT_FOUND, "there is no such item"),
        response => {
            let (status, words) = failed(&response);
            refusal(status, words)
        }
    }
}

/// Returns the key that a path contains.
pub(super) fn key_of(text: &str) -> Result<Vec<u8>, Refusal> {
    let refused = |words: String| (StatusCode::BAD_REQUEST, words);
    let key = decoded_for_url(text.as_bytes(), KEY_BYTES_MAX)
        .ok_or_else(|| refused("the key is not base64url of at most 250 bytes".to_owned()))?;
    check_key(&key).map_err(|error| refused(error.to_string()))?;
    Ok(key)
}

/// Returns how many bytes of the value a query requests.
fn bytes_of(query: Option<&str>) -> Result<usize, Refusal> {
    let expected = || (StatusCode::BAD_REQUEST, EXPECTED.to_owned());
    let Some(query) = query.filter(|query| !query.is_empty()) else { return Ok(BYTES) };
    let number = query.strip_prefix("bytes=").and_then(|number| number.parse().ok());
    number.filter(|number| *number <= BYTES_MAX).ok_or_else(expected)
}

/// Returns the document of an item with the first bytes of its value, as text if they are valid
/// UTF-8.
fn document(key: &[u8], looked: InspectedItem, bytes_max: usize) -> Value {
    let InspectedItem { meta, ttl_secs, idle_secs, mut value } = looked;
    value.truncate(bytes_max);
    if value.len() < meta.value_bytes {
        without_partial_character(&mut value);
    }
    let mut members = Map::new();
    insert_bytes(&mut members, "key", key);
    members.insert("bytes".to_owned(), meta.value_bytes.into());
    members.insert("flags".to_owned(), meta.flags.into());
    members.insert("ttl_secs".to_owned(), ttl_secs.into());
    members.insert("idle_secs".to_owned(), idle_secs.into());
    members.insert("value_bytes".to_owned(), value.len().into());
    insert_bytes(&mut members, "value", &value);
    Value::Object(members)
}

/// Removes the first bytes of an incomplete character, if the rest is text.
fn without_partial_character(value: &mut Vec<u8>) {
    if let Err(error) = str::from_utf8(value)
        && error.error_len().is_none()
    {
        value.truncate(error.valid_up_to());
    }
}

const EXPECTED: &str = "the only parameter is bytes=N, from 0 to 65536";

/// Number of bytes of the value that are shown unless the query requests another number.
const BYTES: usize = 1024;
const BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_base64_for_urls_and_bytes_are_bounded() {
        assert_eq!(key_of("Li4"), Ok(b"..".to_vec()));
        assert_eq!(key_of("_wA"), Ok(vec![255, 0]));
        let long = "A".repeat(336);
        for bad in ["", "!", "a", "Li4=x", "\u{e4}", &long] {
            assert!(matches!(key_of(bad), Err((StatusCode::BAD_REQUEST, _))), "{bad}");
        }
        assert_eq!((bytes_of(None), bytes_of(Some(""))), (Ok(BYTES), Ok(BYTES)));
        assert_eq!((bytes_of(Some("bytes=0")), bytes_of(Some("bytes=65536"))), (Ok(0), Ok(65536)));
        for bad in ["bytes=65537", "bytes=-1", "bytes=", "bytes=1&bytes=2", "limit=1"] {
            assert!(bytes_of(Some(bad)).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cut_character_is_left_out_and_bytes_stay_bytes() {
        let cut = |bytes: &[u8]| {
            let mut value = bytes.to_vec();
            without_partial_character(&mut value);
            value
        };
        assert_eq!(cut(&"aü".as_bytes()[..2]), b"a");
        assert_eq!(cut("aü".as_bytes()), "aü".as_bytes());
        assert_eq!(cut(b"\xff\xfe\xc3"), b"\xff\xfe\xc3");
    }
}
