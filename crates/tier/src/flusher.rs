//! The flusher: the only writer of a log. It enforces the order of writes and syncs.
//!
//! The flusher collects records into *units* and writes each unit with one write into the *open*
//! segment, the last segment of the log. A power loss may keep any subset of the writes since the
//! last sync. Recovery can restore the log only if some writes are durable before others, for
//! example the header of a segment before the next segment begins. The flusher syncs where this is
//! required, in whatever order its functions are called. `// Rule:` comments name the rules of the
//! model in `tests/it/model/rules.rs`. The caller passes records in the order of their addresses.

use std::fmt;

use thiserror::Error;
use zerocopy::IntoBytes;

use crate::disk::{Directory, DiskError, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{
    Address, Record, SEGMENT_PAGES, SegmentHeader, SegmentNumber, SummaryWriter, UnitWriter,
};
use crate::log::Extent;
use crate::tier::{Lease, OpenError, Tier};

/// The reason why the flusher did not do what the caller requested. After [`FlushError::Disk`] or
/// [`FlushError::Lease`] all later calls fail.
#[derive(Debug, Error)]
pub enum FlushError {
    /// The disk failed. The last writes may or may not be durable.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The lease of segment numbers failed.
    #[error(transparent)]
    Lease(#[from] OpenError),
    /// The segment was not freed, because the copies of its records are not written yet. Nothing
    /// was changed. The flusher continues to work.
    #[error(
        "the segment is not freed: the copies of its records, up to {judged}, are not written yet"
    )]
    NotWritten {
        /// The address of the last record in the log when reclaim examined the segment. The copies
        /// of the segment's records are not after this address.
        judged: Address,
    },
    /// The file system has no space for another segment. Nothing is lost. The flusher continues to
    /// work.
    #[error("the disk is full: {path} has no space for another segment")]
    Full {
        /// The directory.
        path: String,
    },
    /// An earlier call failed.
    #[error("an earlier error stopped all writes to the log")]
    Failed,
}

/// The result of a sync.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SyncResult {
    /// Everything below this address is durable; `None` before the first record.
    pub through: Option<Address>,
    /// The freed extents. They may begin a segment from now on.
    pub freed: Vec<Extent>,
}

/// The segment to which records are appended.
#[derive(Debug)]
struct Open {
    extent: Extent,
    number: SegmentNumber,
    next_page: usize,
}

impl Open {
    /// Returns the address after the last unit, or after the segment.
    fn end(&self) -> Address {
        match self.next_page {
            SEGMENT_PAGES => {
                let last = self.number.further(1).unwrap_or(self.number);
                Address::new(last, 0)
            }
            page => Address::new(self.number, page * PAGE_BYTES),
        }
    }
}

/// A closed segment whose summary is not written yet.
#[derive(Debug)]
struct ClosedSegment {
    extent: Extent,
    number: SegmentNumber,
    /// The page after its last unit with records.
    units_end: usize,
    summary: SummaryWriter,
    /// True if everything in the segment is durable.
    is_durable: bool,
}

/// The only writer of a log.
pub struct Flusher<D: Directory> {
    tier: Tier<D>,
    open: Option<Open>,
    /// The unit to which [`Flusher::push`] adds records.
    unit: Option<UnitWriter>,
    /// The summary of the open segment, if the caller has passed it.
    summary: Option<SummaryWriter>,
    closed: Vec<ClosedSegment>,
    /// True if the header of the last segment that was begun is durable.
    is_header_durable: bool,
    /// Everything below this address is durable.
    through: Option<Address>,
    /// The extents that were erased since the last sync. They can be reused after the next sync.
    erasing: Vec<Extent>,
    has_failed: bool,
}

impl<D: Directory> fmt::Debug for Flusher<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, through, has_failed, .. } = self;
        f.debug_struct("Flusher")
            .field("open", open)
            .field("through", through)
            .field("has_failed", has_failed)
            .finish_non_exhaustive()
    }
}

impl<D: Directory> Flusher<D> {
    /// Returns a flusher that continues an existing log. Its first record begins a new segment.
    pub fn new(tier: Tier<D>) -> Self {
        Self {
            through: tier.manifest().durable,
            tier,
            open: None,
            unit: None,
            summary: None,
            closed: Vec::new(),
            is_header_durable: true,
            erasing: Vec::new(),
            has_failed: false,
        }
    }

    /// Returns the directory.
    pub fn tier(&self) -> &Tier<D> {
        &self.tier
    }

