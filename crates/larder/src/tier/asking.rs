//! Asking the disk without waiting for it.
//!
//! A server's thread serves many clients: it does not wait for the disk on behalf of one of them.
//! It reads what an operation will need, serves others meanwhile, and gives what was found to the
//! operation.
//!
//! ```text
//! asks_disk ─▶ DiskLookup ─▶ DiskRead ─▶ DiskPages ─▶ give_found ─▶ the operation, which finds it there
//!                  ▲                         │
//!                  └─────────────────────────┘ a longer item, or a key that cannot be told from another
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_tier::disk::DiskError;
use larder_tier::disk::real::RealDirectory;
use larder_tier::disk::{Page, page_bytes_mut};
use larder_tier::store::{FindError, Known, Lookup, Store, StoredItem, Wanted};

use super::Tier;
use crate::cache::Cache;

/// What the disk has of a key.
pub(super) type Found = Result<(Known, Option<StoredItem>), FindError>;

thread_local! {
    /// What was found for the thread's next operations.
    static FOUND: RefCell<Vec<(Box<[u8]>, Found)>> = const { RefCell::new(Vec::new()) };
    /// True if the thread's operations have waited for the disk long enough.
    static HAS_WAITED: Cell<bool> = const { Cell::new(false) };
}

/// How an operation depends on the item of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// It reads the item.
    Reads,
    /// It changes the item, or whether it does depends on the item.
    Changes,
    /// It replaces the item, whatever that is.
    Replaces,
}

/// A search for an item on the disk.
#[derive(Debug)]
pub struct DiskLookup {
    lookup: Lookup,
    failure: Option<FindError>,
}

/// A read of the disk that a lookup needs.
pub struct DiskRead {
    store: Arc<Store<RealDirectory>>,
    wanted: Wanted,
}

/// What a read of the disk has returned.
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
    pub(super) fn new(store: Arc<Store<RealDirectory>>, wanted: Wanted) -> Self {
        Self { store, wanted }
    }

    /// The file.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.store.file().descriptor()
    }

    /// Where the bytes are in the file.
    pub fn offset(&self) -> u64 {
        self.wanted.first * size_of::<Page>() as u64
    }

    /// True if the file system begins the read without waiting for it.
    pub fn is_prompt(&self) -> bool {
        self.store.file().is_prompt()
    }

    /// The memory for the bytes. It stays where it is while `self` exists.
    pub fn room(&mut self) -> &mut [u8] {
        page_bytes_mut(&mut self.wanted.pages)
    }

    /// Reads them. Blocks.
    pub fn perform(self) -> DiskPages {
        DiskPages(self.store.read(self.wanted))
    }

    /// Ends a read by which the system has read `bytes` into [`Self::room`], or failed. What is
    /// missing is read again, and that blocks: it is rare, and shows the system's error.
    pub fn complete(self, bytes: usize) -> DiskPages {
        match bytes == size_of_val(self.wanted.pages.as_slice()) {
            true => DiskPages(Ok(self.wanted.pages)),
            false => self.perform(),
        }
    }
}

impl Tier {
    /// As [`Store::find`], with what was found for this operation if it still holds.
    pub(super) fn find(&self, key: &[u8]) -> Found {
        match take_found(key) {
            Some(Ok(found)) if self.store.is_as_found(key, &found.0) => Ok(found),
            Some(Err(error)) => Err(error),
            _ => self.store.find(key),
        }
    }

    /// True if the disk may have the item of a key that memory lacks, and nothing that was found
    /// for this operation says what it has.
    pub(super) fn must_ask(&self, key: &[u8]) -> bool {
        self.store.may_have(key) && !self.has_found(key)
    }

    /// True if changes wait until earlier ones are durable.
    fn is_crowded(&self) -> bool {
        !self.is_cache() && self.store.is_crowded()
    }

    /// Until when a change waits for the disk.
    pub(super) fn patience(&self) -> Instant {
        Instant::now() + if HAS_WAITED.get() { Duration::ZERO } else { self.wait }
    }

