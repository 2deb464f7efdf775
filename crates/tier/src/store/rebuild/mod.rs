//! Rebuilds the catalog, which has the position of each item, from the log at the start of a store.

pub(super) mod snapshot;

use std::collections::VecDeque;

use crate::disk::Directory;
use crate::format::{
    Delay, KeyHasher, Record, SegmentHeader, SegmentNumber, SummaryEntry, SummaryKind,
};
use crate::log::Extent;
use crate::recovery::{Place, RecoveryError, Visitor, recover};
use crate::store::StartReport;
use crate::store::catalog::{Catalog, DraftCatalog, KeyBits, Location};
use crate::store::extents::Extents;
use crate::tier::Tier;
use snapshot::Snapshot;

/// The state of a store after its directory was read.
pub(super) struct StartState {
    pub(super) catalog: Catalog,
    pub(super) extents: Extents,
    pub(super) segments: VecDeque<(Extent, SegmentNumber)>,
    pub(super) free: VecDeque<Extent>,
    /// The results for the caller. Items and segments are not counted yet.
    pub(super) found: StartReport,
    pub(super) delay: Option<Delay>,
    /// When the delayed flush of a cache is due, as a Unix time; 0 if no flush is pending.
    pub(super) due_unix_secs: u64,
}

impl StartState {
    /// Returns the state of an empty log.
    pub(super) fn empty(extents: u32, catalog_bytes_max: u64) -> Self {
        Self {
            catalog: Catalog::new(catalog_bytes_max),
            extents: Extents::new(extents),
            segments: VecDeque::new(),
            free: (0..extents).collect(),
            found: StartReport::default(),
            delay: None,
            due_unix_secs: 0,
        }
    }

    /// Returns the state from the snapshot of the last stop.
    ///
    /// # Errors
    ///
    /// [`RecoveryError::OlderManifest`] if a later process has begun segments.
    pub(super) fn of_snapshot<D: Directory>(
        snapshot: Snapshot,
        tier: &Tier<D>,
    ) -> Result<Self, RecoveryError> {
        let Snapshot { header, catalog, extents, segments } = snapshot;
        let found = StartReport {
            version_max: header.version_max,
            stamp_unix_secs: header.stamp_unix_secs,
            is_from_index: true,
            ..StartReport::default()
        };
        let free: VecDeque<_> =
            (0..extents.count()).filter(|extent| !extents.is_used(*extent)).collect();
        for extent in free.iter().take(NEXT_EXTENTS) {
            if let Ok(Some(SegmentHeader { number, .. })) = tier.log().header(*extent)
                && Some(number) > tier.manifest().lease
            {
                return Err(RecoveryError::OlderManifest { number });
            }
        }
        let due_unix_secs = header.due_unix_secs;
        let delay = header.due_at.map(|at| Delay { at, due_unix_secs });
        Ok(Self { catalog, extents, segments, free, found, delay, due_unix_secs })
    }
}

/// How many free extents are checked for segments of a later process. A process uses free extents
/// in the order of this list, so its first segments are in the first extents.
const NEXT_EXTENTS: usize = 8;

