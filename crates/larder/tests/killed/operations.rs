//! The operations during which a process is killed, one of each kind.

use std::fs;
use std::path::Path;
use std::time::Duration;

use larder::{Cache, Deadline, Read, StoreMode, StoreRequest};

use crate::victim::{Victim, open};

/// One operation, and the cache in which it is performed.
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    /// Creates the cache. The returned text is passed to the victim.
    pub(crate) prepare: fn(&Path) -> String,
    /// Performs the operation, within `Victim::steps`.
    pub(crate) act: fn(&Victim),
    /// True if the operation may evict unrelated items.
    pub(crate) evicts: bool,
    /// The key that may have no item if the process is killed.
    pub(crate) loses: Option<&'static str>,
}

const fn op(name: &'static str, prepare: fn(&Path) -> String, act: fn(&Victim)) -> Operation {
    Operation { name, prepare, act, evicts: false, loses: None }
}

const fn evicting(name: &'static str, prepare: fn(&Path) -> String, act: fn(&Victim)) -> Operation {
    Operation { evicts: true, ..op(name, prepare, act) }
}

/// An operation that overwrites the item `text` in place.
const fn overwriting(name: &'static str, act: fn(&Victim)) -> Operation {
    Operation { loses: Some("text"), ..op(name, few_overwritable, act) }
}

