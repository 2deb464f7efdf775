//! Measures the processor time of the generator itself.

use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use crate::tally::{Effort, Lateness};

/// Measures the processor time of the calling thread.
pub(crate) struct Meter {
    started: Instant,
    busy_ns: u64,
    starved_ns: u64,
}

impl Meter {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), busy_ns: busy_ns(), starved_ns: starved_ns() }
    }

    /// Returns the effort of the thread since the start of the meter.
    pub(crate) fn read(&self) -> Effort {
        let elapsed_ns = self.started.elapsed().as_nanos().max(1) as f64;
        Effort {
            busy_share: busy_ns().saturating_sub(self.busy_ns) as f64 / elapsed_ns,
            starved_share: starved_ns().saturating_sub(self.starved_ns) as f64 / elapsed_ns,
        }
    }
}

impl Lateness {
    /// Counts a request that was sent `behind_ns` after it was due. `for_connections` is true if no
    /// connection was free.
    pub(crate) fn count(&mut self, behind_ns: u64, for_connections: bool) {
        let (times, max_ns) = match for_connections {
            true => (&mut self.late_for_connections, &mut self.for_connections_max_ns),
            false => (&mut self.late_for_generator, &mut self.for_generator_max_ns),
        };
        *times += u64::from(behind_ns > LATE_NS);
        *max_ns = behind_ns.max(*max_ns);
    }
}

fn busy_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the time during which the thread was runnable but had no processor, in nanoseconds; 0 if
/// the kernel does not report it.
fn starved_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// A request is late if it is sent later than this after its due time.
const LATE_NS: u64 = 1_000_000;

#[cfg(test)]
mod tests {
    use std::thread::sleep;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_is_late_after_a_millisecond_and_its_cause_is_known() {
        let mut lateness = Lateness::default();
        lateness.count(LATE_NS, true);
        lateness.count(LATE_NS, false);
        assert_eq!((lateness.late_for_connections, lateness.late_for_generator), (0, 0));
        lateness.count(LATE_NS + 1, true);
        lateness.count(LATE_NS + 2, false);
        lateness.count(LATE_NS + 3, false);
        assert_eq!((lateness.late_for_connections, lateness.late_for_generator), (1, 2));
        assert_eq!(lateness.for_connections_max_ns, LATE_NS + 1);
        assert_eq!(lateness.for_generator_max_ns, LATE_NS + 3, "the longest delay stays");
        lateness.count(1, false);
        assert_eq!(lateness.for_generator_max_ns, LATE_NS + 3, "a shorter one changes nothing");
    }

    #[test]
    fn a_thread_that_sleeps_is_not_busy() {
        let meter = Meter::start();
        sleep(Duration::from_millis(50));
        let Effort { busy_share, .. } = meter.read();
        assert!(busy_share < 0.2, "the thread was busy {busy_share} of its time");
    }

    #[test]
    fn a_thread_that_computes_is_busy_or_waits_for_a_processor() {
        let meter = Meter::start();
        // Another thread may take the processor, so the loop counts its own time.
        let begun_ns = busy_ns();
        while busy_ns() - begun_ns < 20_000_000 {}
        let Effort { busy_share, starved_share } = meter.read();
        assert!(busy_share > 0.0, "busy {busy_share}");
        assert!((0.7..1.3).contains(&(busy_share + starved_share)), "{busy_share} {starved_share}");
    }
}
