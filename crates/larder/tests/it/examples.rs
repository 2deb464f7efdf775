//! Runs the examples. Each example checks its results and ends within seconds.

#[path = "../../examples/session_store.rs"]
mod session_store;
#[path = "../../examples/shared_counters.rs"]
mod shared_counters;
#[path = "../../examples/sql_result_cache.rs"]
mod sql_result_cache;

use std::error::Error;
use std::time::{Duration, Instant};

fn run(example: fn() -> Result<(), Box<dyn Error>>) {
    let started = Instant::now();
    example().expect("the example failed");
    // All examples together take half a second on an idle machine.
    assert!(started.elapsed() < Duration::from_secs(10), "it took {:?}", started.elapsed());
}

#[test]
fn the_cache_before_a_database_queries_it_once() {
    run(sql_result_cache::main);
}

#[test]
fn the_session_store_drops_expired_sessions() {
    run(session_store::main);
}

#[test]
fn the_shared_counters_lose_no_visit() {
    run(shared_counters::main);
}
