//! The change listener: the interface through which the engine and its callers report changes of
//! items after other threads can read them.

use std::fmt;

/// Is called after each change of an item, when other threads can already read the change. The
/// caller of the operation does not have its outcome yet.
///
/// Evictions and expiry are no changes. A listener is also called for some operations that changed
/// nothing, because the key had no item.
///
/// The calls come from all threads, some of them under the lock of a group: a listener must be
/// short, and must not use the cache.
pub trait ChangeListener: fmt::Debug + Send + Sync {
    /// An operation that may change the item of this key begins: no other thread can read the
    /// change yet. The listener may load what it will need when the change is reported, so that it
    /// need not wait for memory then. A removal by prefix and a clear are not announced.
    #[inline]
    fn expect(&self, key: &[u8]) {
        let _ = key;
    }

    /// The item of this key has changed, or is gone.
    fn changed(&self, key: &[u8]);

    /// All items that were stored before are gone.
    fn cleared(&self);
}
