//! The operations that a server needs in addition to get and set: stale items, requested cas
//! tokens, metadata, and recache tokens, each of which lets one client store the new value of an
//! item.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread;

use larder::{
    Arithmetic, ArithmeticRequest, Cache, Clock, Cursor, Deadline, Deletion, Direction, Meta,
    MetaOutcome, Read, ReadOptions, Reason, Stale, StoreMode, StoreRequest, Stored,
};

fn cache(memory_bytes: u64, cas: bool) -> Cache {
    Cache::builder().memory_bytes(memory_bytes).cas(cas).clock(Clock::Ticked).open().unwrap()
}

fn set(key: &[u8]) -> StoreRequest<'_> {
    StoreRequest::new(key, StoreMode::Set)
}

fn stored(cache: &Cache, request: &StoreRequest<'_>, value: &[u8]) -> u64 {
    match cache.store(request, value) {
        Ok(Stored::Stored { cas, .. }) => cas,
        other => panic!("{other:?}"),
    }
}

fn mark_stale(cache: &Cache, key: &[u8]) -> Meta {
    match cache.mark_stale(key, None, None, None) {
        Ok(MetaOutcome::Done(meta)) => meta,
        other => panic!("{other:?}"),
    }
}

/// Stores an item of each form: small, a number, growing, large.
fn store_all_kinds(cache: &Cache) -> [&'static [u8]; 4] {
    cache.set("small", "v", None).unwrap();
    cache.set("number", "7", None).unwrap();
    cache.increment("number", 1).unwrap();
    cache.set("growing", "a", None).unwrap();
    cache.append("growing", "b").unwrap();
    cache.set("large", vec![1; 500_000], None).unwrap();
    [b"small", b"number", b"growing", b"large"]
}

#[test]
fn a_stale_item_has_one_recache_token_until_a_new_value_is_stored() {
    for cas in [true, false] {
        let cache = cache(16 << 20, cas);
        for key in store_all_kinds(&cache) {
            let before = cache.peek(key).unwrap();
            assert!(!before.stale);
            assert!(!before.token_sent);
            let stale = mark_stale(&cache, key);
            assert_eq!(cache.peek(key), Some(stale));
            assert!(stale.stale);
            assert!((stale.cas != before.cas) == cas);
            assert_eq!(
                cache.claim(key, before.cas),
                !cas,
                "the claim with an old token had the wrong result"
            );
            assert_eq!(
                cache.claim(key, stale.cas),
                cas,
                "the claim with the current token had the wrong result"
            );
            assert!(!cache.claim(key, stale.cas));
            assert_eq!(cache.peek(key), Some(Meta { token_sent: true, ..stale }));

            let again = mark_stale(&cache, key);
            assert!(!again.token_sent);
            assert!(cache.claim(key, again.cas));
            let value = cache.get(key).unwrap();
            assert_eq!(value.len(), before.value_bytes);
            stored(&cache, &set(key), &value);
            let after = cache.peek(key).unwrap();
            assert!(!after.stale);
            assert!(!after.token_sent);
            assert!(!after.fetched);
        }
        assert!(!cache.claim(b"missing", 0));
        cache.validate().unwrap();
    }
}

#[test]
fn marking_as_stale_can_add_a_deadline() {
    let cache = cache(16 << 20, true);
    for key in store_all_kinds(&cache) {
        let value = cache.get(key).unwrap();
        for secs in [10, 20, 0] {
            let deadline = Deadline(secs);
            let token = cache.peek(key).unwrap().cas;
            let wrong = cache.mark_stale(key, Some(token + 1), None, Some(deadline)).unwrap();
            assert_eq!(wrong, MetaOutcome::Exists);
            let right =
                cache.mark_stale(key, Some(token), Some(token + 9), Some(deadline)).unwrap();
            let meta = cache.peek(key).unwrap();
            assert_eq!(right, MetaOutcome::Done(meta));
            assert_eq!((meta.deadline, meta.cas, meta.stale), (deadline, token + 9, true));
            assert_eq!(cache.get(key).unwrap(), value);
        }
    }
    assert_eq!(cache.mark_stale(b"missing", None, None, None), Ok(MetaOutcome::NotFound));
    cache.validate().unwrap();
}

