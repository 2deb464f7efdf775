//! The ways to store.

/// When a store happens and what becomes of the value that is there. Compare-and-swap is
/// [`StoreMode::Set`] with a cas token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// Always.
    Set,
    /// Only where no live item has the key.
    Add,
    /// Only where a live item has the key.
    Replace,
    /// Put the bytes behind those of the live item, keeping its flags and deadline.
    Append,
    /// Put the bytes before those of the live item, keeping its flags and deadline.
    Prepend,
}
