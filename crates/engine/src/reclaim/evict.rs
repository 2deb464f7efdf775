//! Eviction: S3-FIFO over segments.
//!
//! ```text
//! new item ──▶ small ──oldest segment──▶ read often enough? ──yes──▶ main, freq 0
//!    ▲                                            └─no─▶ evicted, remembered by the ghost
//!    └ in the ghost? then straight to main
//! main ──oldest segment──▶ read often enough? ──yes──▶ main again, freq − 1
//!                                   └─no─▶ evicted
//! ```
//!
//! *small* and *main* are the two pools of segments, and the ghost remembers the keys of items that
//! were recently evicted from *small*. *freq* is the counter of reads in an item's slot. The policy
//! follows Yang et al., "FIFO queues are all you need for cache eviction" (SOSP 2023), with
//! segments in place of items: eviction empties a whole segment at a time and copies the survivors
//! to the tail of *main*. A larger item must have been read more often (`size_limits.rs`), and the
//! ghost remembers it for a shorter time, because it costs more misses of other items.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use larder_item::Second;
use larder_region::layout::global;
use larder_stats::Counter;

use crate::error::{StoreError, Stuck};
use crate::index::find::Found;
use crate::index::ghost::stamps_for;
use crate::index::group::Locked;
use crate::index::life::Miss;
use crate::index::removal::Reason;
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::reclaim::Reclaimer;
use crate::reclaim::empty::{EmptyOutcome, Record};
use crate::reclaim::size_limits::{ReadItems, SizeLimits};
use crate::segment::appender::Reservation;
use crate::segment::header::{Account, Use, begun};
use crate::segment::stream::{Pool, Stream};

/// The number of records after which a pass releases the appender for survivors, so that other
/// threads can claim it. Claiming it for each record takes a twentieth of the time of an eviction.
const RECORDS_WITH_ONE_APPENDER: usize = 16;

/// How strictly eviction chooses survivors. A pool in which all items are hot could move its
/// records forever without freeing a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// All items survive that were read often enough.
    Needed,
    /// Of the items that were read often enough, the better half survives.
    BestHalf,
    /// No item survives.
    Nothing,
}

/// The progress of a thread that makes room. In each round it empties one segment. The count of
/// rounds starts again whenever they have reclaimed as many bytes as a segment has. It therefore
/// measures how hot a pool is, not how long the thread has worked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Effort {
    /// Rounds since a full segment's worth of bytes was last reclaimed.
    rounds: u32,
    /// Bytes reclaimed since then.
    reclaimed_bytes: usize,
    /// True if no item survives from here on.
    keeps_nothing: bool,
}

impl Effort {
    /// From this round on, only the better half survives, if the rounds have not reclaimed a full
    /// segment.
    const BEST_HALF_FROM_ROUND: u32 = 16;
    /// From this round on, no item survives.
    const NOTHING_FROM_ROUND: u32 = 64;

    /// Returns which items the next round keeps.
    pub(crate) fn keep(&self) -> Keep {
        match self.rounds {
            _ if self.keeps_nothing => Keep::Nothing,
            0..Self::BEST_HALF_FROM_ROUND => Keep::Needed,
            Self::BEST_HALF_FROM_ROUND..Self::NOTHING_FROM_ROUND => Keep::BestHalf,
            Self::NOTHING_FROM_ROUND.. => Keep::Nothing,
        }
    }

    /// Counts a round that reclaimed this many bytes.
    pub(crate) fn count_round(&mut self, reclaimed_bytes: usize, segment_bytes: usize) {
        self.rounds += 1;
        self.reclaimed_bytes += reclaimed_bytes;
        if self.reclaimed_bytes >= segment_bytes {
            (self.rounds, self.reclaimed_bytes) = (0, self.reclaimed_bytes - segment_bytes);
        }
    }

    /// Keeps no item from here on, because no evictor place is available: see [`Evictor`].
    pub(crate) fn keep_nothing(&mut self) {
        self.keeps_nothing = true;
    }
}

/// The right to empty a segment and keep its survivors. The region has a few of these rights, the
/// *evictor places*. Dropping the value releases the right.
struct Evictor<'a>(&'a AtomicU64);

impl Drop for Evictor<'_> {
    fn drop(&mut self) {
        // Pairs with the acquire in `claim_evictor`.
        self.0.store(0, Release);
    }
}