#[test]
fn a_value_stored_with_an_older_token_is_stale_and_keeps_deadline_and_recache_token() {
    let cache = cache(16 << 20, true);
    let deadline = Deadline::after(cache.now(), 50);
    for value in [&b"late"[..], &[7; 300_000]] {
        let old =
            stored(&cache, &StoreRequest { deadline, token_sent: true, ..set(b"k") }, b"first");
        let current = stored(&cache, &StoreRequest { deadline, ..set(b"k") }, b"second");
        assert!(old < current);
        assert!(cache.claim(b"k", current));
        let late = StoreRequest { cas: Some(old), flags: 3, ..set(b"k") };
        assert_eq!(cache.store(&late, value), Ok(Stored::Exists));
        let late = StoreRequest { stale: Stale::IfOlder, ..late };
        let higher = StoreRequest { cas: Some(current + 1), ..late };
        assert_eq!(cache.store(&higher, value), Ok(Stored::Exists));
        let append = StoreRequest { mode: StoreMode::Append, ..late };
        assert_eq!(cache.store(&append, value), Ok(Stored::Exists));
        stored(&cache, &late, value);
        let meta = cache.peek(b"k").unwrap();
        assert!(meta.stale);
        assert!(meta.token_sent);
        assert!(!meta.fetched);
        assert_eq!((meta.deadline, meta.flags, meta.value_bytes), (deadline, 3, value.len()));
        // With the item's current token the store is an ordinary store.
        stored(&cache, &StoreRequest { cas: Some(meta.cas), ..late }, b"new");
        let meta = cache.peek(b"k").unwrap();
        assert!(!meta.stale);
        assert!(!meta.token_sent);
        assert_eq!((meta.deadline, cache.get("k").unwrap()), (Deadline::NEVER, b"new".to_vec()));
    }
    cache.validate().unwrap();
}

#[test]
fn emptying_an_item_leaves_a_stale_one_and_does_nothing_for_an_absent_key() {
    let cache = cache(16 << 20, true);
    let token = stored(&cache, &StoreRequest { flags: 5, ..set(b"k") }, b"value");
    let empty =
        StoreRequest { stale: Stale::Always, ..StoreRequest::new(b"k", StoreMode::Replace) };
    assert_eq!(
        cache.store(&StoreRequest { cas: Some(token + 1), ..empty }, b""),
        Ok(Stored::Exists)
    );
    let emptied = stored(&cache, &StoreRequest { cas: Some(token), ..empty }, b"");
    let meta = cache.peek(b"k").unwrap();
    let expected = Meta { cas: emptied, stale: true, seen: meta.seen, ..Meta::default() };
    assert_eq!(meta, expected);
    assert_eq!(cache.store(&StoreRequest { key: b"other", ..empty }, b""), Ok(Stored::NotStored));
}

#[test]
fn a_delete_with_a_token_removes_only_that_item() {
    let cache = cache(1 << 20, true);
    let token = stored(&cache, &set(b"k"), b"v");
    assert_eq!(cache.delete_if(b"k", Some(token + 1)).unwrap(), Deletion::Exists);
    assert_eq!(cache.get("k").unwrap(), b"v");
    assert!(matches!(cache.delete_if(b"k", Some(token)).unwrap(), Deletion::Deleted(_)));
    assert_eq!(cache.delete_if(b"k", Some(token)).unwrap(), Deletion::NotFound);
}

