//! The size of values over time.

use std::f64::consts::TAU;
use std::time::Duration;

/// Sizes that rise from the smallest to the largest and fall again in each period. The logarithm
/// changes linearly, so that small sizes are used for as much time as large ones.
#[derive(Clone, Copy)]
pub(crate) struct Wave {
    pub(crate) period: Duration,
}

impl Wave {
    /// Returns the size at a time since the start.
    pub(crate) fn bytes(&self, time: Duration) -> u64 {
        let phase = time.as_secs_f64() / self.period.as_secs_f64();
        let height = (1.0 - (TAU * phase).cos()) / 2.0;
        (BYTES_MIN * (BYTES_MAX / BYTES_MIN).powf(height)) as u64
    }
}

const BYTES_MIN: f64 = 50.0;
const BYTES_MAX: f64 = 50_000.0;
