//! A durable key-value store: a log on disk, a catalog of it in memory, and two threads.
//!
//! The caller keeps hot items in its own memory. It reports each change to the store before the
//! change becomes visible to its clients:
//!
//! ```text
//! change ─▶ head lock ─▶ record at the end of the log ─▶ catalog ─▶ memory ─▶ response, after a sync if required
//! miss   ─▶ catalog ─▶ record that is not durable yet, or one read of the disk
//! ```
//!
//! The *head* is the end of the log. Its lock orders all changes, so the log has the records in the
//! order of the changes. The *catalog* has 8 bytes for each key: the location of its newest record,
//! and a part of the key's hash. The log file consists of *extents* of 4 MiB. An extent in use has
//! one *segment* of the log. One thread writes and syncs the log. The other allocates extents, and
//! frees the oldest segment after it has copied the live records of the segment to the head.
//!
//! In mode [`Mode::Cache`] the store has only the items that memory evicts (`cache.rs`). A comment
//! `Rule: X` names a rule of the model of this protocol (`tests/it/model/rules.rs`).

mod appender;
mod cache;
mod catalog;
mod error;
mod extents;
mod flushing;
mod inspect;
mod lives;
mod lookup;
mod mend;
mod rebuild;
mod removal;
mod settings;
mod shared;
mod space;
mod statistics;
mod values;
mod waiting;
mod walk;

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::compression;
use crate::disk::Directory;
use crate::flusher::Flusher;
use crate::format::{Address, Delay, Item, KeyHasher, Mode, Record, SEGMENT_BYTES};
use crate::recovery::Place;
use crate::tier::{LogTime, Tier};
use appender::{Appender, Purpose};
pub use cache::Demoted;
pub use catalog::PLACES;
use catalog::{EXTENTS_MAX, KeyBits, Location};
pub use error::{FindError, Refusal, StartError, Unreadable};
pub use inspect::damage::{Damage, DamageKind};
pub use inspect::salvage::{SalvageReport, Trust, salvage};
pub use inspect::{Findings, inspect, newest_stamp};
pub use lookup::{KeyRecords, Lookup, PageRead, StoredItem};
use rebuild::{StartState, rebuild, snapshot};
pub use removal::Removal;
pub use settings::{Durability, Report, Settings};
use shared::{Contents, Shared};
pub use statistics::Statistics;
use values::Values;
pub use walk::{Walk, WalkStep, place_of};

/// The circumstances of a change in the caller.
#[derive(Clone, Copy)]
pub struct Change<'a> {
    /// The second of the change, as a Unix time.
    pub now_unix_secs: u64,
    /// True if the caller's memory has a live item of the key.
    pub is_resident: bool,
    /// Returns true if a flush in the caller's memory has already hidden the change. The store then
    /// records nothing. It calls this under the head lock, which also orders flushes.
    pub is_gone: &'a dyn Fn() -> bool,
}

/// The results of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartReport {
    /// The number of items, including expired ones.
    pub items: u64,
    /// The number of segments in the log.
    pub segments: usize,
    /// The highest version of any item.
    pub version_max: u64,
    /// The latest time in the log. Unlike the system clock, the log's time never goes back.
    pub stamp_unix_secs: u64,
    /// The offset between the log's time and the system clock.
    pub time: LogTime,
    /// The address at which recovery cut off an incomplete end of the log. The records after it
    /// were never acknowledged as durable.
    pub cut: Option<Address>,
    /// True if the start read the index of the last clean stop instead of the log.
    pub is_from_index: bool,
    /// True if the disk failed to return the index of the last clean stop. A store then reads its
    /// log; a cache starts empty.
    pub is_index_unread: bool,
    /// The copies of dictionaries that were damaged, and that the start wrote again.
    pub dictionary_copies: usize,
    /// The number of flipped bits that the start repaired: in the manifest, in headers, and in void
    /// units, which have no records.
    pub flipped: u64,
    /// The accepted loss; `None` if the log was not damaged.
    pub accepted: Option<SalvageReport>,
}

/// The durability of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durable {
    /// The record is durable.
    Yes,
    /// The record is not durable yet.
    NotYet,
    /// The log has failed: the record may or may not be durable.
    Failed,
}

