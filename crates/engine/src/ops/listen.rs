//! Listeners for removals: callbacks of the program that receive removed items.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use larder_item::Second;

use crate::engine::Engine;
use crate::index::removal::{Leaving, Removed};
use crate::listener::ChangeListener;

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

    /// Sets the change listener for the rest of the engine's life. Only the first call counts.
    ///
    /// The engine itself reports the items that a removal by prefix removes, and flushes that
    /// become due. Its callers report their operations with [`Engine::report_change`] and
    /// [`Engine::report_clear`], because an operation is complete only for them.
    pub fn set_change_listener(&self, listener: Arc<dyn ChangeListener>) {
        self.segments().set_listener(listener);
    }

    /// Tells the change listener that a change of the item of a key is about to begin.
    ///
    /// Cost: a load and a branch without a listener.
    #[inline]
    pub fn expect_change(&self, key: &[u8]) {
        if let Some(listener) = self.segments().listener() {
            listener.expect(key);
        }
    }

    /// Reports a change of the item of a key to the change listener.
    ///
    /// Cost: a load and a branch without a listener.
    #[inline]
    pub fn report_change(&self, key: &[u8]) {
        if let Some(listener) = self.segments().listener() {
            listener.changed(key);
        }
    }

    /// Reports to the change listener that all items are gone.
    pub fn report_clear(&self) {
        if let Some(listener) = self.segments().listener() {
            listener.cleared();
        }
    }

    /// Runs a scheduled flush that is due, as every operation does.
    pub fn flush_if_due(&self, now: Second) {
        self.segments().flush_if_due(now);
    }
}
