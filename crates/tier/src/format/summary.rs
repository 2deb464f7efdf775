//! Summaries: an index of a full segment, without keys and values.
//!
//! ```text
//! ┌─────────┬─────┬────────────┬─────────┬───────────┬─────────┬───────────┬─────────────┬─────────┬──────────┬─────────┬──────────┐
//! │ entries │ 0…  │ checksum 4 │ magic 4 │ version 4 │ count 4 │ address 8 │ units end 4 │ pages 4 │ newest 8 │ stamp 8 │ zeros 16 │
//! └─────────┴─────┴────────────┴─────────┴───────────┴─────────┴───────────┴─────────────┴─────────┴──────────┴─────────┴──────────┘
//! entry:
//! ┌─────────────┬──────────────┬────────────┬──────────────┬────────┬─────────┐
//! │ identity 16 │ index hash 8 │ deadline 8 │ offset / 8 3 │ kind 1 │ bytes 4 │
//! └─────────────┴──────────────┴────────────┴──────────────┴────────┴─────────┘
//! ```
//!
//! A summary is the last pages of its segment. The void unit that closes the segment is before it,
//! so a reader of the units stops before the summary. A segment without a summary is read
//! completely.
//!
//! A writer must write the summary only after everything before it in the segment is durable.
//! Otherwise a power loss could keep the summary and lose a unit before it. Recovery cuts the log
//! at the lost unit, but the summary would restore the records after the cut.

use std::hash::Hasher;
use std::iter::FusedIterator;

use siphasher::sip128::{Hasher128, SipHasher24};
use thiserror::Error;

use crate::disk::PAGE_BYTES;
use crate::format::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::format::record::{DELAY, FLUSH, ITEM, LOST, TOMBSTONE};
use crate::format::{
    Address, CompressedItem, RECORD_HEADER_BYTES, Record, SEGMENT_BYTES, SEGMENT_PAGES, Seal,
    SegmentNumber, UNIT_HEADER_BYTES, VERSION_PLAIN,
};

/// Length of an entry, in bytes.
pub const SUMMARY_ENTRY_BYTES: usize = 40;
/// Length of the trailer of a summary, in bytes.
const TRAILER_BYTES: usize = 64;
const MAGIC: u32 = u32::from_le_bytes(*b"LrdI");

const _: () = assert!(SEGMENT_BYTES / 8 <= 1 << 24, "an offset has 3 bytes");

/// Hashes keys for summaries: SipHash-2-4 with 128 bits.
#[derive(Clone, Debug)]
pub struct KeyHasher {
    keyed: SipHasher24,
}

impl KeyHasher {
    /// Returns the hasher of a directory. `hash_key` is stored in its manifest.
    pub fn new(hash_key: &[u8; 16]) -> Self {
        Self { keyed: SipHasher24::new_with_key(hash_key) }
    }

    /// Returns the identity of a key. Equal keys have the same identity. Two different keys share
    /// one with a probability of 2⁻¹²⁸, and clients cannot raise it by choosing keys.
    ///
    /// Cost: about a nanosecond per byte.
    pub fn identity(&self, key: &[u8]) -> u128 {
        let mut hasher = self.keyed;
        hasher.write(key);
        hasher.finish128().into()
    }
}

/// The hashes that represent a key in a summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyHash {
    /// [`KeyHasher::identity`] of the key.
    pub identity: u128,
    /// The hash of the key in the index. It cannot be computed from the identity.
    pub index: u64,
}

/// The kind of a record in a summary, with the fields of that kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SummaryKind {
    /// An item.
    Item {
        /// Its key.
        key: KeyHash,
        /// The second at which it expires, as a Unix time; `None`: never.
        deadline_unix_secs: Option<u64>,
    },
    /// The key was removed.
    Tombstone {
        /// The key.
        key: KeyHash,
    },
    /// All earlier items are removed.
    Flush,
    /// A flush that is due later.
    Delay {
        /// When it is due, as a Unix time.
        due_unix_secs: u64,
    },
    /// The newest item of a key was damaged.
    Lost {
        /// The position of the key in the catalog.
        place: u64,
    },
}

/// One record of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SummaryEntry {
    /// The address of the record.
    pub at: Address,
    /// Its length with its padding, in bytes.
    pub bytes: usize,
    /// Its kind.
    pub what: SummaryKind,
}

