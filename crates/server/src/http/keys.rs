//! `/api/v1/keys`: lists keys, a page at a time.
//!
//! A page looks at a limited part of the index, so it may have fewer rows than asked for, or none,
//! and a cursor all the same. The cursor is a place in the index: a group, and a key in it. As for
//! any walk, every item that exists from the first page to the last is shown at least once, while
//! other clients store and the index grows; then an item may be shown twice.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use larder::{Cache, Cursor, Dumped};
use larder_item::{Deadline, KEY_BYTES_MAX};
use larder_protocol::base64;
use percent_encoding::percent_decode;
use serde_json::{Map, Value, json};
use tokio::task::yield_now;

use super::json::{decoded, insert_bytes, refusal};
use super::routes::{Site, as_json, recovering};

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    prefix: Vec<u8>,
    rows_max: usize,
    place: Place,
}

/// Where a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    /// The number of the group.
    group: u64,
    /// The last key of the group that is shown; empty for none. The keys of a group are shown in
    /// the order of their bytes.
    after: Vec<u8>,
}

/// Shows a page.
pub(super) async fn keys(State(site): State<Site>, RawQuery(query): RawQuery) -> Response {
    let Some(serving) = site.shared.serving.get() else { return recovering() };
    if !serving.server.options.dump {
        return refusal(StatusCode::FORBIDDEN, "listing keys is disabled: the server runs with -X");
    }
    let asked = match parse(query.as_deref().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(words) => return refusal(StatusCode::BAD_REQUEST, words),
    };
    let (shown, next) = page(&serving.server.cache, &asked).await;
    let rows = shown.iter().map(|item| row(&serving.server.cache, item));
    let cursor = next.map(|place| place.text());
    let page = json!({ "keys": rows.collect::<Vec<_>>(), "cursor": cursor });
    as_json((StatusCode::OK, page))
}

/// Returns the items of a page, and where the next one begins.
async fn page(cache: &Cache, asked: &Asked) -> (Vec<Dumped>, Option<Place>) {
    let (mut shown, mut found) = (Vec::new(), Vec::new());
    let Place { mut group, mut after } = asked.place.clone();
    for looked_at in 0..GROUPS_MAX {
        // Other requests of the listener are answered in between.
        if looked_at % GROUPS_PER_SLICE == GROUPS_PER_SLICE - 1 {
            yield_now().await;
        }
        let mut cursor = Cursor::at(group);
        if !cache.dump_group_of(&asked.prefix, &mut cursor, &mut found) {
            return (shown, None);
        }
        found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        for item in found.drain(..) {
            if item.key <= after {
                continue;
            }
            if shown.len() == asked.rows_max {
                return (shown, Some(Place { group, after }));
            }
            after.clone_from(&item.key);
            shown.push(item);
        }
        (group, after) = (cursor.position(), Vec::new());
    }
    (shown, Some(Place { group, after }))
}

/// Returns the row of an item.
fn row(cache: &Cache, item: &Dumped) -> Value {
    let mut row = Map::new();
    insert_bytes(&mut row, "key", &item.key);
    let ttl_secs = match item.meta.deadline {
        Deadline::NEVER => None,
        Deadline(second) => Some(second.saturating_sub(cache.now())),
    };
    row.insert("bytes".to_owned(), item.meta.value_bytes.into());
    row.insert("ttl_secs".to_owned(), ttl_secs.into());
    row.insert("idle_secs".to_owned(), cache.now().saturating_sub(item.meta.seen).into());
    Value::Object(row)
}

