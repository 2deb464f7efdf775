//! Listeners for removals: callbacks of the program that receive removed items.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::engine::Engine;
use crate::index::removal::{Leaving, Removed};

impl Engine {
    /// Reports every removal to `listener` while the switch [`Engine::removals_wanted`] is on. Only
    /// the first call counts. The listener runs under the lock of a group: it must not block and
    /// must not use the cache.
    pub fn set_removal_listener(&self, listener: Box<dyn Fn(Removed) + Send + Sync>) {
        self.index().removals().set_listener(listener);
    }

    /// Returns the switch that turns the reports of removals on and off.
    pub fn removals_wanted(&self) -> &Arc<AtomicBool> {
        self.index().removals().is_wanted()
    }

    /// Passes each item that is evicted, or found expired or flushed, to `hook` for the rest of the
    /// engine's life. Only the first call counts.
    ///
    /// The hook runs under the lock of a group, possibly while a segment is being emptied. It must
    /// be short, and must not block, panic or use the cache, which would deadlock. The item is gone
    /// when the hook has returned.
    pub fn set_departure_hook(&self, hook: Box<dyn Fn(&Leaving<'_>) + Send + Sync>) {
        self.index().removals().set_hook(hook);
    }
}