#[test]
fn arithmetic_checks_the_token_and_sets_the_requested_one_and_a_deadline() {
    let cache = cache(1 << 20, true);
    let (now, up) = (cache.now(), Direction::Increment);
    stored(&cache, &StoreRequest { flags: 9, ..set(b"n") }, b"8");
    // The first change turns the value into a number, the second changes it in place, the third
    // needs space for the deadline, and the fourth for one more digit.
    for (round, ttl) in [None, None, Some(70), Some(80)].into_iter().enumerate() {
        let token = cache.peek(b"n").unwrap().cas;
        let counting = ArithmeticRequest {
            version: Some(900 + round as u64),
            ..ArithmeticRequest::new(b"n", up, 1)
        };
        let counting =
            ArithmeticRequest { deadline: ttl.map(|secs| Deadline::after(now, secs)), ..counting };
        let wrong = cache.arithmetic_as(&ArithmeticRequest { cas: Some(token + 1), ..counting });
        assert_eq!(wrong, Ok(Arithmetic::Exists));
        let moved =
            cache.arithmetic_as(&ArithmeticRequest { cas: Some(token), ..counting }).unwrap();
        let meta = cache.peek(b"n").unwrap();
        assert_eq!(moved, Arithmetic::Number { number: 9 + round as u64, meta });
        let deadline = counting.deadline.unwrap_or(Deadline::NEVER);
        assert_eq!((meta.cas, meta.flags, meta.deadline), (900 + round as u64, 9, deadline));
        assert!(!meta.fetched, "an increment counted as a read");
    }
    cache.validate().unwrap();
}

#[test]
fn a_counter_stays_stale_until_it_needs_more_digits() {
    let cache = cache(1 << 20, true);
    cache.set("n", "98", None).unwrap();
    for _ in 0..2 {
        let stale = mark_stale(&cache, b"n");
        assert!(cache.claim(b"n", stale.cas));
        cache.decrement("n", 1).unwrap();
        let meta = cache.peek(b"n").unwrap();
        assert!(meta.stale);
        assert!(meta.token_sent);
    }
    cache.increment("n", 10).unwrap();
    let meta = cache.peek(b"n").unwrap();
    assert!(!meta.stale, "unlike in memcached, the longer number is not a new item");
    assert!(!meta.token_sent, "unlike in memcached, the longer number is not a new item");
}

#[test]
fn a_requested_token_is_never_issued_again() {
    let cache = cache(1 << 20, true);
    let first = stored(&cache, &set(b"k"), b"v");
    let ahead = first + 1000;
    let asked = StoreRequest { version: Some(ahead), ..set(b"k") };
    assert_eq!(stored(&cache, &asked, b"v"), ahead);
    // Other threads have issued fewer tokens so far.
    for key in [b"k", b"l"] {
        let cache = cache.clone();
        let given = thread::spawn(move || stored(&cache, &set(key), b"v")).join().unwrap();
        assert!(given > ahead, "{given}");
    }
    // No sequence of tokens reaches this token, so later tokens need not exceed it.
    let far = u64::MAX;
    assert_eq!(stored(&cache, &StoreRequest { version: Some(far), ..set(b"k") }, b"v"), far);
    let mut given = HashSet::new();
    for _ in 0..100 {
        let cas = stored(&cache, &set(b"k"), b"v");
        assert!(cas > ahead);
        assert!(cas < ahead + 100_000);
        assert!(given.insert(cas));
    }
    assert_ne!(stored(&cache, &StoreRequest { version: Some(0), ..set(b"k") }, b"v"), 0);
}

#[test]
fn a_cache_without_tokens_ignores_requested_ones() {
    let cache = cache(1 << 20, false);
    assert_eq!(stored(&cache, &StoreRequest { version: Some(7), ..set(b"k") }, b"v"), 0);
    assert_eq!(cache.peek(b"k").unwrap().cas, 0);
}

#[test]
fn a_counted_read_or_a_touch_marks_an_item_as_fetched() {
    let cache = cache(16 << 20, true);
    let is_fetched = |key| cache.peek(key).unwrap().fetched;
    for key in store_all_kinds(&cache) {
        for _ in 0..6 {
            let value = vec![7; cache.peek(key).unwrap().value_bytes];
            stored(&cache, &set(key), &value);
            assert!(!is_fetched(key), "stored anew");
            for value in [true, false] {
                let reading = ReadOptions { noted: false, value };
                assert!(!matches!(
                    cache.read_as(key, reading, &mut vec![], |_, _| ()),
                    Read::Miss(_)
                ));
            }
            assert!(!is_fetched(key), "not noted");
            // The read counter saturates at a few reads.
            for _ in 0..4 {
                let reading = ReadOptions { noted: true, value: false };
                let read = cache.read_as(key, reading, &mut vec![], |_, _| ());
                assert!(matches!(read, Read::Hit(_)), "a read without the value returned pieces");
                assert!(is_fetched(key));
            }
        }
        let value = vec![7; cache.peek(key).unwrap().value_bytes];
        stored(&cache, &set(key), &value);
        cache.touch(key, None).unwrap();
        assert!(is_fetched(key), "touched");
    }
}

