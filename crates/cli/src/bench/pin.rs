//! Which processors threads run on.

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Keeps the calling thread, and whatever it starts, on one processor.
///
/// # Errors
/// The system does not allow it.
pub(super) fn pin_this_thread(processor: usize) -> Result<()> {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only)
        .with_context(|| format!("running on processor {processor} alone"))
}