pub(crate) const OPERATIONS: &[Operation] = &[
    op("set_new", few, |v| set(v, "new", 40)),
    op("set_over", few, |v| set(v, "text", 40)),
    op("set_large_new", few, |v| set(v, "new", 20_000)),
    op("set_large_over_large", few, |v| set(v, "large", 18_000)),
    op("set_small_over_large", few, |v| set(v, "large", 40)),
    op("set_large_over_small", few, |v| set(v, "text", 20_000)),
    overwriting("overwrite", |v| set(v, "text", 40)),
    overwriting("overwrite_shorter", |v| set(v, "text", 37)),
    overwriting("overwrite_with_token", |v| {
        let cache = v.cache();
        let token = cache.peek(b"text").unwrap().cas;
        let request =
            StoreRequest { cas: Some(token), ..StoreRequest::new(b"text", StoreMode::Set) };
        v.steps(|| cache.store(&request, &value(9, 40)).unwrap());
    }),
    op("set_first_of_a_thread", few, |v| {
        let cache = open(&v.path);
        v.steps(|| cache.set("new", value(9, 40), None).unwrap());
    }),
    op("add", few, |v| store(v, "new", StoreMode::Add, b"added")),
    op("replace", few, |v| store(v, "text", StoreMode::Replace, b"replaced")),
    op("cas", few, |v| {
        let cache = v.cache();
        let token = cache.peek(b"text").unwrap().cas;
        let request =
            StoreRequest { cas: Some(token), ..StoreRequest::new(b"text", StoreMode::Set) };
        v.steps(|| cache.store(&request, b"swapped").unwrap());
    }),
    op("delete", few, |v| delete(v, "text")),
    op("delete_large", few, |v| delete(v, "large")),
    op("count_text", few, |v| count(v, "digits")),
    op("count_number", few, |v| count(v, "number")),
    op("add_signed_new", few, |v| {
        let cache = v.cache();
        v.steps(|| assert_eq!(cache.add_signed("new", -7, None).unwrap(), -7));
    }),
    op("add_signed_in_place", few_signed, |v| add_signed(v, 5)),
    op("add_signed_below_0", few_signed, |v| add_signed(v, -500)),
    op("lease_and_release", few, |v| {
        let cache = v.cache();
        v.steps(|| {
            let lease = cache.lease("text", Duration::from_secs(60)).unwrap().unwrap();
            assert!(cache.release("text", lease).unwrap());
        });
    }),
    op("append", few, |v| store(v, "text", StoreMode::Append, b", and more")),
    op("append_again", few, |v| store(v, "grown", StoreMode::Append, b", and more")),
    op("append_to_large", few, |v| store(v, "large", StoreMode::Append, b", and more")),
    op("append_large", few, |v| store(v, "large", StoreMode::Append, &value(8, 9000))),
    op("prepend", few, |v| store(v, "text", StoreMode::Prepend, b"before it: ")),
    op("prepend_to_large", few, |v| store(v, "large", StoreMode::Prepend, b"before it: ")),
    op("touch", few, |v| touch(v, "dated")),
    op("touch_first", few, |v| touch(v, "text")),
    op("touch_first_large", few, |v| touch(v, "large")),
    op("get", few, |v| get(v, "text")),
    op("get_large", few, |v| get(v, "large")),
    op("get_first_in_a_minute", few, |v| {
        let cache = v.cache();
        cache.tick(cache.now() + 100);
        v.steps(|| assert!(cache.get("text").is_some()));
    }),
    op("mark_stale", few, |v| mark_stale(v, None)),
    op("mark_stale_dated", few, |v| mark_stale(v, Some(Deadline(5000)))),
    op("claim", few_stale, |v| {
        let cache = v.cache();
        let token = cache.peek(b"text").unwrap().cas;
        v.steps(|| assert!(cache.claim(b"text", token)));
    }),
    op("upload", few, |v| {
        let (cache, value) = (v.cache(), value(7, 20_000));
        v.steps(|| {
            let mut upload = cache.upload(b"large", 20_000).unwrap();
            value.chunks(3000).for_each(|part| upload.push(part).unwrap());
            upload.store(&StoreRequest::new(b"large", StoreMode::Set)).unwrap();
        });
    }),
    op("upload_given_up", few, |v| {
        let cache = v.cache();
        v.steps(|| {
            let mut upload = cache.upload(b"large", 20_000).unwrap();
            upload.push(&[7; 12_000]).unwrap();
        });
    }),
    op("large_value_taken", few, |v| {
        let cache = v.cache();
        v.steps(|| {
            let Read::Large(_, mut large) = cache.read(b"large", &mut Vec::new(), |_, _| ()) else {
                panic!("the value is not large");
            };
            while large.take_piece().unwrap().is_some() {}
        });
    }),
    op("clear", few, |v| {
        let cache = v.cache();
        v.steps(|| cache.clear());
    }),
    op("clear_at", few_before_a_flush, |v| {
        let cache = v.cache();
        v.steps(|| {
            cache.tick(cache.now() + 1);
            assert_eq!(cache.get("text"), None);
        });
    }),
    op("maintain_expired", few_expired, |v| {
        let cache = v.cache();
        v.steps(|| (0..4).for_each(|_| cache.maintain()));
    }),
    op("attach", few, |v| drop(v.steps(|| open(&v.path)))),
    op("leave", few, |v| {
        let cache = v.cache();
        v.steps(|| drop(cache));
    }),
    op("split", |path| before_a_split(path, false), |v| set(v, "new", 8)),
    op("split_with_overflow", |path| before_a_split(path, true), |v| set(v, "new", 8)),
    op("first_overflow", |path| before_an_overflow(path, 0), |v| set(v, &v.detail, 8)),
    op("overflow", |path| before_an_overflow(path, 1), |v| set(v, &v.detail, 8)),
    evicting("evict", full, |v| set(v, "new", 3000)),
    evicting("evict_for_large", full, |v| set(v, "large", 20_000)),
    evicting("evict_wanted", full_and_wanted, |v| set(v, "new", 3000)),
    evicting("compact", full_of_holes, |v| set(v, "new", 3000)),
    evicting("upload_into_full", full, |v| {
        let (cache, value) = (v.cache(), value(7, 30_000));
        v.steps(|| {
            let mut upload = cache.upload(b"large", 30_000).unwrap();
            value.chunks(7000).for_each(|part| upload.push(part).unwrap());
            upload.store(&StoreRequest::new(b"large", StoreMode::Set)).unwrap();
        });
    }),
    evicting("maintain_cleared", full, |v| {
        let cache = v.cache();
        v.steps(|| {
            cache.clear();
            cache.maintain();
        });
    }),
];

