//! Recovery: reads the log at a start that has no index.
//!
//! Recovery reads the log in address order, so a later record of a key replaces an earlier one. The
//! log ends at the first page without a valid unit: the *cut*. Everything above the cut was never
//! acknowledged as durable. Recovery removes it from the disk, so that no later start can read it.
//! Only then may the caller serve requests.
//!
//! `// Rule:` comments name the rules of the model in `tests/it/model/rules.rs`.

mod survey;

use std::panic::resume_unwind;
use std::{mem, thread};

use thiserror::Error;
use zerocopy::IntoBytes;

use crate::disk::{Directory, DiskError, File, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{
    Address, Delay, RECORD_HEADER_BYTES, Record, RecordFault, SEGMENT_BYTES, SEGMENT_PAGES,
    SegmentHeader, SegmentNumber, Unit,
};
use crate::log::{Extent, HeaderError, Log};
use crate::tier::Tier;
use survey::Survey;

/// The reason why a log was not recovered. Unless the disk failed, nothing was changed.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A header was not read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A segment of the log is missing, although a later one exists.
    #[error("the log is damaged: the segments between {earlier} and {number} are missing")]
    Missing {
        /// The segment after the gap.
        number: SegmentNumber,
        /// The segment before the gap.
        earlier: SegmentNumber,
    },
    /// Two extents contain the same segment.
    #[error("the log is damaged: extents {first} and {second} both hold segment {number}")]
    Twice {
        /// The segment.
        number: SegmentNumber,
        /// One of its extents.
        first: Extent,
        /// The other.
        second: Extent,
    },
    /// The log has a segment with a number that the manifest has not leased.
    #[error("MANIFEST is older than the log: it has not leased the number of segment {number}")]
    OlderManifest {
        /// The segment.
        number: SegmentNumber,
    },
    /// The log is shorter than the manifest requires.
    #[error("the log is truncated: {bytes} bytes are missing at its end")]
    CutOff {
        /// The number of missing bytes.
        bytes: u64,
    },
    /// Durable records cannot be read.
    #[error(
        "the log is damaged at {at} and was durable up to {through}: {bytes} bytes there cannot be \
         read, {} records at most",
        .bytes.div_ceil(RECORD_HEADER_BYTES as u64)
    )]
    Lost {
        /// The first address without a valid unit.
        at: Address,
        /// The length up to the next valid unit, in bytes.
        bytes: u64,
        /// Everything below this address was durable.
        through: Address,
    },
    /// A unit has a valid checksum but contains an invalid record.
    #[error("the log is damaged in the unit at {unit}: {damage}")]
    Record {
        /// The unit.
        unit: Address,
        /// The kind of damage.
        damage: RecordFault,
    },
}

/// The position of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The extent of its segment.
    pub extent: Extent,
    /// Its address.
    pub at: Address,
}

/// Receives the records of the log, in order.
pub trait Visitor {
    /// Called for each record. A flush removes all records before it.
    fn record(&mut self, place: Place, record: &Record<'_>);

    /// Called when `done` of the log's `total` segments were read.
    fn progress(&mut self, done: usize, total: usize) {
        let _ = (done, total);
    }
}

/// The state of a recovered log, without its items.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecoveredLog {
    /// The segments with records, in the order of their numbers.
    pub segments: Vec<(Extent, SegmentNumber)>,
    /// The newest flush.
    pub flush: Option<Address>,
    /// The delayed flush that is pending.
    pub delay: Option<Delay>,
    /// The highest version of any item.
    pub version_max: u64,
    /// The latest time in the log, as a Unix time. The system clock may have been set back since.
    pub stamp_unix_secs: u64,
    /// The address of the cut; `None` if the last segment is full or was closed.
    pub cut: Option<Address>,
    /// The number of headers and void units with a flipped bit.
    pub flipped: u64,
    /// The void units with a flipped bit.
    flipped_voids: Vec<(Extent, Address)>,
}

