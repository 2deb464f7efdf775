//! Units: groups of records that are written in one operation.
//!
//! ```text
//! ┌────────────┬─────────┬────────┬─────────┬───────────┬──────────────────┬─────────────┬────────────────┬─────────┬─────────┬─────┐
//! │ checksum 4 │ magic 4 │ kind 4 │ pages 4 │ address 8 │ synced through 8 │ sealed at 8 │ record bytes 4 │ zeros 4 │ records │ 0…  │
//! └────────────┴─────────┴────────┴─────────┴───────────┴──────────────────┴─────────────┴────────────────┴─────────┴─────────┴─────┘
//! ```
//!
//! A unit begins and ends at page boundaries. The checksum covers the header and the records. A
//! void unit is one page. It marks all pages up to the end of its segment as empty.

use std::iter::FusedIterator;

use zerocopy::IntoBytes;

use crate::disk::{PAGE_BYTES, Page, resize_pages, zeroed_page, zeroed_pages};
use crate::format::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::format::{
    Address, Record, RecordFault, SEGMENT_BYTES, SEGMENT_PAGES, Seal, SegmentNumber, flip,
};

/// Length of a unit before its first record, in bytes.
pub const UNIT_HEADER_BYTES: usize = 48;

const MAGIC: u32 = u32::from_le_bytes(*b"LrdU");
const RECORDS: u32 = 1;
const VOID: u32 = 2;

/// The reason why a page of a segment is not the start of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnitFault {
    /// The page is blank: probably no unit was ever written here.
    Blank,
    /// A unit of an older segment that used this extent.
    Earlier,
    /// A unit that was only partly written, or was damaged later.
    Broken,
}

/// The fixed fields of a unit.
struct RawHeader {
    kind: u32,
    pages: usize,
    address: Address,
    synced_through: Option<Address>,
    sealed_unix_secs: u64,
    record_bytes: usize,
}

impl RawHeader {
    fn write(&self, page: &mut [u8]) {
        put_u32(page, 4, MAGIC);
        put_u32(page, 8, self.kind);
        put_u32(page, 12, self.pages as u32);
        put_u64(page, 16, self.address.stored());
        put_u64(page, 24, self.synced_through.map_or(0, Address::stored));
        put_u64(page, 32, self.sealed_unix_secs);
        put_u32(page, 40, self.record_bytes as u32);
        put_u32(page, 44, 0);
    }

    /// Reads the header of the unit at a page of a segment, without checking the checksum. Returns
    /// it with the bytes from the unit on, which contain all of its records.
    fn read(
        number: SegmentNumber,
        page: usize,
        segment: &[u8],
    ) -> Result<(Self, &[u8]), UnitFault> {
        if page >= SEGMENT_PAGES {
            return Err(UnitFault::Blank);
        }
        let offset = page * PAGE_BYTES;
        let unit = segment.get(offset..).unwrap_or_default();
        let header = unit.get(..UNIT_HEADER_BYTES).ok_or(UnitFault::Blank)?;
        if u32_at(header, 4) != MAGIC {
            let blank = header.iter().all(|byte| *byte == 0);
            return Err(if blank { UnitFault::Blank } else { UnitFault::Broken });
        }
        let address = Address::new(number, offset);
        if u64_at(header, 16) != address.stored() {
            return Err(UnitFault::Earlier);
        }
        let head = Self {
            kind: u32_at(header, 8),
            pages: u32_at(header, 12) as usize,
            address,
            synced_through: Address::from_stored(u64_at(header, 24)),
            sealed_unix_secs: u64_at(header, 32),
            record_bytes: u32_at(header, 40) as usize,
        };
        let end = UNIT_HEADER_BYTES.checked_add(head.record_bytes).ok_or(UnitFault::Broken)?;
        let fits = (1..=SEGMENT_PAGES - page).contains(&head.pages)
            && end <= (head.pages * PAGE_BYTES).min(unit.len())
            && matches!(head.kind, RECORDS | VOID);
        if fits { Ok((head, unit)) } else { Err(UnitFault::Broken) }
    }

    /// Returns the checksum of the unit that begins with these bytes.
    fn checksum(&self, seal: &Seal, unit: &[u8]) -> u32 {
        seal.at(self.address, &[&unit[4..UNIT_HEADER_BYTES + self.record_bytes]])
    }
}

