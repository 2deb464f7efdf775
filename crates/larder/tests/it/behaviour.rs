//! The behaviour that users of the library can rely on, one fact per test.

use std::time::Duration;

use larder::{
    Arithmetic, Cache, Clock, Deadline, Direction, Lent, Read, Sink, StoreError, StoreMode,
    StoreRequest, Stored,
};
use larder_testkit::value_of;

fn ticked(memory_bytes: u64) -> Cache {
    Cache::builder().memory_bytes(memory_bytes).clock(Clock::Ticked).cas(true).open().unwrap()
}

fn request(key: &[u8], mode: StoreMode) -> StoreRequest<'_> {
    StoreRequest { flags: 7, ..StoreRequest::new(key, mode) }
}

#[test]
fn a_stored_value_is_returned_until_it_is_deleted() {
    let cache = ticked(1 << 20);
    assert_eq!(cache.get(b"k"), None);
    cache.set(b"k", b"one", None).unwrap();
    cache.set(b"k", b"two", None).unwrap();
    assert_eq!(cache.get(b"k").as_deref(), Some(&b"two"[..]));
    assert!(cache.delete(b"k").unwrap());
    assert!(!cache.delete(b"k").unwrap());
    assert_eq!((cache.get(b"k"), cache.len()), (None, 0));
    cache.validate().unwrap();
}

#[test]
fn keys_of_every_length_are_distinct() {
    let cache = ticked(4 << 20);
    let key = |bytes: usize| vec![b'k'; bytes];
    for bytes in 1..=250 {
        cache.set(key(bytes), value_of(1, bytes), None).unwrap();
    }
    for bytes in 1..=250 {
        assert_eq!(cache.get(key(bytes)), Some(value_of(1, bytes)));
    }
    assert!(matches!(cache.set(key(251), b"v", None), Err(StoreError::Key(_))));
    assert!(matches!(cache.set(b"", b"v", None), Err(StoreError::Key(_))));
    cache.validate().unwrap();
}

#[test]
fn an_item_expires_in_the_second_of_its_deadline() {
    let cache = ticked(1 << 20);
    cache.set(b"k", b"v", Some(Duration::from_secs(3))).unwrap();
    cache.tick(cache.now() + 2);
    assert!(cache.get(b"k").is_some());
    cache.tick(cache.now() + 1);
    assert!(cache.get(b"k").is_none());
    assert_eq!(cache.len(), 0, "a read does not unlink the expired item");
    cache.validate().unwrap();
}

#[test]
fn a_touch_adds_a_deadline_and_keeps_the_cas_token() {
    let cache = ticked(1 << 20);
    cache.store(&request(b"k", StoreMode::Set), b"v").unwrap();
    let mut value = Vec::new();
    let before = cache.get_into(b"k", &mut value).unwrap();
    assert!(cache.touch_until(b"k", Deadline::after(cache.now(), 5)).unwrap().is_some());
    let after = cache.get_into(b"k", &mut value).unwrap();
    assert_eq!((after.cas, after.flags), (before.cas, 7));
    assert_eq!(value, b"vv");
    assert!(cache.touch_until(b"k", Deadline::NEVER).unwrap().is_some());
    cache.tick(cache.now() + 10);
    assert!(cache.get(b"k").is_some());
    assert!(cache.touch_until(b"other", Deadline::NEVER).unwrap().is_none());
    cache.validate().unwrap();
}

#[test]
fn store_modes_depend_on_the_existing_item() {
    let cache = ticked(1 << 20);
    let store = |mode, value: &[u8]| cache.store(&request(b"k", mode), value).unwrap();
    assert_eq!(store(StoreMode::Replace, b"r"), Stored::NotStored);
    assert_eq!(store(StoreMode::Append, b"a"), Stored::NotStored);
    assert!(matches!(store(StoreMode::Add, b"b"), Stored::Stored { .. }));
    assert_eq!(store(StoreMode::Add, b"c"), Stored::NotStored);
    store(StoreMode::Append, b">");
    store(StoreMode::Prepend, b"<");
    assert_eq!(cache.get(b"k").as_deref(), Some(&b"<b>"[..]));
    cache.validate().unwrap();
}

