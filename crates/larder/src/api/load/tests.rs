use std::convert::Infallible;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc;
use std::thread::{self, ScopedJoinHandle};

use larder_stats::Counter;

use super::*;
use crate::Clock;

type Change = fn(&Cache);
type Loading = Result<Vec<u8>, LoadError<String>>;

/// Fresh for a minute, refreshed in its last 10 seconds, then stale for 100 seconds.
const MINUTE: LoadOptions = LoadOptions::new()
    .ttl(Duration::from_secs(60))
    .early(1.0 / 6.0)
    .stale(Duration::from_secs(100));
const FOR_EVER: LoadOptions = LoadOptions::new();

fn cache(cas: bool) -> Cache {
    let builder = Cache::builder().memory_bytes(16 << 20).clock(Clock::Ticked).cas(cas);
    builder.open().expect("cannot open the cache")
}

fn pass(cache: &Cache, secs: u32) {
    cache.tick(cache.now() + secs);
}

fn brings(value: &str) -> impl FnOnce() -> Result<Loaded, Infallible> {
    move || Ok(Loaded::new(value))
}

/// A loader that must not be called.
fn never() -> Result<Loaded, Infallible> {
    panic!("the loader was called although it must not be");
}

fn load(cache: &Cache, options: &LoadOptions, value: &str) -> String {
    text(cache.get_or_load("k", options, brings(value)).expect("the load failed"))
}

fn plain_set() -> StoreRequest<'static> {
    StoreRequest::new(b"k", StoreMode::Set)
}

fn held(cache: &Cache) -> Option<String> {
    cache.get("k").map(text)
}

fn text(value: Vec<u8>) -> String {
    String::from_utf8(value).expect("the value is not UTF-8")
}

/// Starts one thread that loads the key and `count` threads that wait for it, then ends the loader
/// with `end`. Returns the results of the loader and of each waiting thread.
fn with_followers(
    cache: &Cache,
    count: usize,
    end: fn() -> Result<Loaded, String>,
) -> (thread::Result<Loading>, Vec<Loading>) {
    thread::scope(|scope| {
        let (go, gone) = mpsc::channel();
        let (notify_begun, begun) = mpsc::channel();
        let leader = scope.spawn(move || {
            cache.get_or_load("k", &FOR_EVER, || {
                notify_begun.send(()).expect("the test no longer waits for the loader");
                gone.recv().expect("the test ended without releasing the loader");
                end()
            })
        });
        begun.recv().expect("the loader did not start");
        let follow = || {
            cache.get_or_load("k", &FOR_EVER, || -> Result<Loaded, String> {
                panic!("a second loader was called")
            })
        };
        let followers: Vec<ScopedJoinHandle<'_, Loading>> =
            (0..count).map(|_| scope.spawn(follow)).collect();
        while cache.shared().flights.followers(b"k") < count {
            thread::yield_now();
        }
        go.send(()).expect("the loader no longer waits");
        let leader = leader.join();
        (
            leader,
            followers
                .into_iter()
                .map(|thread| thread.join().expect("a follower panicked"))
                .collect(),
        )
    })
}

#[test]
fn a_loaded_value_is_stored_and_not_loaded_again() {
    let cache = cache(false);
    assert_eq!(load(&cache, &MINUTE, "v"), "v");
    assert_eq!(text(cache.get_or_load("k", &MINUTE, never).unwrap()), "v");
    let mut out = b"<".to_vec();
    cache.get_or_load_into("k", &MINUTE, &mut out, never).unwrap();
    cache.get_or_load_into("other", &MINUTE, &mut out, brings(">")).unwrap();
    assert_eq!(out, b"<v>");
}

#[test]
fn waiting_threads_get_the_value_of_the_one_loader() {
    let cache = cache(false);
    let (leader, followers) = with_followers(&cache, 7, || Ok(Loaded::new("v")));
    assert_eq!(leader.unwrap().unwrap(), b"v");
    for value in followers {
        assert_eq!(value.unwrap(), b"v");
    }
    assert_eq!(held(&cache).as_deref(), Some("v"));
}

