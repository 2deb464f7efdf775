//! Publication of a written record: one store to a slot makes the record visible to readers. This
//! is the moment at which a store happens.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, Second, StoreMode};
use larder_stats::Counter;

use crate::engine::Engine;
use crate::error::{StoreError, Stuck};
use crate::index::chain::ChainFull;
use crate::index::find::Found;
use crate::index::group::Locked;
use crate::index::item::table_at;
use crate::index::removal::Reason;
use crate::index::unlink::CarriedSlots;
use crate::ops::basis::Basis;
use crate::ops::condition::Condition;
use crate::ops::large::piece::Piece;
use crate::ops::request::{Stale, Stored};
use crate::process::op::Op;
use crate::process::thread_slot::ThreadSlot;
use crate::segment::appender::Reservation;
use crate::segment::header::Account;
use crate::segment::record::{Draft, Header, INITIAL_FREQ_MAX, Marks};
use crate::segment::slot::Slot;

/// The fields of a new item that can only be determined under the lock of the group.
pub(crate) struct Life {
    /// The freq for the item's slot: the counter of its reads.
    pub(crate) freq: u64,
    /// The header with these fields.
    pub(crate) header: Header,
    /// The deadline that replaces the requested one.
    pub(crate) deadline: Option<Deadline>,
}

/// A record to write and publish.
pub(crate) struct Publication<'a> {
    pub(crate) draft: &'a Draft<'a>,
    /// The pieces of a large value that were written for it.
    pub(crate) pieces: &'a [Piece],
    /// The pieces that the record takes over from the record that it replaces.
    pub(crate) carried: Option<CarriedSlots>,
    pub(crate) condition: Condition<'a>,
}

/// The result of evaluating a condition.
pub(crate) enum Verdict {
    Store,
    /// Store the value as stale, because it is out of date.
    StoreStale,
    /// Store nothing, and return this outcome.
    Not(Stored),
    /// The record that the new one was made from has changed.
    Changed,
}

/// The reason why a record was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PublishFailure {
    /// The operation fails with this error.
    Refused(StoreError),
    /// A piece was evicted before the publication.
    PieceLost,
    /// The group is full and no overflow group is free. The caller must release the group and the
    /// appender before it adds overflow groups.
    NoSlot,
    /// The record that the new one was made from has changed. The caller must make the new record
    /// again.
    Changed,
}

impl From<StoreError> for PublishFailure {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<ChainFull> for PublishFailure {
    fn from(crowded: ChainFull) -> Self {
        match crowded {
            ChainFull::NoOverflowGroup => Self::NoSlot,
            ChainFull::Full => Self::Refused(StoreError::NoMemory),
        }
    }
}

impl From<Stuck> for PublishFailure {
    fn from(stuck: Stuck) -> Self {
        Self::Refused(stuck.into())
    }
}

impl From<PublishFailure> for StoreError {
    fn from(unpublished: PublishFailure) -> Self {
        match unpublished {
            PublishFailure::Refused(error) => error,
            // This happens only if memory is too small for the value, or too many threads use it.
            PublishFailure::PieceLost | PublishFailure::Changed | PublishFailure::NoSlot => {
                Self::NoMemory
            }
        }
    }
}

impl Engine {
    /// If the condition holds, publishes a written record under its key, whose group is locked.
    /// Otherwise the next record of the appender overwrites it. One store to a slot is the moment
    /// of the change: a reader finds either the old item or the new one.
    pub(crate) fn publish(
        &self,
        op: &Op<'_>,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        locked: &Locked<'_>,
    ) -> Result<Stored, PublishFailure> {
        let Publication { draft, pieces, carried, condition } = publication;
        let bytes = draft.header().record_bytes();
        let old = self.index().find_locked(locked, draft.hash, draft.key);
        let live = old.filter(|found| self.index().death(found, op.now).is_none());
        let verdict = self.evaluate_condition(condition, old.as_ref(), live.as_ref());
        match verdict {
            Verdict::Store | Verdict::StoreStale => {}
            Verdict::Not(stored) => return Ok(stored),
            Verdict::Changed => return Err(PublishFailure::Changed),
        }
        // Computed before the check for a flush: if a flush hides a piece in between, the store
        // counts as done before the flush, and the piece does not count as lost.
        let are_kept = pieces.iter().all(|piece| self.is_kept(piece));
        if pieces.iter().any(|piece| self.segments().is_flushed(piece.sequence)) {
            // A flush happened while the value was arriving. The store counts as done before the
            // flush, so a live item, which was stored after the flush, stays.
            let stays = live.is_some() && !condition.names_item();
            old.filter(|_| !stays).inspect(|old| {
                self.index().report_removal(old, Reason::Cleared);
                self.index().unlink(op.thread, old);
            });
            // This does nothing for pieces that are lost, because their segments are being
            // reclaimed.
            for piece in *pieces {
                self.give_back_piece(op.thread, piece);
            }
            let cas = match self.segments().keeps_versions() {
                true => self.give_version(op.thread, condition.version(), 0),
                false => 0,
            };
            return Ok(Stored::Stored { cas, value_bytes: draft.shown_bytes() });
        }
        if !are_kept {
            return Err(PublishFailure::PieceLost);
        }
        let slot_at = self.slot_for(op.thread, locked, draft.hash, old.as_ref())?;
        let life = self.liveness(draft.header(), condition, &verdict, live.as_ref());
        let life = Life { header: life.header.with_used(op.now), ..life };
        let cas = self.fill_in_under_lock(op.thread, publication, room, &life, old.as_ref());
        let slot = room.slot().tagged(self.index().tag_of(draft.hash), life.freq);
        if self.journal().is_some() {
            let (sequence, record_at) = (room.sequence, room.at());
            let new = Found { slot_at, slot, sequence, record_at, header: life.header };
            self.record_new(op, publication, &new, live.is_some())?;
        }
        room.fill(bytes);
        self.segments().charge(room.segment, Account { items: 1, bytes });
        self.peers().intend_to_replace(op.thread, old.map_or(Slot::EMPTY, |old| old.slot).0);
        self.index().set_slot(slot_at, slot);
        pieces.iter().for_each(|piece| self.peers().note_arrived(piece.slot.segment()));
        if let Some(old) = &old {
            self.report_replaced(old, condition, op.now);
            self.index().discharge_item(old, *carried);
            let is_reclaimed = live.is_none() && self.index().reserved_until(old).is_none();
            self.bump(op.thread, Counter::Reclaimed, u64::from(is_reclaimed));
        }
        self.bump(op.thread, Counter::BytesWritten, bytes as u64);
        self.bump(op.thread, Counter::ItemsTotal, u64::from(condition.is_new_item()));
        if old.is_none() {
            let is_remembered = self.index().forget(locked, draft.hash);
            self.bump(op.thread, Counter::GhostHits, u64::from(is_remembered));
            self.peers().note_slots(op.thread, 1);
        }
        Ok(Stored::Stored { cas, value_bytes: draft.shown_bytes() })
    }

