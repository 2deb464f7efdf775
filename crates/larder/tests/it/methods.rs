//! The methods that programs use, one fact per test.

use std::time::Duration;

use larder::{Cache, Clock, CountError, KeyError, StoreError, Swap, SwapError};

fn ticked() -> Cache {
    Cache::builder().memory_bytes(16 << 20).clock(Clock::Ticked).cas(true).open().unwrap()
}

fn secs(secs: u64) -> Option<Duration> {
    Some(Duration::from_secs(secs))
}

fn pass(cache: &Cache, secs: u32) {
    cache.tick(cache.now() + secs);
}

#[test]
fn keys_and_values_are_text_or_bytes_of_any_kind() {
    let cache = ticked();
    cache.set("text", String::from("value"), None).unwrap();
    cache.set(vec![0, 255, b'\n'], [0u8; 3], None).unwrap();
    assert_eq!(cache.get(b"text").unwrap(), b"value");
    assert_eq!(cache.get(&[0, 255, b'\n'][..]).unwrap(), [0, 0, 0]);
}

#[test]
fn an_empty_value_is_not_a_miss() {
    let cache = ticked();
    cache.set("empty", "", None).unwrap();
    assert_eq!(cache.get("empty"), Some(Vec::new()));
    assert!(cache.contains("empty"));
    assert!(!cache.contains("missing"));
    assert_eq!(cache.get_many(&["empty", "missing"]), [Some(Vec::new()), None]);
}

#[test]
fn a_closure_gets_the_value_and_may_use_the_cache() {
    let cache = ticked();
    cache.set("outer", "inner", None).unwrap();
    cache.set("inner", "value", None).unwrap();
    let seen = cache.get_with("outer", |name, meta| {
        assert_eq!(meta.value_bytes, 5);
        let inner = cache.get_with(name, |value, _| value.to_vec());
        cache.delete("outer").unwrap();
        (name.to_vec(), inner)
    });
    assert_eq!(seen, Some((b"inner".to_vec(), Some(b"value".to_vec()))));
    assert_eq!(cache.get_with("outer", |_, _| ()), None);
}

#[test]
fn a_closure_gets_a_large_value_whole_alone_and_among_many() {
    let cache = ticked();
    let large: Vec<u8> = (0..900_000usize).map(|at| ((at * 7) >> 3) as u8).collect();
    cache.set("small", "1", None).unwrap();
    cache.set("large", &large, None).unwrap();
    assert_eq!(cache.get_with("large", |value, _| value == large), Some(true));
    assert!(cache.contains("large"));
    let many = cache.get_many(&["small", "large", "none", "small"]);
    assert_eq!(many, [Some(b"1".to_vec()), Some(large), None, Some(b"1".to_vec())]);
}

#[test]
fn deleting_a_large_value_that_was_read_frees_its_memory() {
    let open = || Cache::builder().memory_bytes(4 << 20).evict(false).open().unwrap();
    let room = |cache: &Cache| {
        (0..10_000).take_while(|n| cache.set(n.to_string(), [0; 5_000], None).is_ok()).count()
    };
    let cache = open();
    for round in 0..50 {
        cache.set("large", [round; 500_000], None).unwrap();
        assert_eq!(cache.get("large").map(|value| value[0]), Some(round));
        assert_eq!(cache.get_with("large", |value, _| value[0]), Some(round));
        assert_eq!(cache.get_many(&["large"])[0].as_ref().map(|value| value[0]), Some(round));
        assert_eq!(cache.iterate().next().map(|item| item.value[0]), Some(round));
        assert!(cache.contains("large"));
        assert!(cache.delete("large").unwrap());
    }
    let (room, fresh) = (room(&cache), room(&open()));
    // Allows for the unused ends of a few segments.
    assert!(room + 60 >= fresh, "space for {room} of {fresh} items");
}

#[test]
fn any_number_of_values_is_returned_in_the_order_of_the_keys() {
    let cache = ticked();
    for number in (0..100).step_by(3) {
        cache.set(format!("key {number}"), format!("value {number}"), None).unwrap();
    }
    for count in [0, 1, 15, 16, 17, 32, 100] {
        let keys: Vec<String> = (0..count).map(|number| format!("key {number}")).collect();
        let expected = |number| (number % 3 == 0).then(|| format!("value {number}").into_bytes());
        let expected: Vec<_> = (0..count).map(expected).collect();
        assert_eq!(cache.get_many(&keys), expected);
        let mut shown = Vec::new();
        cache.get_many_with(&keys, |place, found| {
            assert_eq!(place, shown.len());
            shown.push(found.map(|(value, meta)| {
                assert_eq!(meta.value_bytes, value.len());
                value.to_vec()
            }));
        });
        assert_eq!(shown, expected);
    }
}

