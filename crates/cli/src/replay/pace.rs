//! Keeps the threads of a replay close together in the trace.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Keeps threads that replay the same trace close together: no thread is more than about a thousand
/// requests ahead of the slowest one. Otherwise the order of requests and the miss ratio would
/// differ from the trace.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The index of the request that each thread has reached.
    reached: Vec<AtomicUsize>,
}

impl Pace {
    /// Creates a pace for `thread_count` threads, all at the beginning of a trace.
    pub(crate) fn new(thread_count: u32) -> Self {
        Self { reached: (0..thread_count).map(|_| AtomicUsize::new(0)).collect() }
    }

    /// Returns the walker of one of the threads.
    pub(crate) fn walker(&self, thread: u32) -> Walker<'_> {
        Walker { pace: self, thread }
    }

    fn slowest(&self) -> usize {
        let reached = self.reached.iter().map(|reached| reached.load(Relaxed));
        reached.min().unwrap_or(usize::MAX)
    }
}

/// The position of a thread in a trace. Dropping it, early or at the end, releases the threads that
/// wait for this thread.
#[derive(Debug)]
pub(crate) struct Walker<'a> {
    pace: &'a Pace,
    thread: u32,
}

impl Walker<'_> {
    /// The thread's number.
    pub(crate) fn thread(&self) -> u32 {
        self.thread
    }

    /// Returns the number of threads.
    pub(crate) fn thread_count(&self) -> u32 {
        self.pace.reached.len() as u32
    }

    /// Records that the thread has reached this request, and waits while it is too far ahead.
    pub(crate) fn reach(&self, index: usize) {
        // Rare enough that the threads do not contend for the cache line that all of them write.
        if index.is_multiple_of(64) {
            self.pace.reached[self.thread as usize].store(index, Relaxed);
            while self.pace.slowest().saturating_add(LEAD_MAX) < index {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
    }
}

impl Drop for Walker<'_> {
    fn drop(&mut self) {
        self.pace.reached[self.thread as usize].store(usize::MAX, Relaxed);
    }
}

const LEAD_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_the_slowest_and_not_for_one_that_has_ended() {
        let pace = Pace::new(2);
        let (fast, slow) = (pace.walker(0), pace.walker(1));
        std::thread::scope(|scope| {
            let fast = scope.spawn(move || (0..=64_000).for_each(|index| fast.reach(index)));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!fast.is_finished());
            assert_eq!(pace.reached[0].load(Relaxed), 1024);
            drop(slow);
            fast.join().unwrap();
        });
    }
}