/// Parses a query: `prefix`, or `prefix_base64`, `limit` and `cursor`, each at most once.
fn parse(query: &str) -> Result<Asked, &'static str> {
    let (mut prefix, mut rows_max, mut place) = (None, None, None);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value: Vec<u8> = percent_decode(value.replace('+', " ").as_bytes()).collect();
        let is_new = match name {
            "prefix" => prefix.replace(value).is_none(),
            "prefix_base64" => {
                let bytes = decoded(&value, KEY_BYTES_MAX);
                let bytes = bytes.ok_or("prefix_base64 is no base64 of at most 250 bytes")?;
                prefix.replace(bytes).is_none()
            }
            "limit" => {
                let limit = str::from_utf8(&value).ok().and_then(|limit| limit.parse().ok());
                let limit = limit.filter(|limit| (1..=ROWS_MAX).contains(limit));
                rows_max.replace(limit.ok_or("limit is a number from 1 to 1000")?).is_none()
            }
            "cursor" => {
                let begins = Place::parse(&value);
                let begins = begins.ok_or("the cursor is not of this server: begin without one")?;
                place.replace(begins).is_none()
            }
            _ => return Err("the parameters are prefix or prefix_base64, limit and cursor"),
        };
        if !is_new {
            return Err("a parameter is given twice");
        }
    }
    let prefix: Vec<u8> = prefix.unwrap_or_default();
    if prefix.len() > KEY_BYTES_MAX {
        return Err("the prefix is longer than a key, 250 bytes");
    }
    let (rows_max, place) = (rows_max.unwrap_or(ROWS), place.unwrap_or_default());
    Ok(Asked { prefix, rows_max, place })
}

impl Place {
    /// Returns the place as the text of a cursor: seal, group and key in base64 that a URL takes.
    fn text(&self) -> String {
        let mut bytes = self.seal().to_be_bytes().to_vec();
        bytes.extend_from_slice(&self.group.to_be_bytes());
        bytes.extend_from_slice(&self.after);
        let mut text = Vec::new();
        base64::encode(&mut text, &bytes);
        let text = String::from_utf8_lossy(&text);
        text.trim_end_matches('=').replace('+', "-").replace('/', "_")
    }

    /// Parses the text of a cursor; `None` if this process has not made it.
    fn parse(text: &[u8]) -> Option<Self> {
        let mut text = str::from_utf8(text).ok()?.replace('-', "+").replace('_', "/");
        if text.len() > CURSOR_BYTES_MAX {
            return None;
        }
        text.extend(std::iter::repeat_n('=', text.len().next_multiple_of(4) - text.len()));
        let bytes = decoded(text.as_bytes(), CURSOR_BYTES_MAX)?;
        let (seal, rest) = bytes.split_first_chunk()?;
        let (group, after) = rest.split_first_chunk()?;
        let place = Self { group: u64::from_be_bytes(*group), after: after.to_vec() };
        (place.seal() == u64::from_be_bytes(*seal)).then_some(place)
    }

    /// Returns what tells this process's cursors from all others: a place means nothing in another
    /// cache.
    fn seal(&self) -> u64 {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        SECRET.get_or_init(RandomState::new).hash_one((self.group, &self.after))
    }
}

/// Rows of a page, unless another number is asked for.
const ROWS: usize = 100;
const ROWS_MAX: usize = 1000;

/// How many groups of the index a page looks at: some ten thousand items, a few milliseconds.
const GROUPS_MAX: usize = 2048;

/// How many of them the listener looks at before it turns to other requests.
const GROUPS_PER_SLICE: usize = 128;

/// More than the longest cursor has: 266 bytes in base64.
const CURSOR_BYTES_MAX: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_parsed_and_bad_ones_are_refused() {
        let parsed = parse("prefix=a%2Fb+%ff&limit=7").unwrap();
        let expected = Asked { prefix: b"a/b \xff".to_vec(), rows_max: 7, place: Place::default() };
        assert_eq!(parsed, expected);
        assert_eq!(parse("").unwrap().rows_max, ROWS);
        assert_eq!(parse("prefix_base64=%2FwA%3D").unwrap().prefix, [255, 0]);
        let long = format!("prefix={}", "k".repeat(251));
        for bad in [
            "limit=0",
            "limit=1001",
            "limit=-1",
            "limit=",
            "limit=%ff",
            "prefix=a&prefix=b",
            "prefix=a&prefix_base64=YQ%3D%3D",
            "prefix_base64=a",
            "cursor=",
            "cursor=x",
            "cursor=%ff",
            "cursor=AAAAAAAAAAAAAAAAAAAAAA",
            "sort=1",
            &long,
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_cursor_is_read_as_it_was_written_and_a_changed_one_is_refused() {
        for after in [Vec::new(), b"k".to_vec(), vec![255; KEY_BYTES_MAX]] {
            let place = Place { group: 77, after };
            let text = place.text();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            assert_eq!(Place::parse(text.as_bytes()), Some(place));
            let changed = if text.starts_with('A') { "B" } else { "A" }.to_owned() + &text[1..];
            assert_eq!(Place::parse(changed.as_bytes()), None);
        }
    }
}