/// The parameters and the progress of emptying one segment.
struct EvictionPass<'a> {
    /// The stream of the survivors.
    to: Stream,
    /// True for an eviction; otherwise all live items survive unchanged.
    evicts: bool,
    /// The pool of the segment that is being emptied.
    from: Pool,
    /// The mean size of an item in bytes.
    mean_bytes: u64,
    /// The largest items that survive.
    limits: SizeLimits,
    /// The smallest margin with which an item survives; see [`SizeLimits::margin`].
    margin_min: u64,
    /// The bytes that may still survive.
    bytes_left: usize,
    /// The bytes that have survived.
    moved_bytes: usize,
    /// The age of the segment in seconds.
    age_secs: Second,
    /// The number of keys that the ghost remembered.
    remembered: u64,
    /// The items of the segment that were read.
    found: ReadItems,
    /// The space reserved for the last survivor. Its appender also serves the next survivors.
    room: Option<Reservation<'a>>,
    /// The records that were moved out of the segment and are still in its account.
    undischarged: Account,
}

impl EvictionPass<'_> {
    /// A pass in which all live items survive unchanged.
    fn moving(to: Stream, from: Pool, bytes_left: usize) -> Self {
        Self {
            to,
            evicts: false,
            from,
            mean_bytes: 0,
            limits: SizeLimits::default(),
            margin_min: 0,
            bytes_left,
            moved_bytes: 0,
            age_secs: 0,
            remembered: 0,
            found: ReadItems::default(),
            room: None,
            undischarged: Account::default(),
        }
    }

    fn keeps(&self, freq: u64, item_bytes: u64, record_bytes: usize) -> bool {
        let is_wanted = || self.limits.margin(freq, item_bytes) >= self.margin_min;
        !self.evicts || record_bytes <= self.bytes_left && is_wanted()
    }

    /// True if the ghost remembers the keys of evicted items.
    fn remembers(&self) -> bool {
        self.evicts && self.from == Pool::Small
    }

    /// Returns the freq of a survivor in its new place.
    fn freq_after(&self, freq: u64) -> u64 {
        match self.from {
            _ if !self.evicts => freq,
            Pool::Small => 0,
            Pool::Main => freq.saturating_sub(1),
        }
    }

    /// Returns the statistic that counts the move of this survivor.
    fn move_of(&self, record: &Record, freq: u64) -> Counter {
        match (self.evicts, self.from) {
            (false, _) if record.header.is_piece() => Counter::PiecesRescued,
            (false, _) => Counter::ItemsRescued,
            (true, Pool::Small) => Counter::MovesToCold,
            (true, Pool::Main) if self.freq_after(freq) > 0 => Counter::MovesToWarm,
            (true, Pool::Main) => Counter::MovesWithin,
        }
    }
}

impl Reclaimer {
    /// Empties a segment by S3-FIFO.
    pub(crate) fn evict(
        &self,
        op: &Op<'_>,
        victim: Use,
        keep: Keep,
    ) -> Result<EmptyOutcome, Stuck> {
        // A pass that keeps no item needs no memory for survivors.
        let evictor = self.claim_evictor(op.thread);
        if evictor.is_none() && keep != Keep::Nothing {
            return Ok(EmptyOutcome::Busy);
        }
        if !self.segments().begin_emptying(op.thread, victim) {
            return Ok(EmptyOutcome::Busy);
        }
        let Use { sequence, segment } = victim;
        let stream = self.segments().stream(segment);
        let to = stream.in_pool(Pool::Main);
        let mut pass = EvictionPass {
            evicts: true,
            mean_bytes: self.segments().mean_record_bytes(segment),
            limits: self.size_limits(),
            margin_min: SizeLimits::MARGIN_OF_LIMIT,
            age_secs: op.now.saturating_sub(begun(sequence)),
            ..EvictionPass::moving(to, stream.pool, self.region().segment_bytes())
        };
        match keep {
            Keep::Needed => {}
            Keep::BestHalf => self.limit_to_half(op, segment, &mut pass),
            Keep::Nothing => pass.bytes_left = 0,
        }
        let passed = self.pass_all_on(op, segment, &mut pass);
        if passed.is_ok() {
            self.peers().bump(op.thread, Counter::SegmentsEvicted, 1);
        }
        if pass.remembered > 0 {
            self.index().note_remembered(pass.remembered);
        }
        self.note_read_items(pass.found);
        self.index().extend_ghost(op.thread);
        drop(evictor);
        match passed {
            Ok(reclaimed_bytes) => Ok(EmptyOutcome::Yes(reclaimed_bytes)),
            Err(StoreError::Stuck(stuck)) => Err(stuck),
            Err(_) => Ok(EmptyOutcome::Partly),
        }
    }