#[test]
fn a_cas_token_admits_one_change() {
    let cache = ticked(1 << 20);
    let with = |cas| StoreRequest { cas: Some(cas), ..request(b"k", StoreMode::Set) };
    assert_eq!(cache.store(&with(1), b"v"), Ok(Stored::NotFound));
    let Ok(Stored::Stored { cas, .. }) = cache.store(&request(b"k", StoreMode::Set), b"1") else {
        panic!("the plain set did not store");
    };
    assert_eq!(cache.store(&with(cas + 1), b"2"), Ok(Stored::Exists));
    assert!(matches!(cache.store(&with(cas), b"2"), Ok(Stored::Stored { .. })));
    assert_eq!(cache.store(&with(cas), b"3"), Ok(Stored::Exists));
    assert_eq!(cache.get(b"k").as_deref(), Some(&b"2"[..]));
}

#[test]
fn counters_move_and_shorter_numbers_are_padded() {
    let cache = ticked(1 << 20);
    let add = |delta| cache.arithmetic(b"n", Direction::Increment, delta).unwrap();
    assert_eq!(add(1), Arithmetic::NotFound);
    cache.set(b"n", b"99", None).unwrap();
    assert!(matches!(add(1), Arithmetic::Number { number: 100, .. }));
    let down = cache.arithmetic(b"n", Direction::Decrement, 95).unwrap();
    assert!(matches!(down, Arithmetic::Number { number: 5, .. }));
    assert_eq!(cache.get(b"n").as_deref(), Some(&b"5  "[..]));
    cache.set(b"n", b"x", None).unwrap();
    assert_eq!(add(1), Arithmetic::NonNumeric);
}

#[test]
fn a_clear_hides_items_stored_before_it_and_none_stored_after_it() {
    let cache = ticked(4 << 20);
    for key in 0..1000u32 {
        cache.set(key.to_le_bytes(), b"old", None).unwrap();
    }
    cache.clear();
    cache.set(7u32.to_le_bytes(), b"new", None).unwrap();
    for key in 0..1000u32 {
        assert_eq!(cache.get(key.to_le_bytes()).is_some(), key == 7);
    }
    assert_eq!(cache.len(), 1);
    cache.validate().unwrap();
}

#[test]
fn a_scheduled_clear_happens_at_its_second() {
    let cache = ticked(1 << 20);
    cache.clear_at(cache.now() + 2);
    cache.set(b"k", b"v", None).unwrap();
    cache.tick(cache.now() + 1);
    assert!(cache.get(b"k").is_some());
    cache.tick(cache.now() + 1);
    assert!(cache.get(b"k").is_none());
    cache.set(b"k", b"v", None).unwrap();
    cache.tick(cache.now() + 9);
    assert!(cache.get(b"k").is_some(), "the scheduled clear happened twice");
}

#[test]
fn maintenance_reclaims_cleared_and_expired_items() {
    let cache = ticked(8 << 20);
    for key in 0..20_000u32 {
        cache.set(key.to_le_bytes(), [0; 200], Some(Duration::from_secs(5))).unwrap();
    }
    let full = cache.report();
    cache.tick(cache.now() + 5);
    for _ in 0..10 {
        cache.maintain();
    }
    let report = cache.report();
    assert_eq!((report.items, report.live_bytes, report.segments_items), (0, 0, 0));
    assert!(full.segments_items > 50, "{full:?} {report:?}");
    assert!(report.segments_free > 50, "{full:?} {report:?}");
    cache.validate().unwrap();
}

