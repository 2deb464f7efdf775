//! Threads that an input starts have ended before the next one comes.

use std::fs;
use std::time::{Duration, Instant};

/// Waits, when it is dropped, until the process has as many threads as before.
///
/// A cache does not wait for its maintainer to end, and the leak sanitizer, which looks between
/// inputs, reports the memory of a thread that is still ending.
pub struct Threads {
    before: usize,
}

impl Threads {
    /// Counts the threads that there are.
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
