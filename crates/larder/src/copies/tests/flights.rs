//! Flights, and the readers that join them.

use super::*;

#[test]
fn readers_join_a_flight_of_their_key_while_it_is_young() {
    let copies = copies();
    let flight = begin(&copies, PLACE, KEY);
    let (joined, is_new) = copies.join(PLACE, KEY, NOW_MS + 50, None);
    assert!(Arc::ptr_eq(&joined, &flight) && !is_new);
    assert!(copies.join(NEXT_PLACE, b"other", NOW_MS, None).1);
    let (newer, is_new) = copies.join(PLACE, KEY, NOW_MS + 51, None);
    assert!(!Arc::ptr_eq(&newer, &flight) && is_new, "Rule: JoinWhileYoung");
    assert_eq!((newer.key(), newer.place(), newer.began_ms()), (KEY, PLACE, NOW_MS + 51));
}

#[test]
fn readers_of_another_subscription_do_not_join() {
    let copies = copies();
    let old = begin(&copies, PLACE, KEY);
    let place = Place { subscription: 1, ..PLACE };
    let new = begin(&copies, place, KEY);
    assert_eq!(copies.land(&old, place, value("old")), Err(NotKept::Detached));
    assert_eq!(copies.land(&new, place, value("new")), Err(NotKept::Unsubscribed));
}

#[test]
fn an_older_flight_keeps_nothing_and_the_newer_one_keeps_its_value() {
    let copies = copies();
    let older = begin(&copies, PLACE, KEY);
    let (newer, _) = copies.join(PLACE, KEY, NOW_MS + 51, None);
    assert_eq!(copies.land(&older, PLACE, value("older")), Err(NotKept::Detached));
    assert_eq!(copies.store().value(KEY), None);
    assert_eq!(copies.land(&newer, PLACE, value("newer")), Ok(()));
    assert_eq!(copies.store().value(KEY), Some(b"newer".to_vec()));
}

#[test]
fn the_value_of_a_detached_flight_drops_the_older_copy() {
    let copies = copies();
    // The copy is not fresh, so readers begin a flight.
    assert_eq!(fetch(&copies, PLACE, KEY, value("kept")), Ok(()));
    let older = begin(&copies, PLACE, KEY);
    copies.join(PLACE, KEY, NOW_MS + 51, None);
    assert_eq!(copies.land(&older, PLACE, value("v")), Err(NotKept::Detached));
    assert_eq!(copies.store().value(KEY), None, "Rule: UnkeptDrops");
}

#[test]
fn each_reader_is_woken_when_the_flight_has_landed() {
    let copies = copies();
    let woken: [Arc<Woken>; 3] = Default::default();
    let wakers = woken.clone().map(Waker::from);
    let (flight, _) = copies.join(PLACE, KEY, NOW_MS, Some(&wakers[0]));
    copies.join(PLACE, KEY, NOW_MS, Some(&wakers[1]));
    // Readers also wait for a flight that is detached.
    copies.invalidate_key(PLACE, KEY);
    assert_eq!(woken.each_ref().map(|woken| woken.times()), [0, 0, 0]);
    assert_eq!(copies.land(&flight, PLACE, value("v")), Err(NotKept::Detached));
    assert_eq!(woken.each_ref().map(|woken| woken.times()), [1, 1, 0]);
    flight.add(&wakers[2]);
    assert_eq!(woken.each_ref().map(|woken| woken.times()), [1, 1, 1]);
    assert_eq!(copies.land(&flight, PLACE, value("again")), Err(NotKept::Detached));
    assert_eq!(received(&flight), Some(&b"v"[..]));
    assert_eq!(woken.each_ref().map(|woken| woken.times()), [1, 1, 1]);
}

#[test]
fn a_flight_that_is_given_up_fails_for_its_readers_and_keeps_no_late_answer() {
    let copies = copies();
    let flight = begin(&copies, PLACE, KEY);
    copies.give_up(&flight, FlightResult::Failed(FetchFailure::Unanswered));
    assert!(matches!(flight.result(), Some(FlightResult::Failed(_))));
    assert_eq!(fetch(&copies, PLACE, KEY, value("next")), Ok(()));
    assert_eq!(copies.land(&flight, PLACE, value("late")), Err(NotKept::Detached));
    assert_eq!(copies.store().value(KEY), None);
    assert!(matches!(flight.result(), Some(FlightResult::Failed(_))));
}

#[test]
fn giving_up_an_older_flight_does_not_end_the_newer_one() {
    let copies = copies();
    let older = begin(&copies, PLACE, KEY);
    let (newer, _) = copies.join(PLACE, KEY, NOW_MS + 51, None);
    copies.give_up(&older, FlightResult::Failed(FetchFailure::Unanswered));
    assert_eq!(copies.land(&newer, PLACE, value("newer")), Ok(()));
}