/// Reads a log, and removes everything above its end from the disk.
///
/// The caller must hold the lock of the directory, and must have raised the epoch durably.
///
/// Cost: reads each segment once, into two buffers of 4 MiB. One segment is read while the previous
/// one is processed.
///
/// # Errors
///
/// [`RecoveryError`]. The caller must then ignore everything that the visitor received.
pub fn recover<D: Directory>(
    tier: &Tier<D>,
    now_unix_secs: u64,
    visitor: &mut impl Visitor,
) -> Result<RecoveredLog, RecoveryError> {
    let log = tier.log();
    // After a failed sync the kernel's page cache may contain pages that the disk lacks.
    // Rule: ReadAroundCache
    log.drop_cached()?;
    let (survey, found) = read(tier, visitor)?;
    survey.mend(log)?;
    for (extent, at) in &found.flipped_voids {
        log.shut(*extent, at.number(), at.page(), now_unix_secs)?;
    }
    if let Some(cut) = found.cut {
        remove_above(log, &survey, cut, now_unix_secs)?;
    }
    // This also covers everything that was read: it may have been only in the kernel's page cache.
    // Rule: SyncBeforeServing
    log.sync()?;
    Ok(found)
}

/// Same as [`recover`], but changes nothing.
///
/// # Errors
///
/// [`RecoveryError`].
pub fn examine<D: Directory>(
    tier: &Tier<D>,
    visitor: &mut impl Visitor,
) -> Result<RecoveredLog, RecoveryError> {
    match tier.cut_bytes() {
        0 => Ok(read(tier, visitor)?.1),
        bytes => Err(RecoveryError::CutOff { bytes }),
    }
}

fn read<D: Directory>(
    tier: &Tier<D>,
    visitor: &mut impl Visitor,
) -> Result<(Survey, RecoveredLog), RecoveryError> {
    let log = tier.log();
    let survey = Survey::read(log)?;
    if let Some((_, newest)) = survey.segments().last()
        && Some(newest.number) > tier.manifest().lease
    {
        return Err(RecoveryError::OlderManifest { number: newest.number });
    }
    let mut reader =
        Reader { log, pages: zeroed_pages(SEGMENT_PAGES), found: RecoveredLog::default() };
    let mut ahead = zeroed_pages(SEGMENT_PAGES);
    let total = survey.segments().len();
    if let Some((first, _)) = survey.segments().first() {
        log.segment(*first, &mut reader.pages)?;
    }
    for (index, (extent, header)) in survey.segments().iter().enumerate() {
        visitor.progress(index, total);
        // The next segment is read while this one is processed.
        let next = survey.segments().get(index + 1).map(|(extent, _)| *extent);
        let into = &mut ahead;
        let (end, is_read) = thread::scope(|scope| {
            let next = next.map(|next| scope.spawn(move || log.segment(next, into)));
            let end = reader.segment(*extent, header, visitor);
            (end, next.map(|next| next.join().unwrap_or_else(|panic| resume_unwind(panic))))
        });
        let end = end?;
        if end != Some(1) {
            reader.found.segments.push((*extent, header.number));
        }
        if let Some(page) = end {
            reader.found.cut = Some(Address::new(header.number, page * PAGE_BYTES));
            reader.check_cut(&survey.segments()[index..], page, tier.manifest().durable)?;
            break;
        }
        is_read.transpose()?;
        mem::swap(&mut reader.pages, &mut ahead);
    }
    visitor.progress(total, total);
    let mut found = reader.found;
    check_end(&found, tier.manifest().durable)?;
    found.flipped = survey.flipped() + found.flipped_voids.len() as u64;
    found.delay = found.delay.filter(|delay| found.flush.is_none_or(|flush| delay.at > flush));
    Ok((survey, found))
}

/// Fails if the log has no cut, but was durable beyond its last segment.
fn check_end(found: &RecoveredLog, durable: Option<Address>) -> Result<(), RecoveryError> {
    let end = match found.segments.last() {
        Some((_, last)) => last.end(),
        None => Some(Address::new(SegmentNumber::FIRST, 0)),
    };
    match (durable, end) {
        (Some(through), Some(at)) if found.cut.is_none() && at < through => {
            Err(RecoveryError::Lost { at, bytes: SEGMENT_BYTES as u64, through })
        }
        _ => Ok(()),
    }
}

/// Removes everything above the cut: first the latest segment, last the rest of the segment with
/// the cut. If a power loss interrupts this, the remaining segments have no gap, and the next start
/// finds the same cut.
fn remove_above<F: File>(
    log: &Log<F>,
    survey: &Survey,
    cut: Address,
    now_unix_secs: u64,
) -> Result<(), DiskError> {
    for (extent, header) in survey.segments().iter().rev() {
        if header.number > cut.number() {
            // Rule: EraseAboveCut
            log.erase(*extent, header.number)?;
            // Rule: AboveBeforeCut
            log.sync()?;
        } else if header.number == cut.number() && cut.page() == 1 {
            log.erase(*extent, header.number)?;
        } else if header.number == cut.number() {
            // Rule: VoidAtCut
            log.shut(*extent, header.number, cut.page(), now_unix_secs)?;
        }
    }
    Ok(())
}

