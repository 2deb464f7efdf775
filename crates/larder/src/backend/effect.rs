//! Whether an operation has changed the item of its key, according to its outcome.

use larder_engine::{Arithmetic, Basis, Deletion, MetaOutcome, Signed, Stored};

/// An outcome of an operation on one key.
pub(crate) trait Effect {
    /// True if the operation has changed the item.
    fn is_change(&self) -> bool;
}

impl Effect for Stored {
    fn is_change(&self) -> bool {
        matches!(self, Self::Stored { .. })
    }
}

impl Effect for Deletion {
    fn is_change(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }
}

impl Effect for MetaOutcome {
    fn is_change(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl Effect for Arithmetic {
    fn is_change(&self) -> bool {
        matches!(self, Self::Number { .. })
    }
}

impl Effect for Signed {
    fn is_change(&self) -> bool {
        matches!(self, Self::Number(_))
    }
}

impl Effect for Basis {
    /// The beginning of a load changes no item.
    fn is_change(&self) -> bool {
        false
    }
}
