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
    /// The location of the record; 0 if the key has no item.
    location: u64,
    /// The sequence of the record's segment.
    sequence: u64,
    /// The header bits that differ after a change of the value or of a mark.
    form: u64,
    /// The version or, in a number record without a version, the number.
    origin: u64,
}

impl Basis {
    /// The basis for a key without an item.
    pub const ABSENT: Self = Self { location: 0, sequence: 0, form: 0, origin: 0 };

    /// A basis that never matches: a load that began with it is never stored.
    pub(crate) const OVERTAKEN: Self = Self { location: u64::MAX, sequence: 0, form: 0, origin: 0 };

    /// Returns the basis as four numbers, for callers that cannot keep Rust values.
    pub const fn words(self) -> [u64; 4] {
        [self.location, self.sequence, self.form, self.origin]
    }

    /// Restores the result of [`Basis::words`]. Words that [`Basis::words`] did not return make a
    /// basis that matches no key.
    pub const fn of_words([location, sequence, form, origin]: [u64; 4]) -> Self {
        Self { location, sequence, form, origin }
    }
}

impl Engine {
    /// True if a record of a locked group is still the basis of a load. The item may have expired.
    pub(crate) fn is_based_on(&self, found: &Found, basis: Basis) -> bool {
        let now = self.basis_of(found);
        let is_same = match self.segments().keeps_versions() {
            // A record that was moved keeps its version.
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
