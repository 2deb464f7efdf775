//! The removal of the items of a session that has failed.

use std::sync::Arc;
use std::thread;

use super::keys::Set;
use super::{EndReason, Warming};
use crate::log;

/// Removes the items of all keys in `stored`, a set for each stripe, on a separate thread.
pub(super) fn begin(warming: Arc<Warming>, stored: Vec<Set>, reason: EndReason) {
    let count: usize = stored.iter().map(Set::len).sum();
    log::warn(format_args!(
        "larderd: the copy by larder warm has failed: {}; its {count} items are being removed",
        cause(reason)
    ));
    let undo = {
        let warming = Arc::clone(&warming);
        move || warming.undo(&stored)
    };
    // Without a thread the caller waits for the removal.
    let spawned = thread::Builder::new().name("undo".to_owned()).spawn(undo.clone());
    if spawned.is_err() {
        undo();
    }
}

impl Warming {
    fn undo(&self, stored: &[Set]) {
        let is_of_session = |key: &[u8]| {
            let (stripe, hash) = self.keys.place_of(key);
            stored.get(stripe).is_some_and(|set| set.contains(&hash))
        };
        let (mut removed, mut left) = (0u64, 0u64);
        for key in self.cache.keys().filter(|key| is_of_session(key)) {
            match self.cache.delete(&key) {
                Ok(is_removed) => removed += u64::from(is_removed),
                Err(_) => left += 1,
            }
        }
        self.undone();
        match left {
            0 => log::warn(format_args!("larderd: {removed} items of larder warm are removed")),
            _ => log::error(format_args!(
                "larderd: {left} items of larder warm could not be removed and may be out of date: \
                 remove all items with flush_all"
            )),
        }
    }
}

/// Returns the cause of a failure, for the log.
fn cause(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Lost => "its connection ended",
        EndReason::Full => "more keys were copied or changed than -m allows to record",
        EndReason::Removal => "a client removed many items",
        EndReason::Upgrade => "a new process takes over",
    }
}
