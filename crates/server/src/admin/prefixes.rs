//! `/api/v1/prefixes`: items, bytes, gets and hits by key prefix.

use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

use crate::admin::json::{insert_bytes, refusal};
use crate::admin::routes::as_json;
use crate::clock::monotonic_us;
use crate::observe::prefix_stats::{PrefixRow, ROWS_MAX, Sums};
use crate::server::Server;

/// Returns the statistics of the prefixes with the most bytes. `query` may contain `limit=N`.
pub(super) fn prefixes(server: &Server, query: &str) -> Response {
    if !server.options.dump {
        let words = "the server was started with -X, so it does not list prefixes of keys";
        return refusal(StatusCode::FORBIDDEN, words);
    }
    let Some(limit) = limit(query) else {
        let words = format!("limit must be a number from 1 to {ROWS_MAX}, as in ?limit=20");
        return refusal(StatusCode::BAD_REQUEST, words);
    };
    let report = server.statistics.prefix_report();
    let census = report.census.map(|census| {
        let age_secs = (monotonic_us() - census.taken_us) as f64 / 1e6;
        json!({ "age_secs": rounded(age_secs, 10.0), "share": rounded(census.share, 1000.0) })
    });
    let (shown, beyond) = report.rows.split_at(limit.min(report.rows.len()));
    let rows: Vec<Value> = shown.iter().map(row).collect();
    let mut other = report.other;
    beyond.iter().for_each(|row| other.add(&row.sums));
    let body = json!({
        "delimiter": char::from(server.options.prefixes.delimiter).to_string(),
        "census": census,
        "counted_secs": rounded(report.counted_secs, 10.0),
        "sampled": report.sampled,
        "prefixes": report.rows.len(),
        "rows": rows,
        "none": sums(&report.none),
        "other": sums(&other),
    });
    as_json((StatusCode::OK, body))
}

fn row(row: &PrefixRow) -> Value {
    let mut members = Map::new();
    insert_bytes(&mut members, "prefix", &row.prefix);
    members.append(&mut sums(&row.sums));
    Value::Object(members)
}

fn sums(sums: &Sums) -> Map<String, Value> {
    sums.members().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// Returns the limit that a query requests, `None` if it is invalid.
fn limit(query: &str) -> Option<usize> {
    let mut limit = Some(LIMIT_DEFAULT);
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        if name == "limit" {
            limit = value.parse().ok().filter(|limit| (1..=ROWS_MAX).contains(limit));
        }
    }
    limit
}

fn rounded(number: f64, places: f64) -> Value {
    json!((number * places).round() / places)
}

const LIMIT_DEFAULT: usize = 100;
