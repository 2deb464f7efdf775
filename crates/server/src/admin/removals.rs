//! `/api/v1/delete-prefix`: starts a removal of all items whose keys begin with a prefix, shows its
//! progress and cancels it.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use larder_item::KEY_BYTES_MAX;
use larder_protocol::Refusal;
use serde_json::{Map, Value, json};

use super::json::{decoded, insert_bytes, read_object, refusal};
use super::routes::{Site, as_json, recovering};
use crate::observe::prefix_removal::Job;

/// Begins a removal.
pub(super) async fn begin(State(site): State<Site>, request: Request) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    let members = match read_object(request.into_body()).await {
        Ok(members) => members,
        Err(refused) => return refused,
    };
    let prefix = match prefix_of(&members) {
        Ok(prefix) => prefix,
        Err(words) => return refusal(StatusCode::BAD_REQUEST, words),
    };
    if serving.server.near.is_some() {
        return refusal(StatusCode::FORBIDDEN, NEAR);
    }
    match serving.server.delete_prefix(&prefix) {
        Ok(id) => as_json((StatusCode::ACCEPTED, json!({ "id": id }))),
        Err(refused) => {
            let (status, words) = words_of(refused);
            refusal(status, words)
        }
    }
}

/// Removing the copies would leave the items.
const NEAR: &str = "a near cache owns no items: use the admin listener of its origin, or the \
                    command delete_prefix, which it passes to the origin";

/// Returns the only member of a request: the prefix as text or in base64.
fn prefix_of(members: &Map<String, Value>) -> Result<Vec<u8>, &'static str> {
    let mut members = members.iter();
    match (members.next(), members.next()) {
        (Some((name, Value::String(text))), None) if name == "prefix" => Ok(text.clone().into()),
        (Some((name, Value::String(text))), None) if name == "prefix_base64" => {
            decoded(text.as_bytes(), KEY_BYTES_MAX)
                .ok_or("prefix_base64 must be base64 of at most 250 bytes")
        }
        _ => Err("expected {\"prefix\":\"…\"} or {\"prefix_base64\":\"…\"}, and nothing else"),
    }
}

fn words_of(refused: Refusal) -> (StatusCode, &'static str) {
    match refused {
        Refusal::DeletePrefixNotAllowed => {
            (StatusCode::FORBIDDEN, "removals are disabled: the server runs with -F")
        }
        Refusal::DeletingPrefix => {
            (StatusCode::CONFLICT, "another removal is in progress: wait for it, or cancel it")
        }
        Refusal::NoPrefix => {
            (StatusCode::BAD_REQUEST, "the prefix is empty: /api/v1/clear removes all items")
        }
        Refusal::PrefixTooLong => {
            (StatusCode::BAD_REQUEST, "the prefix is longer than a key, 250 bytes")
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the removal could not be started; try again"),
    }
}

/// Shows a removal.
pub(super) async fn show(State(site): State<Site>, Path(id): Path<String>) -> Response {
    with_job(&site, &id, |_| ())
}

/// Cancels a removal, unless it has ended, and shows it.
pub(super) async fn cancel(State(site): State<Site>, Path(id): Path<String>) -> Response {
    with_job(&site, &id, Job::cancel)
}

fn with_job(site: &Site, id: &str, act: impl FnOnce(&Job)) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    let Ok(id) = id.parse() else {
        return refusal(StatusCode::BAD_REQUEST, "the number of a removal is missing");
    };
    let Some(job) = serving.server.upkeep.prefix_removals.find(id) else {
        return refusal(StatusCode::NOT_FOUND, "no such removal, or it was too long ago");
    };
    act(&job);
    let progress = job.progress();
    let mut members = Map::new();
    members.insert("id".to_owned(), job.id.into());
    // A prefix is a part of keys, and `-X` hides keys.
    if serving.server.options.dump {
        insert_bytes(&mut members, "prefix", &job.prefix);
    }
    members.insert("state".to_owned(), progress.state.name().into());
    members.insert("removed".to_owned(), progress.removed.into());
    members.insert("progress".to_owned(), progress.share.into());
    members.insert("secs".to_owned(), progress.time.as_secs_f64().into());
    as_json((StatusCode::OK, Value::Object(members)))
}