#[test]
fn a_store_of_a_too_large_item_fails_and_removes_the_old_one() {
    let cache = ticked(16 << 20);
    cache.set(b"k", b"old", None).unwrap();
    let huge = vec![0; 1 << 20];
    let add = cache.store(&request(b"k", StoreMode::Append), &huge);
    assert_eq!((add, cache.get(b"k").is_some()), (Err(StoreError::TooLarge), true));
    assert_eq!(cache.set(b"k", &huge, None), Err(StoreError::TooLarge));
    assert_eq!(cache.get(b"k"), None);
}

#[test]
fn a_full_cache_evicts_the_oldest_and_never_returns_a_wrong_value() {
    let cache = ticked(4 << 20);
    for key in 0..100_000u64 {
        let bytes = (key % 400) as usize + if key % 1000 == 0 { 100_000 } else { 0 };
        cache.set(key.to_le_bytes(), value_of(key, bytes), None).unwrap();
    }
    cache.validate().unwrap();
    let mut hits = 0;
    for key in 0..100_000u64 {
        let bytes = (key % 400) as usize + if key % 1000 == 0 { 100_000 } else { 0 };
        if let Some(value) = cache.get(key.to_le_bytes()) {
            assert_eq!(value, value_of(key, bytes));
            hits += 1;
        }
    }
    assert!(hits > 5_000, "{hits} of 100000");
    assert!(cache.get(99_999u64.to_le_bytes()).is_some(), "the youngest item was evicted");
    let report = cache.report();
    assert!(report.live_bytes < report.memory_bytes);
}

#[test]
fn without_eviction_a_full_cache_refuses_stores_until_memory_is_freed() {
    let cache = Cache::builder().memory_bytes(2 << 20).evict(false).open().unwrap();
    let mut stored = 0u32;
    while cache.set(stored.to_le_bytes(), [1; 500], None).is_ok() {
        stored += 1;
        assert!(stored < 10_000, "the cache exceeds two megabytes");
    }
    assert!(stored > 2_000, "{stored}");
    for key in 0..stored {
        assert!(cache.get(key.to_le_bytes()).is_some(), "{key}");
    }
    // Every second item is deleted: no segment is empty, so survivors must be relocated.
    for key in (0..stored).step_by(2) {
        assert!(cache.delete(key.to_le_bytes()).unwrap());
    }
    let again = (0..stored / 4).filter(|key| {
        let key = (stored + key).to_le_bytes();
        cache.set(key, [2; 500], None).is_ok()
    });
    assert_eq!(again.count() as u32, stored / 4);
    for key in (1..stored).step_by(2) {
        assert!(cache.get(key.to_le_bytes()).is_some(), "{key}");
    }
    assert!(cache.report().bytes_relocated > 0);
    cache.validate().unwrap();
}

#[test]
fn overwriting_one_key_for_ever_needs_no_eviction() {
    let cache = Cache::builder().memory_bytes(1 << 20).evict(false).open().unwrap();
    for round in 0..100_000u32 {
        cache.set(b"k", round.to_le_bytes(), None).unwrap();
    }
    assert_eq!(cache.len(), 1);
    cache.validate().unwrap();
}

#[test]
fn the_index_grows_with_small_items_and_finds_them_all() {
    let cache = Cache::builder().memory_bytes(64 << 20).open().unwrap();
    let keys = 600_000u32;
    for key in 0..keys {
        cache.set(key.to_le_bytes(), key.to_be_bytes(), None).unwrap();
    }
    let lost = (0..keys)
        .filter(|key| cache.get(key.to_le_bytes()).as_deref() != Some(&key.to_be_bytes()))
        .count();
    assert_eq!(lost, 0);
    cache.validate().unwrap();
    let report = cache.report();
    let per_item = report.index_bytes as f64 / f64::from(keys);
    assert!(per_item < 16.0, "{per_item} bytes of index per item, {report:?}");
}

