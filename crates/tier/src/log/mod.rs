//! The log's file: a sequence of extents of 4 MiB, each of which is free or contains one segment.
//!
//! A segment begins with a header and continues with units, which contain the records. The caller
//! decides into which extent and page each of them is written. One thread writes. Any number of
//! threads read.

mod fetch;

use std::slice;

use thiserror::Error;
use zerocopy::IntoBytes;

use crate::disk::{DiskError, File, PAGE_BYTES, Page, zeroed_page};
use crate::format::{
    Address, HeaderFault, Record, RecordFault, SEGMENT_PAGES, Seal, SegmentHeader, SegmentNumber,
    Unit,
};
pub(crate) use fetch::Fetch;

/// The position of a segment in the file: the extent `n` begins at n × 4 MiB.
pub type Extent = u32;

/// Name of the file in the directory.
pub const FILE_NAME: &str = "log";

/// The reason why a record was not read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The bytes are not the record that was written at this address.
    #[error("the record at {at} is damaged: {damage}")]
    Damaged {
        /// The address.
        at: Address,
        /// The kind of damage.
        damage: RecordFault,
    },
}

/// The reason why the header of an extent was not read.
#[derive(Debug, Error)]
pub enum HeaderError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log was written for another directory.
    #[error(
        "extent {extent} of the log belongs to another directory: MANIFEST and log were mixed up"
    )]
    Foreign {
        /// The extent.
        extent: Extent,
    },
    /// The header was damaged since it was written.
    #[error("the header of extent {extent} of the log is damaged")]
    Broken {
        /// The extent.
        extent: Extent,
    },
}

impl HeaderError {
    fn of(fault: HeaderFault, extent: Extent) -> Self {
        match fault {
            HeaderFault::Foreign(_) => Self::Foreign { extent },
            HeaderFault::Broken => Self::Broken { extent },
        }
    }
}

/// The log file.
#[derive(Debug)]
pub struct Log<F> {
    file: F,
    seal: Seal,
    extents: u32,
}

impl<F: File> Log<F> {
    /// Returns a log of `extents` extents. Each is empty or contains a segment.
    pub fn new(file: F, seal: Seal, extents: u32) -> Self {
        Self { file, seal, extents }
    }

    /// Returns the directory's seal. It computes the checksums of everything in the log.
    pub fn seal(&self) -> &Seal {
        &self.seal
    }

    /// Returns the file.
    pub(crate) fn file(&self) -> &F {
        &self.file
    }

    /// Returns the maximum number of extents in the file.
    pub fn extents(&self) -> u32 {
        self.extents
    }

    fn first_page(extent: Extent) -> u64 {
        u64::from(extent) * SEGMENT_PAGES as u64
    }

    /// Writes the header of a segment into an extent and replaces the header there. Durable after a
    /// sync.
    ///
    /// # Errors
    ///
    /// [`DiskError`]. The extent then has the old header, the new one, or no header.
    pub fn begin(&self, extent: Extent, header: &SegmentHeader) -> Result<(), DiskError> {
        self.write(extent, 0, slice::from_ref(&*header.page(&self.seal, extent)))
    }

    /// Writes a sealed unit. Durable after a sync.
    ///
    /// # Errors
    ///
    /// [`DiskError`]. The unit is then on the disk completely, in part, or not at all.
    pub fn write(&self, extent: Extent, page: usize, unit: &[Page]) -> Result<(), DiskError> {
        self.file.write_pages(Self::first_page(extent) + page as u64, unit)
    }

