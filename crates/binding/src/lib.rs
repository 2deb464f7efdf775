//! Code of the packages for Python and Node that depends on neither language. Both languages have
//! objects that share a cache, and programs that live longer than a file.
//!
//! | file | contents |
//! |---|---|
//! | `place.rs` | [`Place`]: opening a cache, closing it, and following a replaced file |
//! | `lease.rs` | [`OwnedLease`] and [`OwnedLoad`], which end with their object |
//! | `counter.rs` | [`add`]: counters of all languages |

#![forbid(unsafe_code)]

mod counter;
mod lease;
mod place;

pub use counter::{AddError, add};
pub use lease::{OwnedLease, OwnedLoad};
pub use place::{InUse, Notice, Place, PlaceError, Untrusted, Writers};
