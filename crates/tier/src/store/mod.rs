//! A durable key-value store: the log, a catalog of it in memory, and two threads.
//!
//! The caller keeps hot items in a memory of its own, and tells the store of every change before
//! the change can be seen:
//!
//! ```text
//! change ─▶ lock of the head ─▶ record at the end of the log ─▶ catalog ─▶ memory ─▶ answer, if need be after a sync
//! miss   ─▶ catalog ─▶ record that is not durable yet, or one read of the disk
//! ```
//!
//! In a directory of mode [`Mode::Cache`] the store has what memory evicts (`cache/`).
//!
//! The lock of the head orders all changes, so that the order of the log is the order in which they
//! happened. One thread writes and syncs. Another one allocates extents and copies what lives in
//! the oldest segment to the head.

mod cache;
mod catalog;
mod error;
mod extents;
mod flushing;
mod head;
mod inspect;
mod lookup;
mod rebuild;
mod settings;
mod shared;
mod space;
mod statistics;
mod table;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::OpenError;
use crate::disk::{Directory, DiskError, Page};
use crate::flusher::Flusher;
use crate::format::{Address, Delay, Item, KeyHasher, Mode, Record};
use crate::tier::Tier;
pub use cache::Kept;
use cache::snapshot;
use catalog::{EXTENTS_MAX, Filed, Location};
pub use error::{FindError, Refusal, StartError};
use head::{Head, Share};
pub use inspect::{Findings, inspect};
pub use lookup::{Known, Lookup, StoredItem, Wanted};
use rebuild::{Rebuilt, rebuild};
pub use settings::{Durability, Settings};
use shared::Shared;
pub use statistics::Statistics;

/// The circumstances of a change.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The second of the change, as a Unix time.
    pub now_unix_secs: u64,
    /// True if the caller's memory has a live item of the key.
    pub is_resident: bool,
    /// Says whether a flush has hidden the change already: nothing is recorded then. It is called
    /// under the lock that also orders flushes.
    pub is_flushed: &'a dyn Fn() -> bool,
}

/// What a start has found in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Items, expired ones included.
    pub items: u64,
    /// Segments of the log.
    pub segments: usize,
    /// The highest version of an item.
    pub version_max: u64,
    /// The latest time that was written, as a Unix time. The clock may have been set back since.
    pub stamp_unix_secs: u64,
    /// Where the log was cut: what followed was not acknowledged as durable.
    pub cut: Option<Address>,
}

/// Whether an awaited record is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// It is.
    Yes,
    /// Not yet.
    NotYet,
    /// The log has failed: it may be or not.
    Failed,
}

/// A durable key-value store. Dropping it is a clean stop, which waits for the disk.
#[derive(Debug)]
pub struct Store<D: Directory> {
    shared: Arc<Shared<D::File>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<D: Directory + 'static> Store<D> {
    /// Recovers the log of a directory and begins to serve it. Reports the segments that are read,
    /// and their number, to `progress`.
    ///
    /// Cost: reads the log once.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub fn start(
        mut tier: Tier<D>,
        settings: Settings,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(Self, Started), StartError> {
        match tier.log().extents() {
            ..EXTENTS_MIN => return Err(StartError::TooSmall),
            EXTENTS_MIN..=EXTENTS_MAX => {}
            _ => return Err(StartError::TooLarge),
        }
        let hasher = KeyHasher::new(&tier.manifest().hash_key);
        let is_cache = tier.manifest().mode == Mode::Cache;
        let rebuilt = if is_cache {
            let snapshot = snapshot::read(&tier, settings.catalog_bytes_max, progress);
            let snapshot = snapshot.map_err(OpenError::from)?;
            // From here on the snapshot is of an earlier epoch: no later start reads it.
            tier.begin_anew()?;
            let empty = || Rebuilt::empty(tier.log().extents(), settings.catalog_bytes_max);
            snapshot.map_or_else(empty, Rebuilt::of_snapshot)
        } else {
            tier.begin_anew()?;
            let now = (settings.clock)();
            rebuild(&tier, &hasher, settings.catalog_bytes_max, (now, progress))?
        };
        let Rebuilt { catalog, extents, segments, free, found, delay, due_unix_secs } = rebuilt;
        let started = Started { items: catalog.items(), segments: segments.len(), ..found };
        // Recovery has synced all that it has read.
        let recovered = segments.back().and_then(|(_, last)| last.further(1));
        let mut head = Head::new(tier.log().seal().clone(), segments, free, delay);
        head.renew_lease(tier.lease(flushing::LEASE)?, flushing::LEASE);
        let log = tier.shared_log();
        let shared = Shared::new(settings, log, hasher, (catalog, extents), head, is_cache);
        let shared = Arc::new(shared);
        shared.version_max.store(started.version_max, Relaxed);
        if is_cache {
            shared.note_due(None, due_unix_secs);
        }
        shared.note_synced(recovered.map(|number| Address::new(number, 0)));
        shared.estimate_live_bytes();
        // The first item finds an extent ready.
        while shared.head().ready() < space::wanted(&shared) && space::prepare(&shared) {}
        let flusher = Flusher::new(tier);
        let (of_flusher, of_space) = (Arc::clone(&shared), Arc::clone(&shared));
        let flusher = thread::Builder::new()
            .name("larder-log".into())
            .spawn(move || flushing::run(&of_flusher, flusher))?;
        // Dropped after an error, it ends the first thread.
        let store = Self { shared, threads: Mutex::new(vec![flusher]) };
        let space = thread::Builder::new().name("larder-space".into());
        let space = space.spawn(move || space::run(&of_space))?;
        store.threads().push(space);
        Ok((store, started))
    }

