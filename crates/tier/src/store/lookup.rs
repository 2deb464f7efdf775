//! Finding the item of a key on the disk.
//!
//! A lookup says which pages it needs, and goes on with them: the caller that reads them may wait
//! for the disk, or do something else meanwhile.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use zerocopy::IntoBytes;

use super::catalog::{Filed, Location};
use super::error::{FindError, Unreadable};
use super::shared::Shared;
use crate::disk::{DiskError, File, PAGE_BYTES, Page};
use crate::format::{Address, Item, RECORD_HEADER_BYTES, Record};
use crate::log::{Fetch, ReadError};

/// An item that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredItem {
    /// Its value.
    pub value: Vec<u8>,
    /// Bits that the client stored with the item.
    pub flags: u32,
    /// The item's version.
    pub version: u64,
    /// The second from which it is expired, as a Unix time; `None`: never.
    pub deadline_unix_secs: Option<u64>,
    /// The value is out of date.
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

    /// True if it is expired at a Unix time.
    pub fn is_expired(&self, now_unix_secs: u64) -> bool {
        self.deadline_unix_secs.is_some_and(|deadline| deadline <= now_unix_secs)
    }
}

/// What the disk was found to have of a key: for a change that was refused with
/// [`Refusal::NeedsDisk`](super::Refusal::NeedsDisk).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The key's record.
    pub own: Option<Address>,
    /// Records of other keys that the catalog cannot tell from it.
    pub others: Vec<Address>,
}

/// Pages that a lookup needs: read them from page `first` of the log's file on.
#[derive(Debug)]
pub struct Wanted {
    /// The first page, counted from the begin of the file.
    pub first: u64,
    /// The memory for the pages.
    pub pages: Vec<Page>,
}

/// What a look at one record shows.
enum Seen {
    Own(StoredItem),
    Other,
    /// The record may be the key's, and cannot be read.
    Unreadable(Unreadable),
    /// The record was moved meanwhile.
    Moved,
    /// It is on the disk.
    Unread(Wanted),
}

impl Seen {
    fn of(record: &Record<'_>, key: &[u8]) -> Self {
        match record {
            Record::Item(item) if item.key == key => Self::Own(StoredItem::of(item)),
            Record::Lost { key: [], .. } => Self::Unreadable(Unreadable::Lost),
            Record::Lost { key: lost, .. } if *lost == key => Self::Unreadable(Unreadable::Lost),
            _ => Self::Other,
        }
    }
}

/// The search for the item of a key.
#[derive(Debug)]
pub struct Lookup {
    key: Box<[u8]>,
    filed: Filed,
    /// The records that may be the key's.
    candidates: Vec<Location>,
    /// The first candidate that was not looked at yet.
    next: usize,
    /// What is being read of it.
    fetch: Option<Fetch>,
    known: Known,
    item: Option<StoredItem>,
    /// Records that may be the key's and cannot be read, and why the first one cannot.
    unreadable: Vec<Address>,
    why: Option<Unreadable>,
}