#[test]
fn one_of_many_concurrent_threads_loads() {
    let cache = cache(false);
    let loads = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in 0..2000u32 {
                    let loader = || {
                        loads.fetch_add(1, SeqCst);
                        Ok::<_, Infallible>(key.to_string())
                    };
                    let value = cache.get_or_load(key.to_le_bytes(), &FOR_EVER, loader).unwrap();
                    assert_eq!(text(value), key.to_string());
                }
            });
        }
    });
    assert_eq!(loads.load(SeqCst), 2000);
}

#[test]
fn a_leader_that_boards_after_another_flight_has_landed_does_not_load() {
    let cache = cache(false);
    let FlightRole::Leader(leader) = cache.shared().flights.board(b"k", Duration::MAX) else {
        panic!("another caller leads the flight");
    };
    cache
        .with_thread_slot(|engine, thread| {
            engine.store(&Operation::new(thread, 2), &plain_set(), b"v")
        })
        .unwrap();
    let mut value = Vec::new();
    let wanted = Wanted { key: b"k", options: &FOR_EVER, format: None };
    assert!(cache.begin(leader, wanted, &mut value).is_none(), "the load began");
    assert_eq!((value, cache.shared().flights.is_empty()), (b"v".to_vec(), true));
}

#[test]
fn waiting_threads_get_the_loaders_error_and_the_next_caller_loads_again() {
    let cache = cache(false);
    let (leader, followers) = with_followers(&cache, 3, || Err("no such table".to_owned()));
    let Err(LoadError::Failed(error)) = leader.unwrap() else {
        panic!("the leader did not get the error")
    };
    for follower in followers {
        let Err(LoadError::Failed(same)) = follower else {
            panic!("a follower did not get the error")
        };
        assert!(Arc::ptr_eq(&error, &same));
    }
    assert_eq!(LoadError::Failed(error).to_string(), "the loader failed: no such table");
    assert_eq!((held(&cache), load(&cache, &FOR_EVER, "v")), (None, "v".to_owned()));
}

#[test]
fn a_loader_panics_in_its_own_thread_and_the_next_caller_loads_again() {
    let cache = cache(false);
    let (leader, followers) = with_followers(&cache, 3, || panic!("a bug in the loader"));
    assert_eq!(leader.unwrap_err().downcast_ref(), Some(&"a bug in the loader"));
    for follower in followers {
        assert!(matches!(follower, Err(LoadError::Panicked)));
    }
    assert_eq!((held(&cache), load(&cache, &FOR_EVER, "v")), (None, "v".to_owned()));
}

#[test]
fn after_a_timeout_the_next_caller_loads_again_and_the_late_result_is_not_stored() {
    let cache = cache(false);
    let options = FOR_EVER.timeout(Duration::from_millis(30));
    thread::scope(|scope| {
        let (go, gone) = mpsc::channel();
        let (notify_begun, begun) = mpsc::channel();
        let late = scope.spawn({
            let cache = &cache;
            move || {
                cache.get_or_load("k", &options, || {
                    notify_begun.send(()).unwrap();
                    gone.recv().unwrap();
                    Ok::<_, Infallible>("late")
                })
            }
        });
        begun.recv().unwrap();
        let waited = cache.get_or_load("k", &options, never);
        assert!(matches!(waited, Err(LoadError::TimedOut(_))), "{waited:?}");
        assert_eq!(load(&cache, &options, "newer"), "newer");
        cache.delete("k").unwrap();
        assert_eq!(load(&cache, &options, "newest"), "newest");
        go.send(()).unwrap();
        assert_eq!(
            late.join().unwrap().unwrap(),
            b"late",
            "the late loader's own caller gets its value"
        );
    });
    assert_eq!(held(&cache).as_deref(), Some("newest"));
}

#[test]
fn a_late_result_is_not_stored_even_if_the_newer_one_is_gone() {
    let cache = cache(false);
    let overdue = FOR_EVER.timeout(Duration::ZERO);
    let late = cache.get_or_load("k", &overdue, || {
        assert_eq!(load(&cache, &overdue, "newer"), "newer");
        // Removes the item by expiry, which does not detach a load.
        cache.touch("k", Some(Duration::ZERO)).unwrap();
        Ok::<_, Infallible>("late")
    });
    assert_eq!((late.unwrap(), held(&cache)), (b"late".to_vec(), None));
}

