//! Checks whether the workers still run their loops, or whether one of them hangs.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// The heartbeats of all workers. A worker beats on request. The request wakes it through its
/// inbox, so that an idle worker also beats, and client requests cost nothing.
#[derive(Debug)]
pub(crate) struct Heartbeats(Vec<Heartbeat>);

/// The heartbeat of a worker. One thread asks; only the worker answers.
#[derive(Debug, Default)]
struct Heartbeat {
    /// The number of the last question, and the number of the last question that the worker has
    /// answered.
    asked: AtomicU64,
    answered: AtomicU64,
    /// The time of the last question, on the monotonic clock.
    asked_us: AtomicI64,
}

impl Heartbeats {
    pub(crate) fn new(worker_count: usize) -> Self {
        Self((0..worker_count).map(|_| Heartbeat::default()).collect())
    }

    /// Asks all workers. The caller wakes them. A worker that has not answered the last question is
    /// not asked again, so that its silence is measured from the first unanswered question.
    pub(crate) fn ask(&self, now_us: i64) {
        for heartbeat in &self.0 {
            let asked = heartbeat.asked.load(Relaxed);
            if heartbeat.answered.load(Relaxed) == asked {
                heartbeat.asked_us.store(now_us, Relaxed);
                heartbeat.asked.store(asked + 1, Relaxed);
            }
        }
    }

    /// Answers on behalf of a worker that was woken.
    pub(crate) fn answer(&self, worker: usize) {
        let heartbeat = &self.0[worker];
        heartbeat.answered.store(heartbeat.asked.load(Relaxed), Relaxed);
    }

    /// Returns how long the most silent worker has not answered, in microseconds; 0 if all have
    /// answered.
    pub(crate) fn silence_us(&self, now_us: i64) -> u64 {
        let silences = self.0.iter().map(|heartbeat| {
            if heartbeat.answered.load(Relaxed) == heartbeat.asked.load(Relaxed) {
                return 0;
            }
            u64::try_from(now_us - heartbeat.asked_us.load(Relaxed)).unwrap_or(0)
        });
        silences.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silence_of_a_worker_begins_with_the_question_that_it_does_not_answer() {
        let beats = Heartbeats::new(2);
        assert_eq!(beats.silence_us(100), 0, "before the first question");
        beats.ask(100);
        assert_eq!(beats.silence_us(150), 50);
        beats.answer(0);
        assert_eq!(beats.silence_us(150), 50, "the other worker is silent");
        beats.answer(1);
        assert_eq!(beats.silence_us(1_000), 0);
        beats.ask(1_000);
        beats.answer(0);
        beats.ask(2_000);
        assert_eq!(beats.silence_us(3_000), 2_000, "asking again does not count as an answer");
        beats.answer(1);
        assert_eq!(beats.silence_us(3_000), 1_000, "the first was asked again at 2,000");
        beats.answer(0);
        assert_eq!(beats.silence_us(9_000), 0);
    }
}