impl Lookup {
    pub(super) fn begin<F: File>(shared: &Shared<F>, key: &[u8]) -> Self {
        let (key, filed) = (key.into(), shared.filed(key));
        let (mut candidates, known) = (Vec::new(), Known::default());
        shared.catalog.candidates(filed, &mut candidates);
        let unreadable = Vec::new();
        let (next, fetch, item, why) = (0, None, None, None);
        Self { key, filed, candidates, next, fetch, known, item, unreadable, why }
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Goes on, with the pages that were wanted. Returns the next pages that it needs; `None` at
    /// its end.
    pub(super) fn advance<F: File>(
        &mut self,
        shared: &Shared<F>,
        read: Option<Result<Vec<Page>, DiskError>>,
    ) -> Result<Option<Wanted>, FindError> {
        let mut seen = match (read, self.fetch.take()) {
            (Some(read), Some(fetch)) => Some(self.take(shared, fetch, read)),
            _ => None,
        };
        loop {
            let settled = match seen.take() {
                Some(seen) => seen,
                None => match self.candidates.get(self.next) {
                    Some(location) => self.look(shared, *location),
                    None if self.is_settled(shared) => return self.end(),
                    None => Seen::Moved,
                },
            };
            match settled {
                Seen::Unread(wanted) => return Ok(Some(wanted)),
                Seen::Moved => {
                    thread::yield_now();
                    *self = Self::begin(shared, &self.key);
                }
                settled => self.note(shared, settled),
            }
        }
    }

    /// Ends. If the item was not found, one of the records that cannot be read is taken for its
    /// own.
    fn end(&mut self) -> Result<Option<Wanted>, FindError> {
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

    /// What it has found, at its end.
    pub fn found(self) -> (Known, Option<StoredItem>) {
        (self.known, self.item)
    }

    /// True if no record can have been missed that was moved while others were looked at.
    fn is_settled<F: File>(&self, shared: &Shared<F>) -> bool {
        if self.item.is_some() || self.candidates.is_empty() {
            return true;
        }
        let mut now = Vec::new();
        shared.catalog.candidates(self.filed, &mut now);
        now == self.candidates
    }

    fn note<F: File>(&mut self, shared: &Shared<F>, seen: Seen) {
        let at = shared.extents.address(self.candidates[self.next]);
        self.next += 1;
        match (seen, at) {
            (Seen::Own(item), _) => (self.known.own, self.item) = (at, Some(item)),
            (Seen::Unreadable(why), Some(at)) => {
                self.unreadable.push(at);
                self.why.get_or_insert(why);
            }
            (_, at) => self.known.others.extend(at),
        }
    }

    fn look<F: File>(&mut self, shared: &Shared<F>, location: Location) -> Seen {
        let Some(at) = shared.extents.address(location) else { return Seen::Moved };
        if !shared.is_synced(at)
// The lock of the head keeps the unit where it is.
// Rule: BufferBracket
            && let Some(seen) = shared.head().pending(at, |record| Seen::of(record, &self.key))
        {
            return seen;
        }
        shared.counts.reads.fetch_add(1, Relaxed);
        let extent = location.extent();
        // Most records are about as long as the others of their segment.
        let guess = shared.extents.mean_bytes(extent).saturating_sub(RECORD_HEADER_BYTES);
        self.want(shared, Fetch::new(extent, at, guess))
    }

    fn want<F>(&mut self, shared: &Shared<F>, fetch: Fetch) -> Seen {
        let wanted = Wanted { first: fetch.first_page(), pages: fetch.pages() };
        let bytes = wanted.pages.len() * PAGE_BYTES;
        shared.counts.read_bytes.fetch_add(bytes as u64, Relaxed);
        self.fetch = Some(fetch);
        Seen::Unread(wanted)
    }

    /// Looks at the pages that were read.
    fn take<F: File>(
        &mut self,
        shared: &Shared<F>,
        fetch: Fetch,
        read: Result<Vec<Page>, DiskError>,
    ) -> Seen {
        // Rule: ReadBracket
        if !shared.extents.holds(fetch.extent(), fetch.at().number()) {
            return Seen::Moved;
        }
        let pages = match read {
            Ok(pages) => pages,
            Err(error) => return Seen::Unreadable(error.into()),
        };
        if let Some(longer) = fetch.longer(&pages) {
            return self.want(shared, longer);
        }
        match shared.log.record(&fetch, &pages) {
            Ok(record) => Seen::of(&record, &self.key),
            Err(ReadError::Disk(error)) => Seen::Unreadable(error.into()),
            Err(ReadError::Damaged { at, damage }) => match shared.key_of_damaged(&fetch, &pages) {
                Some(key) if *key != *self.key => Seen::Other,
                _ => Seen::Unreadable(Unreadable::Damaged { at, damage }),
            },
        }
    }
}

impl<F: File> Shared<F> {
    /// The key of a record that is damaged; `None` if the key is damaged, too. The catalog knows
    /// 33 bits of its hash.
    pub(super) fn key_of_damaged<'p>(&self, fetch: &Fetch, pages: &'p [Page]) -> Option<&'p [u8]> {
        let at = fetch.at();
        let key = Record::claimed_key(&pages.as_bytes()[at.offset() % PAGE_BYTES..])?;
        let location = Location::new(fetch.extent(), at.offset());
        self.catalog.has(self.filed(key), location).then_some(key)
    }
}

/// Finds the item of a key, and which records are of other keys. Waits for the disk.
pub(super) fn find<F: File>(
    shared: &Shared<F>,
    key: &[u8],
) -> Result<(Known, Option<StoredItem>), FindError> {
    let mut lookup = Lookup::begin(shared, key);
    let mut read = None;
    while let Some(wanted) = lookup.advance(shared, read)? {
        read = Some(shared.log.read_pages(wanted.first, wanted.pages));
    }
    Ok(lookup.found())
}
