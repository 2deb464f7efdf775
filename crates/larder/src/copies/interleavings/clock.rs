//! The third promise: a read returns nothing that is stale for too long.

use super::stage::{Stage, explore};

/// Keeps a copy that is fresh until 2. It is changed, but the message waits in a buffer, and so
/// does the answer to an `alive` that is sent at 3.
fn with_a_late_stream() -> std::sync::Arc<Stage> {
    let stage = Stage::with_bytes(1, usize::MAX);
    stage.copies.refresh(2);
    stage.read(0);
    stage.change(0);
    stage.tick();
    stage.tick();
    stage.send_alive();
    stage
}

#[test]
fn an_answer_to_alive_that_waited_in_a_buffer() {
    explore(|| {
        let stage = with_a_late_stream();
        stage.end([
            stage.spawn(|stage| {
                stage.look(0);
                stage.read(0);
            }),
            stage.spawn(|stage| stage.look(0)),
            stage.spawn(|stage| {
                stage.listen();
                stage.listen();
            }),
        ]);
    });
}

#[test]
#[should_panic(expected = "promise 3")]
fn a_reader_that_looks_before_it_loads_the_end_of_freshness_breaks_the_third_promise() {
    explore(|| {
        let stage = with_a_late_stream();
        stage.end([
            stage.spawn(|stage| {
                let begun = stage.begin(0);
                let copy = stage.copies.store().version(0);
                let is_fresh = stage.now_ms() <= stage.copies.fresh_until_ms();
                if let Some(version) = copy.filter(|_| is_fresh) {
                    stage.spec.judge(&begun, version);
                }
            }),
            stage.spawn(|stage| {
                stage.listen();
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn a_flight_that_takes_too_long() {
    explore(|| {
        let stage = Stage::with_bytes(1, usize::MAX);
        stage.join(&stage.begin(0));
        stage.answer_fetch(0);
        stage.end([
            stage.spawn(|stage| {
                stage.receive(0);
            }),
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| {
                stage.change(0);
                stage.tick();
                stage.tick();
            }),
        ]);
    });
}

#[test]
fn ticks_while_workers_read_and_the_stream_is_slow() {
    explore(|| {
        let stage = Stage::with_bytes(1, usize::MAX);
        stage.copies.refresh(2);
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(0);
                stage.look(0);
            }),
            stage.spawn(|stage| {
                stage.change(0);
                stage.tick();
                stage.send_alive();
                stage.tick();
                stage.read(0);
            }),
            stage.spawn(|stage| {
                stage.listen();
                stage.listen();
            }),
        ]);
    });
}
