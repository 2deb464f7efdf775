//! Tests that measure the memory or the threads of their process, or need hundreds of processes.
//! They run one at a time.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod extremes;
mod process;
mod tasks;

use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Waits until no other test runs. Other tests wait until the guard is dropped.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the resident memory of this process, in bytes.
fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
