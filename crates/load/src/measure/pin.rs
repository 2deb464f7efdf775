//! Which processors threads run on.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processors that this process may use, in order.
///
/// # Errors
/// The system does not say.
pub(crate) fn processors() -> Result<Vec<usize>> {
    let allowed = sched_getaffinity(None).context("asking which processors may be used")?;
    Ok((0..CpuSet::MAX_CPU).filter(|processor| allowed.is_set(*processor)).collect())
}

/// Keeps the calling thread, and whatever it starts, on one processor.
///
/// # Errors
/// The system does not allow it.
pub(crate) fn pin_this_thread(processor: usize) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)
        .with_context(|| format!("running on processor {processor} alone"))
}
