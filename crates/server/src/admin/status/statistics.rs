//! `/api/v1/stats`: the numbers of BigCache's server, and the rows of `stats`.

use std::sync::Arc;

use axum::http::StatusCode;
use larder_protocol::StatsSection;
use larder_stats::Counter;
use serde_json::{Map, Value, json};

use crate::admin::metrics;
use crate::server::Server;

/// Returns the document.
pub(in crate::admin) async fn document(server: &Arc<Server>) -> (StatusCode, Value) {
    // The cache's clock may be up to a second old here: only workers advance it at each request.
    // This call advances it.
    server.clock();
    let mut members = Map::new();
    for (name, counter) in BIGCACHE {
        members.insert(name.to_owned(), json!(server.counter(counter)));
    }
    // BigCache counts reads of an entry that was replaced by another key with the same hash. Larder
    // compares keys, so this never happens.
    members.insert("collisions".to_owned(), json!(0));
    for (name, text) in metrics::answer(server, StatsSection::General).await {
        let value = as_value(&name, text);
        members.insert(name, value);
    }
    (StatusCode::OK, Value::Object(members))
}

/// Returns a number as a JSON number, and everything else as a string.
fn as_value(name: &str, text: String) -> Value {
    if TEXTS.contains(&name) {
        return Value::String(text);
    }
    let number = text.parse::<u64>().map(Value::from);
    number.or_else(|_| text.parse::<f64>().map(Value::from)).unwrap_or(Value::String(text))
}

/// BigCache's names of counters.
const BIGCACHE: [(&str, Counter); 4] = [
    ("hits", Counter::GetHits),
    ("misses", Counter::GetMisses),
    ("delete_hits", Counter::DeleteHits),
    ("delete_misses", Counter::DeleteMisses),
];

/// Rows that are not numbers, even if they look like numbers.
const TEXTS: [&str; 4] = ["version", "libevent", "larder_version", "larder_commit"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_a_commit_is_none() {
        for (name, text, value) in [
            ("cmd_get", "7", json!(7)),
            ("bytes", "18446744073709551615", json!(u64::MAX)),
            ("rusage_user", "0.250000", json!(0.25)),
            ("larder_commit", "12345e6", json!("12345e6")),
            ("larder_commit", "1234567", json!("1234567")),
            ("version", "1.6", json!("1.6")),
            ("words", "and so on", json!("and so on")),
        ] {
            assert_eq!(as_value(name, text.to_owned()), value, "{name} {text}");
        }
    }
}
