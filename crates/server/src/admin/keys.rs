//! `/api/v1/keys`: lists keys, one page at a time.
//!
//! A page examines a limited part of the index. So it may have fewer rows than requested, or none,
//! although more pages follow. If more follow, it has a cursor, with which the client requests the
//! next page. The cursor is a position in an index: a number, and the last key that was shown at
//! this position. Every item that exists from the first page to the last is shown at least once,
//! even if other clients store items and the index grows in the meantime. If it grows, an item may
//! be shown twice.
//!
//! The pages of a cache with a disk tier continue with the index of the disk after memory. The
//! pages of a store begin with it, because it contains all items. The server keeps no state between
//! two pages. An item of a cache that moves between memory and disk during the walk may be shown
//! twice, or not at all.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use larder::{Cache, Cursor, Dumped, TierMode};
use larder_item::{Deadline, KEY_BYTES_MAX};
use larder_protocol::base64;
use percent_encoding::percent_decode;
use serde_json::{Map, Value, json};
use tokio::task::yield_now;

use super::AdminContext;
use super::cache::memory::{Lease, Memory};
use super::executing::NoResult;
use super::json::{decoded, decoded_for_url, insert_bytes, refusal};
use super::routes::{Site, as_json, recovering};

/// The parameters of a request.
#[derive(Debug, PartialEq, Eq)]
struct KeysQuery {
    prefix: Vec<u8>,
    rows_max: usize,
    /// The position in the cursor, or the beginning.
    place: Place,
}

/// The position at which a page begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    index: Index,
    /// The number of a group in memory, or a position in the index of the disk.
    number: u64,
    /// The last key that was shown at this position; empty if none was shown. The keys of one
    /// position, which is a group or a slice of the disk's index, are shown in the order of their
    /// bytes.
    after: Vec<u8>,
}

/// The index that a page walks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Index {
    #[default]
    Memory,
    Disk,
}

/// The items at one position.
struct ListedItems {
    found: Vec<Dumped>,
    /// The number of the next position.
    next: u64,
    /// The number of items that the disk did not return.
    unreadable: u64,
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
    let Page { shown, next, unreadable, lease: _lease } =
        match page(serving, &site.shared.memory, &asked).await {
            Ok(page) => page,
            Err(words) => return refusal(StatusCode::SERVICE_UNAVAILABLE, words),
        };
    let rows = shown.iter().map(|item| row(&serving.server.cache, item));
    let cursor = next.map(|place| place.text());
    let mut page = json!({ "keys": rows.collect::<Vec<_>>(), "cursor": cursor });
    if unreadable > 0 {
        page["unreadable"] = unreadable.into();
    }
    as_json((StatusCode::OK, page))
}

/// The items of a page.
struct Page {
    shown: Vec<Dumped>,
    /// The memory of the items.
    lease: Lease,
    /// The position at which the next page begins; `None` after the last page.
    next: Option<Place>,
    /// The number of items that the disk did not return.
    unreadable: u64,
}

/// Finds the items of a page.
///
/// # Errors
/// Returns the message for the client if the disk hangs or no memory is left.
async fn page(serving: &AdminContext, memory: &Memory, asked: &KeysQuery) -> Result<Page, String> {
    let cache = &serving.server.cache;
    let mut page = Page { shown: Vec::new(), lease: memory.lease(), next: None, unreadable: 0 };
    let mut place = asked.place.clone();
    let mode = cache.tier().map(|tier| tier.mode);
    if mode == Some(TierMode::Store) {
        place.index = Index::Disk;
    }
    let mut looks_left = LOOKS_MAX;
    while looks_left > 0 {
        let listed = match place.index {
            Index::Memory => group(cache, &asked.prefix, place.number),
            Index::Disk => {
                let slice = slice(serving, &asked.prefix, place.number).await;
                slice.map_err(|error| error.to_string())?
            }
        };
        let Some(listed) = listed else {
            if place.index == Index::Disk || mode.is_none() {
                return Ok(page);
            }
            place = Place { index: Index::Disk, ..Place::default() };
            continue;
        };
        looks_left -= 1;
        // The listener responds to other requests in between.
        if looks_left.is_multiple_of(LOOKS_PER_SLICE) {
            yield_now().await;
        }
        page.unreadable += listed.unreadable;
        let bytes_max = (page.shown.len() + listed.found.len()).min(asked.rows_max) * ITEM_BYTES;
        if !page.lease.grow_to(bytes_max) {
            return Err(Memory::EXHAUSTED.to_owned());
        }
        if !page.takes(listed.found, &mut place, asked.rows_max) {
            page.next = Some(place);
            return Ok(page);
        }
        place = Place { number: listed.next, after: Vec::new(), ..place };
        if place.index == Index::Disk {
            looks_left = looks_left.saturating_sub(LOOKS_MAX / SLICES_MAX);
        }
    }
    page.next = Some(place);
    Ok(page)
}

impl Page {
    /// Adds the items of a position that follow those already shown. Returns false if they do not
    /// fit.
    fn takes(&mut self, mut found: Vec<Dumped>, place: &mut Place, rows_max: usize) -> bool {
        found.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        for item in found {
            if item.key <= place.after {
                continue;
            }
            if self.shown.len() == rows_max {
                return false;
            }
            place.after.clone_from(&item.key);
            self.shown.push(item);
        }
        true
    }
}

