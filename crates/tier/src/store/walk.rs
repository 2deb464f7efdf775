//! Walks over all items while clients change them.
//!
//! ```text
//! slice of the catalog ─▶ records by their place on the disk ─▶ reads of neighbours ─▶ items
//!          ▲                                                        │
//!          └────────── a segment was reclaimed before its read ─────┘
//! ```
//!
//! A slice is a range of places of the catalog with about [`SLICE_ENTRIES`] entries. A key has
//! exactly one place in the catalog, so it appears in exactly one slice. If reclaim moves an item
//! before it is read, the walk finds it by listing the slice again.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use super::Store;
use super::catalog::{KeyBits, PLACES};
use super::lookup::PageRead;
use super::shared::Shared;
use crate::disk::{Directory, DiskError, File, Page, zeroed_pages};
use crate::format::{Address, CompressedItem, Item, RECORD_HEADER_BYTES, Record};
use crate::log::{Extent, Fetch};

/// A walk over the items of a store; see [`Store::walk`](super::Store::walk).
#[derive(Debug)]
pub struct Walk {
    /// The places in the catalog that are not listed yet.
    places: Range<u64>,
    slice: Slice,
    /// The runs whose pages the caller is reading.
    under_way: Vec<Run>,
    /// The number of records that the disk failed to return, or that were damaged.
    unreadable: u64,
    /// The keys of unreadable records, where known, since they were last taken.
    unreadable_keys: Vec<Box<[u8]>>,
}

/// The next action of a walk.
#[derive(Debug)]
pub enum WalkStep {
    /// The walk needs these pages. The caller passes the results to the next step, in the same
    /// order.
    Reads(Vec<PageRead>),
    /// The walk continues without a read.
    GoesOn,
    /// All keys of a slice of the catalog were shown.
    Slice,
    /// All keys were shown.
    Over,
}

/// The keys in a range of places of the catalog.
#[derive(Debug, Default)]
struct Slice {
    places: Range<u64>,
    /// True until the walk has reported that the slice is done.
    is_open: bool,
    /// True if the slice must be listed.
    is_unlisted: bool,
    /// The planned reads, in the order of the file.
    runs: VecDeque<Run>,
    /// The addresses of the records that were listed.
    listed: HashSet<Address>,
    /// The identities of the keys that were shown.
    shown: HashSet<u128>,
}

/// Records that are read together.
#[derive(Debug)]
struct Run {
    fetches: Vec<Fetch>,
    /// The first page of the read, counted from the start of the file.
    first: u64,
    /// The page after the last one of the read.
    end: u64,
}

/// Receives the items, with the identities of their keys.
type Show<'a> = &'a mut dyn FnMut(u128, &Item<'_>);

impl Run {
    fn of(fetch: Fetch) -> Self {
        Self { fetches: vec![fetch], first: fetch.first_page(), end: fetch.end_page() }
    }

    fn pages(&self) -> usize {
        (self.end - self.first) as usize
    }

    /// Adds a later fetch if it is close enough. Returns false if it is not.
    fn takes(&mut self, fetch: Fetch) -> bool {
        let end = self.end.max(fetch.end_page());
        let is_near = fetch.first_page() <= self.end + GAP_PAGES;
        let takes = is_near && end - self.first <= RUN_PAGES;
        if takes {
            self.end = end;
            self.fetches.push(fetch);
        }
        takes
    }
}

/// A copy of an item.
struct CopiedItem {
    key: Vec<u8>,
    value: Vec<u8>,
    flags: u32,
    version: u64,
    deadline_unix_secs: Option<u64>,
    stale: bool,
    token_sent: bool,
    number: bool,
    /// The number of the dictionary of a value that is still compressed.
    dictionary: Option<u8>,
}

impl CopiedItem {
    fn of(record: &Record<'_>) -> Option<Self> {
        let (item, dictionary) = match record {
            Record::Item(item) => (item, None),
            Record::Compressed(CompressedItem { item, dictionary }) => (item, Some(*dictionary)),
            _ => return None,
        };
        let Item { flags, version, deadline_unix_secs, stale, token_sent, number, .. } = *item;
        let (key, value) = (item.key.to_vec(), item.value.to_vec());
        Some(Self {
            key,
            value,
            flags,
            version,
            deadline_unix_secs,
            stale,
            token_sent,
            number,
            dictionary,
        })
    }

    fn item(&self) -> Item<'_> {
        let Self { flags, version, deadline_unix_secs, stale, token_sent, number, .. } = *self;
        let (key, value) = (&self.key, &self.value);
        Item { key, value, flags, version, deadline_unix_secs, stale, token_sent, number }
    }
}

impl Walk {
    pub(super) fn over(places: Range<u64>) -> Self {
        let places = places.start..places.end.min(PLACES.end);
        let (slice, under_way, unreadable_keys) = (Slice::default(), Vec::new(), Vec::new());
        Self { places, slice, under_way, unreadable: 0, unreadable_keys }
    }

