//! The durations that a worker measures: every turn of its loop, and one batch in 16. A batch is
//! the commands that a connection executes in one call of its session.

use std::mem;
use std::sync::Arc;

use fastrand::Rng;
use larder_stats::Timing;

use crate::clock::monotonic_ns;
use crate::observe::latency::WorkerLatency;

/// The time measurements of one worker.
#[derive(Debug)]
pub(super) struct Stopwatches {
    latency: Arc<WorkerLatency>,
    /// The time at which the last wait returned.
    woken_ns: u64,
    choice: Choice,
    /// Timed batches whose output the ring passes to the kernel with the next wait. Their time ends
    /// then.
    unsubmitted: Vec<Stopwatch>,
}

/// A batch that is being timed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopwatch {
    pub(super) timing: Timing,
    /// The time at which the wait returned that reported its input.
    pub(super) arrived_ns: u64,
}

/// Chooses one of every [`BATCHES_PER_SAMPLE`] consecutive batches at random. If it always chose
/// the last one, and exactly that many connections took turns, it would only ever measure one of
/// them.
#[derive(Debug)]
struct Choice {
    /// How many batches remain until the next choice.
    left: usize,
    /// The value of `left` at which a batch is timed.
    chosen: usize,
    random: Rng,
}

impl Stopwatches {
    pub(super) fn new(latency: Arc<WorkerLatency>) -> Self {
        let choice = Choice { left: 0, chosen: 0, random: Rng::with_seed(monotonic_ns()) };
        Self { latency, woken_ns: monotonic_ns(), choice, unsubmitted: Vec::new() }
    }

    /// Begins a turn of the loop, after a wait has returned.
    #[inline]
    pub(super) fn begin_turn(&mut self) {
        self.woken_ns = monotonic_ns();
    }

    /// Returns the time at which the last wait returned.
    #[inline]
    pub(super) fn woken_ns(&self) -> u64 {
        self.woken_ns
    }

    /// True if the next batch should be timed.
    #[inline]
    pub(super) fn chooses(&mut self) -> bool {
        self.choice.next()
    }

    /// Records a batch that has been sent.
    #[cold]
    pub(super) fn note_sent(&mut self, stopwatch: Stopwatch) {
        self.record(stopwatch, monotonic_ns());
    }

    /// Records a batch that the ring sends with the next wait.
    #[cold]
    pub(super) fn note_queued(&mut self, stopwatch: Stopwatch) {
        self.unsubmitted.push(stopwatch);
    }

    /// Ends a turn of the loop, before the next wait.
    #[inline]
    pub(super) fn end_turn(&mut self) {
        let now_ns = monotonic_ns();
        self.latency.record(Timing::Loop, now_ns.saturating_sub(self.woken_ns));
        if !self.unsubmitted.is_empty() {
            let mut queued = mem::take(&mut self.unsubmitted);
            queued.drain(..).for_each(|stopwatch| self.record(stopwatch, now_ns));
            self.unsubmitted = queued;
        }
    }

    fn record(&self, stopwatch: Stopwatch, now_ns: u64) {
        self.latency.record(stopwatch.timing, now_ns.saturating_sub(stopwatch.arrived_ns));
    }
}

impl Choice {
    #[inline]
    fn next(&mut self) -> bool {
        if self.left == 0 {
            (self.left, self.chosen) =
                (BATCHES_PER_SAMPLE, self.random.usize(..BATCHES_PER_SAMPLE));
        }
        self.left -= 1;
        self.left == self.chosen
    }
}

/// One of this many batches is timed.
const BATCHES_PER_SAMPLE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_sixteen_is_chosen_and_not_always_the_same() {
        let mut choice = Choice { left: 0, chosen: 0, random: Rng::with_seed(1) };
        let mut by_place = [0; BATCHES_PER_SAMPLE];
        for _ in 0..16_000 {
            let chosen: Vec<usize> = (0..BATCHES_PER_SAMPLE).filter(|_| choice.next()).collect();
            assert_eq!(chosen.len(), 1);
            by_place[chosen[0]] += 1;
        }
        assert!(by_place.iter().all(|count| (850..1150).contains(count)), "{by_place:?}");
    }
}