    /// True if something was found for this operation, and still holds.
    fn has_found(&self, key: &[u8]) -> bool {
        match take_found(key) {
            Some(Ok(found)) if !self.store.is_as_found(key, &found.0) => false,
            Some(found) => {
                FOUND.with_borrow_mut(|all| all.push((key.into(), found)));
                true
            }
            None => false,
        }
    }
}

/// Takes what was found of a key.
fn take_found(key: &[u8]) -> Option<Found> {
    FOUND.with_borrow_mut(|all| {
        let at = all.iter().position(|(of, _)| **of == *key)?;
        Some(all.swap_remove(at).1)
    })
}

impl Cache {
    /// True if an operation on the key would wait for the disk: it needs an item that only the disk
    /// may have, which [`Cache::look_up_on_disk`] finds without waiting, or it is a change and
    /// [`Cache::is_disk_crowded`].
    ///
    /// Cost: a load without a disk tier; otherwise a lookup in memory, and one in the disk's index
    /// if memory lacks the item.
    #[inline]
    pub fn asks_disk(&self, key: &[u8], asking: Asking) -> bool {
        self.shared().tier.own().is_some_and(|tier| self.asks(tier, key, asking))
    }

    fn asks(&self, tier: &Tier, key: &[u8], asking: Asking) -> bool {
        let is_resident = || self.shared().engine.peek(key, self.now()).is_some();
        let may_ask = match asking {
            // A store without conditions does not change what the disk of a cache has before.
            Asking::Replaces if tier.is_cache() => false,
            Asking::Reads => !is_resident() && tier.store.may_have(key),
            Asking::Changes | Asking::Replaces => tier.store.may_ask(key, is_resident()),
        };
        let must_wait = asking != Asking::Reads && !HAS_WAITED.get() && tier.is_crowded();
        must_wait || may_ask && !tier.has_found(key)
    }

    /// True if changes must wait until the disk has taken earlier ones.
    ///
    /// Cost: a load.
    pub fn is_disk_crowded(&self) -> bool {
        self.shared().tier.own().is_some_and(Tier::is_crowded)
    }

    /// Says whether the changes of this thread have waited long enough for the disk to take earlier
    /// ones: they fail instead of waiting.
    pub fn note_disk_waited(&self, has_waited: bool) {
        HAS_WAITED.set(has_waited);
    }

    /// Begins to look a key up on the disk. Returns the lookup and its first read; `None` if it
    /// needs none, and then it can be given to [`Cache::give_found`]. `None` without a disk tier.
    pub fn look_up_on_disk(&self, key: &[u8]) -> Option<(DiskLookup, Option<DiskRead>)> {
        let tier = self.shared().tier.own()?;
        let mut lookup = DiskLookup { lookup: tier.store.look_up(key), failure: None };
        let read = self.advance(&mut lookup, None);
        Some((lookup, read))
    }

    /// Goes on with a lookup after its read. Returns its next read; `None` at its end.
    pub fn go_on(&self, lookup: &mut DiskLookup, pages: DiskPages) -> Option<DiskRead> {
        self.advance(lookup, Some(pages.0))
    }

    fn advance(
        &self,
        lookup: &mut DiskLookup,
        pages: Option<Result<Vec<Page>, DiskError>>,
    ) -> Option<DiskRead> {
        let tier = self.shared().tier.own()?;
        match tier.store.advance(&mut lookup.lookup, pages) {
            Ok(wanted) => Some(DiskRead::new(Arc::clone(&tier.store), wanted?)),
            Err(error) => {
                lookup.failure = Some(error);
                None
            }
        }
    }

    /// Gives what a lookup has found to the next operation of this thread on its key.
    pub fn give_found(&self, lookup: DiskLookup) {
        let key = lookup.lookup.key().into();
        let found = match lookup.failure {
            Some(error) => Err(error),
            None => Ok(lookup.lookup.found()),
        };
        FOUND.with_borrow_mut(|all| all.push((key, found)));
    }

    /// Forgets what was given to this thread and no operation has taken.
    pub fn forget_found(&self) {
        FOUND.with_borrow_mut(Vec::clear);
    }
}