    /// Closes a segment: writes a void unit, which marks `page` and all later pages as empty.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub fn shut(
        &self,
        extent: Extent,
        number: SegmentNumber,
        page: usize,
        now_unix_secs: u64,
    ) -> Result<(), DiskError> {
        let void = Unit::void(&self.seal, number, page, now_unix_secs);
        self.write(extent, page, slice::from_ref(&*void))
    }

    /// Overwrites the header of a segment to free its extent. After the next sync the extent
    /// contains no segment. Only then may the caller begin another segment in it.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub fn erase(&self, extent: Extent, number: SegmentNumber) -> Result<(), DiskError> {
        let header = SegmentHeader { number, previous: None, delay: None };
        self.write(extent, 0, slice::from_ref(&*header.page_of_freed(&self.seal, extent)))
    }

    /// Makes everything durable that was written before the call.
    ///
    /// # Errors
    ///
    /// [`DiskError`]. It is final: after it the caller must neither write nor sync.
    pub fn sync(&self) -> Result<(), DiskError> {
        self.file.sync_data()
    }

    /// Makes the next reads come from the disk, not from the kernel's page cache.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub fn drop_cached(&self) -> Result<(), DiskError> {
        self.file.drop_cached()
    }

    /// Fills an extent with zeros. This allocates its space and makes later syncs cheap.
    ///
    /// Cost: writes 4 MiB.
    ///
    /// # Errors
    ///
    /// [`DiskError::is_full`] if the file system has no space. The extent then uses no space.
    pub fn allocate(&self, extent: Extent) -> Result<(), DiskError> {
        self.file.allocate(Self::first_page(extent), SEGMENT_PAGES as u64)
    }

    /// Returns the space of a free extent to the file system.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub(crate) fn deallocate(&self, extent: Extent) -> Result<(), DiskError> {
        self.file.deallocate(Self::first_page(extent), SEGMENT_PAGES as u64)
    }

    /// Returns the free space of the file system, in bytes.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub(crate) fn free_bytes(&self) -> Result<u64, DiskError> {
        Ok(self.file.space()?.free_bytes)
    }

    /// Reads the header of an extent. Returns `None` if the extent contains no segment.
    ///
    /// # Errors
    ///
    /// [`HeaderError`].
    pub fn header(&self, extent: Extent) -> Result<Option<SegmentHeader>, HeaderError> {
        let mut page = zeroed_page();
        self.read(extent, 0, slice::from_mut(&mut *page))?;
        SegmentHeader::read(&self.seal, extent, page.bytes())
            .map_err(|fault| HeaderError::of(fault, extent))
    }

    /// Reads the header of an extent after one of its bits was flipped. Returns the outer `None` if
    /// a single flipped bit does not explain the damage.
    pub(crate) fn flipped_header(&self, extent: Extent) -> Option<Option<SegmentHeader>> {
        let mut page = zeroed_page();
        self.read(extent, 0, slice::from_mut(&mut *page)).ok()?;
        SegmentHeader::read_flipped(&self.seal, extent, page.bytes())
    }

    /// Reads a complete segment.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub(crate) fn segment(&self, extent: Extent, into: &mut [Page]) -> Result<(), DiskError> {
        self.read(extent, 0, &mut into[..SEGMENT_PAGES])
    }

    /// Reads pages of an extent.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub(crate) fn read(
        &self,
        extent: Extent,
        page: usize,
        into: &mut [Page],
    ) -> Result<(), DiskError> {
        self.file.read_pages(Self::first_page(extent) + page as u64, into)
    }

    /// Reads pages of the file.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub(crate) fn read_pages(
        &self,
        first: u64,
        mut pages: Vec<Page>,
    ) -> Result<Vec<Page>, DiskError> {
        self.file.read_pages(first, &mut pages)?;
        Ok(pages)
    }

    /// Returns the record in the pages that a fetch has read.
    ///
    /// Cost: one pass over it.
    ///
    /// # Errors
    ///
    /// [`ReadError::Damaged`].
    pub(crate) fn record<'p>(
        &self,
        fetch: &Fetch,
        pages: &'p [Page],
    ) -> Result<Record<'p>, ReadError> {
        let at = fetch.at;
        Record::read(&self.seal, at, &pages.as_bytes()[at.offset() % PAGE_BYTES..])
            .map_err(|damage| ReadError::Damaged { at, damage })
    }

    /// Reads a record. `content_bytes` is the expected length of its key and value together.
    ///
    /// `extent` is the extent that contains the segment of the address. Reclaim may reuse the
    /// extent for another segment during the read. The caller must therefore check before and after
    /// the call that the extent contains the same segment.
    ///
    /// Cost: one read of the pages that contain the record, and one pass over the record. If
    /// `content_bytes` is too small, a second read.
    ///
    /// # Errors
    ///
    /// [`ReadError`].
    pub fn fetch<'p>(
        &self,
        extent: Extent,
        at: Address,
        content_bytes: usize,
        pages: &'p mut Vec<Page>,
    ) -> Result<Record<'p>, ReadError> {
        let mut fetch = Fetch::new(extent, at, content_bytes);
        *pages = self.read_pages(fetch.first_page(), fetch.pages())?;
        if let Some(longer) = fetch.longer(pages) {
            fetch = longer;
            *pages = self.read_pages(fetch.first_page(), fetch.pages())?;
        }
        self.record(&fetch, pages)
    }
}