    /// Moves the live records of a segment to the tail of its stream and frees it.
    pub(crate) fn compact(&self, op: &Op<'_>, sparse: Use) -> Result<EmptyOutcome, StoreError> {
        let Some(evictor) = self.claim_evictor(op.thread) else {
            return Ok(EmptyOutcome::Busy);
        };
        if !self.segments().begin_emptying(op.thread, sparse) {
            return Ok(EmptyOutcome::Busy);
        }
        let segment = sparse.segment;
        let stream = self.segments().stream(segment);
        // Without eviction, the main pool has no other records, so writers do not take the
        // survivors' memory.
        let to = if self.segments().evicts() { stream } else { stream.in_pool(Pool::Main) };
        let mut pass = EvictionPass::moving(to, stream.pool, self.region().segment_bytes());
        let passed = self.pass_all_on(op, segment, &mut pass);
        drop(evictor);
        match passed {
            Ok(reclaimed_bytes) => {
                self.peers().bump(op.thread, Counter::SegmentsCompacted, 1);
                Ok(EmptyOutcome::Yes(reclaimed_bytes))
            }
            Err(StoreError::NoMemory) if self.segments().evicts() => Ok(EmptyOutcome::Partly),
            Err(error) => Err(error),
        }
    }

    /// Moves or evicts all records of a segment and frees it. If other threads take the memory for
    /// survivors during the pass, the remaining records stay.
    ///
    /// Returns the reclaimed bytes. They do not include an end of the segment that was never
    /// written, because the survivors' new segment has an equally long end.
    fn pass_all_on<'a>(
        &'a self,
        op: &Op<'_>,
        segment: u32,
        pass: &mut EvictionPass<'a>,
    ) -> Result<usize, StoreError> {
        let filled = self.segments().filled(segment);
        let remembers = pass.remembers();
        let mut pass_on = |(number, record): (usize, Record)| {
            if number % RECORDS_WITH_ONE_APPENDER == 0 {
                pass.room = None;
            }
            self.relocate_or_evict(op, &record, pass)
        };
        let passed = match remembers {
            true => self.records_to_remember(segment).enumerate().try_for_each(&mut pass_on),
            false => self.records(segment).enumerate().try_for_each(&mut pass_on),
        };
        pass.room = None;
        // Discharged together, because no thread needs the account of a segment that is being
        // emptied.
        self.segments().discharge(segment, pass.undischarged);
        match passed {
            Ok(()) => self.finish_emptying(op.thread, segment),
            Err(_) => self.segments().seal(segment),
        }
        passed.map(|()| filled.saturating_sub(pass.moved_bytes))
    }

    /// Claims one of the evictor places, or returns `None` if all are taken. For each place, the
    /// spare segments have space for the survivors of one segment.
    fn claim_evictor(&self, thread: &ThreadSlot) -> Option<Evictor<'_>> {
        self.evictors()
            .take(self.segments().spare_segments() as usize)
            // Pairs with the release of the last owner.
            .find(|word| word.compare_exchange(0, thread.owner(), Acquire, Relaxed).is_ok())
            .map(Evictor)
    }

    /// Returns the evictor places. Each word contains the owner of its place.
    pub(crate) fn evictors(&self) -> impl Iterator<Item = &AtomicU64> {
        (0..global::EVICTORS_MAX).map(|place| self.region().word(global::EVICTORS + 8 * place))
    }

    /// Moves a record out of its segment, or unlinks it if it is dead or chosen for eviction.
    fn relocate_or_evict<'a>(
        &'a self,
        op: &Op<'_>,
        record: &Record,
        pass: &mut EvictionPass<'a>,
    ) -> Result<(), StoreError> {
        loop {
            let locked = self.lock_for_pass(op, record.hash, pass)?;
            let Some(found) = self.find_item_of(&locked, record) else {
                return Ok(());
            };
            if let Some(death) = self.index().removable(&found, op.now) {
                self.index().remove_dead(op.thread, &found, death);
                return Ok(());
            }
            let (freq, item_bytes) = (found.slot.freq(), self.item_bytes(&found));
            if !record.header.is_piece() {
                pass.found.add(freq, item_bytes);
            }
            let bytes = record.header.record_bytes();
            if !pass.keeps(freq, item_bytes, bytes) {
                // A reservation is no item, so its end is not an eviction.
                match self.index().reserved_until(&found) {
                    Some(_) => self.index().remove_dead(op.thread, &found, Miss::Expired),
                    None => self.evict_item(op.thread, &locked, record, &found, pass),
                }
                return Ok(());
            }
            let (room, to) = (&mut pass.room, pass.to);
            if self.segments().try_reserve_for_survivor(op, room, to, bytes)? {
                self.move_out(op, record, &found, pass);
                return Ok(());
            }
            drop(locked);
            self.segments().await_appender(op, pass.to)?;
        }
    }

    /// Locks the group of a record. While the thread waits, it holds no appender.
    fn lock_for_pass(
        &self,
        op: &Op<'_>,
        hash: u64,
        pass: &mut EvictionPass<'_>,
    ) -> Result<Locked<'_>, Stuck> {
        if let Some(locked) = self.index().lock_soon(op.thread, hash) {
            return Ok(locked);
        }
        pass.room = None;
        self.index().lock(op, hash)
    }

    /// Moves a record to the reserved space, unless its item was flushed since. `found` is the item
    /// that has this record or this piece. The caller holds the lock of its group.
    fn move_out(&self, op: &Op<'_>, record: &Record, found: &Found, pass: &mut EvictionPass<'_>) {
        // Checked after the space is reserved: a flushed item must not return under a younger
        // sequence.
        if self.segments().is_flushed(found.sequence) {
            return self.index().remove_dead(op.thread, found, Miss::Flushed);
        }
        // An item that a removal by prefix will remove must not return either.
        if self.index().remove_condemned(op.thread, found) {
            return;
        }
        let Some(room) = &pass.room else {
            return;
        };
        match record.header.is_piece() {
            true => self.relocate_piece(op.thread, room, record, found),
            false => self.relocate(op.thread, room, found, |freq| pass.freq_after(freq)),
        }
        self.peers().bump(op.thread, pass.move_of(record, found.slot.freq()), 1);
        let bytes = record.header.record_bytes();
        pass.bytes_left = pass.bytes_left.saturating_sub(bytes);
        pass.moved_bytes += bytes;
        pass.undischarged.add(Account::of(record.header));
    }

    /// Evicts the live item that has this record or this piece.
    fn evict_item(
        &self,
        thread: &ThreadSlot,
        locked: &Locked<'_>,
        record: &Record,
        found: &Found,
        pass: &mut EvictionPass<'_>,
    ) {
        if self.index().remove_condemned(thread, found) {
            return;
        }
        self.index().report_removal(found, Reason::Evicted);
        self.demote(found, found.is_fetched() || pass.from == Pool::Main);
        if found.header.is_large() {
            self.index().unlink(thread, found);
        } else {
            self.index().clear_slot(thread, found);
            pass.undischarged.add(Account::of(record.header));
        }
        if pass.remembers() {
            let stamps = stamps_for(self.item_bytes(found), pass.mean_bytes);
            self.index().remember(locked, record.hash, stamps);
            pass.remembered += 1;
            self.peers().bump(thread, Counter::EvictionsSmall, 1);
        }
        self.peers().bump(thread, Counter::EvictedUnfetched, u64::from(!found.is_fetched()));
        self.peers().bump(thread, Counter::Evictions, 1);
        self.peers().bump(thread, Counter::EvictedAgeSecs, u64::from(pass.age_secs));
        self.peers().bump(thread, Counter::EvictedActive, u64::from(found.slot.freq() > 0));
    }

    /// Returns the size of an item in bytes: the length of its record or, if the value is in
    /// pieces, of its value.
    pub(crate) fn item_bytes(&self, found: &Found) -> u64 {
        match found.header.is_large() {
            true => self.region().word(found.record_at + found.header.value_at()).load(Relaxed),
            false => found.header.record_bytes() as u64,
        }
    }

    /// Raises the margin that survivors need until about half of the segment's bytes survive.
    fn limit_to_half(&self, op: &Op<'_>, segment: u32, pass: &mut EvictionPass) {
        let half = self.region().segment_bytes() / 2;
        let mut bytes_of_margin = [0; SizeLimits::MARGIN_MAX as usize + 1];
        for record in self.records(segment) {
            let Ok(locked) = self.index().lock(op, record.hash) else {
                break; // The eviction pass will fail at the same stopped process.
            };
            // A piece is as valuable as its item.
            if let Some(found) = self.find_item_of(&locked, &record) {
                let margin = pass.limits.margin(found.slot.freq(), self.item_bytes(&found));
                bytes_of_margin[margin as usize] += record.header.record_bytes();
            }
        }
        let mut above = 0;
        let least = (SizeLimits::MARGIN_OF_LIMIT..=SizeLimits::MARGIN_MAX).rev().find(|margin| {
            above += bytes_of_margin[*margin as usize];
            above > half
        });
        pass.margin_min = least.unwrap_or(SizeLimits::MARGIN_OF_LIMIT);
        pass.bytes_left = half;
    }
}

#[cfg(test)]
#[cfg(not(any(feature = "interleavings", miri)))]
mod tests;
