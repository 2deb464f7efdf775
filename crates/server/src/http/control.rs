//! Requests that change the running server: drain, clear and the memory limit.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use larder_protocol::text::render;
use larder_protocol::{ClientError, ServerError};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Serving;
use super::routes::{BODY_BYTES_MAX, Site, as_json, recovering};
use crate::clock::monotonic_us;
use crate::server::Server;

/// Returns the routes of these requests.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/api/v1/drain", get(drain).post(begin_drain).delete(undo_drain))
        .route("/api/v1/clear", post(clear))
        .route("/api/v1/memory-limit", post(limit_memory))
}

async fn drain(State(site): State<Site>) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    as_json(drain_state(&serving.server))
}

async fn begin_drain(State(site): State<Site>) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    let grace_us = i64::from(serving.server.options.drain_grace_secs) * 1_000_000;
    serving.server.drain.begin(monotonic_us() + grace_us);
    wake(serving);
    as_json(drain_state(&serving.server))
}

async fn undo_drain(State(site): State<Site>) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    serving.server.drain.undo();
    wake(serving);
    as_json(drain_state(&serving.server))
}

/// Lets the workers obey at once: idle ones sleep without a limit.
fn wake(serving: &Serving) {
    for worker in &serving.workers {
        worker.wake();
    }
}

fn drain_state(server: &Server) -> (StatusCode, Value) {
    let connections = server.connection_count();
    let state = server.drain.state(monotonic_us(), connections).name();
    (StatusCode::OK, json!({ "state": state, "connections": connections }))
}

async fn clear(State(site): State<Site>) -> Response {
    let Some(Serving { server, .. }) = site.serving() else { return recovering() };
    as_json(match server.clear_all() {
        Ok(()) => (StatusCode::OK, json!({ "status": "cleared" })),
        Err(error) => refusal(StatusCode::FORBIDDEN, &words(error)),
    })
}

async fn limit_memory(State(site): State<Site>, body: Body) -> Response {
    let Some(Serving { server, .. }) = site.serving() else { return recovering() };
    let bytes = match timeout(BODY_TIME_MAX, to_bytes(body, BODY_BYTES_MAX)).await {
        Ok(Ok(bytes)) => bytes,
        Ok(Err(_)) => {
            return as_json(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large or cut"));
        }
        Err(_) => {
            let words = "the body did not arrive within 10 s";
            return as_json(refusal(StatusCode::REQUEST_TIMEOUT, words));
        }
    };
    as_json(set_limit(server, &bytes))
}

/// Sets the limit that a body names, as `cache_memlimit` does.
fn set_limit(server: &Server, body: &[u8]) -> (StatusCode, Value) {
    let Some(mebibytes) = megabytes(body) else {
        return refusal(StatusCode::BAD_REQUEST, EXPECTED);
    };
    let refused = match mebibytes {
        ..MEBIBYTES_MIN => Some(ClientError::MemoryLimitTooSmall),
        MEBIBYTES_MIN..=MEBIBYTES_MAX => None,
        _ => Some(ClientError::MemoryLimitInBytes),
    };
    if let Some(error) = refused {
        return refusal(StatusCode::BAD_REQUEST, &words(error));
    }
    match server.set_memory_limit(mebibytes) {
        Ok(()) => (StatusCode::OK, json!({ "megabytes": mebibytes })),
        Err(error) => {
            let words = format!("{}: {error}", words(ServerError::MemoryLimitFixed));
            refusal(StatusCode::CONFLICT, &words)
        }
    }
}

fn megabytes(body: &[u8]) -> Option<u64> {
    serde_json::from_slice::<Value>(body).ok()?.as_object()?.get("megabytes")?.as_u64()
}

fn refusal(status: StatusCode, words: &str) -> (StatusCode, Value) {
    (status, json!({ "error": words }))
}

/// Returns the words of an error on the wire.
fn words(error: impl Into<larder_protocol::Response>) -> String {
    let mut words = Vec::new();
    render::response(&mut words, &error.into());
    String::from_utf8_lossy(&words).trim_end().to_owned()
}

const EXPECTED: &str =
    "expected a JSON object with a whole number of MiB, as {\"megabytes\": 1024}";

/// The limits of `cache_memlimit`.
const MEBIBYTES_MIN: u64 = 8;
const MEBIBYTES_MAX: u64 = 1_000_000_000;

/// How long a body may take to arrive.
const BODY_TIME_MAX: Duration = Duration::from_secs(10);
