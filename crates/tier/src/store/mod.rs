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
//! In a directory of mode [`Mode::Cache`] the store has what memory evicts (`cache.rs`).
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
mod mend;
mod rebuild;
mod removal;
mod settings;
mod shared;
mod space;
mod statistics;
mod waiting;
mod walk;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::disk::{Directory, DiskError, Page};
use crate::flusher::Flusher;
use crate::format::{Address, Delay, Item, KeyHasher, Mode, Record, SEGMENT_BYTES};
use crate::recovery::Place;
use crate::tier::LogTime;
use crate::tier::Tier;
pub use cache::Kept;
pub use catalog::PLACES;
use catalog::{EXTENTS_MAX, Filed, Location};
pub use error::{FindError, Refusal, StartError, Unreadable};
use head::{Head, Share};
pub use inspect::damage::{Damage, Wrong};
pub use inspect::salvage::{Salvaged, Trust, salvage};
pub use inspect::{Findings, inspect, newest_stamp};
pub use lookup::{Known, Lookup, StoredItem, Wanted};
use rebuild::{Rebuilt, rebuild, snapshot};
pub use removal::Removal;
pub use settings::{Durability, Report, Settings};
use shared::{Contents, Shared};
pub use statistics::Statistics;
pub use walk::{Walk, WalkStep, place_of};

