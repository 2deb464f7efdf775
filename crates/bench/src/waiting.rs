//! What other work on the machine costs this thread.

use std::fs;
use std::time::Duration;

/// How long this thread has been ready to run so far and had no processor, for other work had them all. Not
/// counted: what it waited for locks. It costs a few microseconds.
///
/// # Panics
/// The system keeps no such account.
pub fn waited_for_processor() -> Duration {
    let account = fs::read_to_string("/proc/thread-self/schedstat");
    let account = account.expect("Linux has /proc/thread-self/schedstat");
    let waited = account.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok());
    Duration::from_nanos(waited.expect("the second number is the time waited"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{available_parallelism, scope, sleep};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_thread_that_sleeps_waits_for_no_processor() {
        let before = waited_for_processor();
        sleep(Duration::from_millis(50));
        // A little for waking up on a busy machine.
        assert!(waited_for_processor() - before < Duration::from_millis(25));
    }

    #[test]
    fn threads_that_are_more_than_the_processors_wait() {
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