    pub(crate) fn evaluate_condition(
        &self,
        condition: &Condition<'_>,
        old: Option<&Found>,
        live: Option<&Found>,
    ) -> Verdict {
        let request = match condition {
            Condition::Replace(over) => {
                let same = live.is_some_and(|found| self.is_origin(found, over.found, over.origin));
                return if same { Verdict::Store } else { Verdict::Changed };
            }
            Condition::Requested(request) => request,
            Condition::Loaded(Basis::ABSENT) if live.is_none() => return Verdict::Store,
            Condition::Loaded(Basis::ABSENT) => return Verdict::Not(Stored::NotStored),
            // An item that has expired during the load is still a valid basis.
            Condition::Loaded(basis) => {
                return match old {
                    Some(old) if self.is_based_on(old, *basis) => Verdict::Store,
                    _ if live.is_some() => Verdict::Not(Stored::Exists),
                    _ => Verdict::Not(Stored::NotFound),
                };
            }
            Condition::Restored(_) if live.is_some() => return Verdict::Not(Stored::NotStored),
            Condition::Restored(restored) => {
                return match (restored.is_current)() {
                    true => Verdict::Store,
                    false => Verdict::Not(Stored::NotFound),
                };
            }
            Condition::Reserve(_) => {
                let is_reserved = |old: &Found| self.index().reserved_until(old).is_some();
                let is_flushed = |old: &Found| self.segments().is_flushed(old.sequence);
                let is_held = old.is_some_and(|old| is_reserved(old) && !is_flushed(old));
                return match live.is_some() || is_held {
                    true => Verdict::Not(Stored::NotStored),
                    false => Verdict::Store,
                };
            }
        };
        match (request.mode, request.cas, live) {
            (StoreMode::Add, _, Some(_)) => Verdict::Not(Stored::NotStored),
            (StoreMode::Add, _, None) => Verdict::Store,
            (_, Some(_), None) => Verdict::Not(Stored::NotFound),
            (_, Some(cas), Some(found)) => match cas.cmp(&self.index().cas(found)) {
                Equal => Verdict::Store,
                Less if request.stale == Stale::IfOlder => Verdict::StoreStale,
                Less | Greater => Verdict::Not(Stored::Exists),
            },
            (StoreMode::Replace, None, None) => Verdict::Not(Stored::NotStored),
            _ => Verdict::Store,
        }
    }

