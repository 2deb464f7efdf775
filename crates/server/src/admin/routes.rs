//! The paths of the admin listener, and the role that each needs.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Extension, Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use larder_options::Role;
use larder_stats::Counter;
use serde_json::{Value, json};

use super::{AdminContext, Shared};
use crate::admin::access;
use crate::admin::access::journal::{Peer, Write};
use crate::admin::access::{AccessRequest, RefusalReason, Rules};
use crate::admin::cache::memory::Memory;
use crate::admin::connections::activity::Activity;
use crate::admin::{
    cache, control, health, hot, keys, metrics, page, prefixes, removals, slow, status,
};
use crate::server::statistics::threads::Thread;
use crate::users::user::User;

/// A listener, from the point of view of its requests.
#[derive(Clone, Debug)]
pub(super) struct Site {
    pub(super) shared: Arc<Shared>,
    rules: Arc<Rules>,
}

impl Site {
    /// Returns the user of `--users` whose token the request carries, or whom the peer's
    /// certificate names. A page of another site can make a browser present its certificate, so
    /// that counts only for requests that do not come from a page.
    fn user(&self, headers: &HeaderMap, peer: Option<&Peer>) -> Option<Arc<User>> {
        let users = self.serving()?.server.access.users.as_ref()?;
        if access::has_token(headers) {
            return users.of_token(access::bearer(headers)?);
        }
        let peer = peer.filter(|_| !access::is_of_page(headers))?;
        users.of_certificate(peer.names.iter().map(|name| &**name))
    }

    /// Returns the server, once it serves.
    pub(super) fn serving(&self) -> Option<&AdminContext> {
        self.shared.serving.get()
    }
}

/// The paths that accept any `Host`, because a probe uses whichever address it was configured with.
const PROBES: &[&str] = &["/health", "/healthz", "/ready", "/readyz", "/metrics"];

/// The paths that can be read with less than the highest role. A path that ends in a slash stands
/// for all paths that begin with it.
const READING: &[(&str, Role)] = &[
    ("/", Role::Probe),
    ("/api/v1/configuration", Role::Read),
    ("/api/v1/delete-prefix/", Role::Read),
    ("/api/v1/drain", Role::Read),
    ("/api/v1/history", Role::Read),
    ("/api/v1/hot", Role::Read),
    (cache::look::PREFIX, Role::Read),
    ("/api/v1/keys", Role::Read),
    ("/api/v1/prefixes", Role::Read),
    ("/api/v1/role", Role::Probe),
    ("/api/v1/settings", Role::Read),
    ("/api/v1/slow", Role::Read),
    ("/api/v1/stats", Role::Read),
    ("/api/v1/status", Role::Read),
    (cache::PREFIX, Role::Read),
    ("/keys", Role::Probe),
];

/// Returns the router of a listener.
pub(super) fn router(shared: Arc<Shared>, rules: Rules) -> Router {
    let site = Site { shared, rules: Arc::new(rules) };
    Router::new()
        .route("/", get(|| async { page::status() }))
        .route("/keys", get(|| async { page::keys() }))
        .route("/health", get(health))
        .route("/healthz", get(health))
        .route("/ready", get(ready))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/api/v1/configuration", get(configuration))
        .route("/api/v1/role", get(role))
        .route("/api/v1/settings", get(settings))
        .route("/api/v1/history", get(history))
        .route("/api/v1/hot", get(hot_keys))
        .route("/api/v1/slow", get(slow))
        .route("/api/v1/prefixes", get(prefixes))
        .route("/api/v1/stats", get(stats))
        .route("/api/v1/status", get(status_now))
        .route(cache::PREFIX, any(item))
        .route("/api/v1/cache/{*key}", any(item))
        .route("/api/v1/item/{key}", get(cache::look::show).delete(cache::look::remove))
        .merge(control::routes())
        .route("/api/v1/keys", get(keys::keys))
        .route("/api/v1/delete-prefix", post(removals::begin))
        .route("/api/v1/delete-prefix/{id}", get(removals::show).delete(removals::cancel))
        .fallback(|| async { (StatusCode::NOT_FOUND, "no such path\n") })
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(site.clone(), guard))
        .with_state(site)
}

/// Returns the role that a request needs. Every method except GET and HEAD needs the highest role.
/// A path that is not listed also does, so that no path is open by oversight.
fn role_needed(method: &Method, path: &str) -> Role {
    let is_above = |of: &str| of.len() > 1 && of.ends_with('/') && path.starts_with(of);
    let covers = |of: &str| of == path || is_above(of);
    match READING.iter().find(|(of, _)| covers(of)) {
        Some((_, role)) if is_reading(method) => *role,
        _ => Role::Full,
    }
}