/// A durable key-value store. Dropping it performs a clean stop, which blocks until the disk has
/// finished.
#[derive(Debug)]
pub struct Store<D: Directory> {
    shared: Arc<Shared<D::File>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Checks what this build and the catalog support.
fn check<D: Directory>(tier: &Tier<D>, settings: &Settings) -> Result<(), StartError> {
    if settings.compression.is_some() && !compression::IS_BUILT {
        return Err(StartError::NoCompression);
    }
    match tier.log().extents() {
        ..EXTENTS_MIN => Err(StartError::TooSmall),
        EXTENTS_MIN..=EXTENTS_MAX => Ok(()),
        _ => Err(StartError::TooLarge),
    }
}

impl<D: Directory + 'static> Store<D> {
    /// Recovers a directory and opens the store. Calls `progress` with the number of parts read so
    /// far and their total.
    ///
    /// Cost: after a clean stop, one read of the index, 8 bytes per item; otherwise, of the log.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    pub fn start(
        mut tier: Tier<D>,
        settings: Settings,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(Self, StartReport), StartError> {
        check(&tier, &settings)?;
        let hasher = KeyHasher::new(&tier.manifest().hash_key);
        let is_cache = tier.manifest().mode == Mode::Cache;
        let catalog_bytes_max = settings.catalog_bytes_max;
        let snapshot = snapshot::read(&tier, catalog_bytes_max, progress);
        // Without its index, a store reads its log, and a cache starts empty.
        let is_index_unread = snapshot.is_err();
        let snapshot = snapshot.unwrap_or_default();
        let snapshot =
            snapshot.map(|snapshot| StartState::of_snapshot(snapshot, &tier)).transpose()?;
        let reads_log = snapshot.is_none() && !is_cache;
        if !reads_log {
            // The next step uses up the index. If the process is killed after it, a cache is empty
            // and a store must read its complete log.
            (settings.before_change)();
        }
        // Begins a new epoch, so that no later start reads this index.
        tier.permit_compression(settings.compression.is_some());
        tier.begin_anew()?;
        let mut accepted = None;
        let rebuilt = match snapshot {
            Some(rebuilt) => rebuilt,
            None if is_cache => StartState::empty(tier.log().extents(), catalog_bytes_max),
            None => {
                let now = (settings.clock)();
                if let Some(report) = &settings.accept_loss {
                    accepted = mend::accept(&mut tier, now, progress, &**report)?;
                }
                let rebuilt = rebuild(&tier, &hasher, catalog_bytes_max, now, progress)?;
                let delay = accepted.as_ref().and_then(|accepted| accepted.delay);
                StartState { delay: rebuilt.delay.or(delay), ..rebuilt }
            }
        };
        if reads_log {
            // Not called earlier: reading the log takes long, and a kill during it loses nothing.
            (settings.before_change)();
        }
        let StartState { catalog, extents, segments, free, found, delay, due_unix_secs } = rebuilt;
        let time = tier.log_time(found.stamp_unix_secs, (settings.wall)());
        tier.note_ahead(time.ahead_secs);
        let (items, segment_count) = (catalog.items(), segments.len());
        let flipped = found.flipped + u64::from(tier.is_manifest_flipped());
        let started = StartReport {
            items,
            segments: segment_count,
            time,
            dictionary_copies: tier.damaged_dictionaries().len(),
            accepted: accepted.map(|accepted| accepted.found),
            is_index_unread,
            flipped,
            ..found
        };
        // The last stop, or this recovery, has synced every record that was read.
        let recovered = segments.back().and_then(|(_, last)| last.end());
        if !is_cache {
            // A later recovery must not mistake damage below this address for the end of the log.
            // Rule: EndAfterSync
            tier.set_durable(recovered);
        }
        // The head numbers its segments from a lease, so that no number is used twice.
        let mut head = Appender::new(tier.log().seal().clone(), segments, free, delay, !is_cache);
        head.renew_lease(tier.lease(flushing::LEASE)?, flushing::LEASE);
        let log = tier.shared_log();
        let values = Values::new(settings.compression, &tier, segment_count);
        let contents = Contents { catalog, extents, values };
        let shared = Shared::new(settings, log, hasher, contents, head, is_cache);
        let shared = Arc::new(shared);
        shared.version_max.store(started.version_max, Relaxed);
        if is_cache {
            shared.note_due(None, due_unix_secs);
        }
        shared.note_synced(recovered);
        shared.estimate_live_bytes();
        // Prepares extents, so that the first item finds one.
        while shared.head().ready() < space::wanted(&shared) && space::prepare(&shared) {}
        Ok((Self::serve(shared, Flusher::new(tier))?, started))
    }

