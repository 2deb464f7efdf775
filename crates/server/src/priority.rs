//! The priority of threads other than the workers.

use rustix::process::{getpriority_process, setpriority_process};

/// Gives the workers priority over this thread.
pub(crate) fn lower() {
    let before = getpriority_process(None).unwrap_or(0);
    // Raising the number is always allowed. Linux applies it only to this thread.
    let _ = setpriority_process(None, before.max(NICE));
}

/// The nice value of these threads. It is small, because on a busy machine they must still respond.
const NICE: i32 = 5;
