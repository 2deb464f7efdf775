//! `/api/v1/hot`: the keys with the most commands and the keys with the most bytes.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::admin::json::{insert_bytes, refusal};
use crate::admin::routes::as_json;
use crate::observe::hot::{HotKey, LISTED_MAX};
use crate::server::Server;

/// Returns the hottest keys. `query` may contain `limit=N`.
pub(super) fn hot(server: &Server, query: &str) -> Response {
    if !server.options.dump {
        let words = "the server was started with -X, so it does not list keys";
        return refusal(StatusCode::FORBIDDEN, words);
    }
    let Some(limit) = limit(query) else {
        let words = format!("limit must be a number from 1 to {LISTED_MAX}, as in ?limit=20");
        return refusal(StatusCode::BAD_REQUEST, words);
    };
    let list = server.statistics.hot_keys.list();
    let rows = |keys: &[HotKey], error: &str| -> Value {
        keys.iter().take(limit).map(|hot_key| row(hot_key, error)).collect()
    };
    let body = json!({
        "window_secs": rounded(list.window_secs),
        "sampled": list.sampled,
        "by_rate": rows(&list.by_rate, "error_per_sec"),
        "by_bytes": rows(&list.by_bytes, "error_bytes_per_sec"),
    });
    as_json((StatusCode::OK, body))
}

fn row(hot_key: &HotKey, error: &str) -> Value {
    let mut row = Map::new();
    insert_bytes(&mut row, "key", &hot_key.key);
    row.insert("per_sec".to_owned(), rounded(hot_key.per_sec));
    row.insert("bytes_per_sec".to_owned(), rounded(hot_key.bytes_per_sec));
    row.insert(error.to_owned(), rounded(hot_key.error));
    Value::Object(row)
}

/// Returns the limit that a query requests, `None` if it is invalid.
fn limit(query: &str) -> Option<usize> {
    let mut limit = Some(LIMIT_DEFAULT);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        if name == "limit" {
            limit = value.parse().ok().filter(|limit| (1..=LISTED_MAX).contains(limit));
        }
    }
    limit
}

/// Rounds an estimate, because further digits would mean nothing.
fn rounded(number: f64) -> Value {
    json!((number * 10.0).round() / 10.0)
}

const LIMIT_DEFAULT: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_between_one_and_the_length_of_the_list() {
        for (query, expected) in [
            ("", Some(20)),
            ("limit=1", Some(1)),
            ("x=y&limit=100", Some(100)),
            ("limit=101", None),
            ("limit=0", None),
            ("limit=", None),
            ("limit=-1", None),
        ] {
            assert_eq!(limit(query), expected, "{query:?}");
        }
    }
}