/// The circumstances of a change.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The second of the change, as a Unix time.
    pub now_unix_secs: u64,
    /// True if the caller's memory has a live item of the key.
    pub is_resident: bool,
    /// Says whether a flush has hidden the change already: nothing is recorded then. It is called
    /// under the lock that also orders flushes.
    pub is_gone: &'a dyn Fn() -> bool,
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
    /// The latest time that was written, of the log's time.
    pub stamp_unix_secs: u64,
    /// The log's time beside the system's clock.
    pub time: LogTime,
    /// Where the log was cut: what followed was not acknowledged as durable.
    pub cut: Option<Address>,
    /// True if the index of the last clean stop was read, and not the log.
    pub is_from_index: bool,
    /// True if the disk did not return the index of the last clean stop: the log of a store was
    /// read then, and a cache is empty.
    pub is_index_unread: bool,
    /// Flipped bits that the start has mended: of the manifest, of headers and of void units.
    pub flipped: u64,
    /// The loss that this start has accepted; `None` without damage.
    pub accepted: Option<Salvaged>,
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
    /// Recovers a directory and begins to serve it. Reports the parts of it that are read, and
    /// their number, to `progress`.
    ///
    /// Cost: reads the index after a clean stop, 8 bytes an item; otherwise the log once.
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
        let catalog_bytes_max = settings.catalog_bytes_max;
        let snapshot = snapshot::read(&tier, catalog_bytes_max, progress);
        // The log of a store has all that its index has. A cache begins empty.
        let is_index_unread = snapshot.is_err();
        let snapshot = snapshot.unwrap_or_default();
        let snapshot =
            snapshot.map(|snapshot| Rebuilt::of_snapshot(snapshot, &tier)).transpose()?;
        let reads_log = snapshot.is_none() && !is_cache;
        if !reads_log {
            // A kill leaves a cache empty, and has a store read all of its log.
            (settings.before_change)();
        }
        // From here on the snapshot is of an earlier epoch: no later start reads it.
        tier.begin_anew()?;
        let mut accepted = None;
        let rebuilt = match snapshot {
            Some(rebuilt) => rebuilt,
            None if is_cache => Rebuilt::empty(tier.log().extents(), catalog_bytes_max),
            None => {
                let now = (settings.clock)();
                if let Some(report) = &settings.accept_loss {
                    accepted = mend::accept(&mut tier, now, progress, &**report)?;
                }
                let rebuilt = rebuild(&tier, &hasher, catalog_bytes_max, now, progress)?;
                let delay = accepted.as_ref().and_then(|accepted| accepted.delay);
                Rebuilt { delay: rebuilt.delay.or(delay), ..rebuilt }
            }
        };
        if reads_log {
            // That may have taken long, and a kill loses nothing of it.
            (settings.before_change)();
        }
        let Rebuilt { catalog, extents, segments, free, found, delay, due_unix_secs } = rebuilt;
        let time = tier.log_time(found.stamp_unix_secs, (settings.wall)());
        tier.note_ahead(time.ahead_secs);
        let (items, segment_count) = (catalog.items(), segments.len());
        let flipped = found.flipped + u64::from(tier.is_manifest_flipped());
        let started = Started {
            items,
            segments: segment_count,
            time,
            accepted: accepted.map(|accepted| accepted.found),
            is_index_unread,
            flipped,
            ..found
        };
        // The stop, or recovery, has synced all that was read.
        let recovered = segments.back().and_then(|(_, last)| last.end());
        if !is_cache {
            // Damage below is not taken for the end of the log from now on.
            // Rule: EndAfterSync
            tier.set_durable(recovered);
        }
        let mut head = Head::new(tier.log().seal().clone(), segments, free, delay);
        head.renew_lease(tier.lease(flushing::LEASE)?, flushing::LEASE);
        let log = tier.shared_log();
        let contents = Contents { catalog, extents };
        let shared = Shared::new(settings, log, hasher, contents, head, is_cache);
        let shared = Arc::new(shared);
        shared.version_max.store(started.version_max, Relaxed);
        if is_cache {
            shared.note_due(None, due_unix_secs);
        }
        shared.note_synced(recovered);
        shared.estimate_live_bytes();
        // The first item finds an extent ready.
        while shared.head().ready() < space::wanted(&shared) && space::prepare(&shared) {}
        Ok((Self::serve(shared, Flusher::new(tier))?, started))
    }

    /// Starts the threads.
    fn serve(shared: Arc<Shared<D::File>>, flusher: Flusher<D>) -> Result<Self, StartError> {
        let (of_flusher, of_space) = (Arc::clone(&shared), Arc::clone(&shared));
        let flusher = thread::Builder::new()
            .name("larder-log".into())
            .spawn(move || flushing::run(&of_flusher, flusher))?;
        // Dropped after an error, it ends the first thread.
        let store = Self { shared, threads: Mutex::new(vec![flusher]) };
        let space = thread::Builder::new().name("larder-space".into());
        let space = space.spawn(move || space::run(&of_space))?;
        store.threads().push(space);
        Ok(store)
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
        // Rule: DueBeforeRecords
        if shared.is_flush_due(change.now_unix_secs) {
            return Err(Refusal::Busy);
        }
        if (change.is_gone)() {
            return Ok(());
        }
        let own = self.own(filed, change, known)?;
        let refusal = match own {
            None if !shared.catalog.has_room(filed) => Some(Refusal::CatalogFull),
            _ => shared.is_full().then_some(Refusal::Full),
        };
        if let Some(refusal) = refusal {
            let is_doubtful = refusal == Refusal::Full && !shared.is_surely_full();
            let has_room_soon = is_doubtful || shared.has_expired(change.now_unix_secs);
            return Err(if has_room_soon { Refusal::Busy } else { refusal });
        }
        // Before the catalog and the caller's memory.
        // Rule: ReserveBeforeSlot
        let place = shared.append(&mut head, &record, Share::Item)?;
        shared.file(filed, own, place, &record);
        shared.note_version(item.version);
        shared.note_seen(filed, place.at);
        Ok(())
    }

    /// Records that the key has no item from now on. Nothing is recorded if the disk has none.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; never [`Refusal::Full`].
    pub fn remove(&self, key: &[u8], change: &Change<'_>, known: &Known) -> Result<(), Refusal> {
        self.remove_if(key, change, known, |_| true)
    }

    fn remove_if(
        &self,
        key: &[u8],
        change: &Change<'_>,
        known: &Known,
        is_wanted: impl FnOnce(Address) -> bool,
    ) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let filed = shared.filed(key);
        let mut head = shared.head();
        // Rule: DueBeforeRecords
        if shared.is_flush_due(change.now_unix_secs) {
            return Err(Refusal::Busy);
        }
        if (change.is_gone)() {
            return Ok(());
        }
        let Some(own) = self.own(filed, change, known)? else { return Ok(()) };
        if !shared.extents.address(own).is_some_and(is_wanted) {
            return Err(Refusal::Newer);
        }
        // Rule: DeleteIsLogged
        let Place { at, .. } =
            shared.append(&mut head, &Record::Tombstone { key }, Share::Removal)?;
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
    /// [`Refusal::NeedsDisk`] if it may have one.
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
            _ => Err(Refusal::NeedsDisk),
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
        // Under one lock: no change comes between the record and its effect.
        // Rule: FlushIsOneStep
        let Place { at, .. } = shared.append(&mut head, &Record::Flush, Share::Removal)?;
        head.set_delay(None);
        shared.note_flush(at);
        hide();
        shared.catalog.clear();
        shared.extents.note_all_dead();
        Ok(())
    }

    /// Records that a flush is due later. It replaces one that was asked for before. `schedule`
    /// does the same in the caller's memory. The caller calls [`Store::flush`] when
    /// [`Store::is_flush_due`].
    ///
    /// # Errors
    ///
    /// [`Refusal`]; `schedule` is then not called.
    pub fn flush_at(&self, due_unix_secs: u64, schedule: impl FnOnce()) -> Result<(), Refusal> {
        let shared = &*self.shared;
        if shared.is_cache {
            return self.forget_everything_at(due_unix_secs, schedule);
        }
        let mut head = shared.head();
        let delay = Record::Delay { due_unix_secs };
        // Rule: DelayIsLogged
        let Place { at, .. } = shared.append(&mut head, &delay, Share::Removal)?;
        head.set_delay(Some(Delay { at, due_unix_secs }));
        shared.note_due(Some(at), due_unix_secs.max(1));
        schedule();
        Ok(())
    }

    /// The second at which a delayed flush is due, as a Unix time; `None` if none is pending.
    pub fn flush_due_unix_secs(&self) -> Option<u64> {
        Some(self.shared.due_unix_secs()).filter(|due| *due != 0)
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
        // The caller promotes an item under the lock of its group, and calls this there.
        // Rule: PromoteBracket
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
        let own = own.filter(|_| !shared.is_closing.load(Acquire));
        own.inspect(|own| space::forget(shared, filed, **own, now_unix_secs));
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
        while !self.is_stopped() {
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

    /// True if a stop has ended: nothing works any more.
    pub fn is_stopped(&self) -> bool {
        self.threads().iter().all(JoinHandle::is_finished)
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

/// Extents that a store has at least.
const EXTENTS_MIN: u32 = 8;

/// The size that a store has at least, in bytes: 32 MiB.
pub const BYTES_MIN: u64 = EXTENTS_MIN as u64 * SEGMENT_BYTES as u64;
