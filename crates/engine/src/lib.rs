//! Index, segments, eviction and expiry over a region.
//!
//! ```text
//! hash ─▶ group of 15 slots ─▶ slot names segment, offset ─▶ record: header, fields, key, value
//! ```
//!
//! Writers append records to segments and publish each with one store to a slot, under the lock of the
//! slot's group. Readers take no lock: they look, copy, and look again. When memory runs out a segment is
//! emptied: every record in it is unlinked, then its sequence moves on, and whoever read from it meanwhile
//! notices.
//!
//! This crate performs no I/O, reads no clock (every operation is told the second it happens in) and holds
//! no `unsafe` code outside of `pinned`: it reaches memory through [`larder_region::Memory`] only.
//!
//! Files in reading order: `slot`, `record`, `used`, `group` (the formats); `seat`, `segment`, `head` (who writes
//! where); `hash`, `find`, [`read`], `prefetch`; [`store`], `publish`, [`count`], `alter`, [`amend`], [`load`]; [`large`]; `empty`, `relocate`, `grow`, `flush`, [`limit`];
//! [`engine`], [`report`], [`dump`], [`validate`].
#![deny(unsafe_code)]

mod alter;
pub mod amend;
mod chain;
mod check;
pub mod count;
pub mod dump;
mod empty;
pub mod engine;
mod evict;
mod extend;
mod find;
mod flush;
mod ghost;
mod group;
mod grow;
mod hash;
mod head;
pub mod inspect;
#[cfg(test)]
#[cfg(any(feature = "interleavings", miri))]
mod interleavings;

mod lane;
pub mod large;
pub mod limit;
pub mod load;
mod long_part;
pub mod look;
pub mod peers;
mod pinned;
mod prefetch;
mod publish;
pub mod read;
mod record;
mod relocate;
mod removal;
mod repair;
pub mod report;
mod room;
mod seat;
mod segment;
mod slot;
pub mod store;
pub mod superblock;
mod supply;
mod sweep;
mod used;
pub mod validate;
mod wait;

pub use amend::{Amended, Amendment, Deletion};
pub use count::{Arithmetic, Counting};
pub use dump::{Cursor, Dumped, Sampled};
pub use engine::{Birth, Config, CreateError, Engine};
pub use inspect::{PeerReport, SegmentReport};
pub use large::{Evicted, LargeValue, Upload};
pub use limit::LimitError;
pub use load::Basis;
pub use look::Looked;
pub use peers::JoinError;
pub use pinned::{Landing, Pinned};
pub use read::{Miss, Read, Reading};
pub use removal::{Leaving, Reason, Removed};
pub use report::Report;
pub use seat::Seat;
pub use store::{Request, Stale, StoreError, Stored};
pub use superblock::AttachError;
pub use validate::Broken;

/// A process that lives, but has been stopped, holds what is needed: a group of the index, or all append heads. An
/// operation waits for it a second or two, then nothing has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a process that shares the cache has been stopped in the middle of a change; continue it, or end it"
)]
pub struct Stuck;