/// Returns bytes that identify `number`.
pub(crate) fn value(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64).map(|at| (at * 7 + number * 31) as u8).collect()
}

/// Returns the names of all possible keys.
pub(crate) fn keys() -> impl Iterator<Item = String> {
    let named = ["new", "text", "large", "digits", "number", "grown", "dated"].map(String::from);
    named.into_iter().chain((0..KEYS).map(|number| format!("k{number}")))
}

/// Number of keys whose names are numbers. More keys exist only if the index must grow.
const KEYS: u64 = 400;

fn set(v: &Victim, key: &str, bytes: usize) {
    let cache = v.cache();
    let value = value(9, bytes);
    v.steps(|| cache.set(key, &value, None).unwrap());
}

fn store(v: &Victim, key: &str, mode: StoreMode, value: &[u8]) {
    let cache = v.cache();
    v.steps(|| cache.store(&StoreRequest::new(key.as_bytes(), mode), value).unwrap());
}

fn delete(v: &Victim, key: &str) {
    let cache = v.cache();
    v.steps(|| assert!(cache.delete(key).unwrap()));
}

fn count(v: &Victim, key: &str) {
    let cache = v.cache();
    v.steps(|| cache.increment(key, 5).unwrap());
}

fn add_signed(v: &Victim, delta: i64) {
    let cache = v.cache();
    v.steps(|| cache.add_signed("new", delta, None).unwrap());
}

fn touch(v: &Victim, key: &str) {
    let cache = v.cache();
    v.steps(|| assert!(cache.touch(key, Some(Duration::from_secs(700))).unwrap()));
}

fn get(v: &Victim, key: &str) {
    let cache = v.cache();
    v.steps(|| assert!(cache.get(key).is_some()));
}

fn mark_stale(v: &Victim, deadline: Option<Deadline>) {
    let cache = v.cache();
    v.steps(|| cache.mark_stale(b"text", None, None, deadline).unwrap());
}

/// Stores some items of each storage form.
fn few(path: &Path) -> String {
    let cache = open(path);
    for number in 0..20 {
        cache.set(format!("k{number}"), value(number, 40), None).unwrap();
    }
    let hour = Some(Duration::from_secs(3600));
    cache.set("text", "some text", None).unwrap();
    cache.set("large", value(1, 20_000), None).unwrap();
    cache.set("digits", "99", None).unwrap();
    cache.set("number", "99", None).unwrap();
    cache.increment("number", 1).unwrap();
    cache.set("grown", "some text", None).unwrap();
    cache.append("grown", ", longer").unwrap();
    cache.set("dated", "a text", hour).unwrap();
    String::new()
}

fn few_stale(path: &Path) -> String {
    few(path);
    open(path).mark_stale(b"text", None, None, None).unwrap();
    String::new()
}

/// Stores an item so often that the next store overwrites it in place.
fn few_overwritable(path: &Path) -> String {
    few(path);
    let cache = open(path);
    let in_place = || cache.counter(larder::Counter::AlteredInPlace);
    for number in 0..5 {
        cache.set("text", value(number, 40), None).unwrap();
    }
    let before = in_place();
    cache.set("text", value(5, 40), None).unwrap();
    assert_eq!(in_place(), before + 1, "the item is not overwritten in place");
    String::new()
}

fn few_signed(path: &Path) -> String {
    few(path);
    let cache = open(path);
    // The first change turns the value into a number that is changed in place.
    cache.add_signed("new", 100, None).unwrap();
    cache.add_signed("new", 1, None).unwrap();
    String::new()
}

fn few_before_a_flush(path: &Path) -> String {
    few(path);
    let cache = open(path);
    cache.clear_at(cache.now() + 1);
    String::new()
}