#[test]
fn an_item_that_survives_an_eviction_keeps_its_metadata() {
    let cache = cache(1 << 20, true);
    let keys: Vec<[u8; 1]> = (0..20u8).map(|number| [number]).collect();
    for (key, number) in keys.iter().zip(0..) {
        cache.set(key, [0; 100], None).unwrap();
        (0..4).for_each(|_| drop(cache.get(key)));
        if number % 2 == 0 {
            // Replaces an item that was read often: the new item survives without having been read.
            cache.set(key, [0; 100], None).unwrap();
        }
        let stale = mark_stale(&cache, key);
        assert!(number % 3 == 0 || cache.claim(key, stale.cas));
    }
    cache.tick(cache.now() + 1);
    // The length of the key identifies a filler.
    let count_of_moved = || {
        let mut count = 0;
        cache.sample(usize::MAX, |item| {
            count += usize::from(item.key_bytes != 4 && item.placed == cache.now());
        });
        count
    };
    let mut fillers = 0..40_000u32;
    while count_of_moved() < keys.len() {
        for _ in 0..20 {
            cache.set(fillers.next().unwrap().to_le_bytes(), [1; 100], None).unwrap();
        }
    }
    for (key, number) in keys.iter().zip(0..) {
        let meta = cache.peek(key).unwrap();
        let reported = (meta.fetched, meta.stale, meta.token_sent);
        assert_eq!(reported, (number % 2 != 0, true, number % 3 != 0), "{number}");
        cache.get(key);
        assert!(cache.peek(key).unwrap().fetched);
    }
    cache.validate().unwrap();
}

#[test]
fn the_time_of_the_last_use_is_accurate_to_a_minute() {
    let cache = cache(1 << 20, true);
    let seen = |key: &str| cache.peek(key.as_bytes()).unwrap().seen;
    let start = cache.now();
    cache.set("hot", "v", None).unwrap();
    cache.set("looked at", "v", None).unwrap();
    for second in start + 1..start + 600 {
        cache.tick(second);
        let new = format!("{second}");
        cache.set(&new, "v", None).unwrap();
        assert_eq!(seen(&new), second);
        cache.get("hot").unwrap();
        assert!(second - seen("hot") <= 59, "{} in {second}", seen("hot"));
        // A peek does not count as a read.
        assert_eq!(seen("looked at"), start);
    }
    assert!(cache.touch("looked at", None).unwrap());
    assert_eq!(seen("looked at"), cache.now());
    cache.validate().unwrap();
}

#[test]
fn a_relocated_item_keeps_the_time_of_its_last_use() {
    let cache = cache(1 << 20, true);
    let start = cache.now();
    cache.set("kept", "v", None).unwrap();
    (0..4).for_each(|_| drop(cache.get("kept")));
    cache.tick(start + 1000);
    let relocated = cache.counter(larder::Counter::BytesRelocated);
    for number in 0..20_000u32 {
        cache.set(number.to_le_bytes(), [1; 100], None).unwrap();
        if cache.counter(larder::Counter::BytesRelocated) > relocated {
            break;
        }
    }
    assert!((start..start + 8).contains(&cache.peek(b"kept").unwrap().seen));
    cache.get("kept").unwrap();
    assert_eq!(cache.peek(b"kept").unwrap().seen, start + 1000);
}

