//! The due times of requests in an open loop.

/// The due times of one thread, in nanoseconds from the beginning. All threads together send at the
/// given rate, evenly spread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// Nanoseconds between consecutive requests of all threads together.
    step_ns: f64,
    next: u64,
    thread_count: u64,
    end: u64,
}

impl Schedule {
    /// Returns one thread's part of `rate` requests per second for `seconds` seconds.
    pub(crate) fn new(rate: f64, seconds: u64, thread: u32, thread_count: u32) -> Self {
        Self {
            step_ns: 1e9 / rate,
            next: u64::from(thread),
            thread_count: u64::from(thread_count),
            end: (rate * seconds as f64).round() as u64,
        }
    }

    /// Returns the due time of the next request; `None` after the last one.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        // Computes each time from the beginning, so that rounding errors do not accumulate.
        let due_ns = (self.next as f64 * self.step_ns) as u64;
        (self.next < self.end).then_some(due_ns)
    }

    /// Moves to the following request.
    pub(crate) fn advance(&mut self) {
        self.next += self.thread_count;
    }

    /// Returns the number of requests left.
    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.next).div_ceil(self.thread_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_share_a_schedule_evenly_and_to_the_last_request() {
        let mut due = Vec::new();
        let mut left = 0;
        for thread in 0..3 {
            let mut schedule = Schedule::new(10.0, 2, thread, 3);
            left += schedule.left();
            while let Some(due_ns) = schedule.due_ns() {
                due.push(due_ns);
                schedule.advance();
            }
            assert_eq!(schedule.left(), 0);
        }
        due.sort_unstable();
        let expected: Vec<u64> = (0..20).map(|number| number * 100_000_000).collect();
        assert_eq!((due, left), (expected, 20));
    }

    #[test]
    fn after_a_day_a_schedule_is_still_exact() {
        let mut schedule = Schedule::new(30_000.0, 86_400, 0, 1);
        schedule.next = 30_000 * 86_399;
        assert!(schedule.due_ns().unwrap().abs_diff(86_399 * 1_000_000_000) < 100);
    }

    #[test]
    fn a_rate_below_one_has_its_requests_seconds_apart() {
        let mut schedule = Schedule::new(0.5, 10, 0, 1);
        assert_eq!(schedule.left(), 5);
        schedule.advance();
        assert_eq!(schedule.due_ns(), Some(2_000_000_000));
    }

    #[test]
    fn a_thread_beyond_the_last_request_has_nothing_to_send() {
        let schedule = Schedule::new(2.0, 1, 2, 3);
        assert_eq!((schedule.due_ns(), schedule.left()), (None, 0));
    }

    /// The due times do not depend on the times of sending. This avoids coordinated omission in the
    /// latencies of an open loop.
    #[test]
    fn due_times_do_not_depend_on_the_time_of_sending() {
        let mut schedule = Schedule::new(1000.0, 1, 0, 1);
        let mut last = None;
        for number in 0..1000 {
            let due_ns = schedule.due_ns().unwrap();
            assert_eq!(due_ns, number * 1_000_000);
            assert!(Some(due_ns) > last, "request {number}");
            last = Some(due_ns);
            schedule.advance();
            assert_eq!(schedule.left(), 999 - number);
        }
        assert_eq!(schedule.due_ns(), None);
    }
}