#[test]
fn a_change_during_a_load_takes_precedence() {
    let changes: [(Change, Option<&str>); 12] = [
        (|cache| cache.set("k", "set", None).unwrap(), Some("set")),
        (|cache| assert!(cache.delete("k").unwrap()), None),
        (|cache| assert!(cache.replace("k", "r", None).unwrap()), Some("r")),
        (|cache| assert!(cache.append("k", "1").unwrap()), Some("01")),
        (|cache| assert_eq!(cache.increment("k", 5), Ok(Some(5))), Some("5")),
        (|cache| assert_eq!(cache.decrement("k", 5), Ok(Some(0))), Some("0")),
        (Cache::clear, None),
        (|cache| assert_eq!(cache.remove_prefix("").unwrap(), 1), None),
        (
            |cache| {
                cache.set("k", "v", None).unwrap();
                cache.delete("k").unwrap();
            },
            None,
        ),
        (|cache| assert!(cache.set("k", vec![0; 2 << 20], None).is_err()), None),
        (|cache| cache.give_up(&plain_set()), None),
        (
            |cache| {
                let mut upload = cache.upload(b"k", 2).unwrap();
                upload.push(b"up").unwrap();
                upload.store(&plain_set()).unwrap();
            },
            Some("up"),
        ),
    ];
    for (number, (change, expected)) in changes.into_iter().enumerate() {
        for cas in [false, true] {
            let cache = cache(cas);
            load(&cache, &MINUTE, "0");
            pass(&cache, 70);
            let refreshed = cache.get_or_load("k", &MINUTE, || {
                change(&cache);
                Ok::<_, Infallible>("outdated")
            });
            assert_eq!(refreshed.unwrap(), b"outdated", "change {number}");
            assert_eq!(held(&cache).as_deref(), expected, "change {number}");
        }
    }
}

#[test]
fn a_key_deleted_during_its_first_load_stays_absent_and_is_loaded_again() {
    let cache = cache(false);
    let loaded = cache.get_or_load("k", &FOR_EVER, || {
        assert!(!cache.delete("k").unwrap());
        // Callers that arrive now do not wait for the outdated load.
        assert_eq!(load(&cache, &FOR_EVER, "current"), "current");
        assert!(cache.delete("k").unwrap());
        Ok::<_, Infallible>("outdated")
    });
    assert_eq!((loaded.unwrap(), held(&cache)), (b"outdated".to_vec(), None));
}

#[test]
fn a_removed_prefix_is_not_stored_again_by_a_first_load_of_one_of_its_keys() {
    let cache = cache(false);
    let loaded = |prefix: &str| {
        let loader = || {
            assert_eq!(cache.remove_prefix(prefix).unwrap(), 0);
            Ok::<_, Infallible>("v")
        };
        cache.get_or_load("k", &FOR_EVER, loader).unwrap();
        held(&cache)
    };
    assert_eq!(loaded("k"), None);
    assert_eq!(loaded("kk").as_deref(), Some("v"));
}

#[test]
fn a_refresh_is_stored_despite_a_touch_or_an_expiry_during_it() {
    for cas in [false, true] {
        for ttl in [Some(Duration::from_secs(1000)), Some(Duration::ZERO)] {
            let cache = cache(cas);
            load(&cache, &MINUTE, "old");
            pass(&cache, 70);
            let refreshed = cache.get_or_load("k", &MINUTE, || {
                assert!(cache.touch("k", ttl).unwrap());
                Ok::<_, Infallible>("new")
            });
            assert_eq!(refreshed.unwrap(), b"new");
            assert_eq!(held(&cache).as_deref(), Some("new"));
        }
    }
}

