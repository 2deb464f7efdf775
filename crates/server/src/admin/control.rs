//! Requests that change the running server: drain, clear and the memory limit.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use larder::LimitError;
use larder_protocol::text::render;
use larder_protocol::{ClientError, ServerError};
use serde_json::{Value, json};

use super::AdminContext;
use super::json::{read_object, refusal};
use super::routes::{Site, as_json, recovering};
use crate::clock::monotonic_us;
use crate::server::open::GROWTH_MAX;
use crate::server::{NotCleared, Server};

/// Returns the routes of these requests.
pub(super) fn routes() -> Router<Site> {
    Router::new()
        .route("/api/v1/drain", get(drain).post(begin_drain).delete(undo_drain))
        .route("/api/v1/clear", post(clear))
        .route("/api/v1/kill", post(kill))
        .route("/api/v1/memory-limit", post(limit_memory))
}

async fn drain(State(site): State<Site>) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    as_json(drain_state(&serving.server))
}

async fn begin_drain(State(site): State<Site>) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    let grace_us = i64::from(serving.server.options.drain_grace_secs) * 1_000_000;
    serving.server.life.drain.begin(monotonic_us() + grace_us);
    wake(serving);
    as_json(drain_state(&serving.server))
}

async fn undo_drain(State(site): State<Site>) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    serving.server.life.drain.undo();
    wake(serving);
    as_json(drain_state(&serving.server))
}

/// Wakes the workers, so that they react immediately. Idle workers sleep without a timeout.
fn wake(serving: &AdminContext) {
    for worker in &serving.workers {
        worker.wake();
    }
}

fn drain_state(server: &Server) -> (StatusCode, Value) {
    let connections = server.connection_count();
    let state = server.life.drain.state(monotonic_us(), connections).name();
    (StatusCode::OK, json!({ "state": state, "connections": connections }))
}

#[expect(clippy::redundant_closure_for_method_calls, reason = "a method has one lifetime")]
async fn clear(State(site): State<Site>) -> Response {
    let Some(serving) = site.serving() else { return recovering() };
    match serving.execute(|direct| direct.clear_all()).await {
        Ok(Ok(())) => as_json((StatusCode::OK, json!({ "status": "cleared" }))),
        Ok(Err(NotCleared::Forbidden(error))) => refusal(StatusCode::FORBIDDEN, words(error)),
        Ok(Err(NotCleared::Refused(error))) => refusal(StatusCode::SERVICE_UNAVAILABLE, error),
        Ok(Err(NotCleared::Origins(faults))) => {
            refusal(StatusCode::SERVICE_UNAVAILABLE, format_args!("not cleared by {faults}"))
        }
        Err(error) => refusal(StatusCode::SERVICE_UNAVAILABLE, error),
    }
}

/// Closes a connection, or all connections of a user.
async fn kill(State(site): State<Site>, body: Body) -> Response {
    let Some(AdminContext { server, .. }) = site.serving() else { return recovering() };
    let members = match read_object(body).await {
        Ok(members) => members,
        Err(response) => return response,
    };
    let table = &server.connections.table;
    let connection = members.get("connection").and_then(Value::as_i64);
    let user = members.get("user").and_then(Value::as_str);
    let killed = match (connection.map(i32::try_from), user) {
        (Some(Ok(descriptor)), None) => table.kill(descriptor),
        (Some(Err(_)), None) => 0,
        (None, Some(name)) => table.kill_user(name.as_bytes()),
        _ => return refusal(StatusCode::BAD_REQUEST, KILL_EXPECTED),
    };
    as_json((StatusCode::OK, json!({ "killed": killed })))
}

/// Sets the memory limit from the body of the request, like `cache_memlimit`.
async fn limit_memory(State(site): State<Site>, body: Body) -> Response {
    let Some(AdminContext { server, .. }) = site.serving() else { return recovering() };
    let members = match read_object(body).await {
        Ok(members) => members,
        Err(response) => return response,
    };
    let Some(mebibytes) = members.get("megabytes").and_then(Value::as_u64) else {
        return refusal(StatusCode::BAD_REQUEST, EXPECTED);
    };
    match mebibytes {
        ..MEBIBYTES_MIN => {
            return refusal(StatusCode::BAD_REQUEST, words(ClientError::MemoryLimitTooSmall));
        }
        MEBIBYTES_MIN..=MEBIBYTES_MAX => {}
        _ => return refusal(StatusCode::BAD_REQUEST, words(ClientError::MemoryLimitInBytes)),
    }
    match server.set_memory_limit(mebibytes) {
        Ok(()) => as_json((StatusCode::OK, json!({ "megabytes": mebibytes }))),
        Err(error) => {
            let opened_with = server.options.memory_bytes;
            let bounds = bounds(error, opened_with);
            let words = format!("{}: {bounds}", words(ServerError::MemoryLimitFixed));
            refusal(StatusCode::CONFLICT, words)
        }
    }
}

/// Returns the bounds of the memory limit in MiB, each with its reason.
fn bounds(LimitError { min, max, .. }: LimitError, opened_with: u64) -> String {
    let lowest = (min as u64).div_ceil(MEBIBYTE).max(MEBIBYTES_MIN);
    let (highest, opened_with) = (max as u64 / MEBIBYTE, opened_with / MEBIBYTE);
    let why_highest = if highest > opened_with {
        format!("{} times -m, which is {opened_with}: a higher limit needs a restart", GROWTH_MAX)
    } else {
        "the most that this server could reserve at startup (-e and -k reserve no more than -m)"
            .into()
    };
    format!(
        "the memory limit must be {lowest} to {highest} MiB; with less, the index and the minimum \
         of segments for items do not fit, and {highest} MiB is {why_highest}"
    )
}

/// Returns the message of a protocol error.
fn words(error: impl Into<larder_protocol::Response>) -> String {
    let mut words = Vec::new();
    render::response(&mut words, &error.into());
    String::from_utf8_lossy(&words).trim_end().to_owned()
}

const KILL_EXPECTED: &str = "expected {\"connection\": NUMBER}, with a number of stats conns, or \
                             {\"user\": NAME}";
const EXPECTED: &str =
    "expected a JSON object with a whole number of MiB, as {\"megabytes\": 1024}";

/// The limits of `cache_memlimit`.
const MEBIBYTES_MIN: u64 = 8;
const MEBIBYTES_MAX: u64 = 1_000_000_000;

const MEBIBYTE: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bound_of_the_memory_limit_has_its_reason() {
        let error = LimitError { asked: 0, min: 9 << 20 | 1, max: 1024 << 20 };
        let words = bounds(error, 64 << 20);
        assert!(words.starts_with("the memory limit must be 10 to 1024 MiB; with less"), "{words}");
        assert!(words.contains("1024 MiB is 16 times -m, which is 64"), "{words}");
        let small = LimitError { asked: 0, min: 2_826_240, max: 64 << 20 };
        let words = bounds(small, 64 << 20);
        assert!(words.starts_with("the memory limit must be 8 to 64 MiB"), "{words}");
        assert!(words.contains("64 MiB is the most that this server could reserve"), "{words}");
    }
}