/// A unit that was read from the log.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// The address of the unit.
    pub address: Address,
    /// The pages that it covers.
    pub pages: usize,
    /// Everything below this address was durable when the unit was written.
    pub synced_through: Option<Address>,
    /// When the unit was sealed, as a Unix time.
    pub sealed_unix_secs: u64,
    /// True for a void unit: the rest of the segment contains no records.
    pub is_void: bool,
    records: &'a [u8],
}

impl<'a> Unit<'a> {
    /// Reads the unit that begins at a page of a segment. `segment` contains the bytes of the
    /// segment from its start. It may be incomplete.
    ///
    /// Cost: one pass over the unit.
    ///
    /// # Errors
    ///
    /// [`UnitFault`] if no valid unit begins here.
    pub fn read(
        seal: &Seal,
        number: SegmentNumber,
        page: usize,
        segment: &'a [u8],
    ) -> Result<Self, UnitFault> {
        let (head, unit) = RawHeader::read(number, page, segment)?;
        match head.checksum(seal, unit) == u32_at(unit, 0) {
            true => Ok(Self::of(&head, unit)),
            false => Err(UnitFault::Broken),
        }
    }

    /// Same as [`Unit::read`], for a unit that [`Unit::read`] has accepted before.
    ///
    /// Cost: a few loads.
    pub(crate) fn of_checked(
        number: SegmentNumber,
        page: usize,
        segment: &'a [u8],
    ) -> Option<Self> {
        let (head, unit) = RawHeader::read(number, page, segment).ok()?;
        Some(Self::of(&head, unit))
    }

    /// Returns the unit with this header, which begins with these bytes.
    fn of(head: &RawHeader, unit: &'a [u8]) -> Self {
        Self {
            address: head.address,
            pages: head.pages,
            synced_through: head.synced_through,
            sealed_unix_secs: head.sealed_unix_secs,
            is_void: head.kind == VOID,
            records: &unit[UNIT_HEADER_BYTES..UNIT_HEADER_BYTES + head.record_bytes],
        }
    }

    /// Returns the segment number stored in the unit header at `page`, without checking its
    /// checksum. Returns `None` if the page does not begin with a unit header for this position.
    pub(crate) fn claimed(page: usize, segment: &[u8]) -> Option<SegmentNumber> {
        let header = segment.get(page * PAGE_BYTES..)?.get(..UNIT_HEADER_BYTES)?;
        let at = Address::from_stored(u64_at(header, 16))?;
        (u32_at(header, 4) == MAGIC && at.offset() == page * PAGE_BYTES).then(|| at.number())
    }

    /// Returns the void unit that closes a segment at `page`.
    pub fn void(seal: &Seal, number: SegmentNumber, page: usize, now_unix_secs: u64) -> Box<Page> {
        let mut bytes = zeroed_page();
        let head = RawHeader {
            kind: VOID,
            pages: SEGMENT_PAGES - page,
            address: Address::new(number, page * PAGE_BYTES),
            synced_through: None,
            sealed_unix_secs: now_unix_secs,
            record_bytes: 0,
        };
        head.write(bytes.bytes_mut());
        let checksum = head.checksum(seal, bytes.bytes());
        put_u32(bytes.bytes_mut(), 0, checksum);
        bytes
    }

    /// True if the page contains a void unit with one flipped bit.
    pub(crate) fn is_flipped_void(
        seal: &Seal,
        number: SegmentNumber,
        page: usize,
        segment: &[u8],
    ) -> bool {
        let offset = page * PAGE_BYTES;
        let Some(header) = segment.get(offset..offset + UNIT_HEADER_BYTES) else { return false };
        let mut mended = header.to_vec();
        let found = seal.at(Address::new(number, offset), &[&header[4..]]);
        if !flip::mend(&mut mended[4..], found, u32_at(header, 0)) {
            return false;
        }
        let sealed_unix_secs = u64_at(&mended, 32);
        mended[4..]
            == Self::void(seal, number, page, sealed_unix_secs).bytes()[4..UNIT_HEADER_BYTES]
    }

    /// Iterates over the records with their addresses, in order.
    pub fn records(&self) -> Records<'a> {
        Records { unit: self.address, rest: self.records, at: UNIT_HEADER_BYTES }
    }
}

