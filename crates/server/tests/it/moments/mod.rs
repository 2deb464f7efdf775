//! Signals at each step of a start, a stop and a changeover, with each kind of cache. In a
//! changeover, a successor process takes over from the running one.
//!
//! A debug build of larderd waits at a named step while a file with that name exists
//! (`process/steps.rs`). The test holds it there, sends signals, and removes the file. Then it
//! checks the exit status, the files, and the items that were acknowledged.
#![cfg(debug_assertions)]

mod change_over;
mod scene;
mod start_and_stop;

use std::env;
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result};
use larder_server::Step;

/// Each step is held by some test. A new step must be added to one of them.
#[test]
fn each_step_is_held_by_a_test() {
    let held = [start_and_stop::START, start_and_stop::STOP, change_over::STEPS].concat();
    for step in Step::ALL {
        assert!(held.contains(&step), "no test holds a server at {step}");
    }
}

/// True if all cases should run instead of a sample, as with `make verify`.
fn wants_all() -> bool {
    env::var_os("LARDER_MOMENTS").is_some()
}

/// Runs the cases, several at a time, because they usually wait. Fails with a list of all that
/// failed.
fn run_all<C: Send + std::fmt::Debug>(cases: Vec<C>, run: impl Fn(&C) -> Result<()> + Sync) {
    let count = cases.len();
    let (cases, failed) = (Mutex::new(cases.into_iter()), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().expect(PANICKED).next() else { break };
                    if let Err(error) = run(&case).with_context(|| format!("{case:?}")) {
                        failed.lock().expect(PANICKED).push(format!("{error:#}"));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect(PANICKED);
    assert!(
        failed.is_empty(),
        "{} of {count} cases failed:\n{}",
        failed.len(),
        failed.join("\n\n")
    );
}

const LANES: usize = 6;
const PANICKED: &str = "no lane has panicked";