    /// Returns the place after the last one of the walk.
    pub fn end(&self) -> u64 {
        self.places.end
    }

    /// Returns the number of records that the disk failed to return, or that were damaged.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// Takes the keys of damaged records, if they are readable.
    pub fn take_unreadable_keys(&mut self) -> Vec<Box<[u8]>> {
        std::mem::take(&mut self.unreadable_keys)
    }

    /// Returns the places of the current slice, or of the last one if it is done.
    pub fn slice(&self) -> Range<u64> {
        self.slice.places.clone()
    }

    /// Returns how much of the walk is done, from 0 to 1.
    pub fn progress(&self) -> f64 {
        self.slice.places.start as f64 / self.places.end.max(1) as f64
    }

    /// True if the current slice has shown the key.
    pub fn has_shown(&self, identity: u128) -> bool {
        self.slice.shown.contains(&identity)
    }

    /// Lists a finished slice again, because a key may have been added to it. Items that were shown
    /// are not shown again.
    pub fn list_again(&mut self) {
        (self.slice.is_open, self.slice.is_unlisted) = (true, true);
    }

    /// Returns the memory that the walk uses, in bytes.
    pub fn held_bytes(&self) -> usize {
        let Slice { runs, listed, shown, .. } = &self.slice;
        let fetches: usize = runs.iter().map(|run| run.fetches.capacity()).sum();
        fetches * size_of::<Fetch>()
            + runs.capacity() * size_of::<Run>()
            + listed.capacity() * (size_of::<Address>() + 1)
            + shown.capacity() * (size_of::<u128>() + 1)
            + self.unreadable_keys.len() * (size_of::<Box<[u8]>>() + KEY_BYTES_MAX)
    }

    pub(super) fn step<F: File>(
        &mut self,
        shared: &Shared<F>,
        read: Vec<Result<Vec<Page>, DiskError>>,
        show: Show<'_>,
    ) -> WalkStep {
        for (run, pages) in std::mem::take(&mut self.under_way).into_iter().zip(read) {
            self.look(shared, &run, pages, show);
        }
        if !self.slice.runs.is_empty() {
            return self.next_reads();
        }
        if std::mem::take(&mut self.slice.is_unlisted) {
            self.list(shared, show);
            return WalkStep::GoesOn;
        }
        if std::mem::take(&mut self.slice.is_open) {
            return WalkStep::Slice;
        }
        if self.places.is_empty() {
            return WalkStep::Over;
        }
        let places = shared.catalog.next_places(self.places.start, SLICE_ENTRIES);
        let places = places.start..places.end.min(self.places.end);
        self.places.start = places.end;
        // The caller has taken the keys of the previous slice, or does not need them.
        self.unreadable_keys.clear();
        self.slice = Slice { places, is_open: true, is_unlisted: true, ..Slice::default() };
        WalkStep::GoesOn
    }

    /// Lists the slice. Shows the records that are not durable yet, and plans the reads of the
    /// others.
    fn list<F: File>(&mut self, shared: &Shared<F>, show: Show<'_>) {
        if shared.is_flush_due(shared.now()) {
            // The flush removes all of them.
            return;
        }
        let mut found = Vec::new();
        // While the partition is locked, the segment of an entry is not freed.
        shared.catalog.list(self.slice.places.clone(), |location| {
            let at = shared.extents.address(location);
            found.extend(at.map(|at| (location, at)));
        });
        found.retain(|(_, at)| self.slice.listed.insert(*at));
        found.sort_unstable_by_key(|(location, _)| (location.extent(), location.offset()));
        for (location, at) in found {
            let pending = || shared.head().pending(at, CopiedItem::of).flatten();
            match (!shared.is_synced(at)).then(pending).flatten() {
                Some(copied) => match copied.dictionary {
                    Some(dictionary) => {
                        let item = copied.item();
                        self.show_compressed(shared, &CompressedItem { item, dictionary }, show);
                    }
                    None => self.show(shared, &copied.item(), show),
                },
                None => self.plan(shared, location.extent(), at),
            }
        }
    }

    /// Plans the read of a record that is after the planned ones in the file.
    fn plan<F>(&mut self, shared: &Shared<F>, extent: Extent, at: Address) {
        // Most records are about as long as the others in their segment.
        let guess = shared.extents.mean_bytes(extent).saturating_sub(RECORD_HEADER_BYTES);
        let fetch = Fetch::new(extent, at, guess);
        let runs = &mut self.slice.runs;
        if !runs.back_mut().is_some_and(|run| run.takes(fetch)) {
            runs.push_back(Run::of(fetch));
        }
    }

    /// Returns the next reads: only a few, to limit the memory for their pages.
    fn next_reads(&mut self) -> WalkStep {
        let mut pages = 0;
        let fits = |run: &Run| {
            pages += run.pages();
            pages <= READ_PAGES
        };
        let runs = &mut self.slice.runs;
        let count = runs.iter().take(READS).map(fits).take_while(|fits| *fits).count().max(1);
        self.under_way.extend(runs.drain(..count));
        let wanted = |run: &Run| PageRead { first: run.first, pages: zeroed_pages(run.pages()) };
        WalkStep::Reads(self.under_way.iter().map(wanted).collect())
    }

