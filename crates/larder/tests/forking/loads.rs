//! Loads in a cache shared with other processes: a change of the key between the read and the store
//! takes precedence.

use std::convert::Infallible;
use std::path::Path;
use std::time::Duration;

use larder::{Cache, Clock, Counter, LoadError, LoadOptions, StoreMode, StoreRequest, Stored};
use larder_testkit::cache_file;
use larder_testkit::children::fork;

const FOR_EVER: LoadOptions = LoadOptions::new();
const MINUTE: LoadOptions =
    LoadOptions::new().ttl(Duration::from_secs(60)).stale(Duration::from_secs(600));

/// A change by another process during a load, and the value of the key after the load.
type Change = (&'static str, fn(&Cache), Option<&'static str>);

const CHANGES: [Change; 10] = [
    ("set", |other| other.set("k", "newer", None).unwrap(), Some("newer")),
    ("delete", |other| assert!(other.delete("k").is_ok()), None),
    ("set and delete", |other| set_and_delete(other), None),
    ("set and expire", |other| other.set("k", "newer", Some(Duration::ZERO)).unwrap(), None),
    ("set of the same value", |other| other.set("k", "old", None).unwrap(), Some("old")),
    ("append", |other| append(other), Some("old+")),
    ("increment", |other| increment(other), Some("8")),
    ("clear", Cache::clear, None),
    ("remove_prefix", |other| assert!(other.remove_prefix("").is_ok()), None),
    ("set of another key", |other| other.set("other", "v", None).unwrap(), Some("loaded")),
];

fn set_and_delete(other: &Cache) {
    other.set("k", "newer", None).unwrap();
    assert!(other.delete("k").unwrap());
}

fn append(other: &Cache) {
    if !other.append("k", "+").unwrap() {
        other.set("k", "old+", None).unwrap();
    }
}

fn increment(other: &Cache) {
    if other.increment("k", 1).is_ok_and(|number| number.is_some()) {
        other.decrement("k", 0).unwrap();
    } else {
        other.set("k", "8", None).unwrap();
    }
}

fn open(path: &Path, cas: bool) -> Cache {
    let builder = Cache::builder().memory_bytes(1 << 20).shared(path).cas(cas);
    builder.clock(Clock::Ticked).open().unwrap_or_else(|error| panic!("{error}"))
}

fn held(cache: &Cache) -> Option<String> {
    cache.get("k").map(|value| String::from_utf8(value).unwrap())
}

/// Loads the key in one process while `change` happens.
fn load_during(cache: &Cache, options: &LoadOptions, change: impl FnOnce()) -> Vec<u8> {
    let loader = || {
        change();
        Ok::<_, Infallible>("loaded")
    };
    cache.get_or_load("k", options, loader).unwrap()
}

#[test]
fn a_change_by_another_handle_during_a_first_load_takes_precedence() {
    for cas in [false, true] {
        for (name, change, expected) in CHANGES {
            let (_folder, path) = cache_file();
            let (cache, other) = (open(&path, cas), open(&path, cas));
            let loaded = load_during(&cache, &FOR_EVER, || change(&other));
            assert_eq!(loaded, b"loaded", "{name}");
            assert_eq!(held(&cache).as_deref(), expected, "{name}, with tokens: {cas}");
            cache.validate().unwrap();
        }
    }
}

#[test]
fn a_change_by_another_handle_during_a_refresh_takes_precedence() {
    for cas in [false, true] {
        for (name, change, expected) in CHANGES {
            let (_folder, path) = cache_file();
            let (cache, other) = (open(&path, cas), open(&path, cas));
            let value = if name == "increment" { "7" } else { "old" };
            cache.set("k", value, Some(Duration::from_secs(300))).unwrap();
            if name == "increment" {
                // From now on increments change the counter in place.
                other.increment("k", 0).unwrap();
            }
            let loaded = load_during(&cache, &MINUTE, || change(&other));
            assert_eq!(loaded, b"loaded", "{name}");
            assert_eq!(held(&cache).as_deref(), expected, "{name}, with tokens: {cas}");
            cache.validate().unwrap();
        }
    }
}

