//! The modes of a store.

/// The condition under which a store happens, and its effect on the existing value.
/// Compare-and-swap is [`StoreMode::Set`] with a cas token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// Always stores.
    Set,
    /// Stores only if no live item has the key.
    Add,
    /// Stores only if a live item has the key.
    Replace,
    /// Appends the bytes to the value of a live item, and keeps its flags and deadline.
    Append,
    /// Prepends the bytes to the value of a live item, and keeps its flags and deadline.
    Prepend,
}
