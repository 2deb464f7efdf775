//! Positions in walks over the index.

/// A position in a walk over all items, between two groups of the index. A walk starts with the
/// default value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) group: u64,
}

impl Cursor {
    /// Returns the position as a number, for callers that cannot keep Rust values.
    pub const fn position(self) -> u64 {
        self.group
    }

    /// Restores the result of [`Cursor::position`], in the same cache or in another process that
    /// shares it. The walk continues at this position. A position past the last group ends the
    /// walk.
    pub const fn at(position: u64) -> Self {
        Self { group: position }
    }
}
