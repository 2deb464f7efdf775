//! Positions in walks over the index.

/// A position in a walk over all items, between two groups of the index. A walk starts at the
/// default one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) group: u64,
}
