//! `/api/v1/cache/{key}`: items over HTTP. The value is the body.
//!
//! All requests share the admin listener's thread, so a request occupies it only for a limited time
//! before others take their turn. With a disk tier it runs on a thread that may wait for the disk.
//! Requests have the effect and the counters of a get, a set and a delete of the text protocol.
//! docs/http.md describes them.

mod get;
mod key;
pub(super) mod look;
pub(super) mod memory;
mod pace;
mod put;
mod terms;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ALLOW, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
};
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use larder_protocol as protocol;

use crate::admin::AdminContext;
use crate::server::NotCleared;
use crate::session::execute::direct::{Found, Value};
use memory::{Memory, Streams};
use terms::TTL;

/// The prefix of the path of every item.
pub(super) const PREFIX: &str = "/api/v1/cache/";

/// A refused request: the status, and the message for the client.
type Refusal = (StatusCode, String);

/// True if the body of a request is a value. Its length is checked in this module.
pub(super) fn takes_value(method: &Method, path: &str) -> bool {
    *method == Method::PUT && path.starts_with(PREFIX)
}

/// Returns the key in the path of an item; `None` for other paths, and for a key that is malformed.
pub(super) fn key_in(path: &str) -> Option<Vec<u8>> {
    match path.strip_prefix(look::PREFIX) {
        _ if path == CLEAR => None,
        Some(key) => look::key_of(key).ok(),
        None => key::of_path(path).ok().filter(|_| path.starts_with(PREFIX)),
    }
}

/// Responds to a request for an item.
pub(super) async fn answer(serving: &AdminContext, memory: &Memory, request: Request) -> Response {
    let server = &serving.server;
    // The cache's clock may be up to a second old here: only workers advance it at each request.
    // This call advances it.
    server.clock();
    let path = request.uri().path();
    let answered = match *request.method() {
        // The undecoded path decides, so that the item `clear` also has a path: `%63lear`.
        Method::DELETE if path == CLEAR => clear(serving).await,
        Method::GET => read(serving, memory, request.uri(), true).await,
        Method::HEAD => read(serving, memory, request.uri(), false).await,
        Method::DELETE => {
            let unconditional = terms::without_conditions(request.headers());
            delete(serving, request.uri(), unconditional).await
        }
        Method::PUT => put::put(serving, memory, request).await,
        _ => Ok((StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, METHODS)]).into_response()),
    };
    let refused = |(status, words): Refusal| (status, format!("{words}\n")).into_response();
    let mut response = answered.unwrap_or_else(refused);
    for (name, value) in ON_EVERY_RESPONSE {
        response.headers_mut().insert(name.clone(), HeaderValue::from_static(value));
    }
    response
}

async fn read(
    serving: &AdminContext,
    memory: &Memory,
    uri: &Uri,
    with_value: bool,
) -> Result<Response, Refusal> {
    terms::without_query(uri)?;
    let key = key::of_path(uri.path())?;
    let found = serving.execute(move |direct| direct.get(&key, with_value)).await?;
    let found = found.map_err(|response| failed(&response))?;
    let Some(Found { meta, ttl_secs, value }) = found else {
        return Ok(StatusCode::NOT_FOUND.into_response());
    };
    let body = match value {
        Value::Whole(value) => Body::from(value),
        Value::Pieces(first, others) => get::stream(memory, first, others, meta.value_bytes)?,
    };
    let mut response = body.into_response();
    response.extensions_mut().insert(Streams);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // A HEAD request, whose response has no body, also receives the length.
    headers.insert(CONTENT_LENGTH, HeaderValue::from(meta.value_bytes));
    headers.insert(terms::FLAGS, HeaderValue::from(meta.flags));
    if let Some(ttl_secs) = ttl_secs {
        headers.insert(TTL, HeaderValue::from(ttl_secs));
    }
    Ok(response)
}

async fn delete(
    serving: &AdminContext,
    uri: &Uri,
    unconditional: Result<(), Refusal>,
) -> Result<Response, Refusal> {
    terms::without_query(uri)?;
    unconditional?;
    let key = key::of_path(uri.path())?;
    match serving.execute(move |direct| direct.delete(&key)).await? {
        protocol::Response::Deleted => Ok(StatusCode::OK.into_response()),
        protocol::Response::NotFound => Ok(StatusCode::NOT_FOUND.into_response()),
        response => Err(failed(&response)),
    }
}

#[expect(clippy::redundant_closure_for_method_calls, reason = "a method has one lifetime")]
async fn clear(serving: &AdminContext) -> Result<Response, Refusal> {
    match serving.execute(|direct| direct.clear_all()).await? {
        Ok(()) => Ok(StatusCode::OK.into_response()),
        Err(NotCleared::Forbidden(_)) => {
            Err((StatusCode::FORBIDDEN, "the server runs with -F, which forbids this".to_owned()))
        }
        Err(NotCleared::Refused(error)) => {
            Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string()))
        }
        Err(NotCleared::Origins(faults)) => {
            Err((StatusCode::SERVICE_UNAVAILABLE, format!("not cleared by {faults}")))
        }
    }
}

/// Returns the HTTP error for a server error of the protocol.
fn failed(response: &protocol::Response) -> Refusal {
    use protocol::{Response, ServerError};
    let (status, words) = match response {
        Response::ServerError(ServerError::OutOfMemoryStoring) => {
            (StatusCode::INSUFFICIENT_STORAGE, OUT_OF_MEMORY.to_owned())
        }
        Response::ServerError(ServerError::OutOfDiskStoring) => {
            (StatusCode::INSUFFICIENT_STORAGE, OUT_OF_DISK.to_owned())
        }
        Response::ServerError(ServerError::OutOfDiskIndex) => {
            (StatusCode::INSUFFICIENT_STORAGE, OUT_OF_INDEX.to_owned())
        }
        Response::ServerError(ServerError::Stuck) => {
            (StatusCode::SERVICE_UNAVAILABLE, STUCK.to_owned())
        }
        response => (StatusCode::SERVICE_UNAVAILABLE, words(response)),
    };
    (status, words)
}

/// Returns the message of a protocol error, without the prefix that marks it as one.
fn words(response: &protocol::Response) -> String {
    let mut line = Vec::new();
    protocol::text::render::response(&mut line, response);
    let line = String::from_utf8_lossy(&line);
    line.trim_end().trim_start_matches("SERVER_ERROR ").to_owned()
}

const OUT_OF_MEMORY: &str = "no memory for the value: it is larger than the memory that can be \
                             evicted";
const OUT_OF_DISK: &str =
    "no space for the value on the disk: the old value stays; delete items or raise --tier-size";
const OUT_OF_INDEX: &str = "no memory for another key on the disk: delete items or raise -m";
const STUCK: &str = "a stopped process that shares the cache holds the item; try again later";

/// The path whose DELETE removes every item.
pub(super) const CLEAR: &str = "/api/v1/cache/clear";

const METHODS: &str = "GET, HEAD, PUT, DELETE";

/// A value is untrusted data. No browser may run it as a page, and no page of another site may load
/// it.
const ON_EVERY_RESPONSE: [(HeaderName, &str); 2] = [
    (CONTENT_SECURITY_POLICY, "sandbox"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];
