//! The landing of a flight in every order with one other operation.

use std::sync::Arc;

use super::stage::{Begun, Stage, explore_all, version};
use crate::copies::{Flight, FlightResult};

/// A read whose flight has its answer, before the flight lands.
struct Answered {
    begun: Begun,
    flight: Arc<Flight>,
    result: FlightResult,
}

impl Answered {
    fn new(stage: &Stage) -> Self {
        let begun = stage.begin(0);
        let (flight, _) = stage.join(&begun);
        stage.origin.note(flight.place().subscription, 0);
        let result = stage.fetched(&flight);
        Self { begun, flight, result }
    }

    fn land(self, stage: &Stage) {
        stage.land(&self.flight, self.result.clone());
        stage.spec.judge(&self.begun, version(&self.result));
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

/// Begins two flights of a key. The first one is detached, and has read a newer item.
fn detached_and_current(stage: &Stage) -> [Answered; 2] {
    let begun = stage.begin(0);
    let (flight, _) = stage.join(&begun);
    stage.origin.note(0, 0);
    stage.change(0);
    stage.listen();
    let current = Answered::new(stage);
    stage.change(0);
    [Answered { begun, result: stage.fetched(&flight), flight }, current]
}

#[test]
fn the_landings_of_a_detached_flight_and_of_the_current_one() {
    explore_all(|| {
        let stage = Stage::new();
        let [detached, current] = detached_and_current(&stage);
        let threads =
            [stage.spawn(|stage| detached.land(stage)), stage.spawn(|stage| current.land(stage))];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stage.look(0);
        stage.end([]);
    });
}
