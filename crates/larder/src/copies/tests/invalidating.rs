//! Invalidations of keys, buckets and everything.

use super::*;

/// Keeps copies of two keys of a bucket and of one key of another bucket of the stripe, and begins
/// a flight in each.
fn filled() -> (Copies<Shelf>, [Arc<Flight>; 2]) {
    let copies = copies();
    for (place, key) in [(PLACE, KEY), (PLACE, b"same bucket"), (NEXT_PLACE, b"next bucket")] {
        assert_eq!(fetch(&copies, place, key, value("v")), Ok(()));
    }
    let flights =
        [begin(&copies, PLACE, b"under way"), begin(&copies, NEXT_PLACE, b"next under way")];
    (copies, flights)
}

#[test]
fn the_invalidation_of_a_key_leaves_the_others() {
    let (copies, [flight, next]) = filled();
    let before = copies.listed_bytes();
    copies.invalidate_key(PLACE, KEY);
    assert_eq!(copies.store().keys(), [&b"next bucket"[..], b"same bucket"]);
    assert_eq!(copies.listed_bytes(), before - entry_bytes(KEY));
    copies.invalidate_key(PLACE, b"unknown");
    copies.invalidate_key(PLACE, b"under way");
    assert_eq!(copies.land(&flight, PLACE, value("v")), Err(NotKept::Detached));
    assert_eq!(copies.land(&next, NEXT_PLACE, value("v")), Ok(()));
}

#[test]
fn the_invalidation_of_a_bucket_drops_all_its_copies_and_detaches_all_its_flights() {
    let (copies, [flight, next]) = filled();
    assert_eq!(copies.invalidate_bucket(BUCKET), 2);
    assert_eq!(copies.store().keys(), [b"next bucket"]);
    assert_eq!(copies.listed_bytes(), entry_bytes(b"next bucket"));
    assert_eq!(copies.land(&flight, PLACE, value("v")), Err(NotKept::Detached));
    assert_eq!(copies.land(&next, NEXT_PLACE, value("v")), Ok(()));
    assert_eq!(copies.invalidate_bucket(BUCKET), 0);
    assert_eq!(copies.invalidate_bucket(u32::MAX), 0);
}

#[test]
fn the_invalidation_of_everything_leaves_nothing() {
    let (copies, [flight, next]) = filled();
    assert_eq!(fetch(&copies, PLACE, b"absent", ABSENT), Ok(()));
    copies.invalidate_all();
    assert!(copies.store().keys().is_empty());
    assert_eq!((copies.listed_bytes(), copies.absent_bytes.load(SeqCst)), (0, 0));
    assert_eq!(copies.land(&flight, PLACE, value("v")), Err(NotKept::Detached));
    assert_eq!(copies.land(&next, NEXT_PLACE, value("v")), Err(NotKept::Detached));
}

#[test]
fn the_end_of_a_subscription_leaves_nothing() {
    let (copies, [flight, _]) = filled();
    copies.refresh(NOW_MS);
    assert_eq!((copies.resubscribe(), copies.subscription()), (1, 1));
    assert!(copies.store().keys().is_empty());
    assert_eq!(copies.fresh_until_ms(), 0);
    let place = Place { subscription: 1, ..PLACE };
    assert_eq!(copies.land(&flight, place, value("v")), Err(NotKept::Detached));
    assert_eq!(copies.resubscribe(), 2);
}

#[test]
fn a_key_that_is_not_listed_in_its_place_is_dropped_nevertheless() {
    let copies = copies();
    assert_eq!(fetch(&copies, PLACE, KEY, value("v")), Ok(()));
    copies.invalidate_key(Place { subscription: 1, bucket: 0 }, KEY);
    assert_eq!(copies.store().value(KEY), None);
}

#[test]
fn an_evicted_copy_is_forgotten() {
    let copies = copies();
    assert_eq!(fetch(&copies, PLACE, KEY, value("v")), Ok(()));
    copies.forget(PLACE, KEY);
    assert_eq!(copies.invalidate_bucket(BUCKET), 1, "the copy was not evicted");

    assert_eq!(fetch(&copies, PLACE, KEY, value("v")), Ok(()));
    copies.store().remove(KEY);
    copies.forget(Place { subscription: 1, ..PLACE }, KEY);
    assert_eq!(copies.listed_bytes(), entry_bytes(KEY), "the place is not current");
    copies.forget(PLACE, KEY);
    copies.forget(PLACE, KEY);
    assert_eq!((copies.listed_bytes(), copies.invalidate_bucket(BUCKET)), (0, 0));
}
