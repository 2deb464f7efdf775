//! The flusher: the one writer of a log, which keeps the order of writes and syncs.
//!
//! The caller brings records in the order of their addresses; the rules that order them on the disk
//! are kept here, whatever the caller asks for. They have their names in `tests/it/model/rules.rs`.

use std::fmt;

use thiserror::Error;

use crate::disk::{Directory, DiskError, PAGE_BYTES, Page};
use crate::format::{Address, Record, SEGMENT_PAGES, SegmentHeader, SegmentNumber, UnitWriter};
use crate::log::Extent;
use crate::tier::{Lease, OpenError, Tier};

/// Why the flusher did not do what it was asked for. It does nothing more after the first error.
#[derive(Debug, Error)]
pub enum FlushError {
    /// The disk failed: it is not known what of the last writes is durable.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// Numbers were not leased.
    #[error(transparent)]
    Lease(#[from] OpenError),
    /// A source was to be given up before its copies were written. It stays, and work goes on.
    #[error("the records up to {judged} are not written, so their source is not given up")]
    NotWritten {
        /// The last address that was reserved when the source was judged.
        judged: Address,
    },
    /// The file system has no room for another segment. Nothing is lost, and work goes on.
    #[error("the disk is full: {path} has no room for another segment")]
    Full {
        /// The directory.
        path: String,
    },
    /// An earlier call failed.
    #[error("the log takes no more writes since an earlier error")]
    Failed,
}

/// What a sync has made durable.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Synced {
    /// Everything below; `None` before the first record.
    pub through: Option<Address>,
    /// Extents that were given up, and may begin a segment from now on.
    pub freed: Vec<Extent>,
}

/// The segment that takes records.
#[derive(Debug)]
struct Open {
    extent: Extent,
    number: SegmentNumber,
    next_page: usize,
}

impl Open {
    /// Behind the last unit, or behind the segment.
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

/// The one writer of a log.
pub struct Flusher<D: Directory> {
    tier: Tier<D>,
    open: Option<Open>,
    unit: Option<UnitWriter>,
    /// The header of the last segment that was begun is durable.
    is_header_durable: bool,
    through: Option<Address>,
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
    /// A flusher that goes on behind what is in the log. Its first record is in a new segment.
    pub fn new(tier: Tier<D>) -> Self {
        Self {
            through: tier.manifest().durable,
            tier,
            open: None,
            unit: None,
            is_header_durable: true,
            erasing: Vec::new(),
            has_failed: false,
        }
    }

    /// The directory.
    pub fn tier(&self) -> &Tier<D> {
        &self.tier
    }

    /// Notes how far the log's time is ahead of the system's clock ([`Tier::note_ahead`]).
    pub fn note_ahead(&mut self, ahead_secs: i64) {
        self.tier.note_ahead(ahead_secs);
    }

    /// True after an error: nothing more is written or synced.
    pub fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Does something, unless an earlier call failed.
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

    /// Gives a free extent its space on the disk, filled with zeros. A segment that begins in it
    /// never finds the disk full, and its syncs, after the first, write no metadata of the file
    /// system.
    ///
    /// Cost: writes 4 MiB. An extent needs it once, before its first segment.
    ///
    /// # Errors
    ///
    /// [`FlushError::Full`], after which the flusher works on; other errors are final.
    pub fn prepare(&mut self, extent: Extent) -> Result<(), FlushError> {
        if self.has_failed {
            return Err(FlushError::Failed);
        }
        match self.tier.log().allocate(extent) {
            Err(error) if error.is_full() => Err(FlushError::Full { path: self.tier.path() }),
            prepared => self.unless_failed(|_| Ok(prepared?)),
        }
    }

    /// Begins a segment in a free extent, and shuts the last one. Syncs first if the header of the
    /// last one is not durable.
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

    /// Pages that are left in the open segment; 0 without one.
    pub fn pages_left(&self) -> usize {
        self.open.as_ref().map_or(0, |open| SEGMENT_PAGES - open.next_page)
    }

    /// Adds a record to the unit, of up to `unit_pages` pages, that is written next. Returns its
    /// address, or `None` if the unit has no room for it: the caller writes the unit, and begins a
    /// segment if the open one has no room.
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

    /// Ends the unit and writes it. Durable after a sync.
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

    /// Writes a unit that the caller has sealed, for the next page of the open segment.
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

    /// Shuts the open segment, whose units are written.
    fn shut(&mut self, now_unix_secs: u64) -> Result<(), FlushError> {
        self.write_unit(now_unix_secs)?;
        if let Some(open) = self.open.take()
            && open.next_page < SEGMENT_PAGES
        {
            let Open { extent, number, next_page } = open;
            self.tier.log().shut(extent, number, next_page, now_unix_secs)?;
        }
        Ok(())
    }

    /// Makes durable what was written. Answers come after it.
    ///
    /// # Errors
    ///
    /// [`FlushError`].
    pub fn sync(&mut self) -> Result<Synced, FlushError> {
        self.unless_failed(|flusher| {
            flusher.tier.log().sync()?;
            flusher.is_header_durable = true;
            if let Some(open) = &flusher.open {
                flusher.through = Some(open.end());
            }
            // Rule: EraseBeforeReuse
            let freed = std::mem::take(&mut flusher.erasing);
            Ok(Synced { through: flusher.through, freed })
        })
    }

    /// Ends the log: writes what is left, shuts the segment and marks the stop as clean
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

    /// Gives a segment up whose records are all dead or copied. `judged` is the last address that
    /// was reserved when the last record was judged: it is durable first, and so is the erasure of
    /// the segment that was given up before. The extent is free when a later sync says so.
    ///
    /// # Errors
    ///
    /// [`FlushError`]; [`FlushError::NotWritten`] if `judged` lies in a unit that is not written.
    pub fn give_up(
        &mut self,
        extent: Extent,
        number: SegmentNumber,
        judged: Option<Address>,
    ) -> Result<Synced, FlushError> {
        // Before the sync: it frees extents, which an error would not report.
        let written = self.open.as_ref().map_or(self.through, |open| Some(open.end()));
        if let Some(judged) = judged.filter(|judged| written <= Some(*judged)) {
            return Err(FlushError::NotWritten { judged });
        }
        let is_durable = judged.is_none_or(|judged| Some(judged) < self.through);
        // Rule: GiveUpAfterSync
        // Rule: EraseBeforeNext
        let synced = match is_durable && self.erasing.is_empty() {
            true => Synced { through: self.through, freed: Vec::new() },
            false => self.sync()?,
        };
        self.unless_failed(|flusher| {
            flusher.tier.log().erase(extent, number)?;
            flusher.erasing.push(extent);
            Ok(synced)
        })
    }
}
