//! Reads the items of a directory that no process uses, without changing it. [`salvage`] does the
//! same for a damaged directory.

pub(super) mod damage;
pub(super) mod salvage;
pub(super) mod segments;

use zerocopy::IntoBytes;

use crate::compression::Dictionaries;
use crate::disk::{Directory, Page, zeroed_pages};
use crate::format::{
    Address, CompressedItem, Item, KeyHasher, Mode, Record, SEGMENT_PAGES, SegmentNumber, Unit,
};
use crate::log::Extent;
use crate::recovery::{Place, RecoveredLog, RecoveryError, Visitor, examine};
use crate::store::catalog::{Catalog, DraftCatalog, KeyBits, Location};
use crate::store::extents::Extents;
use crate::store::rebuild::Reader;
use crate::store::rebuild::snapshot::{self, Snapshot};
use crate::tier::Tier;

/// The content of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// The number of items, including expired ones.
    pub items: u64,
    /// The length of their records, in bytes.
    pub bytes: u64,
    /// The number of items that were damaged when reclaim read them.
    pub lost: u64,
    /// The number of segments in the log.
    pub segments: usize,
    /// The number of records in a store's log that later ones have replaced or removed, and of
    /// tombstones.
    pub dead: u64,
    /// The address at which the log of a store ends, if the last stop was not clean.
    pub cut: Option<Address>,
    /// When the delayed flush is due, as a Unix time.
    pub due_unix_secs: Option<u64>,
    /// The number of flipped bits in the manifest, in headers and in void units. They cause no
    /// loss.
    pub flipped: u64,
}

