//! Pins threads to processors.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the processors that this process may use, in ascending order.
///
/// # Errors
/// The kernel does not report them.
pub(crate) fn processors() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("asking which processors may be used")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect())
}

/// Pins the calling thread, and the threads and processes that it starts, to one processor.
///
/// # Errors
/// The kernel refuses the processor.
pub(crate) fn pin_this_thread(processor: usize) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).with_context(|| format!("pinning to processor {processor}"))
}
