//! Recovery: reads the log at a start that has no index.
//!
//! Recovery reads the log in address order, so a later record of a key replaces an earlier one. The
//! log ends at the first page without a valid unit: the *cut*. Everything above the cut was never
//! acknowledged as durable. Recovery removes it from the disk, so that no later start can read it.
//! Only then may the caller serve requests.
//!
//! `// Rule:` comments name the rules of the model in `tests/it/model/rules.rs`.

mod ahead;
mod survey;

use std::ops::ControlFlow;

use thiserror::Error;
use zerocopy::IntoBytes;

use crate::disk::{Directory, DiskError, File, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{
    Address, CompressedItem, Delay, RECORD_HEADER_BYTES, Record, RecordFault, SEGMENT_BYTES,
    SEGMENT_PAGES, SegmentHeader, SegmentNumber, Summary, SummaryEntry, SummaryKind, Unit,
};
use crate::log::{Extent, HeaderError, Log};
use crate::tier::Tier;
pub(crate) use ahead::find_summary;
use ahead::{End, LoadedSegment};
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
    /// Both copies of a dictionary are damaged.
    #[error("dictionary {number} is lost, and with it the values that it compresses: {reason}")]
    Dictionary {
        /// The number of the dictionary.
        number: u8,
        /// The damage of one of its copies.
        reason: String,
    },
    /// A compressed value is invalid, although the checksum of its record is valid.
    #[error("the value at {at} of the log is damaged: {damage}")]
    Value {
        /// The address of the record.
        at: Address,
        /// The kind of damage.
        damage: RecordFault,
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

/// Receives the records of the log, in order. A flush removes all records before it.
pub trait Visitor {
    /// Called for each record of a segment that is read completely.
    fn record(&mut self, place: Place, record: &Record<'_>);

    /// True if [`recover`] may read the summaries of segments instead of their records.
    fn reads_summaries(&self) -> bool {
        false
    }

    /// Called for each record of a segment whose summary was read.
    fn entry(&mut self, place: Place, entry: &SummaryEntry) {
        let _ = (place, entry);
    }

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
/// Cost: reads the summary of each segment, or a segment without a summary, into up to four buffers
/// of 4 MiB. Other segments are read while one is processed.
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
    let summaries = visitor.reads_summaries();
    let (survey, found) = read(tier, summaries, visitor)?;
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
        0 => Ok(read(tier, false, visitor)?.1),
        bytes => Err(RecoveryError::CutOff { bytes }),
    }
}

fn read<D: Directory>(
    tier: &Tier<D>,
    summaries: bool,
    visitor: &mut impl Visitor,
) -> Result<(Survey, RecoveredLog), RecoveryError> {
    let log = tier.log();
    let survey = Survey::read(log)?;
    if let Some((_, newest)) = survey.segments().last()
        && Some(newest.number) > tier.manifest().lease
    {
        return Err(RecoveryError::OlderManifest { number: newest.number });
    }
    let mut found = RecoveredLog::default();
    let segments = survey.segments();
    let total = segments.len();
    ahead::in_order(log, segments, summaries, |index, loaded| {
        visitor.progress(index, total);
        let (extent, header) = &segments[index];
        found.read_segment(*extent, header, loaded, visitor)?;
        let cut_page = match loaded.end() {
            End::Closed | End::FlippedVoid(_) => None,
            End::Cut(page) => Some(page),
        };
        if cut_page != Some(1) {
            found.segments.push((*extent, header.number));
        }
        let Some(page) = cut_page else { return Ok(ControlFlow::Continue(())) };
        let cut = Address::new(header.number, page * PAGE_BYTES);
        found.cut = Some(cut);
        check_cut(log, &segments[index..], cut, tier.manifest().durable)?;
        Ok::<_, RecoveryError>(ControlFlow::Break(()))
    })?;
    visitor.progress(total, total);
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

/// Fails if the cut is below `durable`, or if a unit above it proves that the cut was durable.
/// `rest` begins with the segment of the cut.
fn check_cut<F: File>(
    log: &Log<F>,
    rest: &[(Extent, SegmentHeader)],
    cut: Address,
    durable: Option<Address>,
) -> Result<(), RecoveryError> {
    let mut pages = zeroed_pages(SEGMENT_PAGES);
    let (mut first_page, mut bytes) = (cut.page(), 0);
    for (extent, header) in rest {
        log.segment(*extent, &mut pages)?;
        let unit = |page| Unit::read(log.seal(), header.number, page, pages.as_bytes()).ok();
        if header.number == cut.number() {
            bytes = bad_bytes(log, cut, &pages);
            if let Some(through) = durable.filter(|durable| *durable > cut) {
                return Err(RecoveryError::Lost { at: cut, bytes, through });
            }
        }
        let units = (first_page..SEGMENT_PAGES).filter_map(unit);
        let mut durable_ends = units.filter_map(|unit| unit.synced_through);
        if let Some(through) = durable_ends.find(|through| *through > cut) {
            return Err(RecoveryError::Lost { at: cut, bytes, through });
        }
        first_page = 1;
    }
    Ok(())
}

/// Returns the number of bytes from the cut to the next valid unit of its segment, or to the zeros
/// at its end. `pages` contains the segment.
fn bad_bytes<F: File>(log: &Log<F>, cut: Address, pages: &[Page]) -> u64 {
    let unit = |page| Unit::read(log.seal(), cut.number(), page, pages.as_bytes());
    let next = (cut.page() + 1..SEGMENT_PAGES).find(|page| unit(*page).is_ok());
    let pages = &pages[cut.page()..next.unwrap_or(SEGMENT_PAGES)];
    let filled = pages.iter().rposition(|page| !page.is_zero()).map_or(1, |last| last + 1);
    (filled * PAGE_BYTES) as u64
}

impl RecoveredLog {
    /// Passes the records of a segment to the visitor.
    fn read_segment(
        &mut self,
        extent: Extent,
        header: &SegmentHeader,
        segment: &LoadedSegment,
        visitor: &mut impl Visitor,
    ) -> Result<(), RecoveryError> {
        self.delay = header.delay.or(self.delay);
        if let Some(summary) = segment.summary(header) {
            self.read_summary(extent, &summary, visitor);
            return Ok(());
        }
        for unit in segment.units(header) {
            self.stamp_unix_secs = self.stamp_unix_secs.max(unit.sealed_unix_secs);
            for record in unit.records() {
                let (at, record) = record
                    .map_err(|damage| RecoveryError::Record { unit: unit.address, damage })?;
                self.note(at, &record);
                visitor.record(Place { extent, at }, &record);
            }
        }
        if let End::FlippedVoid(page) = segment.end() {
            self.flipped_voids.push((extent, Address::new(header.number, page * PAGE_BYTES)));
        }
        Ok(())
    }

    /// Passes the entries of a summary to the visitor.
    fn read_summary(&mut self, extent: Extent, summary: &Summary<'_>, visitor: &mut impl Visitor) {
        self.stamp_unix_secs = self.stamp_unix_secs.max(summary.sealed_unix_secs);
        self.version_max = self.version_max.max(summary.newest_version);
        for entry in summary.entries() {
            match entry.what {
                SummaryKind::Flush => self.flush = Some(entry.at),
                SummaryKind::Delay { due_unix_secs } => {
                    self.delay = Some(Delay { at: entry.at, due_unix_secs });
                }
                _ => {}
            }
            visitor.entry(Place { extent, at: entry.at }, &entry);
        }
    }

    fn note(&mut self, at: Address, record: &Record<'_>) {
        match record {
            Record::Item(item) | Record::Compressed(CompressedItem { item, .. }) => {
                self.version_max = self.version_max.max(item.version);
            }
            Record::Flush => self.flush = Some(at),
            Record::Delay { due_unix_secs } => {
                self.delay = Some(Delay { at, due_unix_secs: *due_unix_secs });
            }
            Record::Tombstone { .. } | Record::Lost { .. } | Record::Void { .. } => {}
        }
    }
}