/// Reads the log of a directory.
pub(super) fn rebuild<D: Directory>(
    tier: &Tier<D>,
    hasher: &KeyHasher,
    catalog_bytes_max: u64,
    now_unix_secs: u64,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<StartState, RecoveryError> {
    let extents = Extents::new(tier.log().extents());
    let mut reader = Reader::new(extents, hasher, progress);
    let found = recover(tier, now_unix_secs, &mut reader)?;
    let Reader { draft, extents, .. } = reader;
    let segments: VecDeque<_> = found.segments.iter().copied().collect();
    let mut is_used = vec![false; extents.count() as usize];
    for (extent, number) in &segments {
        is_used[*extent as usize] = true;
        // The reader has already begun the segments with records.
        if !extents.holds(*extent, *number) {
            extents.begin(*extent, *number);
        }
    }
    let free = (0..extents.count()).filter(|extent| !is_used[*extent as usize]).collect();
    let catalog = draft.into_catalog(catalog_bytes_max);
    let started = StartReport {
        version_max: found.version_max,
        stamp_unix_secs: found.stamp_unix_secs,
        cut: found.cut,
        flipped: found.flipped,
        ..StartReport::default()
    };
    let delay = found.delay;
    Ok(StartState { catalog, extents, segments, free, found: started, delay, due_unix_secs: 0 })
}

/// Adds the records of a log to a draft of the catalog.
pub(super) struct Reader<'a> {
    draft: DraftCatalog,
    extents: Extents,
    /// The segment of the last record.
    last: Option<SegmentNumber>,
    hasher: &'a KeyHasher,
    progress: &'a mut dyn FnMut(usize, usize),
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        extents: Extents,
        hasher: &'a KeyHasher,
        progress: &'a mut dyn FnMut(usize, usize),
    ) -> Self {
        Self { draft: DraftCatalog::new(), extents, last: None, hasher, progress }
    }

    /// Returns the draft.
    pub(super) fn into_draft(self) -> DraftCatalog {
        self.draft
    }
}

/// The effect of a record on the catalog.
enum Effect {
    /// The record is the newest of its key.
    Put { bytes: usize, deadline_unix_secs: Option<u64> },
    /// The key has no record.
    Take,
}

impl Reader<'_> {
    /// Returns the location of the record at a place. Begins its segment if it is the first one.
    fn location(&mut self, place: Place) -> Location {
        let Place { extent, at } = place;
        if self.last != Some(at.number()) {
            self.last = Some(at.number());
            self.extents.begin(extent, at.number());
        }
        Location::new(extent, at.offset())
    }

    /// Applies a record of a key, or of a lost item.
    fn apply(&mut self, filed: KeyBits, location: Location, effect: Effect) {
        let dead = match effect {
            Effect::Put { bytes, deadline_unix_secs } => {
                self.extents.note_named(location.extent(), bytes, deadline_unix_secs);
                self.draft.put(filed, location)
            }
            Effect::Take => self.draft.take(filed),
        };
        dead.inspect(|location| self.extents.note_dead(*location));
    }

    fn flush(&mut self) {
        self.draft.clear();
        self.extents.note_all_dead();
    }
}

impl Visitor for Reader<'_> {
    fn record(&mut self, place: Place, record: &Record<'_>) {
        let location = self.location(place);
        if let Record::Lost { .. } = record {
            self.extents.note_lost(location);
        }
        let effect = match record {
            Record::Tombstone { .. } => Effect::Take,
            _ => {
                let deadline_unix_secs = record.deadline_unix_secs();
                Effect::Put { bytes: record.bytes(), deadline_unix_secs }
            }
        };
        match KeyBits::of_record(self.hasher, record) {
            Some(filed) => self.apply(filed, location, effect),
            None if matches!(record, Record::Flush) => self.flush(),
            None => {}
        }
    }

    fn reads_summaries(&self) -> bool {
        true
    }

    fn entry(&mut self, place: Place, entry: &SummaryEntry) {
        let location = self.location(place);
        match entry.what {
            SummaryKind::Item { key, deadline_unix_secs } => {
                let effect = Effect::Put { bytes: entry.bytes, deadline_unix_secs };
                self.apply(KeyBits::of(key.identity), location, effect);
            }
            SummaryKind::Tombstone { key } => {
                self.apply(KeyBits::of(key.identity), location, Effect::Take);
            }
            SummaryKind::Lost { place } => {
                self.extents.note_lost(location);
                let effect = Effect::Put { bytes: entry.bytes, deadline_unix_secs: None };
                self.apply(KeyBits::of_place(place), location, effect);
            }
            SummaryKind::Flush => self.flush(),
            SummaryKind::Delay { .. } => {}
        }
    }

    fn progress(&mut self, done: usize, total: usize) {
        (self.progress)(done, total);
    }
}
