//! The segment header: the first page of a segment.
//!
//! ```text
//! ┌────────────┬─────────┬───────────┬─────────┬──────────┬────────────┬──────────┬─────────┬─────┐
//! │ checksum 4 │ magic 4 │ version 4 │ state 4 │ number 8 │ previous 8 │ delay 16 │ uuid 16 │ 0…  │
//! └────────────┴─────────┴───────────┴─────────┴──────────┴────────────┴──────────┴─────────┴─────┘
//! ```

use crate::disk::{PAGE_BYTES, Page, zeroed_page};
use crate::format::bytes::{put_u32, put_u64, u32_at, u64_at};
use crate::format::{Address, Seal, SegmentNumber, Uuid, VERSION_PLAIN, flip};

const MAGIC: u32 = u32::from_le_bytes(*b"LrdS");
const LIVE: u32 = 1;
const FREE: u32 = 2;
const UUID_AT: usize = 48;

/// A delayed flush that is pending.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    /// The address of its record.
    pub at: Address,
    /// When it is due, as a Unix time.
    pub due_unix_secs: u64,
}

/// The reason why the first page of an extent is not valid. A valid page is a segment header or the
/// page of a free extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderFault {
    /// The page was written for another directory.
    Foreign(Uuid),
    /// The page was damaged after it was written. A power loss cannot cause this: all fields are in
    /// one sector, so the page has the old header or the new one.
    Broken,
}

/// The content of a segment header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The segment's number.
    pub number: SegmentNumber,
    /// The number of the previous segment in the log; `None` for the first one.
    pub previous: Option<SegmentNumber>,
    /// The delayed flush that was pending when the segment began.
    pub delay: Option<Delay>,
}

impl SegmentHeader {
    /// Returns the header page of a live segment.
    pub fn page(&self, seal: &Seal, extent: u32) -> Box<Page> {
        self.page_as(LIVE, seal, extent)
    }

    /// Returns the header page of a freed segment.
    pub fn page_of_freed(&self, seal: &Seal, extent: u32) -> Box<Page> {
        self.page_as(FREE, seal, extent)
    }

    fn page_as(&self, state: u32, seal: &Seal, extent: u32) -> Box<Page> {
        let mut whole = zeroed_page();
        let page = whole.bytes_mut();
        put_u32(page, 4, MAGIC);
        put_u32(page, 8, VERSION_PLAIN);
        put_u32(page, 12, state);
        put_u64(page, 16, self.number.stored());
        put_u64(page, 24, self.previous.map_or(0, SegmentNumber::stored));
        put_u64(page, 32, self.delay.map_or(0, |delay| delay.at.stored()));
        put_u64(page, 40, self.delay.map_or(0, |delay| delay.due_unix_secs));
        page[UUID_AT..UUID_AT + 16].copy_from_slice(&seal.uuid().0);
        let checksum = seal.in_extent(extent, &[&page[4..]]);
        put_u32(page, 0, checksum);
        whole
    }

    /// Reads the first page of an extent. Returns `None` if the extent contains no segment because
    /// it was never used or was freed.
    ///
    /// # Errors
    ///
    /// [`HeaderFault`].
    pub fn read(seal: &Seal, extent: u32, page: &[u8]) -> Result<Option<Self>, HeaderFault> {
        let page = page.get(..PAGE_BYTES).ok_or(HeaderFault::Broken)?;
        if page.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut uuid = Uuid([0; 16]);
        uuid.0.copy_from_slice(&page[UUID_AT..UUID_AT + 16]);
        if Seal::of(uuid).in_extent(extent, &[&page[4..]]) != u32_at(page, 0) {
            return Err(HeaderFault::Broken);
        }
        if uuid != seal.uuid() {
            return Err(HeaderFault::Foreign(uuid));
        }
        Self::of_whole(page)
    }

    /// Same as [`SegmentHeader::read`], but repairs one flipped bit first. Returns the outer `None`
    /// if a single flipped bit does not explain the damage.
    pub(crate) fn read_flipped(seal: &Seal, extent: u32, page: &[u8]) -> Option<Option<Self>> {
        let mut mended = page.get(..PAGE_BYTES)?.to_vec();
        if mended.iter().map(|byte| byte.count_ones()).sum::<u32>() == 1 {
            // The page was all zeros: the extent was never used.
            return Some(None);
        }
        let (found, stored) = (seal.in_extent(extent, &[&page[4..]]), u32_at(page, 0));
        if !flip::mend(&mut mended[4..], found, stored) {
            return None;
        }
        let is_ours = mended[UUID_AT..UUID_AT + 16] == seal.uuid().0;
        let is_padded = mended[UUID_AT + 16..].iter().all(|byte| *byte == 0);
        Self::of_whole(&mended).ok().filter(|_| is_ours && is_padded)
    }

    /// Reads a page whose checksum was verified.
    fn of_whole(page: &[u8]) -> Result<Option<Self>, HeaderFault> {
        let known = u32_at(page, 4) == MAGIC && u32_at(page, 8) == VERSION_PLAIN;
        let number = SegmentNumber::from_stored(u64_at(page, 16));
        let number = match u32_at(page, 12) {
            LIVE if known && number.is_some() => number,
            FREE if known => None,
            _ => return Err(HeaderFault::Broken),
        };
        let delay = Address::from_stored(u64_at(page, 32))
            .map(|at| Delay { at, due_unix_secs: u64_at(page, 40) });
        let previous = SegmentNumber::from_stored(u64_at(page, 24));
        Ok(number.map(|number| Self { number, previous, delay }))
    }
}
