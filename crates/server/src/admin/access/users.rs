//! Requests with the token of a user of `--users`. Their rights are those that the user has on the
//! wire: a role cannot express prefixes.

use axum::http::Method;
use larder_options::Role;
use larder_protocol::{Permission, Right, Scope};

use crate::admin::cache;
use crate::users::user::User;

/// Returns the role of a user's request: at least `needed` if the user's rights permit the request,
/// otherwise [`Role::Probe`].
pub(crate) fn role_of(user: &User, method: &Method, path: &str, needed: Role) -> Role {
    let is_reading = matches!(*method, Method::GET | Method::HEAD);
    let key = cache::key_in(path);
    let right = if is_reading { Right::Read } else { Right::Write };
    let (right, scope) = match &key {
        _ if needed == Role::Probe => (None, Scope::Nothing),
        Some(key) => (Some(right), Scope::Key(key)),
        None if is_reading && SHOW_NO_KEYS.contains(&path) => (Some(Right::Read), Scope::Nothing),
        None if needed == Role::Read => (Some(Right::Read), Scope::AllItems),
        None if !is_reading && changes_items(path) => (Some(Right::Write), Scope::AllItems),
        None => (Some(Right::Admin), Scope::AllItems),
    };
    match user.denial(&Permission { right, scope }, Right::Admin) {
        None => needed.max(general_role(user)),
        Some(_) => Role::Probe,
    }
}

/// Returns the role that a user has for requests in general, for tools and pages.
fn general_role(user: &User) -> Role {
    match user.right() {
        None => Role::Probe,
        Some(Right::Admin) if !user.has_prefixes() => Role::Full,
        Some(_) => Role::Read,
    }
}

/// True for the paths whose changes concern items, not the server.
fn changes_items(path: &str) -> bool {
    matches!(path, "/api/v1/clear" | cache::CLEAR) || path.starts_with("/api/v1/delete-prefix")
}

/// The paths that show no keys. A user with prefixes may read them.
const SHOW_NO_KEYS: &[&str] = &[
    "/api/v1/configuration",
    "/api/v1/drain",
    "/api/v1/history",
    "/api/v1/settings",
    "/api/v1/stats",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Users;

    #[test]
    fn a_users_rights_are_those_of_the_wire() {
        let (_file, users) = Users::of_text(
            "users = [ { name = \"none\" }, { name = \"reader\", rights = \"read\" }, \
             { name = \"shop\", rights = \"write\", prefixes = [\"shop:\"] }, \
             { name = \"writer\", rights = \"write\" }, { name = \"root\", rights = \"admin\" } ]",
        );
        let permitted = |method: Method, path: &str, needed: Role| {
            let users = users.all();
            let names = users.iter().filter(|user| role_of(user, &method, path, needed) >= needed);
            names.map(|user| user.name().to_owned()).collect::<Vec<_>>().join(" ")
        };
        for (method, path, needed, names) in [
            (Method::GET, "/", Role::Probe, "none reader root shop writer"),
            (Method::GET, "/api/v1/cache/shop:1", Role::Read, "reader root shop writer"),
            (Method::GET, "/api/v1/cache/shop%3A1", Role::Read, "reader root shop writer"),
            (Method::GET, "/api/v1/cache/other", Role::Read, "reader root writer"),
            (Method::PUT, "/api/v1/cache/shop:1", Role::Full, "root shop writer"),
            (Method::PUT, "/api/v1/cache/other", Role::Full, "root writer"),
            (Method::DELETE, "/api/v1/cache/shop:1", Role::Full, "root shop writer"),
            (Method::DELETE, "/api/v1/cache/clear", Role::Full, "root writer"),
            (Method::DELETE, "/api/v1/cache/%63lear", Role::Full, "root writer"),
            (Method::GET, "/api/v1/item/c2hvcDox", Role::Read, "reader root shop writer"),
            (Method::DELETE, "/api/v1/item/b3RoZXI", Role::Full, "root writer"),
            (Method::GET, "/api/v1/item/***", Role::Read, "reader root writer"),
            (Method::GET, "/api/v1/stats", Role::Read, "reader root shop writer"),
            (Method::GET, "/api/v1/keys", Role::Read, "reader root writer"),
            (Method::GET, "/api/v1/hot", Role::Read, "reader root writer"),
            (Method::GET, "/api/v1/status", Role::Read, "reader root writer"),
            (Method::POST, "/api/v1/delete-prefix", Role::Full, "root writer"),
            (Method::POST, "/api/v1/clear", Role::Full, "root writer"),
            (Method::POST, "/api/v1/memory-limit", Role::Full, "root"),
            (Method::POST, "/api/v1/drain", Role::Full, "root"),
            (Method::GET, "/unknown", Role::Full, "root"),
        ] {
            assert_eq!(permitted(method.clone(), path, needed), names, "{method} {path}");
        }
    }
}
