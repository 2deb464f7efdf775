//! Looks up the item of a key on the disk.
//!
//! The catalog returns *candidates*: the locations of all records that may belong to the key,
//! because different keys can share a tag. A lookup reads the candidates until it finds the key. It
//! does not read the disk itself: it returns the pages that it needs and continues once the caller
//! has read them. The caller decides whether to block for the disk or to do other work in between.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use zerocopy::IntoBytes;

use super::Store;
use super::catalog::{KeyBits, Location};
use super::error::{FindError, Unreadable};
use super::shared::Shared;
use crate::disk::{Directory, DiskError, File, PAGE_BYTES, Page};
use crate::format::{Address, CompressedItem, Item, RECORD_HEADER_BYTES, Record};
use crate::log::{Fetch, ReadError};

/// An item that was read from the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredItem {
    /// The value.
    pub value: Vec<u8>,
    /// The client flags.
    pub flags: u32,
    /// The version.
    pub version: u64,
    /// The second at which it expires, as a Unix time; `None`: never.
    pub deadline_unix_secs: Option<u64>,
    /// True if the value is out of date.
    pub stale: bool,
}

impl StoredItem {
    fn of(item: &Item<'_>) -> Self {
        Self {
            value: item.value.to_vec(),
            flags: item.flags,
            version: item.version,
            deadline_unix_secs: item.deadline_unix_secs,
            stale: item.stale,
        }
    }

    /// True if the item is expired at this Unix time.
    pub fn is_expired(&self, now_unix_secs: u64) -> bool {
        self.deadline_unix_secs.is_some_and(|deadline| deadline <= now_unix_secs)
    }
}

/// The records of a key on the disk. The caller passes it to a change that was refused with
/// [`Refusal::NeedsDisk`](super::Refusal::NeedsDisk).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecords {
    /// The key's record.
    pub own: Option<Address>,
    /// Records of other keys that share its tag in the catalog.
    pub others: Vec<Address>,
}

/// Pages that a lookup needs. The caller reads them from page `first` of the log file on.
#[derive(Debug)]
pub struct PageRead {
    /// The first page, counted from the start of the file.
    pub first: u64,
    /// The buffer for the pages.
    pub pages: Vec<Page>,
}

/// The result of examining one record.
enum RecordLookup {
    Own(StoredItem),
    /// The key's record, with a value that is still compressed, and the number of its dictionary.
    Compressed(StoredItem, u8),
    /// The record belongs to another key.
    Other,
    /// The record may belong to the key, but cannot be read.
    Unreadable(Unreadable),
    /// Reclaim moved the record in the meantime.
    Moved,
    /// The record is on the disk.
    Unread(PageRead),
}

impl RecordLookup {
    fn of(record: &Record<'_>, key: &[u8]) -> Self {
        match record {
            Record::Item(item) if item.key == key => Self::Own(StoredItem::of(item)),
            Record::Compressed(CompressedItem { item, dictionary }) if item.key == key => {
                Self::Compressed(StoredItem::of(item), *dictionary)
            }
            Record::Lost { key: [], .. } => Self::Unreadable(Unreadable::Lost),
            Record::Lost { key: lost, .. } if *lost == key => Self::Unreadable(Unreadable::Lost),
            _ => Self::Other,
        }
    }
}

/// A lookup of the item of a key.
#[derive(Debug)]
pub struct Lookup {
    key: Box<[u8]>,
    filed: KeyBits,
    /// The records that may belong to the key.
    candidates: Vec<Location>,
    /// The first candidate that was not examined yet.
    next: usize,
    /// The read that is in progress, of the candidate `next`.
    fetch: Option<Fetch>,
    /// The records that the lookup has found so far.
    known: KeyRecords,
    /// The item of the key, once it is found.
    item: Option<StoredItem>,
    /// Records that may belong to the key but cannot be read.
    unreadable: Vec<Address>,
    /// The reason why the first record in `unreadable` cannot be read.
    why: Option<Unreadable>,
}