    /// Starts the threads.
    fn serve(shared: Arc<Shared<D::File>>, flusher: Flusher<D>) -> Result<Self, StartError> {
        let (of_flusher, of_space) = (Arc::clone(&shared), Arc::clone(&shared));
        let flusher = thread::Builder::new()
            .name("larder-log".into())
            .spawn(move || flushing::run(&of_flusher, flusher))?;
        // If the next spawn fails, dropping the store stops the first thread.
        let store = Self { shared, threads: Mutex::new(vec![flusher]) };
        let space = thread::Builder::new().name("larder-space".into());
        let space = space.spawn(move || space::run(&of_space))?;
        store.threads().push(space);
        if store.shared.values.compression().is_some() {
            let of_trainer = Arc::clone(&store.shared);
            let trainer = thread::Builder::new().name("larder-train".into());
            store.threads().push(trainer.spawn(move || values::training::run(&of_trainer))?);
        }
        Ok(store)
    }

    /// Records the new item of a key. `known` is the result of [`Store::find`] if an earlier
    /// attempt failed with [`Refusal::NeedsDisk`], and otherwise empty.
    ///
    /// Cost: a copy of the item under the head lock; no I/O. With compression also the time to
    /// compress its value, before the head lock.
    ///
    /// # Errors
    ///
    /// [`Refusal`].
    pub fn put(
        &self,
        item: &Item<'_>,
        change: &Change<'_>,
        known: &KeyRecords,
    ) -> Result<(), Refusal> {
        let shared = &*self.shared;
        let filed = shared.filed(item.key);
        let mut frame = None;
        let record = shared.values.encode(item, &mut frame, values::VALUE_BYTES_MAX);
        let mut head = shared.head();
        // Rule: DueBeforeRecords
        if shared.is_flush_due(change.now_unix_secs) {
            return Err(Refusal::Busy);
        }
        if (change.is_gone)() {
            return Ok(());
        }
        let own = self.own(filed, change, known)?;
        // If space will soon be free, the caller waits and tries again instead of failing.
        let refusal = match own {
            None if !shared.catalog.has_room(filed) => Some(Refusal::CatalogFull),
            _ => shared.is_full().then_some(Refusal::Full),
        };
        if let Some(refusal) = refusal {
            let is_doubtful = refusal == Refusal::Full && !shared.is_surely_full();
            let has_room_soon = is_doubtful || shared.has_expired(change.now_unix_secs);
            return Err(if has_room_soon { Refusal::Busy } else { refusal });
        }
        // The log accepts the record before the catalog and the caller's memory change.
        // Rule: ReserveBeforeSlot
        let place = shared.append(&mut head, &record, Some(filed), Purpose::Item)?;
        shared.file(filed, own, place, &record);
        shared.values.note_appended(&record, item.value.len());
        shared.note_version(item.version);
        shared.note_seen(filed, place.at);
        Ok(())
    }

    /// Records the removal of a key. Records nothing if the disk has no item of the key.
    ///
    /// # Errors
    ///
    /// [`Refusal`], but never [`Refusal::Full`].
    pub fn remove(
        &self,
        key: &[u8],
        change: &Change<'_>,
        known: &KeyRecords,
    ) -> Result<(), Refusal> {
        self.remove_if(key, change, known, |_| true)
    }

    /// Same as [`Store::remove`], but only if `is_wanted` accepts the address of the item.
    fn remove_if(
        &self,
        key: &[u8],
        change: &Change<'_>,
        known: &KeyRecords,
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
        let tombstone = Record::Tombstone { key };
        let place = shared.append(&mut head, &tombstone, Some(filed), Purpose::Removal)?;
        if shared.catalog.remove(filed, own) {
            shared.extents.note_dead(own);
        }
        shared.note_seen(filed, place.at);
        Ok(())
    }

    /// Checks that the disk has no item of the key, except for one that the caller has found.
    ///
    /// # Errors
    ///
    /// [`Refusal::NeedsDisk`] if the disk may have another one.
    pub fn check_absence(
        &self,
        key: &[u8],
        change: &Change<'_>,
        known: &KeyRecords,
    ) -> Result<(), Refusal> {
        let _head = self.shared.head();
        let change = Change { is_resident: false, ..*change };
        self.own(self.shared.filed(key), &change, known).map(drop)
    }