/// The reason why the end of a segment is not a valid summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SummaryFault {
    /// The last page of the segment does not end with a summary.
    #[error("the segment has no summary")]
    Absent,
    /// A summary of an older segment that used this extent.
    #[error("the summary belongs to an older segment that used this extent")]
    Earlier,
    /// The given bytes begin after the start of the summary.
    #[error(
        "the summary is longer than the bytes read: read the last {bytes} bytes of the segment"
    )]
    Longer {
        /// The length of the summary, in bytes: whole pages, at most a segment.
        bytes: usize,
    },
    /// The summary was only partly written, or was damaged later.
    #[error("the summary is damaged")]
    Broken,
    /// The checksum is correct, but an entry contains values that no release writes.
    #[error("entry {entry} of the summary is invalid")]
    Senseless {
        /// The number of the entry, from 0.
        entry: usize,
    },
}

/// The fixed fields at the end of a summary.
struct Trailer {
    count: usize,
    address: Address,
    units_end: usize,
    pages: usize,
    newest_version: u64,
    sealed_unix_secs: u64,
}

impl Trailer {
    fn write(&self, trailer: &mut [u8]) {
        put_u32(trailer, 4, MAGIC);
        put_u32(trailer, 8, VERSION_PLAIN);
        put_u32(trailer, 12, self.count as u32);
        put_u64(trailer, 16, self.address.stored());
        put_u32(trailer, 24, self.units_end as u32);
        put_u32(trailer, 28, self.pages as u32);
        put_u64(trailer, 32, self.newest_version);
        put_u64(trailer, 40, self.sealed_unix_secs);
    }

    fn read(number: SegmentNumber, trailer: &[u8]) -> Result<Self, SummaryFault> {
        if u32_at(trailer, 4) != MAGIC || u32_at(trailer, 8) != VERSION_PLAIN {
            return Err(SummaryFault::Absent);
        }
        let address = Address::from_stored(u64_at(trailer, 16)).ok_or(SummaryFault::Broken)?;
        if address.number() != number {
            return Err(SummaryFault::Earlier);
        }
        let read = Self {
            count: u32_at(trailer, 12) as usize,
            address,
            units_end: u32_at(trailer, 24) as usize,
            pages: u32_at(trailer, 28) as usize,
            newest_version: u64_at(trailer, 32),
            sealed_unix_secs: u64_at(trailer, 40),
        };
        let first = SEGMENT_PAGES.saturating_sub(read.pages);
        let is_placed = read.count <= SEGMENT_BYTES
            && read.pages == pages_of(read.count)
            && address.offset() == first * PAGE_BYTES
            && (1..first).contains(&read.units_end);
        if is_placed { Ok(read) } else { Err(SummaryFault::Broken) }
    }
}

/// Returns the number of pages in a summary with this many entries.
fn pages_of(count: usize) -> usize {
    (count * SUMMARY_ENTRY_BYTES + TRAILER_BYTES).div_ceil(PAGE_BYTES)
}

fn checksum(seal: &Seal, address: Address, entries: &[u8], trailer: &[u8]) -> u32 {
    seal.at(address, &[entries, &trailer[4..]])
}

impl SummaryEntry {
    fn write(&self, into: &mut Vec<u8>) {
        let none = KeyHash { identity: 0, index: 0 };
        let (kind, key, deadline) = match self.what {
            SummaryKind::Item { key, deadline_unix_secs } => {
                (ITEM, key, deadline_unix_secs.unwrap_or(0))
            }
            SummaryKind::Tombstone { key } => (TOMBSTONE, key, 0),
            SummaryKind::Flush => (FLUSH, none, 0),
            SummaryKind::Delay { due_unix_secs } => (DELAY, none, due_unix_secs),
            SummaryKind::Lost { place } => (LOST, none, place),
        };
        let place = (self.at.offset() / 8) as u32 | u32::from(kind) << 24;
        into.extend_from_slice(&key.identity.to_le_bytes());
        into.extend_from_slice(&key.index.to_le_bytes());
        into.extend_from_slice(&deadline.to_le_bytes());
        into.extend_from_slice(&place.to_le_bytes());
        into.extend_from_slice(&(self.bytes as u32).to_le_bytes());
    }

