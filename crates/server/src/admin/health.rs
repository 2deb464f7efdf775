//! Health and readiness: whether the process works, and whether it serves requests.

use std::borrow::Cow;
use std::path::PathBuf;

use axum::http::StatusCode;
use larder::Builder;
use larder::TierMode;
use serde_json::{Value, json};

use super::Serving;
use crate::clock::monotonic_us;
use crate::server::Server;
use crate::server::progress::Progress;
use crate::words::Counted;

/// Returns the response of `/health`: whether the workers turn their loops. A server that is still
/// opening its cache is healthy.
pub(super) fn health(serving: Option<&Serving>) -> (StatusCode, Value) {
    match serving {
        None => of_silence(0),
        Some(Serving { server, .. }) => {
            of_silence(server.life.heartbeats.silence_us(monotonic_us()))
        }
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

/// Returns the response of `/ready`: whether this server serves cache requests, and the reason if
/// it does not.
pub(super) fn ready(
    serving: Option<&Serving>,
    opening: Option<&OpeningCache>,
) -> (StatusCode, Value) {
    let Some(Serving { server, .. }) = serving else {
        return match opening.and_then(OpeningCache::percent) {
            Some(percent) => not_ready(&format!("recovering {percent} %")),
            None => not_ready("recovering"),
        };
    };
    match reason_not_ready(server) {
        None => {
            let reasons: Vec<_> = reason_degraded(server).into_iter().collect();
            (StatusCode::OK, json!({ "status": "ready", "reasons": reasons }))
        }
        Some(reason) => not_ready(&reason),
    }
}

/// Returns why new clients should use another server; `None` if they are welcome.
pub(super) fn reason_not_ready(server: &Server) -> Option<Cow<'static, str>> {
    if server.life.stop.requested().is_some() {
        Some("stopping".into())
    } else if server.life.is_handed_over() {
        Some("handed over".into())
    } else if server.life.drain.closes_at_us().is_some() {
        Some("draining".into())
    } else if !server.connections.is_accepting() {
        Some("as many connections as -c allows".into())
    } else {
        failure_of_store(server).map(|why| format!("the disk has failed: {why}").into())
    }
}

/// Returns what a store has lost or cannot read; `None` if no such damage is known.
fn reason_degraded(server: &Server) -> Option<String> {
    let tier = server.cache.tier().filter(|tier| tier.mode == TierMode::Store)?;
    let items = |count| Counted(count, "item");
    if let Some(accepted) = tier.started.accepted {
        let dropped = items(accepted.doubtful);
        return Some(format!("degraded: this start has dropped {dropped} because of damage"));
    }
    let lost = tier.statistics.lost_items;
    if lost > 0 {
        return Some(format!("degraded: {} of the disk damaged and lost", items(lost)));
    }
    let unreadable = tier.unreadable;
    (unreadable > 0).then(|| format!("degraded: the disk did not return {}", items(unreadable)))
}

/// Returns why the server refuses changes. Unlike a store, a cache continues in memory.
fn failure_of_store(server: &Server) -> Option<String> {
    if !server.cache.has_tier_failed() {
        return None;
    }
    let tier = server.cache.tier().filter(|tier| tier.mode == TierMode::Store)?;
    Some(tier.trouble.unwrap_or_else(|| "see its log for the reason".to_owned()))
}

fn not_ready(reason: &str) -> (StatusCode, Value) {
    let document = json!({ "status": "not ready", "reasons": [reason] });
    (StatusCode::SERVICE_UNAVAILABLE, document)
}

/// The progress of a cache that is being opened.
#[derive(Debug)]
pub(super) enum OpeningCache {
    /// From the memory file of `-e`.
    File {
        path: PathBuf,
        /// The size of the complete file.
        memory_bytes: u64,
    },
    /// From the directory of `--tier-path`.
    Directory(Progress),
}

impl OpeningCache {
    /// Returns how much of a directory has been read, or how much of a new file's memory has been
    /// reserved, in percent; `None` if no file is being created. Attaching to an existing file
    /// takes milliseconds, which is too short to measure.
    fn percent(&self) -> Option<u64> {
        match self {
            Self::File { path, memory_bytes } => {
                let reserved_bytes = u128::from(Builder::reserved_bytes(path)?);
                let percent = reserved_bytes * 100 / u128::from((*memory_bytes).max(1));
                Some(percent.min(100) as u64)
            }
            Self::Directory(progress) => Some(progress.percent().into()),
        }
    }
}

/// A worker that has been silent for longer than this is considered stuck.
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
        let (status, document) = ready(None, None);
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(document["reasons"], json!(["recovering"]));
    }
}
