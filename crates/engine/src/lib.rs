//! The cache engine: an index, segments of records, eviction and expiry, over a region of memory.
//!
//! ```text
//! hash ─▶ group of 15 slots ─▶ slot names segment, offset ─▶ record: header, fields, key, value
//! ```
//!
//! A *record* is an item's bytes. A *segment* is a range of memory that holds records and is
//! emptied and reused as a unit. Each use of a segment has a different number, its *sequence*.
//! Writers append records to segments. To publish a record, a writer locks the group of the key and
//! writes one word: the slot that names the record. Readers take no lock: they load the slot, copy
//! the record, and load the segment's sequence again. When memory runs out, the evictor unlinks
//! every record of a segment and then clears the segment's sequence. A reader that copied from that
//! segment finds the sequence changed and starts over. ARCHITECTURE.md has a glossary of all terms.
//!
//! The crate performs no I/O and reads no clock: callers pass the current second to every
//! operation. Only `ops/large/pinned.rs` contains `unsafe` code; all other files access memory
//! through [`larder_region::Memory`].
//!
//! The modules form layers. Most layers have a type that owns their part of the region and contains
//! the type of the next layer. A module imports only modules of lower layers. In two cases a lower
//! module calls a higher one, through the trait in `process/op.rs`: to take a free segment, which
//! may require eviction, and to repair the region after a process died.
//!
//! | module, from the top | type | what it owns |
//! |---|---|---|
//! | `ops`, `inspect`, `open` | | one file for each operation of the public interface; reports, dumps, validation; opening |
//! | `engine` | [`Engine`] | the public type, which passes simple calls to the layers below |
//! | `reclaim` | `Reclaimer` | S3-FIFO eviction, compaction, the expiry sweep, the memory limit, repair after a crash |
//! | `index` | `Index` | groups and their locks, lookup, growth, unlinking, the ghost |
//! | `segment` | `Segments` | slots, records, segment headers, appenders, the segment allocator, flushes |
//! | `superblock`, `readable` | | the parameters of an existing region; until when other processes may read its items |
//! | `process` | `Peers` | thread slots, peers, waiting, the context of an operation |
//! | `region`, `error`, `journal`, `listener` | `Region` | memory and layout; errors that several modules return; the traits that record and report changes |
//!
//! `interleavings` tests the engine under shuttle and Miri, which run its threads in many orders.
#![deny(unsafe_code)]

mod engine;
mod error;
#[cfg(test)]
mod fixtures;
mod index;
mod inspect;
#[cfg(test)]
#[cfg(any(feature = "interleavings", miri))]
mod interleavings;
mod journal;
mod listener;
mod open;
mod ops;
mod process;
mod readable;
mod reclaim;
mod region;
mod segment;
mod superblock;

pub use engine::Engine;
pub use error::{StoreError, Stuck};
pub use index::cursor::Cursor;
pub use index::life::Miss;
pub use index::removal::{Leaving, Reason, Removed};
pub use inspect::describe::SegmentReport;
pub use inspect::dump::{DumpFilter, Dumped, Sampled};
pub use inspect::item::{ItemReport, ItemReports};
pub use inspect::report::Report;
pub use inspect::validate::Broken;
pub use journal::{Change, Entry, Journal, Refusal};
pub use listener::ChangeListener;
pub use open::{Config, CreateError, Role};
pub use ops::arithmetic::signed::{Signed, SignedChange, SignedRequest};
pub use ops::arithmetic::{Arithmetic, ArithmeticRequest};
pub use ops::basis::Basis;
pub use ops::large::pinned::{DirectBuffer, PinnedPiece};
pub use ops::large::upload::{Upload, UploadLost};
pub use ops::large::value::{Evicted, LargeValue};
pub use ops::load::lease::{Lease, LeaseTime};
pub use ops::look::LookupResult;
pub use ops::read::{Read, ReadOptions};
pub use ops::remove_prefix::PrefixRemoval;
pub use ops::request::{Stale, StoreRequest, Stored};
pub use ops::update_meta::{Deletion, MetaOutcome, MetaUpdate};
pub use process::operation::Operation;
pub use process::peers::{JoinError, OPENING_BYTE, PEER_BYTES_MAX, PeerReport};
pub use process::thread_slot::ThreadSlot;
pub use readable::ReadableUntil;
pub use reclaim::limit::LimitError;
pub use superblock::{AttachError, Birth};