    /// Reads an entry. Returns `None` if the entry is invalid for a record between `from` and
    /// `end`, which are offsets in the segment.
    fn read(number: SegmentNumber, entry: &[u8], from: usize, end: usize) -> Option<Self> {
        let place = u32_at(entry, 32);
        let offset = (place & 0xFF_FFFF) as usize * 8;
        let bytes = u32_at(entry, 36) as usize;
        let fits = offset >= from && offset < end && bytes <= end - offset;
        if !fits || bytes < RECORD_HEADER_BYTES || !bytes.is_multiple_of(8) {
            return None;
        }
        let mut identity = [0; 16];
        identity.copy_from_slice(&entry[..16]);
        let key = KeyHash { identity: u128::from_le_bytes(identity), index: u64_at(entry, 16) };
        let deadline = u64_at(entry, 24);
        let has_no_key = key.identity == 0 && key.index == 0;
        let is_bare = has_no_key && bytes == RECORD_HEADER_BYTES;
        let what = match (place >> 24) as u8 {
            ITEM => SummaryKind::Item {
                key,
                deadline_unix_secs: Some(deadline).filter(|deadline| *deadline != 0),
            },
            TOMBSTONE if deadline == 0 => SummaryKind::Tombstone { key },
            FLUSH if is_bare && deadline == 0 => SummaryKind::Flush,
            DELAY if is_bare => SummaryKind::Delay { due_unix_secs: deadline },
            LOST if has_no_key => SummaryKind::Lost { place: deadline },
            _ => return None,
        };
        Some(Self { at: Address::new(number, offset), bytes, what })
    }
}

/// A valid summary. Each entry was checked.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The address of the summary.
    pub address: Address,
    /// The page after the last unit with records. The void unit that closes the segment is there.
    pub units_end: usize,
    /// The highest version of the segment's items; 0 if the segment has no items.
    pub newest_version: u64,
    /// When the segment was sealed, as a Unix time.
    pub sealed_unix_secs: u64,
    entries: &'a [u8],
}

impl<'a> Summary<'a> {
    /// Reads the summary of a segment. `end` contains the last bytes of the segment, any number of
    /// them.
    ///
    /// Cost: one pass over the summary for its checksum, one for its entries. Allocates nothing.
    ///
    /// # Errors
    ///
    /// [`SummaryFault`]. For [`SummaryFault::Longer`] the caller reads more of the segment and
    /// repeats the call.
    pub fn read(seal: &Seal, number: SegmentNumber, end: &'a [u8]) -> Result<Self, SummaryFault> {
        let (_, trailer) = end
            .split_last_chunk::<TRAILER_BYTES>()
            .ok_or(SummaryFault::Longer { bytes: PAGE_BYTES })?;
        let head = Trailer::read(number, trailer)?;
        let bytes = head.pages * PAGE_BYTES;
        let start = end.len().checked_sub(bytes).ok_or(SummaryFault::Longer { bytes })?;
        let body = &end[start..end.len() - TRAILER_BYTES];
        if checksum(seal, head.address, body, trailer) != u32_at(trailer, 0) {
            return Err(SummaryFault::Broken);
        }
        let entries = &body[..head.count * SUMMARY_ENTRY_BYTES];
        let mut from = PAGE_BYTES + UNIT_HEADER_BYTES;
        for (nth, entry) in entries.chunks_exact(SUMMARY_ENTRY_BYTES).enumerate() {
            let read = SummaryEntry::read(number, entry, from, head.units_end * PAGE_BYTES)
                .ok_or(SummaryFault::Senseless { entry: nth })?;
            from = read.at.offset() + read.bytes;
        }
        Ok(Self::of(&head, entries))
    }

    /// Returns the summary at the end of these bytes, which [`Summary::read`] has accepted before.
    ///
    /// Cost: a few loads.
    pub(crate) fn of_checked(number: SegmentNumber, end: &'a [u8]) -> Option<Self> {
        let (_, trailer) = end.split_last_chunk::<TRAILER_BYTES>()?;
        let head = Trailer::read(number, trailer).ok()?;
        let start = end.len().checked_sub(head.pages * PAGE_BYTES)?;
        Some(Self::of(&head, end.get(start..start + head.count * SUMMARY_ENTRY_BYTES)?))
    }

    fn of(head: &Trailer, entries: &'a [u8]) -> Self {
        Self {
            address: head.address,
            units_end: head.units_end,
            newest_version: head.newest_version,
            sealed_unix_secs: head.sealed_unix_secs,
            entries,
        }
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.entries.len() / SUMMARY_ENTRY_BYTES
    }

    /// Iterates over the records of the segment in order, without void records.
    pub fn entries(&self) -> SummaryEntries<'a> {
        SummaryEntries { number: self.address.number(), rest: self.entries }
    }
}

