//! The limit of processes that read the copies of several origins in one store's memory.

use super::sync::{Mutex, lock};

/// Until when each origin allows its copies to be read. The readers know one limit, so it is the
/// lowest of all origins that have copies in the store.
#[derive(Debug)]
pub struct ReaderLimits {
    /// `None`: the origin has no copies in the store.
    until_ms: Mutex<Box<[Option<u64>]>>,
}

impl ReaderLimits {
    /// Creates the limits of origins that have no copies.
    pub fn new(origin_count: usize) -> Self {
        Self { until_ms: Mutex::new(vec![None; origin_count].into()) }
    }

    /// Sets the limit of an origin, and passes the limit of the readers to `publish`; 0 if they may
    /// read nothing. From here on the origin may have copies.
    pub fn set(&self, origin: usize, until_ms: u64, publish: impl FnOnce(u64)) {
        self.change(origin, Some(until_ms), publish);
    }

    /// Ends the limit of an origin whose copies were all removed.
    pub fn end(&self, origin: usize, publish: impl FnOnce(u64)) {
        self.change(origin, None, publish);
    }

    fn change(&self, origin: usize, until_ms: Option<u64>, publish: impl FnOnce(u64)) {
        let mut all = lock(&self.until_ms);
        all[origin] = until_ms;
        // Published under the lock, so that no earlier, higher limit replaces a lower one.
        publish(all.iter().flatten().copied().min().unwrap_or(0));
    }
}