    /// Processes the records in the pages that were read.
    fn look<F: File>(
        &mut self,
        shared: &Shared<F>,
        run: &Run,
        pages: Result<Vec<Page>, DiskError>,
        show: Show<'_>,
    ) {
        for fetch in &run.fetches {
            if !shared.extents.holds(fetch.extent(), fetch.at().number()) {
                // Reclaim moved the item, or the item is gone.
                self.slice.is_unlisted = true;
                continue;
            }
            let Ok(pages) = &pages else {
                self.unreadable += 1;
                continue;
            };
            let pages = &pages[(fetch.first_page() - run.first) as usize..];
            let fetch = fetch.with_pages(pages.len());
            if let Some(longer) = fetch.longer(pages) {
                self.slice.runs.push_front(Run::of(longer));
                continue;
            }
            match shared.log.record(&fetch, pages) {
                Ok(Record::Item(item)) => self.show(shared, &item, show),
                Ok(Record::Compressed(compressed)) => {
                    self.show_compressed(shared, &compressed, show);
                }
                // The catalog contains only items and lost items.
                Ok(record) => {
                    self.unreadable += 1;
                    if let Record::Lost { key: key @ [_, ..], .. } = record {
                        self.unreadable_keys.push(key.into());
                    }
                }
                Err(_) => {
                    self.unreadable += 1;
                    let key = shared.key_of_damaged(&fetch, pages);
                    self.unreadable_keys.extend(key.map(Box::from));
                }
            }
        }
    }

    fn show_compressed<F>(
        &mut self,
        shared: &Shared<F>,
        compressed: &CompressedItem<'_>,
        show: Show<'_>,
    ) {
        match shared.values.dictionaries().value_of(compressed) {
            Ok(value) => {
                self.show(shared, &Item { value: &value, ..compressed.item }, show);
            }
            Err(_) => {
                self.unreadable += 1;
                self.unreadable_keys.push(compressed.item.key.into());
            }
        }
    }

    fn show<F>(&mut self, shared: &Shared<F>, item: &Item<'_>, show: Show<'_>) {
        let now = shared.now();
        let is_expired = item.deadline_unix_secs.is_some_and(|deadline| deadline <= now);
        let identity = shared.hasher.identity(item.key);
        if !is_expired && self.slice.shown.insert(identity) {
            show(identity, item);
        }
    }
}

impl<D: Directory + 'static> Store<D> {
    /// Begins a walk over the items at a range of places ([`place_of`]). [`PLACES`] covers all
    /// items.
    ///
    /// An item that does not change during the walk is shown exactly once, wherever reclaim moves
    /// it. An item that changes during the walk is shown at most once, in a state that it had
    /// during the walk. It is certainly shown if its key has an item during the complete walk.
    pub fn walk(&self, places: Range<u64>) -> Walk {
        Walk::over(places)
    }

    /// Begins a walk over about `entries` items, from a place on.
    ///
    /// Cost: one lock per partition of the catalog in this range.
    pub fn walk_slice(&self, place: u64, entries: usize) -> Walk {
        Walk::over(self.shared.catalog.next_places(place, entries))
    }

    /// Continues a walk with the pages that the last step requested. Calls `show` with items that
    /// are not expired, and with the [`Store::identity`] of their keys.
    ///
    /// Cost: a step lists some thousand entries of the catalog and copies records that are not
    /// durable under the head lock, or it processes the pages. It holds locks no longer than an
    /// operation does.
    pub fn walk_on(
        &self,
        walk: &mut Walk,
        read: Vec<Result<Vec<Page>, DiskError>>,
        mut show: impl FnMut(u128, &Item<'_>),
    ) -> WalkStep {
        walk.step(&self.shared, read, &mut show)
    }

    /// Returns the identity of a key. No other key has the same identity.
    pub fn identity(&self, key: &[u8]) -> u128 {
        self.shared.hasher.identity(key)
    }
}

/// Returns the place at which a walk lists the key with this identity. Several keys may have the
/// same place.
pub fn place_of(identity: u128) -> u64 {
    KeyBits::of(identity).place()
}

/// The maximum length of a key.
const KEY_BYTES_MAX: usize = 250;

/// The approximate number of entries in a slice. They use half a MiB.
const SLICE_ENTRIES: usize = 8192;

/// The maximum number of reads per step, and of their pages in total. A single longer read is
/// allowed.
const READS: usize = 8;
const READ_PAGES: usize = 128;

/// The maximum number of pages per read, unless one record has more.
const RUN_PAGES: u64 = 32;

/// A read may include this many pages that are not needed, to reach the next record.
const GAP_PAGES: u64 = 4;