#[test]
fn borrowed_memory_takes_a_value_that_fits_and_a_longer_one_is_reported_but_not_counted() {
    let cache = Cache::builder().memory_bytes(4 << 20).open().unwrap();
    let large = value_of(1, 500_000);
    cache.set("small", "value", None).unwrap();
    cache.set("number", "9", None).unwrap();
    cache.increment("number", 1).unwrap();
    cache.set("large", &large, None).unwrap();
    let hits = || cache.stats().find(|stat| stat.name == "get_hits").unwrap().value;
    for (key, value) in [("small", &b"value"[..]), ("number", b"10"), ("large", &large)] {
        let mut memory = vec![0; 7 + value.len()];
        for room in [0, 6, value.len() + 6, value.len() + 7] {
            let (before, mut told) = (hits(), 0);
            memory.fill(0xAA);
            let mut lent = Lent::new(&mut memory[..room]);
            lent.extend(b"before|");
            assert!(cache.get_to(key, &mut lent, |meta| told = meta.value_bytes));
            let fits = room == value.len() + 7;
            assert_eq!((lent.is_whole(), told), (fits, value.len()), "{key} in {room} bytes");
            assert_eq!(hits() - before, u64::from(fits));
            match fits {
                true => assert!(memory[7..] == *value && memory.starts_with(b"before|")),
                false => assert!(memory[room..].iter().all(|byte| *byte == 0xAA)),
            }
        }
    }
    let misses = || cache.stats().find(|stat| stat.name == "get_misses").unwrap().value;
    let mut full = Lent::new(&mut []);
    full.extend(b"more than there is space for");
    assert!(!cache.get_to("missing", &mut full, |_| ()));
    assert!(misses() == 1);
    assert!(!cache.get_to("missing", &mut Lent::new(&mut []), |_| panic!(
        "metadata was reported for a miss"
    )));
}

#[test]
fn a_read_is_repeated_if_its_segment_is_reused_meanwhile() {
    let cache = ticked(1 << 20);
    cache.set(b"k", b"first", None).unwrap();
    let mut out = b"before|".to_vec();
    let mut heads = 0;
    let read = cache.read(b"k", &mut out, |out, _| {
        out.extend_from_slice(b"head|");
        heads += 1;
        if heads == 1 {
            // The reader has found the record but not yet copied its value. Now the segment is
            // emptied and filled with other bytes, and the key is stored again elsewhere.
            let cache = cache.clone();
            std::thread::spawn(move || {
                for key in 0..20_000u32 {
                    cache.set(key.to_le_bytes(), [0xEE; 100], None).unwrap();
                }
                cache.set(b"k", b"second", None).unwrap();
            })
            .join()
            .unwrap();
        }
    });
    assert!(matches!(read, Read::Hit(_)));
    assert_eq!((heads, out), (2, b"before|head|second".to_vec()));
}

#[test]
fn a_lower_memory_limit_evicts_the_oldest_and_a_higher_one_allows_more_again() {
    let cache = ticked(32 << 20);
    let fill = |from: u32| {
        for key in from..from + 200_000 {
            cache.set(key.to_le_bytes(), [7; 200], None).unwrap();
        }
    };
    fill(0);
    let full = cache.report();
    cache.set_memory_limit(12 << 20).unwrap();
    assert!(cache.memory_limit() <= 12 << 20);
    for _ in 0..10 {
        cache.maintain();
    }
    let shrunk = cache.report();
    assert!(shrunk.live_bytes < 12 << 20, "{shrunk:?}");
    assert!(shrunk.items < full.items / 2, "{shrunk:?}");
    assert!(cache.get(199_999u32.to_le_bytes()).is_some(), "the youngest item was evicted");
    fill(200_000);
    assert!(cache.report().live_bytes < 12 << 20, "a store exceeded the limit");
    cache.validate().unwrap();
    cache.set_memory_limit(32 << 20).unwrap();
    fill(400_000);
    assert!(cache.report().items > full.items * 9 / 10);
    cache.validate().unwrap();
    let error = cache.set_memory_limit(33 << 20).unwrap_err().to_string();
    assert!(error.contains("34603008"), "{error}");
    assert!(error.contains("33554432"), "{error}");
}