    /// Determines the freq, the header and the deadline of a new item. `header` is the header of
    /// its record without them, and `live` is the live item that it replaces, if there is one.
    pub(crate) fn liveness(
        &self,
        header: Header,
        condition: &Condition<'_>,
        verdict: &Verdict,
        live: Option<&Found>,
    ) -> Life {
        let freq = live.map_or(0, |live| self.index().slot(live.slot_at).freq());
        // A new item that replaces a live one inherits its popularity, and a store over a live item
        // counts as a use of it, like a read: decision 0025.
        let anew = live.map_or(0, |_| (freq + 1).min(INITIAL_FREQ_MAX));
        match (condition, live) {
            (Condition::Replace(over), Some(live)) => {
                let deadline = over.deadline.or_else(|| Some(self.index().deadline(live)));
                match over.keeps_identity {
                    true => {
                        Life { freq, header: header.keeping_identity_of(live.header), deadline }
                    }
                    false => Life { freq: anew, header: header.with_initial_freq(anew), deadline },
                }
            }
            (Condition::Requested(_), Some(live)) if matches!(verdict, Verdict::StoreStale) => {
                let marks = Marks { stale: true, token_sent: live.header.is_token_sent() };
                let header = header.with_initial_freq(anew).with_marks(marks);
                Life { freq: anew, header, deadline: Some(self.index().deadline(live)) }
            }
            (Condition::Requested(request), _) => {
                let marks =
                    Marks { stale: request.stale == Stale::Always, token_sent: request.token_sent };
                let header = header.with_initial_freq(anew).with_marks(marks);
                Life { freq: anew, header, deadline: None }
            }
            (Condition::Restored(restored), _) => {
                let stale = restored.request.stale == Stale::Always;
                let marks = Marks { stale, token_sent: false };
                let header = header.with_initial_freq(anew).with_marks(marks);
                Life { freq: anew, header, deadline: None }
            }
            (Condition::Replace(_), None) => Life { freq, header, deadline: None },
            (Condition::Loaded(_), _) => {
                Life { freq: anew, header: header.with_initial_freq(anew), deadline: None }
            }
            (Condition::Reserve(_), _) => {
                let header = header.with_marks(Marks { stale: true, token_sent: true });
                Life { freq, header, deadline: None }
            }
        }
    }

    /// Returns the slot to publish in: the old record's slot, or an empty slot.
    fn slot_for(
        &self,
        thread: &ThreadSlot,
        locked: &Locked<'_>,
        hash: u64,
        old: Option<&Found>,
    ) -> Result<usize, PublishFailure> {
        if let Some(old) = old {
            return Ok(old.slot_at);
        }
        match locked.slots(hash).find(|at| self.index().slot(*at).is_empty()) {
            Some(empty) => Ok(empty),
            None => Ok(self.index().make_slot(thread, locked)?),
        }
    }

    /// Fills in the fields that are determined under the lock: the version, and everything that
    /// changed since the new record was made from the old one (a touched deadline, moved pieces).
    fn fill_in_under_lock(
        &self,
        thread: &ThreadSlot,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        life: &Life,
        old: Option<&Found>,
    ) -> u64 {
        let Publication { draft, carried, condition, .. } = publication;
        let header = life.header;
        self.region().word(room.at()).store(header.word(), Relaxed);
        if let (Some(carried), Some(old)) = (carried, old) {
            let from = table_at(old.record_at, old.header) + carried.from * 8;
            let to = table_at(room.at(), header) + carried.to * 8;
            self.region().memory().copy(from, to, carried.count * 8);
        }
        let mut deadline = draft.deadline.unwrap_or(Deadline::NEVER);
        if let (Some(kept), Some(at)) = (life.deadline, header.deadline_at()) {
            deadline = kept;
            self.region().half(room.at() + at).store(deadline.0, Relaxed);
        }
        // Readers treat a reservation as expired, but the expiry sweep keeps it longer.
        let swept_at = if let Condition::Reserve(until) = condition { *until } else { deadline };
        self.segments().note_deadline(room.segment, swept_at);
        let Some(at) = header.version_at() else {
            return 0;
        };
        let replaced = old.map_or(0, |old| self.index().version(old));
        let version = self.give_version(thread, condition.version(), replaced);
        self.region().word(room.at() + at).store(version, Relaxed);
        self.index().cas_of(version)
    }

    /// Reports a replaced record. A record that was made from the old one continues the item, so it
    /// does not count as a replacement.
    fn report_replaced(&self, old: &Found, condition: &Condition<'_>, now: Second) {
        match (condition, self.index().death(old, now)) {
            (_, Some(death)) => self.index().report_removal(old, death.into()),
            (Condition::Requested(..) | Condition::Loaded(_), None) => {
                self.index().report_removal(old, Reason::Replaced);
            }
            (Condition::Replace(..) | Condition::Reserve(_) | Condition::Restored(_), None) => {}
        }
    }
}
