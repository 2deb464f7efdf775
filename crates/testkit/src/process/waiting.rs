//! Measures how long other work on the machine delays this thread.

use std::fs;
use std::time::Duration;

/// Returns the total time during which this thread was runnable but had no processor. Does not
/// include waits for locks. A call costs a few microseconds.
///
/// # Panics
/// The kernel does not report the time (schedstat).
pub fn waited_for_processor() -> Duration {
    let account = fs::read_to_string("/proc/thread-self/schedstat");
    let account = account.expect("Linux has /proc/thread-self/schedstat");
    waited(&account).expect("the second number is the time waited")
}

/// Reads the waiting time from an account: the time on a processor, the time of waiting for one,
/// and the number of turns.
pub(super) fn waited(account: &str) -> Option<Duration> {
    Some(Duration::from_nanos(account.split_ascii_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{available_parallelism, scope, sleep};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_sleeping_thread_does_not_wait_for_a_processor() {
        let before = waited_for_processor();
        sleep(Duration::from_millis(50));
        // A busy machine delays the wake-up a little.
        assert!(waited_for_processor() - before < Duration::from_millis(25));
    }

    #[test]
    fn threads_wait_if_they_outnumber_the_processors() {
        let others_shall_end = AtomicBool::new(false);
        let others = 3 * available_parallelism().expect("there is a processor").get();
        let (took, waited) = scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| {
                    while !others_shall_end.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let (started, before) = (Instant::now(), waited_for_processor());
            while started.elapsed() < Duration::from_millis(200) {}
            others_shall_end.store(true, Ordering::Relaxed);
            (started.elapsed(), waited_for_processor() - before)
        });
        assert!(waited > took / 4, "{waited:?} of {took:?}");
    }
}