#[test]
fn a_growable_cache_holds_more_after_its_limit_is_raised() {
    let builder = Cache::builder().memory_bytes(8 << 20).memory_bytes_max(64 << 20);
    let cache = builder.clock(Clock::Ticked).open().unwrap();
    let fill = || {
        for key in 0..200_000u32 {
            cache.set(&key.to_le_bytes(), &[7; 100], None).unwrap();
        }
        cache.len()
    };
    let small = fill();
    cache.set_memory_limit(32 << 20).unwrap();
    assert_eq!(cache.memory_limit(), 32 << 20);
    let large = fill();
    assert!(large > 3 * small, "{large} items after {small}");
    cache.validate().unwrap();
    assert!(cache.set_memory_limit(65 << 20).is_err());
}

#[test]
fn a_dump_visits_every_live_item_and_stops_on_request() {
    let cache = ticked(16 << 20);
    for key in 0..100u32 {
        cache.set(key.to_le_bytes(), vec![0; key as usize], None).unwrap();
    }
    cache.set(b"large", [0; 100_000], None).unwrap();
    cache.set(b"dying", b"", Some(Duration::from_secs(1))).unwrap();
    cache.tick(cache.now() + 1);
    let mut bytes = 0;
    let mut keys = std::collections::BTreeSet::new();
    cache.dump(|item| {
        bytes += item.meta.value_bytes;
        keys.insert(item.key)
    });
    assert_eq!((keys.len(), bytes), (101, 99 * 50 + 100_000));
    let mut shown = 0;
    cache.dump(|_| {
        shown += 1;
        shown < 10
    });
    assert_eq!(shown, 10);
}

#[test]
fn sizes_out_of_bounds_are_errors_that_name_the_bound() {
    let error = Cache::builder().memory_bytes(1000).open().unwrap_err().to_string();
    assert!(error.contains("1000"), "{error}");
    assert!(error.contains("1048576"), "{error}");
    let error = Cache::builder().item_bytes_max(100 << 20).open().unwrap_err().to_string();
    assert!(error.contains("half"), "{error}");
}

#[test]
fn a_counter_is_changed_in_place() {
    let cache = ticked(1 << 20);
    cache.set(b"n", b"100", None).unwrap();
    let count = |times: u64| {
        for _ in 0..times {
            cache.arithmetic(b"n", Direction::Increment, 1).unwrap();
        }
        cache.report().bytes_written
    };
    let once = count(1);
    assert_eq!(count(898), once);
    assert_eq!(cache.get(b"n").as_deref(), Some(&b"999"[..]));
    assert!(count(1) > once, "a longer text was written in place");
    assert_eq!(cache.get(b"n").as_deref(), Some(&b"1000"[..]));
    cache.validate().unwrap();
}

#[test]
fn frequent_appends_rewrite_the_value_only_a_few_times() {
    let cache = Cache::builder().memory_bytes(64 << 20).item_bytes_max(8 << 20).open().unwrap();
    for (mode, key) in [(StoreMode::Append, b"append"), (StoreMode::Prepend, b"prefix")] {
        let (parts, part_bytes) = (20_000, 200);
        let mut expected = value_of(1, 40_000);
        cache.set(key, &expected, None).unwrap();
        let before = cache.report().bytes_written;
        for number in 0..parts {
            let part = value_of(number, part_bytes);
            assert!(matches!(cache.store(&request(key, mode), &part), Ok(Stored::Stored { .. })));
            if mode == StoreMode::Append {
                expected.extend_from_slice(&part);
            }
        }
        let value = cache.get(key).unwrap();
        assert_eq!(value.len(), 40_000 + parts as usize * part_bytes);
        if mode == StoreMode::Append {
            assert_eq!(value, expected);
        } else {
            assert!(value.ends_with(&expected));
            assert!(value.starts_with(&value_of(19_999, 200)));
        }
        let written = cache.report().bytes_written - before;
        let times = written / value.len() as u64;
        assert!(times < 40, "{mode:?}: the value was written {times} times over");
        cache.validate().unwrap();
    }
}
