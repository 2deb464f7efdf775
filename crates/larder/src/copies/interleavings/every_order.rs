//! The landing of a flight in every order with one other operation.

use std::sync::Arc;

use super::stage::{Begun, Stage, explore_all, version};
use crate::copies::Flight;

/// A read whose flight has its answer, before the flight lands.
struct Answered {
    begun: Begun,
    flight: Arc<Flight>,
}

impl Answered {
    fn new(stage: &Stage) -> Self {
        let begun = stage.begin(0);
        let (flight, _) = stage.join(&begun);
        stage.answer_fetch(0);
        Self { begun, flight }
    }

    fn land(self, stage: &Stage) {
        stage.receive_first(0);
        stage.spec.judge(&self.begun, version(&stage.wait(&self.flight)));
    }
}

/// Plays a landing in every order with another operation.
fn play(change: fn(&Stage), act: fn(&Stage)) {
    explore_all(move || {
        let stage = Stage::new();
        let answered = Answered::new(&stage);
        change(&stage);
        stage.end([stage.spawn(|stage| answered.land(stage)), stage.spawn(act)]);
    });
}

fn no_change(_: &Stage) {}

#[test]
fn a_landing_and_an_invalidation() {
    play(
        |stage| stage.change(0),
        |stage| {
            stage.listen();
        },
    );
}

#[test]
fn a_landing_and_the_answer_to_a_write() {
    play(
        |stage| {
            stage.origin.change(0);
        },
        |stage| stage.answer(0, 2),
    );
}

#[test]
fn a_landing_and_a_new_subscription() {
    play(
        |stage| stage.change(0),
        |stage| {
            stage.copies.resubscribe();
        },
    );
}

#[test]
fn a_landing_and_an_eviction() {
    play(no_change, |stage| stage.evict(0));
}

#[test]
fn a_landing_and_a_look() {
    play(no_change, |stage| stage.look(0));
}

#[test]
fn the_landings_of_a_detached_flight_and_of_the_current_one() {
    explore_all(|| {
        let stage = Stage::new();
        let detached = Answered::new(&stage);
        stage.change(0);
        stage.listen();
        let current = Answered::new(&stage);
        let threads = [
            stage.spawn(|stage| {
                detached.land(stage);
                current.land(stage);
            }),
            stage.spawn(|stage| stage.look(0)),
        ];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let copy = stage.copies.store().version(0);
        assert_eq!(copy, Some(2), "the answer of the detached flight ends the current one");
        stage.end([]);
    });
}