/// What a reader does does not change the item: not its last use, which a read writes once a
/// minute, and not the recache token, which a stale item hands to one reader.
#[test]
fn a_refresh_is_stored_despite_reads_during_it() {
    let late_read = |cache: &Cache| {
        pass(cache, 100);
        assert_eq!(held(cache).as_deref(), Some("old"));
    };
    let token = |cache: &Cache| {
        let cas = cache.peek(b"k").expect("the item is there").cas;
        assert!(cache.claim(b"k", cas), "the item is stale, and no reader has its token");
    };
    let long = MINUTE.stale(Duration::from_secs(1000));
    for cas in [false, true] {
        for (name, read) in [("a read", late_read as fn(&Cache)), ("a token", token)] {
            let cache = cache(cas);
            load(&cache, &long, "old");
            cache.mark_stale(b"k", None, None, None).expect("the item could not be marked");
            let basis = cache.begin_load(b"k", Duration::from_secs(1000)).unwrap();
            read(&cache);
            let stored = cache.end_load(&plain_set(), basis, b"new");
            let is_stored = matches!(stored, Ok(Stored::Stored { .. }));
            assert!(is_stored, "{name} during the load, with cas tokens: {cas}: {stored:?}");
            assert_eq!(held(&cache).as_deref(), Some("new"));
        }
    }
}

#[test]
fn a_change_visible_only_in_the_cas_token_or_the_presence_of_the_item_is_not_overwritten() {
    // Writes directly to the engine, like a writer that looked for loads in progress before this
    // load began.
    let write = |cache: &Cache| {
        let now = cache.now();
        cache
            .with_thread_slot(|engine, thread| {
                engine.store(&Operation::new(thread, now), &plain_set(), b"set")
            })
            .unwrap();
    };
    for is_refresh in [false, true] {
        let cache = cache(is_refresh);
        if is_refresh {
            load(&cache, &MINUTE, "old");
            pass(&cache, 70);
        }
        let loaded = cache.get_or_load("k", &MINUTE, || {
            write(&cache);
            Ok::<_, Infallible>("loaded")
        });
        assert_eq!((loaded.unwrap(), held(&cache).as_deref()), (b"loaded".to_vec(), Some("set")));
    }
}

#[test]
fn an_early_part_is_clamped_to_zero_and_one() {
    for part in [f64::NAN, -1.0, 0.0] {
        let (cache, options) = (cache(false), MINUTE.early(part));
        assert_eq!(load(&cache, &options, "a"), "a");
        pass(&cache, 59);
        assert_eq!(load(&cache, &options, "b"), "a", "{part}");
    }
    for part in [1.0, 7.0, f64::INFINITY] {
        let (cache, options) = (cache(false), MINUTE.early(part));
        assert_eq!(load(&cache, &options, "a"), "a");
        assert_eq!(load(&cache, &options, "b"), "b", "{part}");
    }
}

#[test]
fn one_caller_refreshes_a_value_early_while_the_others_get_the_present_one() {
    let cache = cache(false);
    load(&cache, &MINUTE, "old");
    pass(&cache, 49);
    assert_eq!(text(cache.get_or_load("k", &MINUTE, never).unwrap()), "old");
    pass(&cache, 1);
    let refreshed = cache.get_or_load("k", &MINUTE, || {
        let other = thread::scope(|scope| {
            scope.spawn(|| cache.get_or_load("k", &MINUTE, never).unwrap()).join().unwrap()
        });
        assert_eq!(text(other), "old");
        Ok::<_, Infallible>("new")
    });
    assert_eq!(refreshed.unwrap(), b"new");
    pass(&cache, 49);
    assert_eq!(text(cache.get_or_load("k", &MINUTE, never).unwrap()), "new");
}

#[test]
fn a_stale_value_is_returned_while_one_caller_refreshes_it_and_no_longer_than_allowed() {
    let options = MINUTE.early(0.0);
    let cache = cache(false);
    load(&cache, &options, "old");
    pass(&cache, 59);
    assert_eq!(text(cache.get_or_load("k", &options, never).unwrap()), "old");
    pass(&cache, 100);
    let refreshed = cache.get_or_load("k", &options, || {
        let other = thread::scope(|scope| {
            scope.spawn(|| cache.get_or_load("k", &options, never).unwrap()).join().unwrap()
        });
        assert_eq!(text(other), "old");
        Err::<Loaded, _>("the database is away")
    });
    assert_eq!(refreshed.unwrap(), b"old", "a failed refresh keeps the existing value");
    pass(&cache, 1);
    let loaded = cache.get_or_load("k", &options, || Err::<Loaded, _>("the database is away"));
    assert!(
        matches!(loaded, Err(LoadError::Failed(_))),
        "the value was returned after its stale period"
    );
}

