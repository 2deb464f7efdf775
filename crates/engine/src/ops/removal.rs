//! Telling somebody what leaves the cache, and why.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use larder_item::{Meta, Second};

use crate::index::find::Found;
use crate::{Engine, Miss};

/// Why an item was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Somebody deleted it.
    Deleted,
    /// A store put another item in its place.
    Replaced,
    /// Its deadline had passed. It is told when the item is come across, not in that second.
    Expired,
    /// Its memory was needed for others.
    Evicted,
    /// It was there when the cache was cleared. As with expired ones, it is told later.
    Cleared,
}

/// An item that left the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// Its key.
    pub key: Vec<u8>,
    /// Its value; none where that was kept in pieces, which would have to be copied one by one while others
    /// wait.
    pub value: Option<Vec<u8>>,
    /// Why it left.
    pub reason: Reason,
}

/// An item at the moment at which it leaves the cache.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    engine: &'a Engine,
    found: &'a Found,
    reason: Reason,
    swept: bool,
}

impl Leaving<'_> {
    /// Appends its key to `out`.
    pub fn read_key(&self, out: &mut Vec<u8>) {
        let key_at = self.found.record_at + self.found.header.key_at();
        self.engine.memory.read(key_at, self.found.header.key_bytes(), out);
    }

    /// Bytes of its key.
    pub fn key_bytes(&self) -> usize {
        self.found.header.key_bytes()
    }

    /// What is known of it. Its `seen` is from [`Meta::seen`]: how long it was not needed follows from the clock.
    pub fn meta(&self) -> Meta {
        self.engine.meta(self.found, self.engine.value_bytes(self.found), self.now())
    }

    /// The second up to which the cache's clock has been ticked.
    pub fn now(&self) -> Second {
        self.engine.now()
    }

    /// Why it leaves.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// Was it dead, and found by somebody who looked for the dead?
    pub fn is_swept(&self) -> bool {
        self.swept
    }
}

/// What hears of items that leave.
type Hook = Box<dyn Fn(&Leaving<'_>) + Send + Sync>;

/// Whom removals are told, if anybody.
#[derive(Default)]
pub(crate) struct RemovalListeners {
    /// Is anybody listening? A removal that nobody wants to know of costs this look.
    is_wanted: Arc<AtomicBool>,
    listener: OnceLock<Box<dyn Fn(Removed) + Send + Sync>>,
    /// Who wants to know only of items that nobody removed: another look, at these.
    hook: OnceLock<Hook>,
}

impl fmt::Debug for RemovalListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemovalListeners")
            .field("is_wanted", &self.is_wanted)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// Tells `listener` of every removal while [`Engine::removals_wanted`] is set. Only the first call counts. It is called while a group of the index is locked: it must not block, and not use the cache.
    pub fn set_removal_listener(&self, listener: Box<dyn Fn(Removed) + Send + Sync>) {
        let _ = self.removals.listener.set(listener);
    }

    /// Whether removals are told.
    pub fn removals_wanted(&self) -> &Arc<AtomicBool> {
        &self.removals.is_wanted
    }

    /// Shows `hook` each item that is evicted, or found expired or cleared, as long as the engine lives. Only the
    /// first call counts.
    ///
    /// It is called while a group of the index is locked, and a segment may be half emptied: it must be short, must not
    /// block, must not panic, and must not use the cache, which would wait for itself. What it is shown is gone
    /// when it returns.
    pub fn set_departure_hook(&self, hook: Box<dyn Fn(&Leaving<'_>) + Send + Sync>) {
        let _ = self.removals.hook.set(hook);
    }

    /// Tells of a record that is being removed. Under the lock of its group, before it leaves the accounts.
    #[inline]
    pub(crate) fn report_removal(&self, found: &Found, reason: Reason) {
        self.report_as(found, reason, false);
    }

    /// The same for one that was found dead by somebody who looked for such.
    pub(crate) fn report_swept(&self, found: &Found, reason: Reason) {
        self.report_as(found, reason, true);
    }

    #[inline]
    fn report_as(&self, found: &Found, reason: Reason, swept: bool) {
        if self.reserved_until(found).is_some() {
            return;
        }
        let is_departure = matches!(reason, Reason::Evicted | Reason::Expired | Reason::Cleared);
        if is_departure && let Some(hook) = self.removals.hook.get() {
            hook(&Leaving { engine: self, found, reason, swept });
        }
        if self.removals.is_wanted.load(Relaxed) {
            self.tell(found, reason);
        }
    }

    #[cold]
    fn tell(&self, found: &Found, reason: Reason) {
        let Some(listener) = self.removals.listener.get() else {
            return;
        };
        let value = (!found.header.is_large()).then(|| {
            let mut value = Vec::new();
            self.read_value(found, &mut value);
            value
        });
        listener(Removed { key: self.key(found), value, reason });
    }
}

impl From<Miss> for Reason {
    /// Why an item that is dead by itself is removed.
    fn from(death: Miss) -> Self {
        match death {
            Miss::Flushed => Self::Cleared,
            Miss::Expired | Miss::Absent => Self::Expired,
        }
    }
}
