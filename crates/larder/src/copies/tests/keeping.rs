//! Values that are kept, and the reasons why others are not.

use super::*;

#[test]
fn a_value_is_kept_and_the_readers_receive_it() {
    let copies = copies();
    let flight = begin(&copies, PLACE, KEY);
    assert!(flight.result().is_none());
    assert_eq!(copies.land(&flight, PLACE, value("v")), Ok(()));
    assert_eq!(copies.store().value(KEY).as_deref(), Some(&b"v"[..]));
    assert_eq!(copies.store().until_ms(KEY), None);
    assert_eq!(received(&flight), Some(&b"v"[..]));
    assert!(copies.listed_bytes() > KEY.len());
}

#[test]
fn a_copy_is_used_until_the_item_may_have_expired() {
    let copies = copies();
    for (ttl_ms, until_ms) in [(1, NOW_MS + 1), (u64::MAX, u64::MAX)] {
        let fetched = Fetched { ttl_ms: Some(ttl_ms), ..noted("v") };
        assert_eq!(fetch(&copies, PLACE, KEY, FlightResult::Value(fetched.into())), Ok(()));
        assert_eq!(copies.store().until_ms(KEY), Some(until_ms));
    }
}

/// Lands a flight whose value is not kept, although there is a copy. Checks that the readers
/// receive the value and that the copy is dropped.
fn refuse(copies: &Copies<Shelf>, result: FlightResult) -> NotKept {
    assert_eq!(fetch(copies, PLACE, KEY, value("older")), Ok(()));
    let flight = begin(copies, PLACE, KEY);
    let refused = copies.land(&flight, PLACE, result).expect_err("the value was kept");
    assert!(flight.result().is_some());
    assert_eq!(copies.store().value(KEY), None, "Rule: UnkeptDrops");
    assert_eq!(copies.listed_bytes(), 0);
    refused
}

#[test]
fn a_value_that_is_not_kept_is_passed_on_and_drops_the_older_copy() {
    let of = |fetched: Fetched| FlightResult::Value(fetched.into());
    let refused = [
        (NotKept::Unnoted, of(Fetched { is_noted: false, ..noted("v") })),
        (NotKept::Unnoted, FlightResult::Absent { is_noted: false }),
        (NotKept::Expiring, of(Fetched { ttl_ms: Some(0), ..noted("v") })),
        (NotKept::Uncopied, of(noted("eleven byte"))),
        (NotKept::Uncopied, FlightResult::Uncopied),
        (NotKept::Failed, FlightResult::Failed(FetchFailure::Unanswered)),
    ];
    for (reason, result) in refused {
        assert_eq!(refuse(&copies(), result), reason);
    }
    assert_eq!(fetch(&copies(), PLACE, KEY, of(noted("ten bytes…"))), Err(NotKept::Uncopied));
    assert_eq!(fetch(&copies(), PLACE, KEY, of(noted("ten  bytes"))), Ok(()));
}

#[test]
fn a_value_is_not_kept_if_the_store_has_no_memory() {
    let copies = copies();
    assert_eq!(fetch(&copies, PLACE, KEY, value("older")), Ok(()));
    copies.store().is_full.store(true, SeqCst);
    assert_eq!(fetch(&copies, PLACE, KEY, value("v")), Err(NotKept::NoMemory));
    assert_eq!((copies.store().value(KEY), copies.listed_bytes()), (None, 0));
}

#[test]
fn a_value_is_not_kept_if_its_key_was_invalidated_since_its_flight_began() {
    let invalidations: [fn(&Copies<Shelf>); 3] = [
        |copies| copies.invalidate_key(PLACE, KEY),
        |copies| assert_eq!(copies.invalidate_bucket(BUCKET), 0),
        Copies::invalidate_all,
    ];
    for invalidate in invalidations {
        let copies = copies();
        let flight = begin(&copies, PLACE, KEY);
        invalidate(&copies);
        assert_eq!(copies.land(&flight, PLACE, value("v")), Err(NotKept::Detached));
        assert_eq!(copies.store().value(KEY), None);
        assert_eq!(received(&flight), Some(&b"v"[..]));
    }
}

#[test]
fn a_value_of_an_ended_subscription_is_not_kept() {
    let copies = copies();
    assert_eq!(copies.resubscribe(), 1);
    // A worker has read the place before, and joins only now.
    let flight = begin(&copies, PLACE, KEY);
    let place = Place { subscription: 1, bucket: NEXT_BUCKET };
    assert_eq!(copies.land(&flight, place, value("v")), Err(NotKept::Unsubscribed));
    assert_eq!(copies.store().value(KEY), None);
    let refused = fetch(&copies, place, KEY, value("v"));
    assert_eq!(refused, Err(NotKept::Unsubscribed), "copies may not be used yet");
    copies.refresh(NOW_MS);
    assert_eq!(fetch(&copies, place, KEY, value("v")), Ok(()));
}

#[test]
fn a_fetch_that_began_before_copies_may_be_used_keeps_nothing() {
    let copies = Copies::new(Shelf::default(), AMPLE);
    let flight = begin(&copies, PLACE, KEY);
    copies.refresh(NOW_MS);
    assert_eq!(copies.land(&flight, PLACE, value("v")), Err(NotKept::Detached));
    assert_eq!(copies.store().value(KEY), None);
}

#[test]
fn copies_are_fresh_until_the_latest_time_and_not_at_all_after_the_subscription() {
    let copies = Copies::new(Shelf::default(), AMPLE);
    assert_eq!(copies.fresh_until_ms(), 0);
    copies.refresh(NOW_MS);
    copies.refresh(NOW_MS - 1);
    assert_eq!(copies.fresh_until_ms(), NOW_MS);
    copies.resubscribe();
    assert_eq!(copies.fresh_until_ms(), 0);
}