/// Processes the segments in order.
struct Reader<'l, F> {
    log: &'l Log<F>,
    pages: Vec<Page>,
    found: RecoveredLog,
}

impl<F: File> Reader<'_, F> {
    /// Passes the records of the segment in the buffer to the visitor. Returns the page of the cut,
    /// or `None` if the segment is full or was closed.
    fn segment(
        &mut self,
        extent: Extent,
        header: &SegmentHeader,
        visitor: &mut impl Visitor,
    ) -> Result<Option<usize>, RecoveryError> {
        let bytes = self.pages.as_bytes();
        let found = &mut self.found;
        found.delay = header.delay.or(found.delay);
        let mut page = 1;
        while page < SEGMENT_PAGES {
            let Ok(unit) = Unit::read(self.log.seal(), header.number, page, bytes) else {
                if Unit::is_flipped_void(self.log.seal(), header.number, page, bytes) {
                    let at = Address::new(header.number, page * PAGE_BYTES);
                    found.flipped_voids.push((extent, at));
                    break;
                }
                return Ok(Some(page));
            };
            found.stamp_unix_secs = found.stamp_unix_secs.max(unit.sealed_unix_secs);
            // Rule: VoidShuts
            if unit.is_void {
                break;
            }
            for record in unit.records() {
                let (at, record) = record
                    .map_err(|damage| RecoveryError::Record { unit: unit.address, damage })?;
                found.note(at, &record);
                visitor.record(Place { extent, at }, &record);
            }
            page += unit.pages;
        }
        Ok(None)
    }

    /// Fails if the cut is below `durable`, or if a unit above it proves that the cut was durable.
    /// `rest` begins with the segment that is cut at `page`.
    fn check_cut(
        &mut self,
        rest: &[(Extent, SegmentHeader)],
        page: usize,
        durable: Option<Address>,
    ) -> Result<(), RecoveryError> {
        let Some(at) = self.found.cut else { return Ok(()) };
        let bad_bytes = self.bad_bytes(at);
        if let Some(through) = durable.filter(|durable| *durable > at) {
            return Err(RecoveryError::Lost { at, bytes: bad_bytes, through });
        }
        let mut first_page = page;
        for (extent, header) in rest {
            self.log.segment(*extent, &mut self.pages)?;
            let bytes = self.pages.as_bytes();
            for page in first_page..SEGMENT_PAGES {
                let unit = Unit::read(self.log.seal(), header.number, page, bytes).ok();
                let through = unit.and_then(|unit| unit.synced_through);
                if let Some(through) = through.filter(|through| *through > at) {
                    return Err(RecoveryError::Lost { at, bytes: bad_bytes, through });
                }
            }
            first_page = 1;
        }
        Ok(())
    }
}

impl<F: File> Reader<'_, F> {
    /// Returns the number of bytes from an address to the next valid unit of the segment in the
    /// buffer, or to the zeros at its end.
    fn bad_bytes(&self, at: Address) -> u64 {
        let unit = |page| Unit::read(self.log.seal(), at.number(), page, self.pages.as_bytes());
        let next = (at.page() + 1..SEGMENT_PAGES).find(|page| unit(*page).is_ok());
        let pages = &self.pages[at.page()..next.unwrap_or(SEGMENT_PAGES)];
        let filled = pages.iter().rposition(|page| !page.is_zero()).map_or(1, |last| last + 1);
        (filled * PAGE_BYTES) as u64
    }
}

impl RecoveredLog {
    fn note(&mut self, at: Address, record: &Record<'_>) {
        match record {
            Record::Item(item) => self.version_max = self.version_max.max(item.version),
            Record::Flush => self.flush = Some(at),
            Record::Delay { due_unix_secs } => {
                self.delay = Some(Delay { at, due_unix_secs: *due_unix_secs });
            }
            Record::Tombstone { .. } | Record::Lost { .. } | Record::Void { .. } => {}
        }
    }
}