/// Returns the items of a group in memory; `None` after the last group.
fn group(cache: &Cache, prefix: &[u8], number: u64) -> Option<ListedItems> {
    let (mut cursor, mut found) = (Cursor::at(number), Vec::new());
    let has_group = cache.dump_group(prefix, &mut cursor, &mut found);
    has_group.then(|| ListedItems { found, next: cursor.position(), unreadable: 0 })
}

/// Returns the items of a slice of the disk; `None` after the last slice. Does not block the
/// listener while it waits for the disk.
async fn slice(
    serving: &AdminContext,
    prefix: &[u8],
    number: u64,
) -> Result<Option<ListedItems>, NoResult> {
    let (cache, prefix) = (serving.server.cache.clone(), prefix.to_vec());
    let listing = serving.execute(move |_| {
        let (mut walk, next) = cache.walk_disk_from(number, SLICE_ENTRIES, prefix)?;
        let mut found = Vec::new();
        while walk.advance(&mut found) {}
        Some(ListedItems { found, next, unreadable: walk.unreadable() })
    });
    listing.await
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

/// Parses a query: `prefix` or `prefix_base64`, `limit` and `cursor`, each at most once.
fn parse(query: &str) -> Result<KeysQuery, &'static str> {
    let (mut prefix, mut rows_max, mut place) = (None, None, None);
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let value: Vec<u8> = percent_decode(value.replace('+', " ").as_bytes()).collect();
        let is_new = match name {
            "prefix" => prefix.replace(value).is_none(),
            "prefix_base64" => {
                let bytes = decoded(&value, KEY_BYTES_MAX);
                let bytes = bytes.ok_or("prefix_base64 must be base64 of at most 250 bytes")?;
                prefix.replace(bytes).is_none()
            }
            "limit" => {
                let limit = str::from_utf8(&value).ok().and_then(|limit| limit.parse().ok());
                let limit = limit.filter(|limit| (1..=ROWS_MAX).contains(limit));
                rows_max.replace(limit.ok_or("limit must be a number from 1 to 1000")?).is_none()
            }
            "cursor" => {
                let begins = Place::parse(&value);
                let begins = begins.ok_or(
                    "the cursor does not belong to this server: begin \
                                           without one",
                )?;
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
    Ok(KeysQuery { prefix, rows_max, place })
}

impl Place {
    /// Formats the position as a cursor: seal, index, number and key in base64 for URLs.
    fn text(&self) -> String {
        let mut bytes = self.seal().to_be_bytes().to_vec();
        bytes.push(self.index as u8);
        bytes.extend_from_slice(&self.number.to_be_bytes());
        bytes.extend_from_slice(&self.after);
        let mut text = Vec::new();
        base64::encode(&mut text, &bytes);
        let text = String::from_utf8_lossy(&text);
        text.trim_end_matches('=').replace('+', "-").replace('/', "_")
    }

    /// Parses a cursor; `None` if this process did not create it.
    fn parse(text: &[u8]) -> Option<Self> {
        let bytes = decoded_for_url(text, CURSOR_BYTES_MAX)?;
        let (seal, rest) = bytes.split_first_chunk()?;
        let (index, rest) = rest.split_first()?;
        let index = match index {
            0 => Index::Memory,
            1 => Index::Disk,
            _ => return None,
        };
        let (number, after) = rest.split_first_chunk()?;
        let place = Self { index, number: u64::from_be_bytes(*number), after: after.to_vec() };
        (place.seal() == u64::from_be_bytes(*seal)).then_some(place)
    }

    /// Returns a number that distinguishes this process's cursors from all others, because a
    /// position has no meaning in another cache.
    fn seal(&self) -> u64 {
        static SECRET: OnceLock<RandomState> = OnceLock::new();
        SECRET.get_or_init(RandomState::new).hash_one((self.index, self.number, &self.after))
    }
}

/// Number of rows of a page, unless the query requests another number.
const ROWS: usize = 100;
const ROWS_MAX: usize = 1000;

/// The maximum memory of an item of a page: its key and its metadata.
const ITEM_BYTES: usize = KEY_BYTES_MAX + size_of::<Dumped>();

/// How many groups of the index a page examines: some ten thousand items, which take a few
/// milliseconds.
const LOOKS_MAX: usize = 2048;

/// How many groups the listener examines before it turns to other requests.
const LOOKS_PER_SLICE: usize = 128;

/// How many slices of the disk's index a page examines, and the approximate number of items in a
/// slice. Each slice costs a read.
const SLICES_MAX: usize = 16;
const SLICE_ENTRIES: usize = 128;

/// The maximum length of a cursor: seal, index, number and key.
const CURSOR_BYTES_MAX: usize = 8 + 1 + 8 + KEY_BYTES_MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_parsed_and_bad_ones_are_refused() {
        let parsed = parse("prefix=a%2Fb+%ff&limit=7").unwrap();
        let expected =
            KeysQuery { prefix: b"a/b \xff".to_vec(), rows_max: 7, place: Place::default() };
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
            let place = Place { index: Index::Disk, number: 77, after };
            let text = place.text();
            assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
            assert_eq!(Place::parse(text.as_bytes()), Some(place));
            let changed = if text.starts_with('A') { "B" } else { "A" }.to_owned() + &text[1..];
            assert_eq!(Place::parse(changed.as_bytes()), None);
        }
    }
}
