//! Inputs and situations at the limits of a cache: it stays valid, and refuses invalid requests.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use larder::{Cache, Clock, StoreError, StoreMode, StoreRequest, Stored};

fn request(key: &[u8], mode: StoreMode) -> StoreRequest<'_> {
    StoreRequest::new(key, mode)
}

/// Runs `f`, which must end within 20 seconds.
fn in_time<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    thread::spawn(move || done.send(f()));
    ended.recv_timeout(Duration::from_secs(20)).expect("the operation did not end in time")
}

#[test]
fn an_append_of_more_than_sixteen_mebibytes_keeps_other_items_intact() {
    let cache = Cache::builder().memory_bytes(128 << 20).item_bytes_max(40 << 20).open().unwrap();
    cache.set("k", [1; 100], None).unwrap();
    cache.append("k", [2; 10]).unwrap();
    for number in 0..10_000u32 {
        cache.set(number.to_le_bytes(), [3; 1_000], None).unwrap();
    }
    let part = vec![4; (16 << 20) + 5];
    assert!(cache.append("k", &part).unwrap());
    let expected = [vec![1; 100], vec![2; 10], part].concat();
    assert!(cache.get("k").unwrap() == expected);
    for number in 0..10_000u32 {
        assert_eq!(cache.get(number.to_le_bytes()).unwrap(), [3; 1_000]);
    }
    cache.validate().unwrap();
}

/// The store of the upload counts as done before the clear.
#[test]
fn an_upload_overtaken_by_a_clear_leaves_the_item_that_was_stored_after_the_clear() {
    for mode in [StoreMode::Set, StoreMode::Replace] {
        let cache = Cache::builder().memory_bytes(16 << 20).open().unwrap();
        cache.set("k", "before", None).unwrap();
        let mut upload = cache.upload(b"k", 400_000).unwrap();
        upload.push(&[1; 200_000]).unwrap();
        cache.clear();
        cache.set("k", "after", None).unwrap();
        upload.push(&[1; 200_000]).unwrap();
        assert!(matches!(upload.store(&StoreRequest::new(b"k", mode)), Ok(Stored::Stored { .. })));
        assert_eq!(cache.get("k").as_deref(), Some(&b"after"[..]), "{mode:?}");
    }
}

#[test]
fn an_upload_overtaken_by_a_clear_leaves_no_item() {
    let cache = Cache::builder().memory_bytes(4 << 20).clock(Clock::Ticked).open().unwrap();
    let mut upload = cache.upload(b"k", 400_000).unwrap();
    upload.push(&[1; 200_000]).unwrap();
    cache.clear();
    upload.push(&[1; 200_000]).unwrap();
    assert!(matches!(upload.store(&request(b"k", StoreMode::Set)), Ok(Stored::Stored { .. })));
    assert_eq!(cache.get("k"), None, "the upload survived the clear");
    cache.maintain();
    cache.validate().unwrap();
}

#[test]
fn a_fragmented_cache_without_eviction_reports_that_it_is_full() {
    for value_bytes in [7_300, 7_400, 7_500, 7_600, 7_670, 7_690] {
        let stored = in_time(move || {
            let cache = Cache::builder().memory_bytes(1 << 20).evict(false).open().unwrap();
            let stored = (0..1_000u32)
                .take_while(|number| {
                    cache.set(number.to_le_bytes(), vec![7; value_bytes], None).is_ok()
                })
                .count();
            cache.validate().unwrap();
            stored
        });
        assert!((50..150).contains(&stored), "{stored} of {value_bytes} bytes");
    }
}

fn fill(cache: &Cache, bytes: usize) {
    for number in 0..(bytes / 1_000) as u32 {
        cache.set(number.to_le_bytes(), [1; 990], None).unwrap();
    }
}

