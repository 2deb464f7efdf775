//! A stream is lost, and its messages with it.

use super::stage::{Stage, explore};

#[test]
fn a_new_subscription_during_a_keep() {
    explore(|| {
        let stage = Stage::new();
        stage.end([stage.spawn(|stage| stage.read(0)), stage.spawn(Stage::resubscribe)]);
    });
}

#[test]
fn a_new_subscription_before_a_flight_that_names_the_old_one() {
    explore(|| {
        let stage = Stage::new();
        let threads = [stage.spawn(|stage| stage.read(0)), stage.spawn(Stage::resubscribe)];
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        stage.change(0);
        stage.end([]);
    });
}

#[test]
fn a_new_subscription_during_a_fetch_and_a_change() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(0);
            }),
            stage.spawn(|stage| {
                stage.change(0);
                stage.look(0);
            }),
            stage.spawn(|stage| {
                stage.resubscribe();
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn a_new_subscription_while_two_workers_read_two_buckets() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(2);
            }),
            stage.spawn(|stage| {
                stage.read(2);
                stage.write(2);
                stage.read(0);
            }),
            stage.spawn(|stage| {
                stage.listen();
                stage.resubscribe();
                stage.listen();
            }),
        ]);
    });
}
