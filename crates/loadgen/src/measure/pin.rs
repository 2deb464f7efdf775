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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_one_processor_and_others_are_free() {
        let before = processors().unwrap();
        assert!(!before.is_empty() && before.is_sorted(), "{before:?}");
        let last = before[before.len() - 1];
        let pinned = std::thread::spawn(move || {
            pin_this_thread(last).unwrap();
            processors().unwrap()
        });
        assert_eq!(pinned.join().unwrap(), [last]);
        assert_eq!(processors().unwrap(), before, "this thread is not pinned");
    }

    #[test]
    fn a_processor_that_does_not_exist_is_named() {
        let missing = (0..CpuSet::MAX_CPU).rfind(|at| !processors().unwrap().contains(at)).unwrap();
        let refused = std::thread::spawn(move || pin_this_thread(missing)).join().unwrap();
        let words = format!("{:#}", refused.unwrap_err());
        assert!(words.starts_with(&format!("pinning to processor {missing}: ")), "{words}");
    }
}