#[test]
fn add_requires_an_absent_key_and_replace_a_present_one() {
    let cache = ticked();
    assert!(!cache.replace("k", "r", None).unwrap());
    assert!(cache.add("k", "a", secs(5)).unwrap());
    assert!(!cache.add("k", "b", None).unwrap());
    assert!(cache.replace("k", "c", secs(9)).unwrap());
    pass(&cache, 8);
    assert_eq!(cache.get("k").as_deref(), Some(&b"c"[..]));
    pass(&cache, 1);
    assert!(!cache.replace("k", "d", None).unwrap());
    assert!(cache.add("k", "e", None).unwrap());
}

#[test]
fn parts_are_appended_and_prepended_and_keep_the_time_to_live() {
    let cache = ticked();
    assert!(!cache.append("k", "x").unwrap());
    assert!(!cache.prepend("k", "x").unwrap());
    cache.set("k", "b", secs(3)).unwrap();
    assert!(cache.append("k", "c").unwrap());
    assert!(cache.prepend("k", "a").unwrap());
    assert_eq!(cache.get("k").as_deref(), Some(&b"abc"[..]));
    pass(&cache, 3);
    assert_eq!(cache.get("k"), None);
}

#[test]
fn a_swap_succeeds_only_over_the_value_that_was_read() {
    let cache = ticked();
    cache.set("k", "1", None).unwrap();
    let cas = cache.get_with("k", |_, meta| meta.cas).unwrap();
    let Swap::Stored { cas: next } = cache.compare_and_set("k", "2", None, cas).unwrap() else {
        panic!("the swap did not store");
    };
    assert_ne!(next, cas);
    assert_eq!(cache.compare_and_set("k", "3", None, cas), Ok(Swap::Changed));
    assert!(cache.touch("k", secs(9)).unwrap(), "the touch failed");
    assert!(matches!(cache.compare_and_set("k", "4", None, next), Ok(Swap::Stored { .. })));
    cache.delete("k").unwrap();
    assert_eq!(cache.compare_and_set("k", "5", None, next), Ok(Swap::Missing));
}

#[test]
fn a_cache_without_tokens_refuses_to_swap() {
    let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
    cache.set("k", "1", None).unwrap();
    let error = cache.compare_and_set("k", "2", None, 0).unwrap_err();
    assert_eq!(error, SwapError::NoTokens);
    assert!(error.to_string().contains("Builder::cas"), "{error}");
    assert_eq!(cache.get("k").as_deref(), Some(&b"1"[..]));
}

#[test]
fn a_touch_extends_and_shortens_the_time_to_live() {
    let cache = ticked();
    assert!(!cache.touch("k", None).unwrap());
    assert_eq!(cache.get_and_touch("k", None), Ok(None));
    cache.set("k", "v", secs(2)).unwrap();
    pass(&cache, 1);
    assert_eq!(cache.get_and_touch("k", secs(5)).unwrap().as_deref(), Some(&b"v"[..]));
    pass(&cache, 4);
    assert!(cache.touch("k", None).unwrap());
    pass(&cache, 1000);
    assert_eq!(cache.get_and_touch("k", secs(0)).unwrap().as_deref(), Some(&b"v"[..]));
    assert_eq!(cache.get("k"), None, "an item with a ttl of zero did not expire");
}

#[test]
fn fractions_of_a_second_round_up() {
    let cache = ticked();
    cache.set("k", "v", Some(Duration::from_millis(1))).unwrap();
    assert!(cache.contains("k"));
    pass(&cache, 1);
    assert!(!cache.contains("k"));
}

#[test]
fn counters_wrap_at_the_top_stop_at_zero_and_keep_their_time_to_live() {
    let cache = ticked();
    assert_eq!(cache.increment("n", 1), Ok(None));
    cache.set("n", u64::MAX.to_string(), secs(3)).unwrap();
    assert_eq!(cache.increment("n", 2), Ok(Some(1)));
    assert_eq!(cache.decrement("n", 2), Ok(Some(0)));
    pass(&cache, 3);
    assert_eq!(cache.decrement("n", 1), Ok(None));
    cache.set("n", "many", None).unwrap();
    let error = cache.increment("n", 1).unwrap_err();
    assert_eq!(error, CountError::NotANumber);
    assert!(error.to_string().contains("decimal"), "{error}");
}

#[test]
fn a_key_has_1_to_250_bytes_and_an_invalid_one_is_an_error_or_a_miss() {
    let cache = ticked();
    let long = "k".repeat(251);
    let expected = Err(StoreError::Key(KeyError::TooLong(251)));
    assert_eq!(cache.set(&long, "v", None), expected);
    assert!(cache.set(&long[..250], "v", None).is_ok());
    let error = cache.append(&long, "v").unwrap_err().to_string();
    assert!(error.contains("251"), "{error}");
    assert!(error.contains("1 to 250"), "{error}");
    assert_eq!(cache.set("", "v", None), Err(StoreError::Key(KeyError::Empty)));
    for key in [&long[..], "", &"k".repeat(250 + 256), &"k".repeat(100_000)] {
        assert_eq!(
            (cache.get(key), cache.delete(key).unwrap(), cache.contains(key)),
            (None, false, false)
        );
        assert_eq!((cache.touch(key, None), cache.increment(key, 1)), (Ok(false), Ok(None)));
    }
}
