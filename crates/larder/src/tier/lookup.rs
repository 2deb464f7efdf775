//! Lookups of items on the disk. The caller of an operation may perform the reads, instead of the
//! operation, so that it can do other work in between.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_region::platform::fd::BorrowedFd;
use larder_tier::disk::DiskError;
use larder_tier::disk::platform::RealDirectory;
use larder_tier::disk::{Page, page_bytes_mut};
use larder_tier::store::{FindError, KeyRecords, Lookup, PageRead, Store, StoredItem};

use super::Tier;
use super::wait::{TakenResult, Wait};

/// The records of a key on the disk, and its item if it has one.
pub(super) type Found = Result<(KeyRecords, Option<StoredItem>), FindError>;

/// How an operation depends on the item of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskNeed {
    /// The operation reads the item.
    Reads,
    /// The operation changes the item, or the item determines whether the operation changes
    /// anything.
    Changes,
    /// The operation replaces the item without reading it.
    Replaces,
}

/// The operation needs the disk. Its caller must look the key up and run the operation again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pending;

/// A lookup of an item on the disk.
#[derive(Debug)]
pub struct DiskLookup {
    lookup: Lookup,
    /// The error that ended the lookup, if any.
    failure: Option<FindError>,
}

/// A disk read that a lookup needs.
pub struct DiskRead {
    store: Arc<Store<RealDirectory>>,
    wanted: PageRead,
}

/// The result of a disk read.
#[derive(Debug)]
pub struct DiskPages(Result<Vec<Page>, DiskError>);

impl fmt::Debug for DiskRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskRead").field("offset", &self.offset()).finish_non_exhaustive()
    }
}

impl DiskPages {
    pub(super) fn into_read(self) -> Result<Vec<Page>, DiskError> {
        self.0
    }
}

impl DiskRead {
    pub(super) fn new(store: Arc<Store<RealDirectory>>, wanted: PageRead) -> Self {
        Self { store, wanted }
    }

    /// Returns the descriptor of the log file.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.store.file().descriptor()
    }

    /// Returns the offset of the bytes in the file.
    pub fn offset(&self) -> u64 {
        self.wanted.first * size_of::<Page>() as u64
    }

    /// True if the file system starts the read without blocking.
    pub fn is_prompt(&self) -> bool {
        self.store.file().is_prompt()
    }

    /// Returns the buffer for the bytes. Its address does not change while `self` exists.
    pub fn room(&mut self) -> &mut [u8] {
        page_bytes_mut(&mut self.wanted.pages)
    }

    /// Performs the read. Blocks.
    pub fn perform(self) -> DiskPages {
        DiskPages(self.store.read(self.wanted))
    }

    /// Completes a read that the system performed: it has read `bytes` bytes into [`Self::room`],
    /// or failed. In the rare case that bytes are missing, repeats the read, to complete it or to
    /// learn the system's error; this blocks.
    pub fn complete(self, bytes: usize) -> DiskPages {
        match bytes == size_of_val(self.wanted.pages.as_slice()) {
            true => DiskPages(Ok(self.wanted.pages)),
            false => self.perform(),
        }
    }
}

impl DiskLookup {
    /// Returns the key, and the result of the lookup.
    pub(super) fn into_found(self) -> (Box<[u8]>, Found) {
        let key = self.lookup.key().into();
        match self.failure {
            Some(error) => (key, Err(error)),
            None => (key, Ok(self.lookup.found())),
        }
    }
}

impl Tier {
    /// Same as [`Store::find`], but takes the result of an earlier lookup for this operation if it
    /// is still valid.
    ///
    /// # Errors
    /// [`Pending`] if the operation must not read the disk itself.
    pub(super) fn find(&self, key: &[u8], wait: Wait<'_>) -> Result<Found, Pending> {
        let Some(deferred) = wait.deferred() else { return Ok(self.store.find(key)) };
        match deferred.take(key, |known| self.store.is_as_found(key, known)) {
            TakenResult::Found(found) => Ok(found),
            TakenResult::Nothing if wait.asks() => Err(Pending),
            TakenResult::Nothing | TakenResult::Before => Ok(self.store.find(key)),
        }
    }

    /// True if an operation on the key would read the disk. `is_resident` returns true if memory
    /// has the item.
    pub(crate) fn must_look_up(
        &self,
        key: &[u8],
        asking: DiskNeed,
        wait: Wait<'_>,
        is_resident: impl FnOnce() -> bool,
    ) -> bool {
        let may_ask = match asking {
            // A store without conditions does not depend on the item on the disk of a cache.
            DiskNeed::Replaces if self.is_cache() => false,
            DiskNeed::Reads => !is_resident() && self.store.may_have(key),
            DiskNeed::Changes | DiskNeed::Replaces => self.store.may_ask(key, is_resident()),
        };
        let holds = |known: &KeyRecords| self.store.is_as_found(key, known);
        let is_found = || wait.deferred().is_some_and(|deferred| deferred.has(key, holds));
        may_ask && !is_found()
    }

    /// True if changes have to wait until earlier ones are durable.
    pub(crate) fn is_crowded(&self) -> bool {
        !self.is_cache() && self.store.is_crowded()
    }

    /// True if this change has to wait until earlier ones are durable.
    pub(crate) fn must_wait_for_room(&self, wait: Wait<'_>) -> bool {
        !wait.has_waited() && self.is_crowded()
    }

    /// Returns the time until which a change waits for the disk.
    pub(super) fn patience(&self, wait: Wait<'_>) -> Instant {
        Instant::now() + if wait.has_waited() { Duration::ZERO } else { self.wait }
    }

    /// Begins a lookup of a key. Returns the lookup and its first read, or `None` if it needs no
    /// read.
    pub(crate) fn look_up(&self, key: &[u8]) -> (DiskLookup, Option<DiskRead>) {
        let mut lookup = DiskLookup { lookup: self.store.look_up(key), failure: None };
        let read = self.advance(&mut lookup, None);
        (lookup, read)
    }

    /// Continues a lookup after its read. Returns its next read, or `None` when the lookup has
    /// finished.
    pub(crate) fn look_on(&self, lookup: &mut DiskLookup, pages: DiskPages) -> Option<DiskRead> {
        self.advance(lookup, Some(pages.0))
    }

    fn advance(
        &self,
        lookup: &mut DiskLookup,
        pages: Option<Result<Vec<Page>, DiskError>>,
    ) -> Option<DiskRead> {
        match self.store.advance(&mut lookup.lookup, pages) {
            Ok(wanted) => Some(DiskRead::new(Arc::clone(&self.store), wanted?)),
            Err(error) => {
                lookup.failure = Some(error);
                None
            }
        }
    }
}
