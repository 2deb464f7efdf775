//! The document of `/api/v1/status`: the current values that the status page and `larder top` show.
//!
//! Its counters are totals. A client requests them repeatedly and shows the differences, so the
//! server keeps no state for its clients.

mod disk_tier;
mod segments;
pub(super) mod statistics;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use larder_protocol::StatsSection;
use larder_stats::Timing;
use serde_json::{Map, Value, json};

use super::metrics::answer;
use crate::clock::monotonic_us;
use crate::observe::latency::LatencySnapshot;
use crate::server::Server;
use crate::stats::origins::{self, OriginRow};

/// Returns the document.
pub(super) async fn document(server: &Arc<Server>) -> Value {
    // The cache's clock may be up to a second old here: only workers advance it at each request.
    // This call advances it.
    server.clock();
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    json!({
        "time_ms": millis,
        "silent_secs": server.life.heartbeats.silence_us(monotonic_us()) / 1_000_000,
        "stats": numbers(answer(server, StatsSection::General).await),
        "larder": numbers(answer(server, StatsSection::Larder).await),
        "latency": latency(&server.statistics.latencies.snapshot()),
        "segments": segments::map(&server.cache).await,
        "tier": disk_tier::tier(server),
        "origins": origins::rows(server).into_iter().map(origin).collect::<Vec<_>>(),
    })
}

/// Returns an origin of a near cache.
fn origin(row: OriginRow) -> Value {
    let OriginRow { address, weight, share, state, is_fresh, counts } = row;
    let mut members = json!({
        "address": address,
        "weight": weight,
        "share": share,
        "state": state,
        "fresh": is_fresh,
    });
    if let Some(members) = members.as_object_mut() {
        members.extend(counts.into_iter().map(|(name, count)| (name.to_owned(), count.into())));
    }
    members
}

/// Returns the buckets of the histograms: the upper bound of each in seconds, and for each timing
/// the number of durations up to that bound and above the previous one. The last count is the
/// number of durations above all bounds.
fn latency(snapshot: &LatencySnapshot) -> Value {
    let bounds: Vec<f64> = snapshot.of(Timing::Loop).buckets().map(|(bound, _)| bound).collect();
    let counts = Timing::ALL.iter().map(|timing| {
        let durations = snapshot.of(*timing);
        let mut below = 0;
        let mut counts = Vec::with_capacity(bounds.len() + 1);
        for (_, up_to) in durations.buckets() {
            counts.push(up_to - below);
            below = up_to;
        }
        counts.push(durations.count() - below);
        (timing.command().unwrap_or("loop").to_owned(), Value::from(counts))
    });
    json!({ "bounds_secs": bounds, "counts": counts.collect::<Map<_, _>>() })
}

/// Returns rows as an object. A value that parses as a number becomes one.
fn numbers(rows: Vec<(String, String)>) -> Map<String, Value> {
    let number = |text: String| match text.parse::<u64>() {
        Ok(number) => Value::from(number),
        Err(_) => text.parse::<f64>().map_or(Value::String(text), Value::from),
    };
    rows.into_iter().map(|(name, text)| (name, number(text))).collect()
}

/// Returns the document of `/api/v1/configuration`: each option with its value and its source.
pub(super) fn configuration(server: &Server) -> Value {
    let options = larder_options::configured(&server.options).into_iter().map(|option| {
        json!({
            "name": option.name,
            "value": option.value,
            "unit": option.unit,
            "origin": option.origin,
            "doc": option.doc,
        })
    });
    options.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_read_as_numbers_are_numbers() {
        let rows = [("a", "18446744073709551615"), ("b", "0.25"), ("c", "1.6.45"), ("d", "none")];
        let rows = rows.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let expected = json!({ "a": u64::MAX, "b": 0.25, "c": "1.6.45", "d": "none" });
        assert_eq!(Value::Object(numbers(rows.into())), expected);
    }
}
