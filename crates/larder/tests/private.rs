//! A cache that is private to a process has the same behaviour on every system. `make verify
//! ONLY=platforms` runs these tests on the systems and processors of docs/platforms.md.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::thread;
use std::time::{Duration, Instant};

use larder::{Cache, Clock, DiskTier, StoreMode, StoreRequest, Stored};
use larder_region::platform::SHARES_MEMORY;

const MIB: u64 = 1 << 20;

fn cache(memory_bytes: u64) -> Cache {
    Cache::builder().memory_bytes(memory_bytes).open().unwrap()
}

#[test]
fn stored_values_of_all_sizes_are_read_back() {
    let cache = Cache::builder().memory_bytes(64 * MIB).item_bytes_max(16 * MIB).open().unwrap();
    for bytes in [0, 1, 7, 8, 100, 4_096, 65_536, 100_000, 1 << 20, 10 << 20] {
        let value: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        cache.set("k", &value, None).unwrap();
        assert!(cache.get("k").unwrap() == value, "a value of {bytes} bytes");
    }
    cache.validate().unwrap();
}

#[test]
fn a_deadline_passes_by_the_clock_of_the_system() {
    let cache = cache(4 * MIB);
    let begun = Instant::now();
    cache.set("short", "v", Some(Duration::from_secs(2))).unwrap();
    cache.set("long", "v", Some(Duration::from_secs(3600))).unwrap();
    while cache.get("short").is_some() {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "a deadline of two seconds never passes"
        );
        thread::sleep(Duration::from_millis(20));
    }
    // A cache counts whole seconds.
    assert!(begun.elapsed() > Duration::from_millis(900), "it expired after {:?}", begun.elapsed());
    assert!(cache.get("long").is_some());
}

#[test]
fn a_full_cache_evicts_and_never_exceeds_its_memory() {
    let cache = cache(4 * MIB);
    for number in 0..200_000_u32 {
        cache.set(number.to_le_bytes(), [number as u8; 100], None).unwrap();
    }
    let held = (0..200_000_u32).filter(|number| {
        let value = cache.get(number.to_le_bytes());
        value.is_some_and(|value| value == [*number as u8; 100])
    });
    let held = held.count();
    assert!((10_000..42_000).contains(&held), "{held} items of 100 bytes in 4 MiB");
    cache.validate().unwrap();
}

#[test]
fn threads_read_complete_values_while_others_write() {
    let cache = cache(8 * MIB);
    cache.set("k", vec![0; 5_000], None).unwrap();
    thread::scope(|scope| {
        for writer in 1..=3_u8 {
            let cache = &cache;
            scope.spawn(move || {
                for _ in 0..3_000 {
                    cache.set("k", vec![writer; 5_000], None).unwrap();
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    let value = cache.get("k").unwrap();
                    assert!(value.iter().all(|byte| *byte == value[0]), "a mixture of two values");
                }
            });
        }
    });
    cache.validate().unwrap();
}

#[test]
fn counters_of_many_threads_lose_no_step() {
    let cache = cache(4 * MIB);
    cache.set("n", "0", None).unwrap();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    cache.increment("n", 1).unwrap();
                }
            });
        }
    });
    assert_eq!(cache.get("n").as_deref(), Some(&b"20000"[..]));
}

#[test]
fn a_cas_token_of_an_older_value_does_not_store() {
    let cache = Cache::builder().memory_bytes(4 * MIB).cas(true).open().unwrap();
    cache.set("k", "one", None).unwrap();
    let token = cache.peek(b"k").unwrap().cas;
    cache.set("k", "two", None).unwrap();
    let request = StoreRequest { cas: Some(token), ..StoreRequest::new(b"k", StoreMode::Set) };
    let stored = cache.store(&request, b"three").unwrap();
    assert!(!matches!(stored, Stored::Stored { .. }), "{stored:?}");
    assert_eq!(cache.get("k").as_deref(), Some(&b"two"[..]));
}

#[test]
fn cleared_memory_is_used_again() {
    let cache = Cache::builder().memory_bytes(8 * MIB).clock(Clock::Ticked).open().unwrap();
    for round in 0..20_u8 {
        for number in 0..20_000_u32 {
            cache.set(number.to_le_bytes(), [round; 200], None).unwrap();
        }
        cache.clear();
        assert_eq!(cache.get(7_u32.to_le_bytes()), None, "after clear {round}");
    }
    cache.validate().unwrap();
}

/// Where caches can be shared, other tests open them.
#[test]
fn a_system_without_shared_caches_says_so() {
    if SHARES_MEMORY {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a path with spaces and ünïcödé");
    let file = Cache::builder().memory_bytes(MIB).shared(&path).open().unwrap_err();
    let children = Cache::builder().memory_bytes(MIB).anonymous_shared(true).open().unwrap_err();
    let readers = Cache::builder().memory_bytes(MIB).readable(true).open().unwrap_err();
    for error in [file.to_string(), children.to_string(), readers.to_string()] {
        assert!(error.contains("on Linux only"), "{error}");
    }
    assert!(file.to_string().contains("ünïcödé"), "{file}");
    let server = Cache::connect(&path).unwrap_err().to_string();
    assert!(server.contains("on Linux only"), "{server}");
    let tier = Cache::builder().memory_bytes(MIB).tier(DiskTier::new(&path, 64 << 20));
    let tier = tier.open().unwrap_err().to_string();
    assert!(tier.contains("a disk tier needs Linux"), "{tier}");
}

/// The tests for other processors build without zstd, because it contains C.
#[test]
fn a_build_without_zstd_refuses_to_compress() {
    if cfg!(feature = "zstd") || !SHARES_MEMORY {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tier");
    let tier = || DiskTier::new(&path, 64 << 20);
    let open = |tier| Cache::builder().memory_bytes(16 * MIB).tier(tier).open();
    let error = open(tier().compress(true)).unwrap_err().to_string();
    assert!(error.contains("the feature zstd"), "{error}");
    open(tier()).expect("a directory without compressed values");
}

/// `cargo test --release --test private -- --ignored --nocapture` prints the time. The ratio of two
/// systems on one machine shows what the system costs.
#[test]
#[ignore = "a measurement"]
fn the_time_of_a_get_and_of_a_set() {
    const KEYS: u64 = 100_000;
    const ROUNDS: u64 = 10;
    let cache = cache(64 * MIB);
    let mut value = Vec::with_capacity(100);
    let timed = |operation: &mut dyn FnMut(u64)| {
        let rounds = (0..ROUNDS).map(|_| {
            let begun = Instant::now();
            (0..KEYS).for_each(|key| operation(key.wrapping_mul(0x9E37_79B9_7F4A_7C15) % KEYS));
            begun.elapsed().as_nanos() as u64 / KEYS
        });
        rounds.min().unwrap_or(0)
    };
    let set = timed(&mut |key| cache.set(key.to_le_bytes(), [7; 100], None).unwrap());
    let get = timed(&mut |key| {
        value.clear();
        cache.get_into(key.to_le_bytes(), &mut value);
    });
    println!("set {set} ns, get {get} ns, of 100 bytes in {KEYS} keys");
}
