//! Measures how long requests and turns of the workers' loops take.

use std::sync::Arc;

use larder_stats::{Distribution, Histogram, Timing};

/// The histograms of all workers.
#[derive(Debug)]
pub(crate) struct Latencies(Vec<Arc<WorkerLatency>>);

/// The histograms of one worker. No other thread writes them. They share no cache line with
/// anything else, and no pair of lines that a processor may fetch together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct WorkerLatency([Histogram; Timing::COUNT]);

/// The merged histograms of all workers, at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatencySnapshot([Distribution; Timing::COUNT]);

impl Latencies {
    pub(crate) fn new(worker_count: usize) -> Self {
        Self((0..worker_count).map(|_| Arc::default()).collect())
    }

    /// Returns the histograms of a worker.
    pub(crate) fn worker(&self, worker: usize) -> Arc<WorkerLatency> {
        Arc::clone(&self.0[worker])
    }

    /// Returns the current counts, with their percentiles.
    pub(crate) fn snapshot(&self) -> LatencySnapshot {
        let mut snapshot = LatencySnapshot::default();
        for worker in &self.0 {
            for (sum, histogram) in snapshot.0.iter_mut().zip(&worker.0) {
                sum.add(histogram);
            }
        }
        snapshot
    }
}

impl WorkerLatency {
    /// Counts a duration.
    #[inline]
    pub(crate) fn record(&self, timing: Timing, ns: u64) {
        self.0[timing as usize].record(ns);
    }
}

impl LatencySnapshot {
    /// Returns the distribution of a timing.
    pub(crate) fn of(&self, timing: Timing) -> &Distribution {
        &self.0[timing as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_has_the_durations_of_all_workers() {
        let latencies = Latencies::new(3);
        latencies.worker(0).record(Timing::Get, 1_000);
        latencies.worker(2).record(Timing::Get, 3_000);
        latencies.worker(2).record(Timing::Loop, 9_000);
        let snapshot = latencies.snapshot();
        assert_eq!((snapshot.of(Timing::Get).count(), snapshot.of(Timing::Loop).count()), (2, 1));
        assert_eq!(snapshot.of(Timing::Get).sum_secs(), 4e-6);
        assert_eq!(snapshot.of(Timing::Set).percentile(99.0), None);
        assert_eq!(align_of::<WorkerLatency>(), 128);
    }
}