    /// Sets how far the log's time is ahead of the system clock ([`Tier::note_ahead`]).
    pub fn note_ahead(&mut self, ahead_secs: i64) {
        self.tier.note_ahead(ahead_secs);
    }

    /// True after an error. The flusher then neither writes nor syncs.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Calls `act`, unless an earlier call failed.
    fn unless_failed<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, FlushError>,
    ) -> Result<T, FlushError> {
        // Rule: ErrorIsFinal
        if self.has_failed {
            return Err(FlushError::Failed);
        }
        let done = act(self);
        self.has_failed = done.is_err();
        done
    }

    /// Leases segment numbers.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub fn lease(&mut self, count: u64) -> Result<Lease, FlushError> {
        self.unless_failed(|flusher| Ok(flusher.tier.lease(count)?))
    }

    /// Adds a dictionary to the directory, durably. Records may name it afterwards. A full disk
    /// changes nothing.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub(crate) fn add_dictionary(&mut self, dictionary: Vec<u8>) -> Result<(), FlushError> {
        self.unless_failed(|flusher| match flusher.tier.add_dictionary(dictionary) {
            Err(OpenError::Disk(error)) if error.is_full() => Ok(()),
            added => Ok(added?),
        })
    }

    /// Allocates the space of a free extent and fills it with zeros. A segment in this extent
    /// cannot run out of disk space, and its syncs, except for the first, write no metadata of the
    /// file system.
    ///
    /// Cost: writes 4 MiB. Each extent needs this once, before its first segment.
    ///
    /// # Errors
    ///
    /// [`FlushError::Full`], after which the flusher continues to work. Other errors are final.
    pub fn prepare(&mut self, extent: Extent) -> Result<(), FlushError> {
        if self.has_failed {
            return Err(FlushError::Failed);
        }
        match self.tier.log().allocate(extent) {
            Err(error) if error.is_full() => Err(FlushError::Full { path: self.tier.path() }),
            prepared => self.unless_failed(|_| Ok(prepared?)),
        }
    }

    /// Closes the open segment, and begins a segment in a free extent. Syncs first if the header of
    /// the previous segment is not durable.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub fn begin_segment(
        &mut self,
        extent: Extent,
        header: &SegmentHeader,
        now_unix_secs: u64,
    ) -> Result<(), FlushError> {
        self.unless_failed(|flusher| {
            flusher.shut(now_unix_secs)?;
            // Rule: HeaderBeforeNext
            if !flusher.is_header_durable {
                flusher.tier.log().sync()?;
            }
            flusher.tier.log().begin(extent, header)?;
            flusher.is_header_durable = false;
            flusher.open = Some(Open { extent, number: header.number, next_page: 1 });
            Ok(())
        })
    }

    /// Passes the summary of the open segment. The caller closes the segment next, and must have
    /// left space for the summary. [`Flusher::write_summaries`] writes it.
    pub fn summarize(&mut self, summary: SummaryWriter) {
        self.summary = Some(summary);
    }

    /// Writes the summaries of closed segments. Returns the number of pages that it wrote.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub fn write_summaries(&mut self, now_unix_secs: u64) -> Result<usize, FlushError> {
        self.unless_failed(|flusher| {
            let mut written = 0;
            // With the summary, recovery does not read the units. So none of them may be lost.
            // Rule: SummaryAfterSync
            for closed in flusher.closed.extract_if(.., |closed| closed.is_durable) {
                let ClosedSegment { extent, units_end, summary, .. } = closed;
                let log = flusher.tier.log();
                let count = summary.pages_with(0);
                let mut pages = zeroed_pages(count);
                summary.write(log.seal(), units_end, now_unix_secs, pages.as_mut_bytes());
                log.write(extent, SEGMENT_PAGES - count, &pages)?;
                written += count;
            }
            Ok(written)
        })
    }

    /// Returns the number of pages left in the open segment; 0 if no segment is open.
    pub fn pages_left(&self) -> usize {
        self.open.as_ref().map_or(0, |open| SEGMENT_PAGES - open.next_page)
    }

    /// Adds a record to the next unit, which has up to `unit_pages` pages. Returns its address, or
    /// `None` if the unit is full. The caller must then write the unit, and begin a segment if the
    /// open one is full.
    ///
    /// # Panics
    ///
    /// If no segment is open, or the open one is full.
    pub fn push(&mut self, record: &Record<'_>, unit_pages: usize) -> Option<Address> {
        let open = self.open.as_ref().unwrap_or_else(|| panic!("no segment is open"));
        let seal = self.tier.log().seal();
        let begin = || UnitWriter::new(seal, open.number, open.next_page, unit_pages);
        self.unit.get_or_insert_with(begin).push(record)
    }

    /// Finishes the unit and writes it. Durable after a sync.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub fn write(&mut self, now_unix_secs: u64) -> Result<(), FlushError> {
        self.unless_failed(|flusher| flusher.write_unit(now_unix_secs))
    }

    fn write_unit(&mut self, now_unix_secs: u64) -> Result<(), FlushError> {
        let Some(unit) = self.unit.take().filter(|unit| !unit.is_empty()) else { return Ok(()) };
        let pages = unit.seal(self.through, now_unix_secs);
        self.write_pages(&pages)
    }

    /// Writes a unit that the caller sealed for the next page of the open segment.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    ///
    /// # Panics
    ///
    /// If no segment is open.
    pub fn write_sealed(&mut self, unit: &[Page]) -> Result<(), FlushError> {
        assert!(self.open.is_some() && self.unit.is_none(), "a sealed unit has an open segment");
        self.unless_failed(|flusher| flusher.write_pages(unit))
    }

    fn write_pages(&mut self, unit: &[Page]) -> Result<(), FlushError> {
        let Some(open) = &mut self.open else { return Ok(()) };
        self.tier.log().write(open.extent, open.next_page, unit)?;
        open.next_page += unit.len();
        Ok(())
    }

    /// Closes the open segment after writing its last unit.
    fn shut(&mut self, now_unix_secs: u64) -> Result<(), FlushError> {
        self.write_unit(now_unix_secs)?;
        let summary = self.summary.take();
        let Some(Open { extent, number, next_page }) = self.open.take() else { return Ok(()) };
        if next_page < SEGMENT_PAGES {
            self.tier.log().shut(extent, number, next_page, now_unix_secs)?;
        }
        self.closed.extend(summary.map(|summary| ClosedSegment {
            extent,
            number,
            units_end: next_page,
            summary,
            is_durable: false,
        }));
        Ok(())
    }

    /// Makes all writes durable. Responses are sent only after this.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub fn sync(&mut self) -> Result<SyncResult, FlushError> {
        self.unless_failed(|flusher| {
            flusher.tier.log().sync()?;
            flusher.is_header_durable = true;
            flusher.closed.iter_mut().for_each(|closed| closed.is_durable = true);
            if let Some(open) = &flusher.open {
                flusher.through = Some(open.end());
            }
            // Rule: EraseBeforeReuse
            let freed = std::mem::take(&mut flusher.erasing);
            Ok(SyncResult { through: flusher.through, freed })
        })
    }

    /// Ends the log: writes the last unit, closes the segment and marks the stop as clean
    /// ([`Tier::mark_clean`]).
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub fn end(&mut self, now_unix_secs: u64) -> Result<(), FlushError> {
        self.unless_failed(|flusher| flusher.shut(now_unix_secs))?;
        self.sync()?;
        self.unless_failed(|flusher| Ok(flusher.tier.mark_clean(flusher.through)?))
    }

    /// Frees a segment whose records are all dead or copied. `judged` is the address of the last
    /// record in the log when reclaim examined the segment's last record, so all copies are durable
    /// once `judged` is. The flusher makes them durable before it erases the segment; a power loss
    /// could otherwise lose the copies and keep the erasure. It also makes the previous erasure
    /// durable first, because the log must not have a gap. The extent can be reused when a later
    /// sync returns it.
    ///
    /// # Errors
    ///
    /// [`FlushError`]; [`FlushError::NotWritten`] if `judged` is in a unit that is not written.
    pub fn give_up(
        &mut self,
        extent: Extent,
        number: SegmentNumber,
        judged: Option<Address>,
    ) -> Result<SyncResult, FlushError> {
        // This check comes before the sync. The sync frees extents, and an error would lose them.
        let written = self.open.as_ref().map_or(self.through, |open| Some(open.end()));
        if let Some(judged) = judged.filter(|judged| written <= Some(*judged)) {
            return Err(FlushError::NotWritten { judged });
        }
        let is_durable = judged.is_none_or(|judged| Some(judged) < self.through);
        // Rule: GiveUpAfterSync
        // Rule: EraseBeforeNext
        let synced = match is_durable && self.erasing.is_empty() {
            true => SyncResult { through: self.through, freed: Vec::new() },
            false => self.sync()?,
        };
        self.unless_failed(|flusher| {
            flusher.tier.log().erase(extent, number)?;
            flusher.closed.retain(|closed| closed.number != number);
            flusher.erasing.push(extent);
            Ok(synced)
        })
    }
}
