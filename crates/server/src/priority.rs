//! The priority of threads that do not serve the cache's clients.

use rustix::process::{getpriority_process, setpriority_process};

/// Gives the workers priority over the calling thread.
pub(crate) fn lower() {
    let before = getpriority_process(None).unwrap_or(0);
    // Raising the number is always allowed. Linux applies it only to this thread.
    let _ = setpriority_process(None, before.max(NICE));
}

/// The niceness of the thread.
const NICE: i32 = 5;
