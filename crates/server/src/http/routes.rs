//! The paths, and the role that each needs.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use larder_options::Role;
use serde_json::{Value, json};

use super::Shared;
use crate::http::access::Rules;
use crate::http::{health, metrics, page, status};

/// A listener, as its requests see it.
#[derive(Clone, Debug)]
struct Site {
    shared: Arc<Shared>,
    rules: Arc<Rules>,
}

/// The paths that every request may ask for, whatever host it names: probes name the address that
/// they know.
const PROBES: &[&str] = &["/health", "/healthz", "/ready", "/readyz", "/metrics"];

/// The paths whose reading needs less than the highest role. One that ends in a slash stands for
/// all paths that begin with it.
const READING: &[(&str, Role)] = &[
    ("/", Role::Probe),
    ("/api/v1/configuration", Role::Read),
    ("/api/v1/role", Role::Probe),
    ("/api/v1/settings", Role::Read),
    ("/api/v1/status", Role::Read),
];

/// Returns the router of a listener.
pub(super) fn router(shared: Arc<Shared>, rules: Rules) -> Router {
    let site = Site { shared, rules: Arc::new(rules) };
    Router::new()
        .route("/", get(|| async { page::page() }))
        .route("/health", get(health))
        .route("/healthz", get(health))
        .route("/ready", get(ready))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/v1/configuration", get(configuration))
        .route("/api/v1/role", get(role))
        .route("/api/v1/settings", get(settings))
        .route("/api/v1/status", get(status_now))
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such path\n") })
        .layer(middleware::from_fn_with_state(site.clone(), guard))
        .with_state(site)
}

/// Returns the role that a request needs. Every method but GET and HEAD needs the highest, as does
/// a path that is not listed: none is open by oversight.
fn role_needed(method: &Method, path: &str) -> Role {
    let is_above = |of: &str| of.len() > 1 && of.ends_with('/') && path.starts_with(of);
    let covers = |of: &str| of == path || is_above(of);
    match READING.iter().find(|(of, _)| covers(of)) {
        Some((_, role)) if matches!(*method, Method::GET | Method::HEAD) => *role,
        _ => Role::Full,
    }
}

/// Lets a request through if it may do what its method and path need.
async fn guard(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let mut response = if body_bytes(request.headers()) > BODY_BYTES_MAX {
        (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n").into_response()
    } else if PROBES.contains(&path) {
        next.run(request).await
    } else {
        let needed = role_needed(request.method(), path);
        let tokens = site.shared.tokens.as_ref();
        match site.rules.admit(request.headers(), request.uri(), tokens, needed) {
            Ok(role) => {
                request.extensions_mut().insert(Granted(role));
                next.run(request).await
            }
            Err(refused) => {
                let (status, words) = (refused.status(), format!("{}\n", refused.words()));
                let mut response = (status, words).into_response();
                if status == StatusCode::UNAUTHORIZED {
                    let bearer = HeaderValue::from_static("Bearer");
                    response.headers_mut().insert(WWW_AUTHENTICATE, bearer);
                }
                response
            }
        }
    };
    let headers = response.headers_mut();
    for (name, value) in ON_EVERY_RESPONSE {
        headers.insert(name.clone(), HeaderValue::from_static(value));
    }
    response
}

/// The role of a request.
#[derive(Clone, Copy, Debug)]
struct Granted(Role);

/// Returns the length of the body that a request announces.
fn body_bytes(headers: &HeaderMap) -> u64 {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Returns a JSON document that ends with a newline, as a terminal wants it.
fn as_json((status, value): (StatusCode, Value)) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}

async fn health(State(site): State<Site>) -> Response {
    as_json(health::health(site.shared.serving.get()))
}

async fn ready(State(site): State<Site>) -> Response {
    as_json(health::ready(site.shared.serving.get()))
}

async fn metrics(State(site): State<Site>) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    let page = metrics::page(&serving.server).await;
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response()
}

/// Returns the role of the request, for tools and pages that ask what they may do.
async fn role(Extension(Granted(role)): Extension<Granted>) -> Response {
    as_json((StatusCode::OK, json!({ "role": role.name() })))
}

async fn settings(State(site): State<Site>) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    let settings = larder_options::settings(&serving.server.current_options());
    let members = settings.into_iter().map(|(name, text)| (name.to_owned(), Value::String(text)));
    as_json((StatusCode::OK, members.collect()))
}

async fn configuration(State(site): State<Site>) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    as_json((StatusCode::OK, status::configuration(&serving.server)))
}

async fn status_now(State(site): State<Site>) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    as_json((StatusCode::OK, status::document(&serving.server).await))
}

fn recovering() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the server is recovering\n").into_response()
}

const ON_EVERY_RESPONSE: [(HeaderName, &str); 2] =
    [(CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];

/// No request here has a body that is read.
const BODY_BYTES_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_needs_the_highest_role() {
        for (method, path, needed) in [
            (Method::GET, "/api/v1/role", Role::Probe),
            (Method::GET, "/api/v1/settings", Role::Read),
            (Method::HEAD, "/api/v1/settings", Role::Read),
            (Method::POST, "/api/v1/settings", Role::Full),
            (Method::GET, "/api/v1/settings/x", Role::Full),
            (Method::GET, "/", Role::Probe),
            (Method::GET, "/elsewhere", Role::Full),
        ] {
            assert_eq!(role_needed(&method, path), needed, "{method} {path}");
        }
    }
}