#[test]
fn a_change_by_another_process_during_a_load_takes_precedence() {
    for is_refresh in [false, true] {
        for (name, change, expected) in CHANGES {
            let (_folder, path) = cache_file();
            let cache = open(&path, false);
            if is_refresh {
                cache.set("k", "old", Some(Duration::from_secs(300))).unwrap();
            }
            if name == "increment" {
                continue;
            }
            let in_a_child = || {
                let child = fork(|| {
                    change(&open(&path, false));
                    0
                });
                assert_eq!(child.wait(), 0, "{name}");
            };
            load_during(&cache, &MINUTE, in_a_child);
            assert_eq!(held(&cache).as_deref(), expected, "{name}, refresh: {is_refresh}");
        }
    }
}

#[test]
fn a_key_being_loaded_is_invisible() {
    let (_folder, path) = cache_file();
    let (cache, other) = (open(&path, true), open(&path, true));
    let removals = other.subscribe(16);
    let misses = other.counter(Counter::GetExpired);
    load_during(&cache, &FOR_EVER, || {
        for _ in 0..3 {
            assert_eq!(
                (other.get("k"), other.peek(b"k"), other.contains("k")),
                (None, None, false)
            );
        }
        assert_eq!((other.keys().count(), other.iterate().count()), (0, 0));
        assert_eq!(other.increment("k", 1), Ok(None));
        assert!(!other.touch("k", None).unwrap());
        assert!(!other.replace("k", "v", None).unwrap());
        other.maintain();
        other.tick(other.now() + 5);
        (0..20).for_each(|_| other.maintain());
        cache.validate().unwrap();
    });
    assert_eq!(held(&other).as_deref(), Some("loaded"), "a read prevented the store");
    assert_eq!(other.counter(Counter::GetExpired), misses);
    assert_eq!((other.counter(Counter::ItemsTotal), other.len()), (1, 1));
    assert!(removals.try_next().is_none(), "a removal was reported");
}

#[test]
fn a_failed_load_leaves_no_reservation() {
    let (_folder, path) = cache_file();
    let (cache, other) = (open(&path, false), open(&path, false));
    let failed = cache.get_or_load("k", &FOR_EVER, || Err::<&str, _>("no such user"));
    assert!(matches!(failed, Err(LoadError::Failed(_))));
    assert_eq!(other.len(), 0);
    let panics =
        || cache.get_or_load("k", &FOR_EVER, || -> Result<&str, &str> { panic!("a defect") });
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
    assert_eq!(other.len(), 0);
    assert_eq!(load_during(&other, &FOR_EVER, || ()), b"loaded");
    assert_eq!(held(&cache).as_deref(), Some("loaded"));
}

#[test]
fn the_first_result_of_two_loading_processes_is_stored() {
    let (_folder, path) = cache_file();
    let (cache, other) = (open(&path, false), open(&path, false));
    load_during(&cache, &FOR_EVER, || {
        let first = other.get_or_load("k", &FOR_EVER, || Ok::<_, Infallible>("first"));
        assert_eq!(first.unwrap(), b"first");
    });
    assert_eq!(held(&cache).as_deref(), Some("first"));
}

#[test]
fn a_reservation_expires() {
    let (_folder, path) = cache_file();
    let cache = open(&path, false);
    let until = Duration::from_secs(30);
    let basis = cache.begin_load(b"k", until).unwrap();
    assert_eq!(cache.len(), 1);
    cache.tick(cache.now() + 29);
    assert_eq!((cache.get("k"), cache.len()), (None, 1));
    cache.tick(cache.now() + 10);
    assert_eq!((cache.get("k"), cache.len()), (None, 0));
    let late = cache.end_load(&StoreRequest::new(b"k", StoreMode::Set), basis, b"late");
    assert_eq!((late, held(&cache)), (Ok(Stored::NotFound), None));
}

#[test]
fn large_values_are_loaded_by_the_same_rules() {
    let (_folder, path) = cache_file();
    let (cache, other) = (open(&path, false), open(&path, false));
    let large = vec![7; 200_000];
    for is_deleted in [false, true] {
        let loader = || {
            if is_deleted {
                other.delete("k").unwrap();
            }
            Ok::<_, Infallible>(large.clone())
        };
        assert_eq!(cache.get_or_load("k", &FOR_EVER, loader).unwrap(), large);
        assert_eq!(other.get("k").is_some(), !is_deleted);
        other.delete("k").unwrap();
    }
    cache.validate().unwrap();
}