    /// Records that the key has this item from now on.
    ///
    /// Cost: a copy of the item, under the lock of the head; no I/O.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn put(&self, item: &Item<'_>, change: &Change<'_>, known: &Known) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let filed = shared.filed(item.key);
        let record = Record::Item(*item);
        let mut head = shared.head();
        if shared.is_flush_due(change.now_unix_secs) {
            return Err(Refusal::Busy);
        }
        if (change.is_flushed)() {
            return Ok(());
        }
        let own = self.own(filed, change, known)?;
        if own.is_none() && !shared.catalog.has_room(filed) {
            return Err(Refusal::CatalogFull);
        }
        if shared.is_full() {
            return Err(Refusal::Full);
        }
        let place = shared.append(&mut head, &record, Share::Item)?;
        shared.file(filed, own, place, record.bytes());
        shared.note_seen(filed, place.1);
        Ok(())
    }

    /// Records that the key has no item from now on. Nothing is recorded if the disk has none.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; never [`Refusal::Full`].
    pub fn remove(&self, key: &[u8], change: &Change<'_>, known: &Known) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let filed = shared.filed(key);
        let mut head = shared.head();
        if shared.is_flush_due(change.now_unix_secs) {
            return Err(Refusal::Busy);
        }
        if (change.is_flushed)() {
            return Ok(());
        }
        let Some(own) = self.own(filed, change, known)? else { return Ok(()) };
        let (_, at) = shared.append(&mut head, &Record::Tombstone { key }, Share::Removal)?;
        if shared.catalog.remove(filed, own) {
            shared.extents.note_dead(own);
        }
        shared.note_seen(filed, at);
        Ok(())
    }

    /// Says whether the disk has no live item of the key, as far as `known` tells.
    ///
    /// # Errors
    ///
    /// [`Refusal::AskDisk`] if it may have one.
    pub fn check_absence(
        &self,
        key: &[u8],
        change: &Change<'_>,
        known: &Known,
    ) -> Result<(), Refusal> {
        let _head = self.shared.head();
        let change = Change { is_resident: false, ..*change };
        self.own(self.shared.filed(key), &change, known).map(drop)
    }

    /// Which of the candidates is the key's. The caller holds the lock of the head.
    fn own(
        &self,
        filed: Filed,
        change: &Change<'_>,
        known: &Known,
    ) -> Result<Option<Location>, Refusal> {
        let shared = &*self.shared;
        let mut candidates = Vec::new();
        shared.catalog.candidates(filed, &mut candidates);
        let address = |location: &Location| shared.extents.address(*location);
        candidates
            .retain(|location| address(location).is_none_or(|at| !known.others.contains(&at)));
        match *candidates {
            [] => Ok(None),
            // A live item in memory has a record, and there is no other one that could be it.
            [only] if change.is_resident && shared.is_surely_filed(change.now_unix_secs) => {
                Ok(Some(only))
            }
            [only] if known.own.is_some() && address(&only) == known.own => Ok(Some(only)),
            _ => Err(Refusal::AskDisk),
        }
    }

    /// Records a flush: everything that was recorded before it is dead. `hide` hides it in the
    /// caller's memory. A delayed flush that was pending is cancelled.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; `hide` is then not called.
    pub fn flush(&self, hide: impl FnOnce()) -> Result<(), Refusal> {
        let shared = &*self.shared;
        if shared.is_cache {
            return self.forget_everything(hide);
        }
        let mut head = shared.head();
        let (_, at) = shared.append(&mut head, &Record::Flush, Share::Removal)?;
        head.set_delay(None);
        shared.note_flush(at);
        hide();
        shared.catalog.clear();
        shared.extents.note_all_dead();
        Ok(())
    }

    /// Records that a flush is due later. It replaces one that was asked for before. The caller
    /// calls [`Store::flush`] when [`Store::is_flush_due`].
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn flush_at(&self, due_unix_secs: u64) -> Result<(), Refusal> {
        let shared = &*self.shared;
        if shared.is_cache {
            return self.forget_everything_at(due_unix_secs);
        }
        let mut head = shared.head();
        let (_, at) = shared.append(&mut head, &Record::Delay { due_unix_secs }, Share::Removal)?;
        head.set_delay(Some(Delay { at, due_unix_secs }));
        shared.note_due(Some(at), due_unix_secs.max(1));
        Ok(())
    }

    /// True if a delayed flush is due.
    ///
    /// Cost: one load.
    #[inline]
    pub fn is_flush_due(&self, now_unix_secs: u64) -> bool {
        self.shared.is_flush_due(now_unix_secs)
    }

    /// True if the disk may have an item of the key.
    ///
    /// Cost: a hash of the key, and one or two cache misses.
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.may_ask(key, false)
    }

    /// Finds the item of a key, expired or not.
    ///
    /// Cost: usually no read of the disk if there is none, and one if there is one. Blocks.
    ///
    /// # Errors
    ///
    /// [`FindError`].
    pub fn find(&self, key: &[u8]) -> Result<(Known, Option<StoredItem>), FindError> {
        lookup::find(&self.shared, key)
    }

    /// Begins a search for the item of a key, as [`Store::find`] without waiting for the disk. Go
    /// on with [`Store::advance`].
    ///
    /// Cost: a hash of the key, and one or two cache misses.
    pub fn look_up(&self, key: &[u8]) -> Lookup {
        Lookup::begin(&self.shared, key)
    }

    /// Goes on with a search, with the pages that it wanted. Returns the next pages that it needs;
    /// `None` at its end.
    ///
    /// # Errors
    ///
    /// [`FindError`].
    pub fn advance(
        &self,
        lookup: &mut Lookup,
        read: Option<Result<Vec<Page>, DiskError>>,
    ) -> Result<Option<Wanted>, FindError> {
        lookup.advance(&self.shared, read)
    }

    /// Reads the pages that a search needs. Blocks.
    ///
    /// # Errors
    ///
    /// [`DiskError`].
    pub fn read(&self, wanted: Wanted) -> Result<Vec<Page>, DiskError> {
        self.shared.log.read_pages(wanted.first, wanted.pages)
    }

    /// The file of the log.
    pub fn file(&self) -> &D::File {
        self.shared.log.file()
    }

    /// True if what was found about a key is all that the disk has of it.
    pub fn is_as_found(&self, key: &[u8], known: &Known) -> bool {
        let mut candidates = Vec::new();
        self.shared.catalog.candidates(self.shared.filed(key), &mut candidates);
        let is_known = |location: &Location| {
            let at = self.shared.extents.address(*location);
            at.is_some_and(|at| known.own == Some(at) || known.others.contains(&at))
        };
        candidates.len() == known.others.len() + usize::from(known.own.is_some())
            && candidates.iter().all(is_known)
    }

    /// True if a change of the key, or a read of it, asks the disk. `is_resident`: the caller's
    /// memory has a live item of the key.
    ///
    /// Cost: that of [`Store::may_have`].
    pub fn may_ask(&self, key: &[u8], is_resident: bool) -> bool {
        let mut candidates = Vec::new();
        self.shared.catalog.candidates(self.shared.filed(key), &mut candidates);
        candidates.len() > usize::from(is_resident)
    }

    /// True if the key's newest record is still the one at this address. False also if reclaim has
    /// moved it.
    pub fn is_current(&self, key: &[u8], at: Address) -> bool {
        let mut candidates = Vec::new();
        self.shared.catalog.candidates(self.shared.filed(key), &mut candidates);
        candidates.iter().any(|location| self.shared.extents.address(*location) == Some(at))
    }

    /// Forgets an item that was found expired.
    pub fn forget_expired(&self, key: &[u8], at: Address, now_unix_secs: u64) {
        let shared = &*self.shared;
        let filed = shared.filed(key);
        let _head = shared.head();
        let mut candidates = Vec::new();
        shared.catalog.candidates(filed, &mut candidates);
        let own = candidates.iter().find(|own| shared.extents.address(**own) == Some(at));
        own.inspect(|own| space::forget(shared, filed, **own, now_unix_secs));
    }

    /// What an answer about the key waits for; `None` if the durability asks for no waits.
    ///
    /// Cost: a hash of the key and a cache miss, with [`Durability::Sync`]; otherwise nothing.
    pub fn awaited(&self, key: &[u8]) -> Option<Address> {
        match self.shared.settings.durability {
            Durability::Sync => self.shared.awaited(self.shared.filed(key)),
            Durability::Interval(_) | Durability::Async => None,
        }
    }

    /// Whether a record is durable.
    pub fn durable(&self, at: Address) -> Durable {
        match self.shared.is_synced(at) {
            true => Durable::Yes,
            false if self.shared.has_failed.load(Acquire) => Durable::Failed,
            false => Durable::NotYet,
        }
    }

    /// Waits until a record is durable, or the log fails.
    pub fn wait_durable(&self, at: Address) -> Durable {
        let shared = &*self.shared;
        let mut head = shared.head();
        loop {
            match self.durable(at) {
                Durable::NotYet => head = shared.wait(&shared.progress, head, PATIENCE),
                durable => return durable,
            }
        }
    }

    /// Makes everything durable that was recorded so far.
    pub fn sync(&self) -> Durable {
        let end = self.shared.head().end();
        match end {
            None => Durable::Yes,
            Some(end) => {
                self.shared.is_urgent.store(true, Release);
                self.shared.work.notify_one();
                self.wait_durable(end)
            }
        }
    }

    /// Calls `wake` after each sync and after a failure, on a thread of the store.
    pub fn on_sync(&self, wake: impl Fn() + Send + Sync + 'static) {
        self.shared.add_wake(Box::new(wake));
    }

    /// True if [`Store::wait_for_room`] would wait, as of the last change or sync.
    ///
    /// Cost: a load.
    pub fn is_crowded(&self) -> bool {
        self.shared.is_crowded()
    }

    /// Waits until the records that are not durable leave memory for more, at most until
    /// `deadline`. Call it before a change, with no lock held.
    ///
    /// Cost: a load if there is room.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] at the deadline, [`Refusal::Failed`] after a failure.
    pub fn wait_for_room(&self, deadline: Instant) -> Result<(), Refusal> {
        if !self.is_crowded() {
            return Ok(());
        }
        let mut head = self.shared.head();
        while !self.shared.has_room(&head) {
            head = self.wait_in(head, deadline)?;
        }
        Ok(())
    }

    /// Waits after [`Refusal::Busy`] until something was synced or an extent was made ready, or for
    /// a tenth of a second, and at most until `deadline`.
    ///
    /// # Errors
    ///
    /// Those of [`Store::wait_for_room`].
    pub fn wait_for_progress(&self, deadline: Instant) -> Result<(), Refusal> {
        self.wait_in(self.shared.head(), deadline).map(drop)
    }

    fn wait_in<'h>(
        &self,
        head: MutexGuard<'h, Head>,
        deadline: Instant,
    ) -> Result<MutexGuard<'h, Head>, Refusal> {
        if self.shared.has_failed.load(Acquire) {
            return Err(Refusal::Failed);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Refusal::Busy);
        }
        self.shared.is_urgent.store(true, Release);
        self.shared.work.notify_one();
        self.shared.space.notify_one();
        Ok(self.shared.wait(&self.shared.progress, head, left.min(PATIENCE)))
    }

    /// True if the log has failed.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Acquire)
    }

    /// Why the log has failed; `None` if it works.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.head().failure()
    }

    /// The statistics.
    pub fn statistics(&self) -> Statistics {
        statistics::of(&self.shared)
    }

    /// Stops: writes what is left, and marks the stop as clean. Returns the bytes that are not
    /// durable: 0 unless `at_most` ended first or the log has failed.
    pub fn stop(&self, at_most: Duration) -> u64 {
        self.close();
        let deadline = Instant::now() + at_most;
        while !self.threads().iter().all(JoinHandle::is_finished) {
            if Instant::now() >= deadline {
                return self.left();
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.join();
        match self.has_failed() {
            true => self.left(),
            false => self.shared.head().dirty_bytes(),
        }
    }

    /// What a stop that is not clean has left. A cache has at least its index to write.
    fn left(&self) -> u64 {
        self.shared.head().dirty_bytes().max(u64::from(self.shared.is_cache))
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.shared.is_closing.store(true, Release);
        self.shared.work.notify_all();
        self.shared.space.notify_all();
    }

    fn join(&self) {
        for thread in self.threads().drain(..) {
            if thread.join().is_err() {
                self.shared.fail(&"a thread of the store has panicked");
            }
        }
    }
}

impl<D: Directory> Drop for Store<D> {
    fn drop(&mut self) {
        self.shared.is_closing.store(true, Release);
        self.shared.work.notify_all();
        self.shared.space.notify_all();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }
}

/// Extents that a store has at least: 32 MiB.
const EXTENTS_MIN: u32 = 8;

/// How long a thread waits before it looks again.
const PATIENCE: Duration = Duration::from_millis(100);