/// Reads a directory, and calls `show` with its items until `show` returns false. Skips items that
/// are expired at `now_unix_secs`, or flushed by a delayed flush that is due by then. Calls
/// `progress` with the number of segments read so far and their total. A store is read twice.
///
/// # Errors
///
/// [`RecoveryError`]. The items shown before the error are intact.
pub fn inspect<D: Directory>(
    tier: &Tier<D>,
    now_unix_secs: u64,
    progress: &mut dyn FnMut(usize, usize),
    show: &mut dyn FnMut(&Item<'_>) -> bool,
) -> Result<Findings, RecoveryError> {
    if let Some(lost) = tier.damaged_dictionaries().iter().find(|damage| damage.is_lost) {
        let (number, reason) = (lost.number, lost.to_string());
        return Err(RecoveryError::Dictionary { number, reason });
    }
    let mut findings = match tier.manifest().mode {
        Mode::Store => inspect_store(tier, now_unix_secs, progress, show)?,
        Mode::Cache => inspect_cache(tier, now_unix_secs, progress, show)?,
    };
    findings.flipped += u64::from(tier.is_manifest_flipped());
    Ok(findings)
}

/// Returns the latest time in a directory, in the log's time, or 0 if it cannot be read.
///
/// Cost: a read of the header of each extent, and of one segment.
pub fn newest_stamp<D: Directory>(tier: &Tier<D>) -> u64 {
    if let Ok(Some(snapshot)) = snapshot::header(tier) {
        return snapshot.stamp_unix_secs;
    }
    let log = tier.log();
    let mut segments: Vec<_> = (0..log.extents())
        .filter_map(|extent| log.header(extent).ok().flatten().map(|header| (extent, header)))
        .collect();
    segments.sort_unstable_by_key(|(_, header)| header.number);
    let mut pages = zeroed_pages(SEGMENT_PAGES);
    while let Some((extent, header)) = segments.pop() {
        if log.segment(extent, &mut pages).is_err() {
            continue;
        }
        let bytes = pages.as_bytes();
        let unit = |page| Unit::read(log.seal(), header.number, page, bytes).ok();
        let stamps = (1..SEGMENT_PAGES).filter_map(unit).map(|unit| unit.sealed_unix_secs);
        if let Some(stamp) = stamps.max() {
            return stamp;
        }
    }
    0
}

fn inspect_store<D: Directory>(
    tier: &Tier<D>,
    now_unix_secs: u64,
    progress: &mut dyn FnMut(usize, usize),
    show: &mut dyn FnMut(&Item<'_>) -> bool,
) -> Result<Findings, RecoveryError> {
    let hasher = KeyHasher::new(&tier.manifest().hash_key);
    let extents = Extents::new(tier.log().extents());
    let mut reader = Reader::new(extents, &hasher, progress);
    let RecoveredLog { segments, cut, delay, flipped, .. } = examine(tier, &mut reader)?;
    let due_unix_secs = delay.map(|delay| delay.due_unix_secs);
    let is_flushed = due_unix_secs.is_some_and(|due| due <= now_unix_secs);
    let draft = if is_flushed { DraftCatalog::new() } else { reader.into_draft() };
    let segments = segments.len();
    let findings = Findings { segments, cut, due_unix_secs, flipped, ..Findings::default() };
    let mut shower = Shower {
        is_current: |filed, location| draft.has(filed, location),
        hasher: &hasher,
        dictionaries: tier.dictionaries(),
        now_unix_secs,
        findings,
        show,
        progress,
        is_over: false,
        fault: None,
    };
    examine(tier, &mut shower)?;
    shower.end()
}

fn inspect_cache<D: Directory>(
    tier: &Tier<D>,
    now_unix_secs: u64,
    progress: &mut dyn FnMut(usize, usize),
    show: &mut dyn FnMut(&Item<'_>) -> bool,
) -> Result<Findings, RecoveryError> {
    let hasher = KeyHasher::new(&tier.manifest().hash_key);
    let Some(snapshot) = snapshot::read(tier, u64::MAX, &mut |_, _| ())? else {
        return Ok(Findings::default());
    };
    let Snapshot { header, catalog, segments, .. } = snapshot;
    let due_unix_secs = Some(header.due_unix_secs).filter(|due| *due != 0);
    if due_unix_secs.is_some_and(|due| due <= now_unix_secs) {
        return Ok(Findings { due_unix_secs, ..Findings::default() });
    }
    let findings = Findings { segments: segments.len(), due_unix_secs, ..Findings::default() };
    let is_current = |filed, location| Catalog::has(&catalog, filed, location);
    let mut shower = Shower {
        is_current,
        hasher: &hasher,
        dictionaries: tier.dictionaries(),
        now_unix_secs,
        findings,
        show,
        progress,
        is_over: false,
        fault: None,
    };
    let mut pages = zeroed_pages(SEGMENT_PAGES);
    let total = segments.len();
    for (done, (extent, number)) in segments.into_iter().enumerate() {
        shower.progress(done, total);
        tier.log().segment(extent, &mut pages)?;
        shower.segment(tier, extent, number, &pages)?;
    }
    shower.progress(total, total);
    shower.end()
}

/// Calls `show` with the current items of a log.
struct Shower<'a, C> {
    is_current: C,
    hasher: &'a KeyHasher,
    dictionaries: &'a Dictionaries,
    now_unix_secs: u64,
    findings: Findings,
    show: &'a mut dyn FnMut(&Item<'_>) -> bool,
    progress: &'a mut dyn FnMut(usize, usize),
    /// True once `show` has returned false, or a value was invalid.
    is_over: bool,
    /// The first invalid value.
    fault: Option<RecoveryError>,
}

impl<C: Fn(KeyBits, Location) -> bool> Shower<'_, C> {
    fn end(self) -> Result<Findings, RecoveryError> {
        match self.fault {
            Some(fault) => Err(fault),
            None => Ok(self.findings),
        }
    }

    /// Shows an item with a compressed value.
    fn show_compressed(&mut self, at: Address, compressed: &CompressedItem<'_>) {
        match self.dictionaries.value_of(compressed) {
            Ok(value) => {
                self.is_over = !(self.show)(&Item { value: &value, ..compressed.item });
            }
            Err(damage) => {
                self.is_over = true;
                self.fault = Some(RecoveryError::Value { at, damage });
            }
        }
    }

    /// Processes the records of a segment of a cache.
    fn segment<D: Directory>(
        &mut self,
        tier: &Tier<D>,
        extent: Extent,
        number: SegmentNumber,
        pages: &[Page],
    ) -> Result<(), RecoveryError> {
        let mut page = 1;
        while page < SEGMENT_PAGES {
            let unit = Unit::read(tier.log().seal(), number, page, pages.as_bytes());
            let Ok(unit) = unit else {
                let at = Address::new(number, page * crate::disk::PAGE_BYTES);
                let bytes = crate::disk::PAGE_BYTES as u64;
                return Err(RecoveryError::Lost { at, bytes, through: at });
            };
            if unit.is_void {
                break;
            }
            for record in unit.records() {
                let (at, record) = record
                    .map_err(|damage| RecoveryError::Record { unit: unit.address, damage })?;
                self.record(Place { extent, at }, &record);
            }
            page += unit.pages;
        }
        Ok(())
    }
}

impl<C: Fn(KeyBits, Location) -> bool> Visitor for Shower<'_, C> {
    fn record(&mut self, place: Place, record: &Record<'_>) {
        let location = Location::new(place.extent, place.at.offset());
        let filed = KeyBits::of_record(self.hasher, record);
        if !filed.is_some_and(|filed| (self.is_current)(filed, location)) {
            self.findings.dead += 1;
            return;
        }
        let (Record::Item(item) | Record::Compressed(CompressedItem { item, .. })) = record else {
            self.findings.lost += 1;
            return;
        };
        self.findings.items += 1;
        self.findings.bytes += record.bytes() as u64;
        let is_expired = item.deadline_unix_secs.is_some_and(|at| at <= self.now_unix_secs);
        if !self.is_over && !is_expired {
            match record {
                Record::Compressed(compressed) => self.show_compressed(place.at, compressed),
                _ => self.is_over = !(self.show)(item),
            }
        }
    }

    fn progress(&mut self, done: usize, total: usize) {
        (self.progress)(done, total);
    }
}