/// The records of a unit. The iterator ends after an error.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    unit: Address,
    rest: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<(Address, Record<'a>), RecordFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let address = Address::new(self.unit.number(), self.unit.offset() + self.at);
        let record = Record::decode(self.rest);
        match &record {
            Ok(record) => {
                self.rest = &self.rest[record.bytes()..];
                self.at += record.bytes();
            }
            Err(_) => self.rest = &[],
        }
        Some(record.map(|record| (address, record)))
    }
}

impl FusedIterator for Records<'_> {}

/// Collects records into a unit. Its buffer grows with them.
#[derive(Debug)]
pub struct UnitWriter {
    address: Address,
    pages: Vec<Page>,
    pages_max: usize,
    /// The offset in the unit after the last record.
    end: usize,
    seal: Seal,
}

impl UnitWriter {
    /// Begins a unit at a page of a segment. The unit has at most `pages` pages, and never extends
    /// past the end of the segment.
    ///
    /// # Panics
    ///
    /// If `page` is the header page or is past the end of the segment.
    pub fn new(seal: &Seal, number: SegmentNumber, page: usize, pages: usize) -> Self {
        assert!(page > 0, "page 0 of a segment is its header");
        let pages_max = pages.min(SEGMENT_PAGES - page);
        Self {
            address: Address::new(number, page * PAGE_BYTES),
            pages: zeroed_pages(pages_max.min(1)),
            pages_max,
            end: UNIT_HEADER_BYTES,
            seal: seal.clone(),
        }
    }

    /// Returns the address of the unit.
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the current length of the unit, in pages.
    pub fn pages(&self) -> usize {
        self.end.div_ceil(PAGE_BYTES)
    }

    /// Returns the length of the unit with another record, in pages.
    pub(crate) fn pages_with(&self, record: &Record<'_>) -> usize {
        (self.end + record.bytes()).div_ceil(PAGE_BYTES)
    }

    /// Returns the record that was added at an address, or `None`.
    pub fn record(&self, at: Address) -> Option<Record<'_>> {
        let within = at.stored().checked_sub(self.address.stored())? as usize * 8;
        Record::decode(self.pages.as_bytes().get(within..self.end)?).ok()
    }

    /// True if no record was added.
    pub fn is_empty(&self) -> bool {
        self.end == UNIT_HEADER_BYTES
    }

    /// Returns the address of the next record, if the unit has space for it.
    pub fn next_address(&self) -> Option<Address> {
        let offset = self.address.offset() + self.end;
        (offset < SEGMENT_BYTES).then(|| Address::new(self.address.number(), offset))
    }

    /// Adds a record and returns its address. Returns `None` if the unit is full.
    pub fn push(&mut self, record: &Record<'_>) -> Option<Address> {
        let at = self.next_address()?;
        let end = self.end + record.bytes();
        if end > self.pages_max * PAGE_BYTES {
            return None;
        }
        if end > self.pages.len() * PAGE_BYTES {
            let doubled = (self.pages.len() * 2).min(self.pages_max);
            resize_pages(&mut self.pages, doubled.max(end.div_ceil(PAGE_BYTES)));
        }
        let room = &mut self.pages.as_mut_bytes()[self.end..end];
        record.write(&self.seal, at, room);
        self.end = end;
        Some(at)
    }

    /// Finishes the unit and returns its pages.
    pub fn seal(self, synced_through: Option<Address>, now_unix_secs: u64) -> Vec<Page> {
        let pages = self.end.div_ceil(PAGE_BYTES);
        self.seal_over(pages, synced_through, now_unix_secs)
    }

    /// Finishes a unit that covers `pages` pages. Readers ignore the content of the covered pages
    /// after the last record. Returns only the pages that contain the header and records.
    pub(crate) fn seal_over(
        mut self,
        pages: usize,
        synced_through: Option<Address>,
        now_unix_secs: u64,
    ) -> Vec<Page> {
        self.pages.truncate(self.end.div_ceil(PAGE_BYTES));
        let head = RawHeader {
            kind: RECORDS,
            pages,
            address: self.address,
            synced_through,
            sealed_unix_secs: now_unix_secs,
            record_bytes: self.end - UNIT_HEADER_BYTES,
        };
        let bytes = self.pages.as_mut_bytes();
        head.write(bytes);
        let checksum = head.checksum(&self.seal, bytes);
        put_u32(bytes, 0, checksum);
        self.pages
    }
}
