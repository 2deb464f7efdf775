//! The system's clocks. A *coarse* clock costs a few nanoseconds, and is late by at most the time
//! between two timer interrupts, 10 ms.

use rustix::time::{ClockId, clock_gettime};

use crate::platform::Moment;

/// Returns the time since the system booted, without the time during which it slept. The clock is
/// the same for all processes.
#[inline]
pub fn monotonic() -> Moment {
    read(ClockId::Monotonic)
}

/// Same as [`monotonic`], but coarse.
#[inline]
pub fn monotonic_coarse() -> Moment {
    read(ClockId::MonotonicCoarse)
}

/// Returns the time since the system booted. Cost: about 20 ns.
#[inline]
pub fn boot() -> Moment {
    read(ClockId::Boottime)
}

/// Returns the Unix time.
#[inline]
pub fn wall() -> Moment {
    read(ClockId::Realtime)
}

/// Same as [`wall`], but coarse.
#[inline]
pub fn wall_coarse() -> Moment {
    read(ClockId::RealtimeCoarse)
}

#[inline]
fn read(clock: ClockId) -> Moment {
    let now = clock_gettime(clock);
    Moment { secs: now.tv_sec, ns: now.tv_nsec as u32 }
}
