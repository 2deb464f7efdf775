//! The basis of a load: the state of a key when the load started.

use crate::engine::Engine;
use crate::index::find::Found;

/// The state of a key when a load of its value started: [`Engine::begin_load`].
///
/// ```
/// use larder_engine::Basis;
/// assert_eq!(Basis::of_words(Basis::ABSENT.words()), Basis::ABSENT);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// The location of the record; 0 for none.
    location: u64,
    /// The sequence of its segment.
    sequence: u64,
    /// The header bits that a change of the value or a mark changes.
    form: u64,
    /// The version, or the value of a number without one.
    origin: u64,
}

impl Basis {
    /// No item.
    pub const ABSENT: Self = Self { location: 0, sequence: 0, form: 0, origin: 0 };

    /// A basis that no key ever matches: a load on it is never stored.
    pub(crate) const OVERTAKEN: Self = Self { location: u64::MAX, sequence: 0, form: 0, origin: 0 };

    /// Returns the basis as words, for callers that cannot keep Rust values.
    pub const fn words(self) -> [u64; 4] {
        [self.location, self.sequence, self.form, self.origin]
    }

    /// Restores the result of [`Basis::words`]. Arbitrary words are a basis on which no load is
    /// stored.
    pub const fn of_words([location, sequence, form, origin]: [u64; 4]) -> Self {
        Self { location, sequence, form, origin }
    }
}

impl Engine {
    /// True if a record of a locked group is still the basis of a load. It may be expired.
    pub(crate) fn is_based_on(&self, found: &Found, basis: Basis) -> bool {
        let now = self.basis_of(found);
        let is_same = match self.segments().keeps_versions() {
            // A moved record keeps its version.
            true => now.origin == basis.origin && basis.location != 0,
            false => now == basis,
        };
        is_same && !self.segments().is_flushed(found.sequence)
    }

    pub(crate) fn basis_of(&self, found: &Found) -> Basis {
        let is_counted = !self.segments().keeps_versions() && found.header.is_number();
        Basis {
            location: found.slot.location(),
            sequence: found.sequence,
            form: found.header.without_reads(),
            origin: if is_counted {
                self.index().number(found).0
            } else {
                self.index().version(found)
            },
        }
    }
}