/// The entries of a summary.
#[derive(Clone, Debug)]
pub struct SummaryEntries<'a> {
    number: SegmentNumber,
    rest: &'a [u8],
}

impl Iterator for SummaryEntries<'_> {
    type Item = SummaryEntry;

    fn next(&mut self) -> Option<SummaryEntry> {
        let (entry, rest) = self.rest.split_at_checked(SUMMARY_ENTRY_BYTES)?;
        self.rest = rest;
        SummaryEntry::read(self.number, entry, 0, SEGMENT_BYTES)
    }
}

impl FusedIterator for SummaryEntries<'_> {}

/// Collects the summary of a segment while its records are written.
#[derive(Clone, Debug)]
pub struct SummaryWriter {
    number: SegmentNumber,
    entries: Vec<u8>,
    /// The offset in the segment after the last record.
    end: usize,
    newest_version: u64,
}

impl SummaryWriter {
    /// Begins the summary of a segment that has no records yet.
    pub fn new(number: SegmentNumber) -> Self {
        let end = PAGE_BYTES + UNIT_HEADER_BYTES;
        Self { number, entries: Vec::new(), end, newest_version: 0 }
    }

    /// Returns the number of entries.
    pub fn count(&self) -> usize {
        self.entries.len() / SUMMARY_ENTRY_BYTES
    }

    /// Returns the length of the summary with `more` entries, in pages. The segment is full when
    /// only these pages and one page for the void unit remain.
    pub fn pages_with(&self, more: usize) -> usize {
        pages_of(self.count() + more)
    }

    /// Adds the record at an address. Void records are ignored. `hash` computes the hashes of its
    /// key, if the record has one.
    ///
    /// # Panics
    ///
    /// If the record is in another segment, or not after the previous one.
    pub fn push(&mut self, at: Address, record: &Record<'_>, hash: impl Fn(&[u8]) -> KeyHash) {
        assert!(at.number() == self.number && at.offset() >= self.end, "{at} is out of order");
        let bytes = record.bytes();
        self.end = at.offset() + bytes;
        let what = match record {
            Record::Item(item) | Record::Compressed(CompressedItem { item, .. }) => {
                self.newest_version = self.newest_version.max(item.version);
                let deadline_unix_secs = item.deadline_unix_secs;
                SummaryKind::Item { key: hash(item.key), deadline_unix_secs }
            }
            Record::Tombstone { key } => SummaryKind::Tombstone { key: hash(key) },
            Record::Flush => SummaryKind::Flush,
            Record::Delay { due_unix_secs } => SummaryKind::Delay { due_unix_secs: *due_unix_secs },
            Record::Lost { place, .. } => SummaryKind::Lost { place: *place },
            Record::Void { .. } => return,
        };
        SummaryEntry { at, bytes, what }.write(&mut self.entries);
    }

    /// Writes the summary into the last pages of its segment. `units_end` is the page after the
    /// last unit.
    ///
    /// # Panics
    ///
    /// If the length of `into` is not the length that [`SummaryWriter::pages_with`] returns for 0
    /// more entries, if the units overlap the summary or the page of the void unit before it, or if
    /// the units end before the last record.
    pub fn write(&self, seal: &Seal, units_end: usize, now_unix_secs: u64, into: &mut [u8]) {
        let pages = self.pages_with(0);
        assert_eq!(into.len(), pages * PAGE_BYTES, "the summary has {pages} pages");
        assert!(units_end > 0 && units_end + pages < SEGMENT_PAGES, "no page for the void unit");
        assert!(
            self.count() == 0 || self.end <= units_end * PAGE_BYTES,
            "a record is behind its unit"
        );
        let address = Address::new(self.number, (SEGMENT_PAGES - pages) * PAGE_BYTES);
        let (body, trailer) = into.split_at_mut(pages * PAGE_BYTES - TRAILER_BYTES);
        let (entries, zeros) = body.split_at_mut(self.entries.len());
        entries.copy_from_slice(&self.entries);
        zeros.fill(0);
        trailer.fill(0);
        let head = Trailer {
            count: self.count(),
            address,
            units_end,
            pages,
            newest_version: self.newest_version,
            sealed_unix_secs: now_unix_secs,
        };
        head.write(trailer);
        let checksum = checksum(seal, address, body, trailer);
        put_u32(trailer, 0, checksum);
    }
}
