//! A value is kept while other threads invalidate, read and write.

use super::stage::{LATER_MS, Stage, explore};

#[test]
fn a_fetch_and_a_change() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| {
                stage.change(0);
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn two_workers_between_look_and_store() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(0);
            }),
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| {
                stage.change(0);
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn a_write_through_the_near_cache_and_reads() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.write(0);
                stage.look(0);
            }),
            stage.spawn(|stage| stage.read(0)),
        ]);
    });
}

#[test]
fn an_answer_between_the_steps_of_a_keep_with_a_local_reader_looking() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.write(0);
                stage.look(0);
            }),
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| {
                stage.look(0);
                stage.look(0);
            }),
        ]);
    });
}

#[test]
fn a_fetch_of_one_key_then_writes_of_another_key_of_its_bucket_and_of_it() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.write(1);
                stage.change(0);
            }),
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(1);
            }),
            stage.spawn(|stage| {
                stage.listen();
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn a_flush_through_the_near_cache() {
    explore(|| {
        let stage = Stage::new();
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(2);
            }),
            stage.spawn(|stage| {
                stage.flush();
                stage.read(2);
            }),
            stage.spawn(|stage| {
                stage.look(0);
                stage.look(0);
            }),
        ]);
    });
}

#[test]
fn an_absent_key_that_appears() {
    explore(|| {
        let stage = Stage::with_bytes(0, usize::MAX);
        stage.copies.refresh(LATER_MS);
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(0);
            }),
            stage.spawn(|stage| stage.read(0)),
            stage.spawn(|stage| {
                stage.change(0);
                stage.listen();
            }),
        ]);
    });
}

#[test]
fn copies_that_make_way_and_copies_that_are_evicted() {
    explore(|| {
        // Each stripe has room for one key.
        let stage = Stage::with_bytes(1, 200);
        stage.copies.refresh(LATER_MS);
        stage.end([
            stage.spawn(|stage| {
                stage.read(0);
                stage.read(1);
            }),
            stage.spawn(|stage| {
                stage.read(1);
                stage.evict(0);
                stage.read(0);
            }),
            stage.spawn(|stage| {
                stage.change(1);
                stage.listen();
            }),
        ]);
    });
}