impl Lookup {
    pub(super) fn begin<F: File>(shared: &Shared<F>, key: &[u8]) -> Self {
        let (key, filed) = (key.into(), shared.filed(key));
        let (mut candidates, known) = (Vec::new(), KeyRecords::default());
        shared.catalog.candidates(filed, &mut candidates);
        let unreadable = Vec::new();
        let (next, fetch, item, why) = (0, None, None, None);
        Self { key, filed, candidates, next, fetch, known, item, unreadable, why }
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Continues with the requested pages. Returns the next pages that it needs, or `None` when it
    /// has finished.
    pub(super) fn advance<F: File>(
        &mut self,
        shared: &Shared<F>,
        read: Option<Result<Vec<Page>, DiskError>>,
    ) -> Result<Option<PageRead>, FindError> {
        let mut seen = match (read, self.fetch.take()) {
            (Some(read), Some(fetch)) => Some(self.take(shared, fetch, read)),
            _ => None,
        };
        loop {
            let settled = match seen.take().map(|seen| self.decompressed(shared, seen)) {
                Some(seen) => seen,
                None => match self.candidates.get(self.next) {
                    Some(location) => {
                        let seen = self.look(shared, *location);
                        self.decompressed(shared, seen)
                    }
                    None if self.is_settled(shared) => return self.end(),
                    None => RecordLookup::Moved,
                },
            };
            match settled {
                RecordLookup::Unread(wanted) => return Ok(Some(wanted)),
                RecordLookup::Moved => {
                    thread::yield_now();
                    *self = Self::begin(shared, &self.key);
                }
                settled => self.note(shared, settled),
            }
        }
    }

    /// Finishes the lookup. If no item was found, the first unreadable record counts as the key's
    /// own.
    fn end(&mut self) -> Result<Option<PageRead>, FindError> {
        if let Some(cause) = self.why.take().filter(|_| self.item.is_none()) {
            let mut known = std::mem::take(&mut self.known);
            let mut unreadable = self.unreadable.drain(..);
            known.own = unreadable.next();
            known.others.extend(unreadable);
            return Err(FindError { cause, known });
        }
        self.known.others.append(&mut self.unreadable);
        Ok(None)
    }

    /// Returns the result of a finished lookup.
    pub fn found(self) -> (KeyRecords, Option<StoredItem>) {
        (self.known, self.item)
    }

    /// True if the lookup cannot have missed a record that was moved while it examined others.
    fn is_settled<F: File>(&self, shared: &Shared<F>) -> bool {
        if self.item.is_some() || self.candidates.is_empty() {
            return true;
        }
        let mut now = Vec::new();
        shared.catalog.candidates(self.filed, &mut now);
        now == self.candidates
    }

    /// Decompresses the value that was found. The caller holds no lock.
    fn decompressed<F: File>(&self, shared: &Shared<F>, seen: RecordLookup) -> RecordLookup {
        let RecordLookup::Compressed(item, dictionary) = seen else { return seen };
        match shared.values.dictionaries().decompress(dictionary, &item.value) {
            Ok(value) => RecordLookup::Own(StoredItem { value, ..item }),
            Err(damage) => match shared.extents.address(self.candidates[self.next]) {
                Some(at) => RecordLookup::Unreadable(Unreadable::Damaged { at, damage }),
                None => RecordLookup::Moved,
            },
        }
    }

    fn note<F: File>(&mut self, shared: &Shared<F>, seen: RecordLookup) {
        let at = shared.extents.address(self.candidates[self.next]);
        self.next += 1;
        match (seen, at) {
            (RecordLookup::Own(mut item), _) => {
                shared.lives.apply(&mut item);
                (self.known.own, self.item) = (at, Some(item));
            }
            (RecordLookup::Unreadable(why), Some(at)) => {
                self.unreadable.push(at);
                self.why.get_or_insert(why);
            }
            (_, at) => self.known.others.extend(at),
        }
    }

    fn look<F: File>(&mut self, shared: &Shared<F>, location: Location) -> RecordLookup {
        let Some(at) = shared.extents.address(location) else { return RecordLookup::Moved };
        if !shared.is_synced(at)
// The head lock keeps the unit in memory.
// Rule: BufferBracket
            && let Some(seen) = shared.head().pending(at, |record| RecordLookup::of(record, &self.key))
        {
            return seen;
        }
        shared.counts.reads.fetch_add(1, Relaxed);
        let extent = location.extent();
        // Most records are about as long as the others in their segment.
        let guess = shared.extents.mean_bytes(extent).saturating_sub(RECORD_HEADER_BYTES);
        self.want(shared, Fetch::new(extent, at, guess))
    }

    fn want<F>(&mut self, shared: &Shared<F>, fetch: Fetch) -> RecordLookup {
        let wanted = PageRead { first: fetch.first_page(), pages: fetch.pages() };
        let bytes = wanted.pages.len() * PAGE_BYTES;
        shared.counts.read_bytes.fetch_add(bytes as u64, Relaxed);
        self.fetch = Some(fetch);
        RecordLookup::Unread(wanted)
    }

    /// Examines the pages that were read.
    fn take<F: File>(
        &mut self,
        shared: &Shared<F>,
        fetch: Fetch,
        read: Result<Vec<Page>, DiskError>,
    ) -> RecordLookup {
        // Rule: ReadBracket
        if !shared.extents.holds(fetch.extent(), fetch.at().number()) {
            return RecordLookup::Moved;
        }
        let pages = match read {
            Ok(pages) => pages,
            Err(error) => return RecordLookup::Unreadable(error.into()),
        };
        if let Some(longer) = fetch.longer(&pages) {
            return self.want(shared, longer);
        }
        match shared.log.record(&fetch, &pages) {
            Ok(record) => RecordLookup::of(&record, &self.key),
            Err(ReadError::Disk(error)) => RecordLookup::Unreadable(error.into()),
            Err(ReadError::Damaged { at, damage }) => match shared.key_of_damaged(&fetch, &pages) {
                Some(key) if *key != *self.key => RecordLookup::Other,
                _ => RecordLookup::Unreadable(Unreadable::Damaged { at, damage }),
            },
        }
    }
}

impl<F: File> Shared<F> {
    /// Returns the key of a damaged record, or `None` if the key is damaged as well. The catalog
    /// has 33 bits of its hash to check it.
    pub(super) fn key_of_damaged<'p>(&self, fetch: &Fetch, pages: &'p [Page]) -> Option<&'p [u8]> {
        let at = fetch.at();
        let key = Record::claimed_key(&pages.as_bytes()[at.offset() % PAGE_BYTES..])?;
        let location = Location::new(fetch.extent(), at.offset());
        self.catalog.has(self.filed(key), location).then_some(key)
    }
}

