//! Health and readiness: whether the process works, and whether it serves.

use std::sync::atomic::Ordering::Relaxed;

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::Serving;
use crate::clock::monotonic_us;

/// Returns the answer of `/health`: whether the workers turn their loops. A server that is still
/// opening its cache is alive.
pub(super) fn health(serving: Option<&Serving>) -> (StatusCode, Value) {
    match serving {
        None => of_silence(0),
        Some(Serving { server, .. }) => of_silence(server.heartbeats.silence_us(monotonic_us())),
    }
}

fn of_silence(silence_us: u64) -> (StatusCode, Value) {
    let silent_secs = silence_us / 1_000_000;
    let (status, word) = match silence_us > SILENCE_US_MAX {
        false => (StatusCode::OK, "ok"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "a worker is silent"),
    };
    (status, json!({ "status": word, "silent_secs": silent_secs }))
}

/// Returns the answer of `/ready`: whether requests of the cache are served here, and otherwise
/// why not.
pub(super) fn ready(serving: Option<&Serving>) -> (StatusCode, Value) {
    let reason = match serving {
        None => Some("recovering"),
        Some(Serving { server, .. }) if server.stop.requested().is_some() => Some("stopping"),
        Some(Serving { server, .. }) if server.handed_over.load(Relaxed) => Some("handed over"),
        Some(Serving { server, .. }) if server.drain.closes_at_us().is_some() => Some("draining"),
        Some(Serving { server, .. }) if !server.accepting.load(Relaxed) => {
            Some("as many connections as -c allows")
        }
        Some(_) => None,
    };
    match reason {
        None => (StatusCode::OK, json!({ "status": "ready", "reasons": [] })),
        Some(reason) => {
            let document = json!({ "status": "not ready", "reasons": [reason] });
            (StatusCode::SERVICE_UNAVAILABLE, document)
        }
    }
}

/// A worker that has been silent for longer is stuck.
const SILENCE_US_MAX: u64 = 30_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_may_be_silent_for_thirty_seconds() {
        for (silence_us, status) in [
            (0, StatusCode::OK),
            (30_000_000, StatusCode::OK),
            (30_000_001, StatusCode::SERVICE_UNAVAILABLE),
        ] {
            assert_eq!(of_silence(silence_us).0, status, "{silence_us}");
        }
        let silent = json!({ "status": "a worker is silent", "silent_secs": 31 });
        assert_eq!(of_silence(31_000_000).1, silent);
    }

    #[test]
    fn a_server_that_opens_its_cache_is_alive_and_not_ready() {
        assert_eq!(health(None).0, StatusCode::OK);
        let (status, document) = ready(None);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(document["reasons"], json!(["recovering"]));
    }
}
