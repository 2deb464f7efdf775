//! The format of the files, without I/O. docs/tier-format.md describes it byte by byte.
//!
//! A directory has a [`Manifest`], a log of segments, and the dictionaries of compressed values
//! ([`DictionaryFile`]). Page 0 of a segment is its
//! [`SegmentHeader`]. Units follow in the pages after it. Each unit is written once, completely,
//! and contains [`Record`]s. A void unit marks the rest of its segment as empty.
//!
//! Every checksum is seeded with the directory's uuid and the position of the bytes. Bytes from
//! another directory, from another position, or from an earlier use of the position therefore fail
//! the check.
//!
//! All numbers are little-endian.

use crate::disk::PAGE_BYTES;

mod address;
mod bytes;
mod dictionary;
mod flip;
mod manifest;
mod record;
mod seal;
mod segment_header;
mod snapshot;
mod summary;
mod unit;

pub use address::{Address, SegmentNumber};
pub use dictionary::{DICTIONARY_BYTES_MAX, DictionaryFault, DictionaryFile};
pub use manifest::{Manifest, ManifestError, Mode};
pub use record::{CompressedItem, Item, RECORD_HEADER_BYTES, Record, RecordFault, VALUE_BYTES_MAX};
pub use seal::{Seal, Uuid};
pub use segment_header::{Delay, HeaderFault, SegmentHeader};
pub use snapshot::SnapshotHeader;
pub use summary::{
    KeyHash, KeyHasher, SUMMARY_ENTRY_BYTES, Summary, SummaryEntries, SummaryEntry, SummaryFault,
    SummaryKind, SummaryWriter,
};
pub use unit::{Records, UNIT_HEADER_BYTES, Unit, UnitFault, UnitWriter};

/// Length of a disk segment, in bytes.
pub const SEGMENT_BYTES: usize = 4 << 20;
/// Pages of a disk segment, its header included.
pub const SEGMENT_PAGES: usize = SEGMENT_BYTES / PAGE_BYTES;
/// The latest version of the format. This crate reads it and all earlier ones.
///
/// A directory has version 1 until the first start that compresses values.
pub const VERSION: u32 = 2;
/// The version of a directory without compressed values, and of all files except the manifest.
pub(crate) const VERSION_PLAIN: u32 = 1;
