//! Flights that are detached, given up or not kept.

use super::stage::{Stage, explore, version};
use crate::copies::{FetchFailure, Fetched, FlightResult};

#[test]
fn a_detached_flight_that_is_newer_than_the_current_one() {
    explore(|| {
        let stage = Stage::new();
        let begun = stage.begin(0);
        let (detached, _) = stage.join(&begun);
        stage.origin.note(0, 0);
        stage.change(0);
        stage.listen();
        stage.end([
            stage.spawn(move |stage| {
                stage.complete(0);
                stage.spec.judge(&begun, version(&stage.wait(&detached)));
                stage.look(0);
            }),
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| stage.change(0)),
        ]);
    });
}

#[test]
fn a_reader_of_a_detached_flight_that_looks_for_a_copy_after_it() {
    explore(|| {
        let stage = Stage::new();
        let begun = stage.begin(0);
        let (detached, _) = stage.join(&begun);
        stage.change(0);
        stage.copies.invalidate_key(stage.place(0), detached.key());
        stage.change(0);
        stage.end([
            stage.spawn(|stage| stage.complete(0)),
            stage.spawn(move |stage| {
                stage.spec.judge(&begun, version(&stage.join_and_wait(&detached)));
                stage.look(0);
            }),
        ]);
    });
}

#[test]
fn an_old_flight_that_lands_while_a_newer_one_is_under_way() {
    explore(|| {
        let stage = Stage::with_bytes(1, usize::MAX);
        stage.join(&stage.begin(0));
        stage.answer_fetch(0);
        stage.tick();
        // The message about the change follows the one that makes the near cache fresh.
        stage.send_alive();
        stage.change(0);
        stage.listen();
        stage.tick();
        stage.end([
            stage.spawn(|stage| {
                stage.receive(0);
                stage.look(0);
            }),
            stage.spawn(|stage| {
                stage.read(0);
                stage.evict(0);
                stage.read(0);
            }),
        ]);
    });
}

#[test]
fn a_flight_that_was_given_up_and_its_late_answer() {
    explore(|| {
        let stage = Stage::new();
        let (flight, _) = stage.join(&stage.begin(0));
        stage.end([
            stage.spawn(|stage| stage.complete(0)),
            stage.spawn(move |stage| {
                stage.copies.give_up(&flight, FlightResult::Failed(FetchFailure::Unanswered));
                stage.wait(&flight);
                stage.read(0);
                stage.look(0);
            }),
            stage.spawn(|stage| {
                stage.change(0);
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn a_value_that_is_not_kept_while_the_stream_is_late() {
    explore(|| {
        let stage = Stage::with_bytes(1, usize::MAX);
        stage.copies.refresh(1);
        stage.read(0);
        stage.tick();
        // The near cache will receive the answer to `alive` late, and after it the change.
        stage.send_alive();
        stage.change(0);
        stage.tick();
        stage.end([
            stage.spawn(|stage| {
                let begun = stage.begin(0);
                let (flight, _) = stage.join(&begun);
                stage.answer_fetch_with(0, |item| {
                    let unnoted = Fetched { value: Vec::new(), is_noted: false, ..*item };
                    FlightResult::Value(unnoted.into())
                });
                assert_eq!(stage.receive(0), 0);
                stage.spec.judge(&begun, version(&stage.wait(&flight)));
                stage.look(0);
            }),
            stage.spawn(|stage| {
                stage.listen();
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn readers_that_join_a_flight_are_woken() {
    explore(|| {
        let stage = Stage::new();
        stage.join(&stage.begin(0));
        stage.end([
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| stage.complete(0)),
        ]);
    });
}

#[test]
fn a_fetch_that_is_sent_before_that_of_an_older_flight() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.look(0);
            }),
            stage.spawn(|stage| {
                stage.write(0);
                stage.read(0);
                stage.look(0);
            }),
            stage.spawn(|stage| stage.change(0)),
        ]);
    });
}
