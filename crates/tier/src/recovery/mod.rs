//! Recovery: what a log holds, when no memory has it.
//!
//! The log is read in the order of its addresses, so that of two records of a key the later one
//! counts. It ends at the first place without a good unit: the *cut*. What lies above the cut was
//! never acknowledged as durable. Recovery makes sure that it never appears, and the caller serves
//! after that.
//!
//! The rules have their names in `tests/it/model/rules.rs`.

mod survey;

use std::panic::resume_unwind;
use std::{mem, thread};

use thiserror::Error;
use zerocopy::IntoBytes;

use crate::disk::{Directory, DiskError, File, PAGE_BYTES, Page, zeroed_pages};
use crate::format::{
    Address, Damaged, Delay, RECORD_HEADER_BYTES, Record, SEGMENT_BYTES, SEGMENT_PAGES,
    SegmentHeader, SegmentNumber, Unit,
};
use crate::log::{Extent, HeaderError, Log};
use crate::tier::Tier;
use survey::Survey;

/// Why a log is not recovered. Unless the disk failed, nothing was changed.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A header was not read.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A segment of the log is not there, although a later one is.
    #[error("the log is damaged: what lies between segments {earlier} and {number} is missing")]
    Missing {
        /// A segment.
        number: SegmentNumber,
        /// The one before it, of those that are there.
        earlier: SegmentNumber,
    },
    /// Two extents hold the same segment.
    #[error("the log is damaged: extents {first} and {second} both hold segment {number}")]
    Twice {
        /// The segment.
        number: SegmentNumber,
        /// One of its extents.
        first: Extent,
        /// The other.
        second: Extent,
    },
    /// The log has a segment whose number the manifest has not leased.
    #[error("MANIFEST is older than the log: it has not leased the number of segment {number}")]
    OlderManifest {
        /// The segment.
        number: SegmentNumber,
    },
    /// The log is shorter than MANIFEST says.
    #[error("the log is cut off: {bytes} bytes of it are missing at its end")]
    CutOff {
        /// The bytes that are missing.
        bytes: u64,
    },
    /// What was durable is not there.
    #[error(
        "the log is damaged at {at} and was durable up to {through}: {bytes} bytes there cannot be \
         read, {} records at most",
        .bytes.div_ceil(RECORD_HEADER_BYTES as u64)
    )]
    Lost {
        /// The first place without a good unit.
        at: Address,
        /// The length up to the next good unit, in bytes.
        bytes: u64,
        /// Everything below was durable.
        through: Address,
    },
    /// A unit is whole and holds a record that is none.
    #[error("the log is damaged in the unit at {unit}: {damage}")]
    Record {
        /// The unit.
        unit: Address,
        /// What is wrong.
        damage: Damaged,
    },
}

/// Where a record lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The extent of its segment.
    pub extent: Extent,
    /// Its address.
    pub at: Address,
}

/// What recovery reports to, in the order of the log.
pub trait Visitor {
    /// A record: an item, a tombstone, or a flush, which kills all before it.
    fn record(&mut self, place: Place, record: &Record<'_>);

    /// `done` of the log's `total` segments are read.
    fn progress(&mut self, done: usize, total: usize) {
        let _ = (done, total);
    }
}

/// What a recovered log is, beside its items.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recovered {
    /// The segments that hold something, in the order of their numbers.
    pub segments: Vec<(Extent, SegmentNumber)>,
    /// The newest flush.
    pub flush: Option<Address>,
    /// The delayed flush that is pending.
    pub delay: Option<Delay>,
    /// The highest version of an item.
    pub version_max: u64,
    /// The latest time that was written, as a Unix time. The clock may have been set back since.
    pub stamp_unix_secs: u64,
    /// Where the log was cut, if it was.
    pub cut: Option<Address>,
    /// Headers and void units with a flipped bit.
    pub flipped: u64,
    /// The void units among them.
    flipped_voids: Vec<(Extent, Address)>,
}

/// Reads a log, and makes sure that what is above its end stays away.
///
/// The caller has raised the epoch before, durably, and has the directory's lock.
///
/// Cost: reads all segments once, each while the one before it is looked at, into two buffers of
/// 4 MiB.
///
/// # Errors
///
/// [`RecoveryError`]. What the visitor was shown is then worth nothing.
pub fn recover<D: Directory>(
    tier: &Tier<D>,
    now_unix_secs: u64,
    visitor: &mut impl Visitor,
) -> Result<Recovered, RecoveryError> {
    let log = tier.log();
    // After a failed sync the kernel's cache shows what the disk lacks.
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
    // Covers also what was read: it may have been in the kernel's cache only.
    // Rule: SyncBeforeServing
    log.sync()?;
    Ok(found)
}

/// Reads a log as [`recover`] does, and changes nothing.
///
/// # Errors
///
/// [`RecoveryError`].
pub fn examine<D: Directory>(
    tier: &Tier<D>,
    visitor: &mut impl Visitor,
) -> Result<Recovered, RecoveryError> {
    match tier.cut_bytes() {
        0 => Ok(read(tier, visitor)?.1),
        bytes => Err(RecoveryError::CutOff { bytes }),
    }
}

fn read<D: Directory>(
    tier: &Tier<D>,
    visitor: &mut impl Visitor,
) -> Result<(Survey, Recovered), RecoveryError> {
    let log = tier.log();
    let survey = Survey::read(log)?;
    if let Some((_, newest)) = survey.segments().last()
        && Some(newest.number) > tier.manifest().lease
    {
        return Err(RecoveryError::OlderManifest { number: newest.number });
    }
    let mut reader =
        Reader { log, pages: zeroed_pages(SEGMENT_PAGES), found: Recovered::default() };
    let mut ahead = zeroed_pages(SEGMENT_PAGES);
    let total = survey.segments().len();
    if let Some((first, _)) = survey.segments().first() {
        log.segment(*first, &mut reader.pages)?;
    }
    for (index, (extent, header)) in survey.segments().iter().enumerate() {
        visitor.progress(index, total);
        // The next segment is read while this one is looked at.
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

/// Fails if the log ends well, and was durable beyond its last segment.
fn check_end(found: &Recovered, durable: Option<Address>) -> Result<(), RecoveryError> {
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

/// Removes what is above the cut, the latest first.
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

/// Looks at one segment after the other.
struct Reader<'l, F> {
    log: &'l Log<F>,
    pages: Vec<Page>,
    found: Recovered,
}

impl<F: File> Reader<'_, F> {
    /// Shows the visitor the records of the segment in the buffer. Returns the page at which the
    /// log ends, or `None` if the segment ends well.
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

    /// Fails if the cut lies below `durable`, or a unit above it says that it was durable. `rest`
    /// begins with the segment that is cut at `page`.
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
    /// Returns the bytes from an address to the next good unit of the segment in the buffer, or to
    /// the zeros at its end.
    fn bad_bytes(&self, at: Address) -> u64 {
        let unit = |page| Unit::read(self.log.seal(), at.number(), page, self.pages.as_bytes());
        let next = (at.page() + 1..SEGMENT_PAGES).find(|page| unit(*page).is_ok());
        let pages = &self.pages[at.page()..next.unwrap_or(SEGMENT_PAGES)];
        let filled = pages.iter().rposition(|page| !page.is_zero()).map_or(1, |last| last + 1);
        (filled * PAGE_BYTES) as u64
    }
}

impl Recovered {
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