impl<D: Directory + 'static> Store<D> {
    /// True if the disk may have an item of the key.
    ///
    /// Cost: a hash of the key, and one or two cache misses.
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.may_ask(key, false)
    }

    /// Finds the item of a key, even if it has expired.
    ///
    /// Cost: usually no read of the disk if the item does not exist, and one if it exists. Blocks.
    ///
    /// # Errors
    ///
    /// [`FindError`].
    pub fn find(&self, key: &[u8]) -> Result<(KeyRecords, Option<StoredItem>), FindError> {
        find(&self.shared, key)
    }

    /// Begins a lookup of the item of a key. Unlike [`Store::find`] it does not block. The caller
    /// continues with [`Store::advance`].
    ///
    /// Cost: a hash of the key, and one or two cache misses.
    pub fn look_up(&self, key: &[u8]) -> Lookup {
        Lookup::begin(&self.shared, key)
    }

    /// Continues a lookup with the pages that it requested. Returns the next pages that it needs,
    /// or `None` when it has finished.
    ///
    /// # Errors
    ///
    /// [`FindError`].
    pub fn advance(
        &self,
        lookup: &mut Lookup,
        read: Option<Result<Vec<Page>, DiskError>>,
    ) -> Result<Option<PageRead>, FindError> {
        lookup.advance(&self.shared, read)
    }

    /// Reads the pages that a lookup needs. Blocks.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub fn read(&self, wanted: PageRead) -> Result<Vec<Page>, DiskError> {
        self.shared.log.read_pages(wanted.first, wanted.pages)
    }

    /// Returns the log file.
    pub fn file(&self) -> &D::File {
        self.shared.log.file()
    }

    /// True if `known` still lists exactly the records that the disk may have of the key.
    pub fn is_as_found(&self, key: &[u8], known: &KeyRecords) -> bool {
        let mut candidates = Vec::new();
        self.shared.catalog.candidates(self.shared.filed(key), &mut candidates);
        let is_known = |location: &Location| {
            let at = self.shared.extents.address(*location);
            at.is_some_and(|at| known.own == Some(at) || known.others.contains(&at))
        };
        candidates.len() == known.others.len() + usize::from(known.own.is_some())
            && candidates.iter().all(is_known)
    }

    /// True if a change or a read of the key may need the disk. `is_resident`: the caller's memory
    /// has a live item of the key.
    ///
    /// Cost: same as [`Store::may_have`].
    pub fn may_ask(&self, key: &[u8], is_resident: bool) -> bool {
        let [first, second] = self.shared.catalog.first_two(self.shared.filed(key));
        if is_resident { second.is_some() } else { first.is_some() }
    }

    /// True if this address is still the newest record of the key. Also false if reclaim has moved
    /// the record.
    pub fn is_current(&self, key: &[u8], at: Address) -> bool {
        let mut candidates = Vec::new();
        self.shared.catalog.candidates(self.shared.filed(key), &mut candidates);
        // The caller promotes the item and calls this under one lock, which its changes also take.
        // Rule: PromoteBracket
        candidates.iter().any(|location| self.shared.extents.address(*location) == Some(at))
    }
}

/// Finds the item of a key, and the records of other keys with the same tag. Blocks.
pub(super) fn find<F: File>(
    shared: &Shared<F>,
    key: &[u8],
) -> Result<(KeyRecords, Option<StoredItem>), FindError> {
    let mut lookup = Lookup::begin(shared, key);
    let mut read = None;
    while let Some(wanted) = lookup.advance(shared, read)? {
        read = Some(shared.log.read_pages(wanted.first, wanted.pages));
    }
    Ok(lookup.found())
}
