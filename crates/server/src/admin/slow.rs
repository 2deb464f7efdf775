//! `/api/v1/slow`: the latest slow requests.

use axum::http::StatusCode;
use axum::response::Response;
use larder_stats::Counter;
use serde_json::{Value, json};

use crate::admin::routes::as_json;
use crate::observe::slow::SlowRequests;
use crate::server::Server;

/// Returns the latest slow requests, the newest first. With `-X` they have no keys.
pub(super) fn slow(server: &Server) -> Response {
    let slow = server.statistics.slow.as_ref();
    let list = slow.map(SlowRequests::list).unwrap_or_default();
    let latest = list.iter().map(|slow| {
        let mut members = slow.members(server.options.dump);
        members.shift_insert(0, "at".to_owned(), slow.at().to_string().into());
        Value::Object(members)
    });
    let body = json!({
        "slower_than_us": slow.map(|slow| slow.slower_than().as_micros() as u64),
        "slow_requests": server.counter(Counter::SlowRequests),
        "latest": latest.collect::<Vec<Value>>(),
    });
    as_json((StatusCode::OK, body))
}