#[test]
fn the_departure_hook_gets_the_metadata_of_the_item() {
    let cache = cache(1 << 20, true);
    let gone = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&gone);
    cache.set_departure_hook(move |leaving| {
        let mut key = Vec::new();
        leaving.read_key(&mut key);
        assert_eq!(key.len(), leaving.key_bytes());
        reported.lock().unwrap().push((key, leaving.reason(), leaving.meta()));
    });
    let deadline = Deadline::after(cache.now(), 1);
    stored(&cache, &StoreRequest { flags: 4, deadline, ..set(b"dies") }, b"value");
    cache.get("dies");
    stored(&cache, &set(b"replaced"), b"a");
    stored(&cache, &set(b"replaced"), b"b");
    cache.delete("replaced").unwrap();
    assert!(gone.lock().unwrap().is_empty());
    cache.tick(cache.now() + 1);
    // The same if a store finds the expired item first.
    stored(&cache, &set(b"dies"), b"again");
    {
        let gone = gone.lock().unwrap();
        let (key, reason, meta) = &gone[0];
        assert_eq!((gone.len(), &key[..], *reason), (1, &b"dies"[..], Reason::Expired));
        assert_eq!((meta.flags, meta.value_bytes, meta.deadline), (4, 5, deadline));
        assert!(meta.fetched);
    }
    for number in 0..20_000u32 {
        cache.set(number.to_le_bytes(), [0; 100], None).unwrap();
    }
    let evictions = cache.counter(larder::Counter::Evictions);
    let gone = gone.lock().unwrap();
    assert_eq!(gone.len() as u64, 1 + evictions);
    assert!(gone[1..].iter().all(|(_, reason, meta)| {
        *reason == Reason::Evicted && !meta.fetched && meta.seen <= cache.now()
    }));
}

#[test]
fn a_sample_estimates_the_number_of_items() {
    let cache = cache(16 << 20, false);
    assert!(cache.sample(0, |_| panic!("an item was visited")) > 1.0);
    for number in 0..50_000u32 {
        cache.set(number.to_le_bytes(), vec![0; number as usize % 50], None).unwrap();
    }
    cache.set("dead", "", Some(std::time::Duration::ZERO)).unwrap();
    let count = |groups_max| {
        let mut shown = 0u32;
        let factor = cache.sample(groups_max, |item| {
            assert!(item.key_bytes == 4);
            assert!(item.meta.value_bytes < 50);
            shown += 1;
        });
        (shown, factor)
    };
    assert_eq!(count(usize::MAX), (50_000, 1.0));
    let (shown, factor) = count(500);
    let estimated = f64::from(shown) * factor;
    assert!(shown < 10_000, "{shown} × {factor}");
    assert!((40_000.0..60_000.0).contains(&estimated), "{shown} × {factor}");
}

#[test]
fn a_dump_resumes_at_its_cursor_and_omits_dead_items() {
    let cache = cache(4 << 20, true);
    for number in 0..3_000u32 {
        cache.set(number.to_le_bytes(), "value", None).unwrap();
    }
    cache.set("dies", "v", Some(std::time::Duration::from_secs(1))).unwrap();
    mark_stale(&cache, &7u32.to_le_bytes());
    cache.tick(cache.now() + 1);
    let (mut cursor, mut shown, mut steps) = (Cursor::default(), Vec::new(), 0);
    let mut keys = HashSet::new();
    while cache.dump_group("", &mut cursor, &mut shown) {
        steps += 1;
        assert!(shown.len() < 100, "one step returned too many items");
        for item in shown.drain(..) {
            assert_eq!(item.meta.stale, item.key == 7u32.to_le_bytes());
            assert_eq!(Some(item.meta), cache.peek(&item.key));
            assert!(keys.insert(item.key));
        }
    }
    assert!(steps > 100);
    assert!(keys.len() == 3_000);
    assert!(!cache.dump_group("", &mut cursor, &mut shown), "the dump continued after its end");
}

#[test]
fn a_small_value_that_arrives_in_parts_is_an_ordinary_item() {
    let cache = cache(1 << 20, true);
    let mut upload = cache.upload(b"n", 2).unwrap();
    upload.push(b"4").unwrap();
    upload.push(b"1").unwrap();
    upload.store(&StoreRequest { flags: 3, ..set(b"n") }).unwrap();
    assert_eq!(cache.increment("n", 1), Ok(Some(42)));
    assert_eq!(cache.peek(b"n").unwrap().flags, 3);
    cache.validate().unwrap();
}
