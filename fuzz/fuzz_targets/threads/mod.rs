//! Waits for the threads that an input starts before the next input runs.

use std::fs;
use std::time::{Duration, Instant};

/// Dropping it waits until the process has as many threads as before.
///
/// A cache does not wait for its maintainer to end, and the leak sanitizer, which runs between
/// inputs, reports the memory of a thread that is still ending.
pub struct Threads {
    before: usize,
}

impl Threads {
    /// Counts the threads of the process.
    pub fn remember() -> Self {
        Self { before: count() }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(10);
        while count() > self.before {
            assert!(Instant::now() < deadline, "a thread that the input started does not end");
            std::thread::yield_now();
        }
    }
}

fn count() -> usize {
    fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}