fn few_expired(path: &Path) -> String {
    few(path);
    let cache = open(path);
    for number in 0..60 {
        let ttl = Some(Duration::from_secs(1 + number % 2 * 10_000));
        cache.set(format!("k{number}"), value(number, 3000), ttl).unwrap();
    }
    cache.tick(cache.now() + 5);
    String::new()
}

/// Fills the memory, so that a segment must be emptied for the next item.
fn full(path: &Path) -> String {
    fill(path, |_, _| ())
}

fn full_and_wanted(path: &Path) -> String {
    fill(path, |cache, number| {
        for _ in 0..2 {
            let _ = cache.get(format!("k{}", number / 2));
        }
    })
}

fn full_of_holes(path: &Path) -> String {
    fill(path, |cache, number| {
        if number >= 20 {
            let _ = cache.delete(format!("k{}", (number - 20) | 1)).unwrap();
        }
    })
}

/// Stores items, and calls `after_each` after each item, until a segment would be emptied for
/// `new`.
fn fill(path: &Path, after_each: impl Fn(&Cache, u64)) -> String {
    let reclaims = |cache: &Cache| {
        cache.counter(larder::Counter::SegmentsEvicted)
            + cache.counter(larder::Counter::SegmentsCompacted)
    };
    let cache = open(path);
    cache.set("text", "some text", None).unwrap();
    for number in 0..KEYS {
        cache.set(format!("k{number}"), value(number, 3000), None).unwrap();
        after_each(&cache, number);
        if number > 200 {
            let copy = path.with_extension("copy");
            fs::copy(path, &copy).unwrap();
            let trial = open(&copy);
            let before = reclaims(&trial);
            trial.set("new", value(9, 3000), None).unwrap();
            if reclaims(&trial) > before {
                return String::new();
            }
        }
    }
    panic!("the memory did not fill up");
}

/// Fills the index until the next store splits group 0, which optionally has an overflow group.
fn before_a_split(path: &Path, with_overflow: bool) -> String {
    loop {
        let _ = fs::remove_file(path);
        let cache = open(path);
        // Slightly more than 72 % of the slots; some items are counted only when the cache closes.
        let items = 512 * 15 * 72 / 100 + 5;
        for number in 0..items {
            cache.set(format!("k{number}"), value(number, 8), None).unwrap();
        }
        if cache.report().groups != 512 {
            continue;
        }
        let (segments, bytes) = (cache.report().segment_bytes, fs::read(path).unwrap());
        let first_group = bytes.len() - 15 * segments as usize;
        let control = u64::from_le_bytes(bytes[first_group..][..8].try_into().unwrap());
        if (control & 0x3FFF_FFFF != 0) == with_overflow {
            return String::new();
        }
    }
}

/// Returns a new key that needs an overflow group after `groups` other groups.
fn before_an_overflow(path: &Path, groups: u64) -> String {
    for attempt in 0..20 {
        let _ = fs::remove_file(path);
        if let Some(key) = try_before_an_overflow(path, groups, attempt) {
            return key;
        }
    }
    panic!("no key needs an overflow group");
}

fn try_before_an_overflow(path: &Path, groups: u64, attempt: u64) -> Option<String> {
    let cache = open(path);
    let mut number = KEYS + attempt * 100_000;
    let mut next = || {
        number += 1;
        format!("k{number}")
    };
    while cache.report().overflow_groups < groups {
        cache.set(next(), "12345678", None).unwrap();
    }
    while cache.report().overflow_groups == groups {
        let copy = path.with_extension("copy");
        fs::copy(path, &copy).unwrap();
        let trial = open(&copy);
        for _ in 0..200 {
            let key = next();
            trial.set(&key, value(9, 8), None).unwrap();
            if trial.report().overflow_groups > groups {
                return Some(key);
            }
            trial.delete(&key).unwrap();
        }
        for _ in 0..20 {
            cache.set(next(), "12345678", None).unwrap();
        }
    }
    None
}
