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
//! Files in reading order: `slot`, `record`, `used`, `group` (the formats); `thread`, `segment`, `head` (who writes
//! where); `hash`, `find`, [`read`], `prefetch`; [`store`], `publish`, [`count`], `update_value`, [`update_meta`], [`load`]; [`large`]; `empty`, `relocate`, `grow`, `flush`, [`limit`];
//! [`engine`], [`report`], [`dump`], [`validate`].
#![deny(unsafe_code)]

mod engine;
mod index;
mod inspect;
#[cfg(test)]
#[cfg(any(feature = "interleavings", miri))]
mod interleavings;
mod ops;
mod process;
mod reclaim;
mod segment;

pub use engine::{Birth, Config, CreateError, Engine};
pub use inspect::describe::{PeerReport, SegmentReport};
pub use inspect::dump::{Cursor, Dumped, Sampled};
pub use inspect::report::Report;
pub use inspect::validate::Broken;
pub use ops::arithmetic::{Arithmetic, ArithmeticRequest};
pub use ops::large::{Evicted, LargeValue, Upload};
pub use ops::load::Basis;
pub use ops::look::Looked;
pub use ops::pinned::{DirectBuffer, Pinned};
pub use ops::read::{Miss, Read, Reading};
pub use ops::removal::{Leaving, Reason, Removed};
pub use ops::store::{Stale, StoreError, StoreRequest, Stored};
pub use ops::update_meta::{Deletion, MetaOutcome, MetaUpdate};
pub use process::peers::{JoinError, OPENING_BYTE, PEER_BYTES_MAX};
pub use process::superblock::AttachError;
pub use process::thread_slot::ThreadSlot;
pub use reclaim::limit::LimitError;

/// A process that lives, but has been stopped, holds what is needed: a group of the index, or all appenders. An
/// operation waits for it a second or two, then nothing has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a process that shares the cache has been stopped in the middle of a change; continue it, or end it"
)]
pub struct Stuck;