/// Lets a request through if its role permits its method and path.
async fn guard(State(site): State<Site>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let is_probe = PROBES.contains(&path);
    let is_value = cache::takes_value(request.method(), path);
    let mut response = if !is_value && body_bytes(request.headers()) > BODY_BYTES_MAX as u64 {
        (StatusCode::PAYLOAD_TOO_LARGE, "the body is too large\n").into_response()
    } else if is_probe {
        next.run(request).await
    } else {
        let needed = role_needed(request.method(), path);
        let tokens = site.shared.tokens.as_ref();
        let (headers, uri) = (request.headers(), request.uri());
        let writes = !is_reading(request.method());
        let user = site.user(headers, request.extensions().get::<Peer>());
        let user_role =
            user.as_ref().map(|user| access::users::role_of(user, request.method(), path, needed));
        let asked = AccessRequest { headers, uri, writes, needed, user_role };
        match site.rules.admit(&asked, tokens) {
            Ok(role) => {
                if let Some(activity) = request.extensions().get::<Arc<Activity>>()
                    && role > Role::Probe
                {
                    activity.begin();
                }
                request.extensions_mut().insert(GrantedRole(role));
                match needed {
                    Role::Full if !is_reading(request.method()) => {
                        recorded(&site, role, user.as_deref(), request, next).await
                    }
                    _ => next.run(request).await,
                }
            }
            Err(refused) => {
                if let (RefusalReason::BadToken, Some(AdminContext { server, .. })) =
                    (refused, site.serving())
                {
                    server.counters(Thread::Admin).bump(Counter::AdminAuthFailures);
                }
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
    let Shared { probes, memory, .. } = &*site.shared;
    let memories = if is_probe { &[probes, memory][..] } else { &[memory] };
    response = Memory::lease_of(memories, response).await;
    let headers = response.headers_mut();
    for (name, value) in ON_EVERY_RESPONSE {
        headers.insert(name.clone(), HeaderValue::from_static(value));
    }
    response
}

/// Runs a request that changes something, and logs it with its outcome.
async fn recorded(
    site: &Site,
    role: Role,
    user: Option<&User>,
    request: Request,
    next: Next,
) -> Response {
    let peer = request.extensions().get::<Peer>().cloned();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let response = next.run(request).await;
    if let Some(peer) = &peer {
        let (user, path, status) = (user.map(User::name), uri.path(), response.status());
        site.shared.journal.record(&Write { role, user, peer, method: &method, path, status });
    }
    response
}

fn is_reading(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD)
}

/// The role of a request.
#[derive(Clone, Copy, Debug)]
struct GrantedRole(Role);

/// Returns the length of the body that a request announces.
fn body_bytes(headers: &HeaderMap) -> u64 {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    length.and_then(|length| length.parse().ok()).unwrap_or(0)
}

/// Returns a JSON document that ends with a newline, for terminals.
pub(super) fn as_json((status, value): (StatusCode, Value)) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], format!("{value}\n")).into_response()
}

async fn health(State(site): State<Site>) -> Response {
    as_json(health::health(site.shared.serving.get()))
}

async fn ready(State(site): State<Site>) -> Response {
    as_json(health::ready(site.serving(), site.shared.opening.get()))
}

async fn metrics(State(site): State<Site>) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    let page = metrics::page(&serving.server).await;
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response()
}

/// Returns the role of the request, for tools and pages that must find out what they may do.
async fn role(Extension(GrantedRole(role)): Extension<GrantedRole>) -> Response {
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

async fn history(State(site): State<Site>) -> Response {
    match site.serving() {
        Some(_) => as_json((StatusCode::OK, site.shared.history.document())),
        None => recovering(),
    }
}

async fn hot_keys(State(site): State<Site>, uri: Uri) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    hot::hot(&serving.server, uri.query().unwrap_or_default())
}

async fn slow(State(site): State<Site>) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    slow::slow(&serving.server)
}

async fn prefixes(State(site): State<Site>, uri: Uri) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    prefixes::prefixes(&serving.server, uri.query().unwrap_or_default())
}

async fn stats(State(site): State<Site>) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    as_json(status::statistics::document(&serving.server).await)
}

async fn item(State(site): State<Site>, request: Request) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    cache::answer(serving, &site.shared.memory, request).await
}

pub(super) fn recovering() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the server is recovering\n").into_response()
}

const ON_EVERY_RESPONSE: [(HeaderName, &str); 2] =
    [(CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];

/// The maximum length of a body that is not a value. A longer body is refused according to its
/// announced length. If it has none, the handler that reads the body refuses it.
pub(super) const BODY_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_lists_every_path() {
        let document = include_str!("../../../../docs/http.md");
        for (path, _) in READING {
            assert!(document.contains(path), "docs/http.md has no {path}");
        }
        for path in PROBES {
            assert!(document.contains(path), "docs/http.md has no {path}");
        }
    }

    #[test]
    fn what_is_not_listed_needs_the_highest_role() {
        for (method, path, needed) in [
            (Method::GET, "/api/v1/role", Role::Probe),
            (Method::GET, "/api/v1/settings", Role::Read),
            (Method::HEAD, "/api/v1/settings", Role::Read),
            (Method::POST, "/api/v1/settings", Role::Full),
            (Method::GET, "/api/v1/hot", Role::Read),
            (Method::GET, "/api/v1/slow", Role::Read),
            (Method::GET, "/api/v1/settings/x", Role::Full),
            (Method::GET, "/", Role::Probe),
            (Method::GET, "/keys", Role::Probe),
            (Method::POST, "/keys", Role::Full),
            (Method::GET, "/api/v1/history", Role::Read),
            (Method::GET, "/api/v1/item/Li4", Role::Read),
            (Method::DELETE, "/api/v1/item/Li4", Role::Full),
            (Method::GET, "/elsewhere", Role::Full),
            (Method::GET, "/api/v1/stats", Role::Read),
            (Method::GET, "/api/v1/prefixes", Role::Read),
            (Method::GET, "/api/v1/cache/a/../b", Role::Read),
            (Method::HEAD, "/api/v1/cache/", Role::Read),
            (Method::PUT, "/api/v1/cache/k", Role::Full),
            (Method::DELETE, "/api/v1/cache/clear", Role::Full),
            (Method::OPTIONS, "/api/v1/cache/k", Role::Full),
            (Method::GET, "/api/v1/cache", Role::Full),
            (Method::GET, "/api/v1/keys", Role::Read),
            (Method::GET, "/api/v1/delete-prefix/1", Role::Read),
            (Method::DELETE, "/api/v1/delete-prefix/1", Role::Full),
            (Method::POST, "/api/v1/delete-prefix", Role::Full),
        ] {
            assert_eq!(role_needed(&method, path), needed, "{method} {path}");
        }
    }
}