#[test]
fn another_caller_repeats_a_refresh_that_takes_too_long() {
    let cache = cache(false);
    let options = MINUTE.timeout(Duration::ZERO);
    load(&cache, &options, "old");
    pass(&cache, 70);
    let late = cache.get_or_load("k", &options, || {
        assert_eq!(load(&cache, &options, "newer"), "newer");
        Ok::<_, Infallible>("late")
    });
    assert_eq!((late.unwrap(), held(&cache).as_deref()), (b"late".to_vec(), Some("newer")));
}

#[test]
fn a_value_can_have_its_own_time_to_live_or_expire_at_once() {
    let cache = cache(false);
    let nothing = || Ok::<_, Infallible>(Loaded::new("").ttl(Duration::from_secs(5)));
    let options = MINUTE.early(0.0);
    assert_eq!(cache.get_or_load("k", &options, nothing).unwrap(), b"");
    pass(&cache, 4);
    assert_eq!(
        cache.get_or_load("k", &options, never).unwrap(),
        b"",
        "an empty value counted as a miss"
    );
    pass(&cache, 1);
    assert_eq!(load(&cache, &options, "found"), "found", "a stale value is refreshed");
    pass(&cache, 60);
    let unkept = || Ok::<_, Infallible>(Loaded::new("once").ttl(Duration::ZERO));
    assert_eq!(cache.get_or_load("k", &options, unkept).unwrap(), b"once");
    assert_eq!(held(&cache), None, "the replaced value was kept");
}

#[test]
fn a_loader_that_requests_its_own_key_gets_an_error_and_may_request_others() {
    let cache = cache(false);
    let loaded = cache.get_or_load("k", &FOR_EVER, || {
        let own = cache.get_or_load("k", &FOR_EVER, never);
        assert!(matches!(own, Err(LoadError::Recursive)));
        cache.get_or_load("other", &FOR_EVER, brings("v"))
    });
    assert_eq!(loaded.unwrap(), b"v");
}

#[test]
fn a_caller_with_another_error_type_than_the_loaders_loads_itself() {
    let cache = cache(false);
    thread::scope(|scope| {
        let mut other = None;
        let loaded = cache.get_or_load("k", &FOR_EVER, || {
            other = Some(scope.spawn(|| load(&cache, &FOR_EVER, "v")));
            while cache.shared().flights.followers(b"k") == 0 {
                thread::yield_now();
            }
            Err::<Loaded, _>("failed")
        });
        assert!(matches!(loaded, Err(LoadError::Failed(_))));
        assert_eq!(other.unwrap().join().unwrap(), "v");
    });
}

#[test]
fn a_value_that_the_cache_rejects_is_returned_to_the_caller_and_counted() {
    let cache = cache(false);
    let huge = "v".repeat(2 << 20);
    assert_eq!(load(&cache, &FOR_EVER, &huge), huge);
    assert_eq!((held(&cache), cache.counter(Counter::StoreTooLarge)), (None, 1));
}

#[test]
fn an_invalid_key_is_not_loaded() {
    let error = cache(false).get_or_load("k".repeat(251), &FOR_EVER, never).unwrap_err();
    assert!(error.to_string().contains("251"), "{error}");
}

#[test]
fn the_board_is_empty_after_all_loads() {
    let cache = cache(false);
    for (number, key) in (0..100u32).map(|number| (number, number.to_string())) {
        let loaded = cache.get_or_load(&key, &FOR_EVER, || match number % 3 {
            0 => Ok(key.clone()),
            1 => Err("failed"),
            _ => {
                cache.delete(&key).unwrap();
                Ok(key.clone())
            }
        });
        assert_eq!(loaded.is_err(), number % 3 == 1);
    }
    assert!(cache.shared().flights.is_empty());
}