#[test]
fn lowering_the_limit_also_evicts_hot_items() {
    let cache = Cache::builder().memory_bytes(64 << 20).clock(Clock::Ticked).open().unwrap();
    fill(&cache, 60 << 20);
    for _ in 0..4 {
        (0..60_000u32).for_each(|number| drop(cache.get(number.to_le_bytes())));
    }
    cache.set_memory_limit(32 << 20).unwrap();
    for _ in 0..300 {
        cache.maintain();
        (0..60_000u32).step_by(7).for_each(|number| drop(cache.get(number.to_le_bytes())));
    }
    let report = cache.report();
    let in_use = report.segments_index + report.segments_ghost + report.segments_items;
    assert!(in_use <= report.segments, "{report:?}");
    cache.validate().unwrap();
}

#[test]
fn lowering_the_limit_compacts_a_fragmented_cache_without_eviction() {
    let cache =
        Cache::builder().memory_bytes(64 << 20).evict(false).clock(Clock::Ticked).open().unwrap();
    fill(&cache, 55 << 20);
    let is_kept = |number: &u32| number.is_multiple_of(4);
    let all = 0..((55 << 20) / 1_000) as u32;
    all.clone().filter(|number| !is_kept(number)).for_each(|number| {
        cache.delete(number.to_le_bytes()).unwrap();
    });
    cache.set_memory_limit(24 << 20).unwrap();
    (0..50).for_each(|_| cache.maintain());
    let report = cache.report();
    let in_use = report.segments_index + report.segments_ghost + report.segments_items;
    assert!(in_use <= report.segments, "{report:?}");
    assert!(all.filter(is_kept).all(|number| cache.contains(number.to_le_bytes())));
    cache.set("one more", "v", None).unwrap();
    cache.validate().unwrap();
}

#[test]
fn stores_succeed_with_fewer_segments_than_appenders() {
    let cache = Cache::builder().memory_bytes(1 << 30).clock(Clock::Ticked).open().unwrap();
    let ttls =
        [None, Some(60), Some(3_600), Some(100_000)].map(|secs| secs.map(Duration::from_secs));
    let write = |thread: u32, count: u32| {
        for number in 0..count {
            for ttl in ttls {
                let key = (u64::from(thread) << 32 | u64::from(number)).to_le_bytes();
                cache.set(key, [thread as u8; 500], ttl)?;
            }
        }
        Ok::<_, StoreError>(())
    };
    let (entered, all) = (std::sync::Barrier::new(12), std::sync::Barrier::new(12));
    thread::scope(|scope| {
        for thread in 0..12 {
            let (write, entered, all) = (&write, &entered, &all);
            scope.spawn(move || {
                entered.wait();
                write(thread, 10).unwrap();
                // All thread slots are taken at the same time.
                all.wait();
            });
        }
    });
    let least = cache.set_memory_limit(0).unwrap_err().min;
    cache.set_memory_limit(least as u64).unwrap();
    (0..20).for_each(|_| cache.maintain());
    thread::scope(|scope| {
        (0..12).for_each(|thread| {
            let write = &write;
            scope.spawn(move || write(thread, 2_000).unwrap());
        });
    });
    (0..20).for_each(|_| cache.maintain());
    let report = cache.report();
    let in_use = report.segments_index + report.segments_ghost + report.segments_items;
    assert!(in_use <= report.segments, "{report:?}");
    cache.validate().unwrap();
}

/// Regression test: the upload noticed the clear only after the value had arrived, and then removed
/// the value as if it had been stored before the clear.
#[test]
fn a_large_value_stored_first_after_a_scheduled_clear_is_kept() {
    for cas in [true, false] {
        let cache = Cache::builder()
            .memory_bytes(4 << 20)
            .item_bytes_max(1 << 20)
            .cas(cas)
            .clock(Clock::Ticked)
            .open()
            .unwrap();
        cache.clear_at(cache.now() + 1);
        cache.tick(cache.now() + 2);
        let value = vec![1; 200_000];
        let mut upload = cache.upload(b"k", value.len()).unwrap();
        upload.push(&value).unwrap();
        let stored = upload.store(&request(b"k", StoreMode::Set)).unwrap();
        assert!(matches!(stored, Stored::Stored { cas: token, .. } if (token != 0) == cas));
        assert!(cache.get("k").unwrap() == value);
        cache.validate().unwrap();
    }
}
