//! Reports of removed items.

pub(crate) mod by_prefix;

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use larder_item::{Meta, Second};

use crate::index::Index;
use crate::index::find::Found;
use crate::index::life::Miss;

/// The reason why an item was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A client deleted the item.
    Deleted,
    /// A store replaced the item.
    Replaced,
    /// The deadline of the item had passed. Reported when a thread finds the expired item, which
    /// may be long after the deadline.
    Expired,
    /// Eviction removed the item.
    Evicted,
    /// A flush hid the item. Reported when a thread finds the item, which may be long after the
    /// flush.
    Cleared,
}

/// An item that was removed from the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The item's key.
    pub key: Vec<u8>,
    /// The item's value. `None` for a value in pieces, because other threads would have to wait
    /// while it is copied.
    pub value: Option<Vec<u8>>,
    /// The reason for the removal.
    pub reason: Reason,
}

/// An item at the moment of its removal.
#[derive(Clone, Copy, Debug)]
pub struct Leaving<'a> {
    index: &'a Index,
    found: &'a Found,
    reason: Reason,
    swept: bool,
}

impl Leaving<'_> {
    /// Appends the item's key to `out`.
    pub fn read_key(&self, out: &mut Vec<u8>) {
        let key_at = self.found.record_at + self.found.header.key_at();
        self.index.region().memory().read(key_at, self.found.header.key_bytes(), out);
    }

    /// Returns the length of the item's key in bytes.
    pub fn key_bytes(&self) -> usize {
        self.found.header.key_bytes()
    }

    /// Returns the item's metadata. The time since the item's last use is [`Self::now`] minus
    /// [`Meta::seen`].
    pub fn meta(&self) -> Meta {
        self.index.meta(self.found, self.index.value_bytes(self.found), self.now())
    }

    /// Returns the second of the last tick of the cache's clock.
    pub fn now(&self) -> Second {
        self.index.region().now()
    }

    /// Returns the reason for the removal.
    pub fn reason(&self) -> Reason {
        self.reason
    }

    /// True if the expiry sweep, and not an operation of a client, found the dead item.
    pub fn is_swept(&self) -> bool {
        self.swept
    }
}

/// A callback for evicted, expired and flushed items.
type Hook = Box<dyn Fn(&Leaving<'_>) + Send + Sync>;

/// The listeners for removals.
#[derive(Default)]
pub(crate) struct RemovalListeners {
    /// True if a listener wants reports of removals. Otherwise each removal only loads this flag.
    is_wanted: Arc<AtomicBool>,
    listener: OnceLock<Box<dyn Fn(Removed) + Send + Sync>>,
    /// The callback for items that no client removed.
    hook: OnceLock<Hook>,
}

impl RemovalListeners {
    /// Sets the listener for all removals, once.
    pub(crate) fn set_listener(&self, listener: Box<dyn Fn(Removed) + Send + Sync>) {
        let _ = self.listener.set(listener);
    }

    /// Returns the switch that turns the listener on and off.
    pub(crate) fn is_wanted(&self) -> &Arc<AtomicBool> {
        &self.is_wanted
    }

    /// Sets the callback for items that no client removed, once.
    pub(crate) fn set_hook(&self, hook: Hook) {
        let _ = self.hook.set(hook);
    }
}

impl fmt::Debug for RemovalListeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemovalListeners")
            .field("is_wanted", &self.is_wanted)
            .finish_non_exhaustive()
    }
}

impl Index {
    /// Reports a record that is being removed. The caller holds the lock of its group; the accounts
    /// still count the record.
    #[inline]
    pub(crate) fn report_removal(&self, found: &Found, reason: Reason) {
        self.report_as(found, reason, false);
    }

    /// Same as [`Self::report_removal`] for a record that the expiry sweep found.
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
            hook(&Leaving { index: self, found, reason, swept });
        }
        if self.removals.is_wanted.load(Relaxed) {
            self.notify(found, reason);
        }
    }

    #[cold]
    fn notify(&self, found: &Found, reason: Reason) {
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
    /// Returns the reason to report when an item that died this way is removed.
    fn from(death: Miss) -> Self {
        match death {
            Miss::Flushed => Self::Cleared,
            Miss::Expired | Miss::Absent => Self::Expired,
        }
    }
}