    /// Returns the location of the key's record. Fails with [`Refusal::NeedsDisk`] if only a read
    /// of the disk can show which record has this key. The caller holds the head lock.
    fn own(
        &self,
        filed: KeyBits,
        change: &Change<'_>,
        known: &KeyRecords,
    ) -> Result<Option<Location>, Refusal> {
        let shared = &*self.shared;
        match shared.catalog.first_two(filed) {
            [None, _] => return Ok(None),
            // A live item in memory has a record, so the only candidate must be this record.
            [Some(only), None]
                if known.others.is_empty()
                    && change.is_resident
                    && shared.is_surely_filed(change.now_unix_secs) =>
            {
                return Ok(Some(only));
            }
            _ => {}
        }
        let mut candidates = Vec::new();
        shared.catalog.candidates(filed, &mut candidates);
        let address = |location: &Location| shared.extents.address(*location);
        candidates
            .retain(|location| address(location).is_none_or(|at| !known.others.contains(&at)));
        match *candidates {
            [] => Ok(None),
            [only] if change.is_resident && shared.is_surely_filed(change.now_unix_secs) => {
                Ok(Some(only))
            }
            [only] if known.own.is_some() && address(&only) == known.own => Ok(Some(only)),
            _ => Err(Refusal::NeedsDisk),
        }
    }

    /// Records a flush, which removes everything recorded before it and cancels a pending delayed
    /// flush. Calls `hide` to hide the items in the caller's memory.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; `hide` is not called then.
    pub fn flush(&self, hide: impl FnOnce()) -> Result<(), Refusal> {
        let shared = &*self.shared;
        if shared.is_cache {
            return self.forget_everything(hide);
        }
        let mut head = shared.head();
        // One lock covers the record and its effect, so no change comes between them.
        // Rule: FlushIsOneStep
        let Place { at, .. } = shared.append(&mut head, &Record::Flush, None, Purpose::Removal)?;
        head.set_delay(None);
        shared.note_flush(at);
        hide();
        shared.catalog.clear();
        shared.extents.note_all_dead();
        Ok(())
    }

    /// Records a flush that is due later. It replaces a pending delayed flush. Calls `schedule` to
    /// do the same in the caller's memory. The caller must call [`Store::flush`] when
    /// [`Store::is_flush_due`] returns true.
    ///
    /// # Errors
    ///
    /// [`Refusal`]; `schedule` is not called then.
    pub fn flush_at(&self, due_unix_secs: u64, schedule: impl FnOnce()) -> Result<(), Refusal> {
        let shared = &*self.shared;
        if shared.is_cache {
            return self.forget_everything_at(due_unix_secs, schedule);
        }
        let mut head = shared.head();
        let delay = Record::Delay { due_unix_secs };
        // Rule: DelayIsLogged
        let Place { at, .. } = shared.append(&mut head, &delay, None, Purpose::Removal)?;
        head.set_delay(Some(Delay { at, due_unix_secs }));
        shared.note_due(Some(at), due_unix_secs.max(1));
        schedule();
        Ok(())
    }

    /// Returns when the delayed flush is due, as a Unix time, or `None` if no flush is pending.
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

    /// Removes an expired item from the catalog.
    pub fn forget_expired(&self, key: &[u8], at: Address, now_unix_secs: u64) {
        let shared = &*self.shared;
        let filed = shared.filed(key);
        let _head = shared.head();
        let mut candidates = Vec::new();
        shared.catalog.candidates(filed, &mut candidates);
        let own = candidates.iter().find(|own| shared.extents.address(**own) == Some(at));
        // The index that a stop is writing may already contain the item.
        let own = own.filter(|_| !shared.is_closing.load(Acquire));
        own.inspect(|own| space::forget(shared, filed, **own, now_unix_secs));
    }

    /// True if the log has failed.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Acquire)
    }

    /// Returns why the log has failed, or `None` if it works.
    pub fn failure(&self) -> Option<Arc<str>> {
        self.shared.head().failure()
    }

    /// Returns the statistics.
    pub fn statistics(&self) -> Statistics {
        statistics::of(&self.shared)
    }

    /// Stops the store: writes the remaining records and marks the stop as clean. Returns how many
    /// bytes are not durable: 0, unless `at_most` elapsed first or the log has failed.
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

    /// True if the stop is complete and all threads have ended.
    pub fn is_stopped(&self) -> bool {
        self.threads().iter().all(JoinHandle::is_finished)
    }

    /// Returns the number of bytes that an incomplete stop has not written. It is at least 1 for a
    /// cache, which has not written its index.
    fn left(&self) -> u64 {
        self.shared.head().dirty_bytes().max(u64::from(self.shared.is_cache))
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.shared.is_closing.store(true, Release);
        self.shared.notify_threads();
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
        self.shared.notify_threads();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic was already reported when it happened.
            let _ = thread.join();
        }
    }
}

/// The minimum number of extents of a store.
const EXTENTS_MIN: u32 = 8;

/// The minimum size of a store, in bytes: 32 MiB.
pub const BYTES_MIN: u64 = EXTENTS_MIN as u64 * SEGMENT_BYTES as u64;
