//! Measures how long a larderd takes, without the time during which other processes occupied the
//! processors.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::waiting::{waited, waited_for_processor};

/// Measures how long this thread waits for a response of a larderd.
pub struct Stopwatch {
    pid: Pid,
    began: Instant,
    /// How long this thread had waited for a processor.
    own_wait: Duration,
    worker_waits: WorkerWaits,
}

impl Stopwatch {
    /// Starts to measure. `pid` is the larderd that this thread sends a request to.
    pub fn start(pid: Pid) -> Self {
        let (worker_waits, own_wait) = (WorkerWaits::of(pid), waited_for_processor());
        Self { pid, began: Instant::now(), own_wait, worker_waits }
    }

    /// Returns the time since the start, less the time during which this thread waited for a
    /// processor, and less the time of the worker that waited longest for one.
    pub fn elapsed(&self) -> Duration {
        let elapsed = self.began.elapsed();
        let own_wait = waited_for_processor() - self.own_wait;
        let worker_wait = WorkerWaits::of(self.pid).longest_since(&self.worker_waits);
        elapsed.saturating_sub(own_wait + worker_wait)
    }
}

/// How long each worker of a larderd has waited for a processor, by the thread's id.
struct WorkerWaits(HashMap<OsString, Duration>);

impl WorkerWaits {
    /// A process that has exited has no workers.
    fn of(pid: Pid) -> Self {
        let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_pid()));
        let wait = |thread: fs::DirEntry| {
            let name = fs::read_to_string(thread.path().join("comm")).ok()?;
            if !name.starts_with("worker ") {
                return None;
            }
            let account = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            Some((thread.file_name(), waited(&account)?))
        };
        Self(threads.into_iter().flatten().flatten().filter_map(wait).collect())
    }

    fn longest_since(&self, earlier: &Self) -> Duration {
        let since = |(thread, wait): (_, &Duration)| Some(*wait - *earlier.0.get(thread)?);
        self.0.iter().filter_map(since).max().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread::{Builder, available_parallelism, scope, sleep};

    use rustix::process::getpid;

    use super::*;

    #[test]
    fn a_server_that_sleeps_is_waited_for() {
        let stopwatch = Stopwatch::start(getpid());
        sleep(Duration::from_millis(100));
        let elapsed = stopwatch.elapsed();
        // A busy machine delays the wake-up a little.
        assert!(elapsed > Duration::from_millis(75), "{elapsed:?}");
    }

    #[test]
    fn the_wait_of_a_worker_for_a_processor_does_not_count() {
        let shall_end = AtomicBool::new(false);
        let count = 3 * available_parallelism().expect("there is a processor").get();
        let (took, elapsed) = scope(|scope| {
            for number in 0..count {
                let spin = || {
                    while !shall_end.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                };
                let worker = Builder::new().name(format!("worker {number}"));
                worker.spawn_scoped(scope, spin).expect("threads can be started");
            }
            // Now all of them have begun, and have a name.
            sleep(Duration::from_millis(50));
            let (began, stopwatch) = (Instant::now(), Stopwatch::start(getpid()));
            sleep(Duration::from_millis(300));
            let elapsed = stopwatch.elapsed();
            shall_end.store(true, Ordering::Relaxed);
            (began.elapsed(), elapsed)
        });
        assert!(elapsed < took * 3 / 4, "{elapsed:?} of {took:?}");
    }
}
