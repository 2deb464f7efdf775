//! Copies in a real cache, which evicts some of them.

use std::time::Duration;

use super::*;
use crate::{Cache, Clock};

/// The store of a near cache: the time of the copies is that of the cache.
struct Stored(Cache);

impl CopyStore for Stored {
    fn put(&self, key: &[u8], copy: &Fetched, until_ms: Option<u64>) -> bool {
        let ttl = until_ms.map(|until_ms| Duration::from_millis(until_ms.saturating_sub(NOW_MS)));
        self.0.set(key, &copy.value, ttl).is_ok()
    }

    fn remove(&self, key: &[u8]) {
        let _ = self.0.delete(key);
    }

    fn has(&self, key: &[u8]) -> bool {
        self.0.contains(key)
    }

    fn clear(&self) {
        self.0.clear();
    }
}

fn with_a_cache() -> Copies<Stored> {
    let builder = Cache::builder().memory_bytes(8 << 20).clock(Clock::Ticked);
    let cache = builder.open().expect("cannot open the cache");
    usable(Copies::new(Stored(cache), CopyLimits { value_bytes_max: 1 << 20, ..AMPLE }))
}

#[test]
fn copies_expire_and_are_invalidated() {
    let copies = with_a_cache();
    let cache = &copies.store().0;
    let fetched = Fetched { ttl_ms: Some(5000), ..noted("for 5 s") };
    assert_eq!(fetch(&copies, PLACE, KEY, FlightResult::Value(fetched.into())), Ok(()));
    assert_eq!(fetch(&copies, NEXT_PLACE, b"next", value("v")), Ok(()));
    assert_eq!(cache.get(KEY).as_deref(), Some(&b"for 5 s"[..]));
    cache.tick(cache.now() + 6);
    assert_eq!(cache.get(KEY), None);
    copies.forget(PLACE, KEY);
    assert_eq!(copies.listed_bytes(), entry_bytes(b"next"));
    assert_eq!(copies.invalidate_bucket(NEXT_BUCKET), 1);
    assert_eq!(cache.get("next"), None);
    assert_eq!(copies.listed_bytes(), 0);
}

#[test]
fn copies_that_the_cache_has_evicted_are_forgotten() {
    const KEYS: u32 = 2000;
    let copies = with_a_cache();
    let large = "v".repeat(10_000);
    let name = |number: u32| (Place { bucket: number, ..PLACE }, number.to_string());
    for (place, key) in (0..KEYS).map(name) {
        assert_eq!(fetch(&copies, place, key.as_bytes(), value(&large)), Ok(()));
    }
    let mut left = 0;
    for (place, key) in (0..KEYS).map(name) {
        copies.forget(place, key.as_bytes());
        left += if copies.store().has(key.as_bytes()) { entry_bytes(key.as_bytes()) } else { 0 };
    }
    assert!(left > 0 && left < KEYS as usize * entry_bytes(b"1"), "nothing was evicted: {left}");
    assert_eq!(copies.listed_bytes(), left);
    copies.resubscribe();
    assert_eq!(copies.listed_bytes(), 0);
    assert!((0..KEYS).all(|number| !copies.store().has(name(number).1.as_bytes())));
}
