//! Publishing a written record: the one moment at which a store happens.

use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, Second, StoreMode};
use larder_stats::Counter;

use crate::find::Found;
use crate::group::Locked;
use crate::head::Reservation;
use crate::large::{Piece, table_at};
use crate::record::{Draft, Header};
use crate::slot::Slot;
use crate::{Engine, NoMemory, Reason, Request, Seat, StoreError, Stored};

/// When a record replaces what is there.
#[derive(Clone, Copy)]
pub(crate) enum Condition<'a> {
    /// As the mode and the cas token of a request say.
    Requested(StoreMode, Option<u64>),
    /// Only over exactly this record, from which the new one was made, if it still is what it was: with this
    /// [`Engine::origin`].
    Over(&'a Found, u64),
}

impl Condition<'_> {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        Self::Requested(request.mode, request.cas)
    }

    /// The deadline field of the new record. One made from another keeps the field, even if it says never:
    /// the other's may be changed until the new one is published.
    pub(crate) fn deadline_field(&self, request: &Request<'_>) -> Option<Deadline> {
        let keeps = matches!(self, Self::Over(found, _) if found.header.deadline_at().is_some());
        (keeps || request.deadline != Deadline::NEVER).then_some(request.deadline)
    }
}

/// A record that is to be written and published.
pub(crate) struct Publication<'a> {
    pub(crate) draft: &'a Draft<'a>,
    /// The pieces of a large value that were written for it.
    pub(crate) pieces: &'a [Piece],
    /// The pieces it takes over from the record it replaces.
    pub(crate) carried: Option<Carried>,
}

/// Words of an old table that become words of a new one.
#[derive(Clone, Copy)]
pub(crate) struct Carried {
    pub(crate) count: usize,
    /// The first of them in the old table.
    pub(crate) from: usize,
    /// Where they begin in the new one.
    pub(crate) to: usize,
}

impl Carried {
    fn holds(&self, piece: usize) -> bool {
        (self.from..self.from + self.count).contains(&piece)
    }
}

/// What publishing came to where it is no error.
enum Verdict {
    Store,
    Not(Stored),
    /// The record the new one was made from is another by now.
    Changed,
}

/// Why a record was not published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unpublished {
    /// The user will be told.
    Refused(StoreError),
    /// A piece was evicted before the record that names it was published.
    PieceLost,
    /// The group is full and there is no overflow group to make it longer. To make more, the head must be
    /// given back first.
    NoSlot,
    /// The record it was made from is another by now: it must be made again.
    Changed,
}

impl From<StoreError> for Unpublished {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<NoMemory> for Unpublished {
    fn from(_: NoMemory) -> Self {
        Self::Refused(StoreError::NoMemory)
    }
}

impl From<Unpublished> for StoreError {
    fn from(unpublished: Unpublished) -> Self {
        match unpublished {
            Unpublished::Refused(error) => error,
            // Only a memory too small, or too busy, for the value gets here.
            Unpublished::PieceLost | Unpublished::Changed | Unpublished::NoSlot => Self::NoMemory,
        }
    }
}

impl Engine {
    /// Publishes a record under its key if the condition holds, otherwise gives its bytes back. One store
    /// to a slot makes the difference; a reader sees the old item or the new one.
    pub(crate) fn publish(
        &self,
        seat: &Seat,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let published = self.try_publish(seat, publication, room, condition, now);
        if !matches!(published, Ok(Stored::Stored { .. })) {
            room.give_back();
        }
        published
    }

    fn try_publish(
        &self,
        seat: &Seat,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let Publication { draft, pieces, carried } = publication;
        let bytes = draft.header().record_bytes();
        room.fill(bytes);
        let locked = self.lock(seat, draft.hash);
        let old = self.find_locked(&locked, draft.hash, draft.key);
        let live = old.filter(|found| self.death(found, now).is_none());
        match self.judge(condition, live.as_ref()) {
            Verdict::Store => {}
            Verdict::Not(stored) => return Ok(stored),
            Verdict::Changed => return Err(Unpublished::Changed),
        }
        if pieces.iter().any(|piece| self.is_flushed(piece.sequence)) {
            // A flush came while the value was arriving: the store happened before it.
            old.inspect(|old| {
                self.tell_removal(old, Reason::Cleared);
                self.unlink(seat, old);
            });
            pieces.iter().for_each(|piece| self.give_back_piece(seat, piece));
            return Ok(Stored::Stored { cas: self.next_version(seat, 0) });
        }
        if !pieces.iter().all(|piece| self.is_kept(piece)) {
            return Err(Unpublished::PieceLost);
        }
        let Some(slot_at) = self.place_for(&locked, draft.hash, old.as_ref()) else {
            return Err(Unpublished::NoSlot);
        };
        let cas = self.complete(seat, publication, room, condition, old.as_ref());
        // What replaces a live item is asked for as often as that was.
        let freq = live.map_or(0, |live| self.slot(live.slot_at).freq());
        self.set_slot(slot_at, room.slot().tagged(self.tag_of(draft.hash), freq));
        pieces.iter().for_each(|piece| self.note_arrived(piece.slot.segment()));
        if let Some(old) = &old {
            self.tell_replaced(old, condition, now);
            self.discharge_item(seat, old, *carried);
            self.count(seat, Counter::Reclaimed, u64::from(live.is_none()));
        }
        self.account(seat, room.segment, bytes);
        self.count(seat, Counter::ItemsTotal, 1);
        if old.is_none() {
            let is_remembered = self.forget(&locked, draft.hash);
            self.count(seat, Counter::GhostHits, u64::from(is_remembered));
            self.count(seat, Counter::ItemsCurrent, 1);
            self.note_slots(seat, 1);
        }
        Ok(Stored::Stored { cas })
    }

    fn judge(&self, condition: &Condition<'_>, live: Option<&Found>) -> Verdict {
        match (condition, live) {
            (Condition::Over(from, origin), Some(found)) => {
                let same = self.is_origin(found, from, *origin);
                if same { Verdict::Store } else { Verdict::Changed }
            }
            (Condition::Over(..), None) => Verdict::Changed,
            (Condition::Requested(StoreMode::Add, _), Some(_)) => Verdict::Not(Stored::NotStored),
            (Condition::Requested(StoreMode::Add, _), None) => Verdict::Store,
            (Condition::Requested(_, Some(_)), None) => Verdict::Not(Stored::NotFound),
            (Condition::Requested(_, Some(cas)), Some(found)) if self.version(found) != *cas => {
                Verdict::Not(Stored::Exists)
            }
            (Condition::Requested(StoreMode::Replace, None), None) => {
                Verdict::Not(Stored::NotStored)
            }
            (Condition::Requested(..), _) => Verdict::Store,
        }
    }

    /// The slot to publish in: the old record's, or an empty one; none where the chain is full and there is
    /// no overflow group to make it longer.
    fn place_for(&self, locked: &Locked<'_>, hash: u64, old: Option<&Found>) -> Option<usize> {
        match old {
            Some(old) => Some(old.slot_at),
            None => locked
                .slots(hash)
                .find(|at| self.slot(*at).is_empty())
                .or_else(|| self.extend_chain(locked)),
        }
    }

    /// Fills in what is only known under the lock: the version, and what may have changed since the new record
    /// was made from the old: a deadline touched, pieces moved.
    fn complete(
        &self,
        seat: &Seat,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        condition: &Condition<'_>,
        old: Option<&Found>,
    ) -> u64 {
        let Publication { draft, carried, .. } = publication;
        let header = draft.header();
        if let (Some(carried), Some(old)) = (carried, old) {
            let from = table_at(old.record_at, old.header) + carried.from * 8;
            let to = table_at(room.at(), header) + carried.to * 8;
            self.memory.copy(from, to, carried.count * 8);
        }
        let mut deadline = draft.deadline.unwrap_or(Deadline::NEVER);
        if let (Condition::Over(..), Some(old), Some(at)) = (condition, old, header.deadline_at()) {
            deadline = self.deadline(old);
            self.memory.half(room.at() + at).store(deadline.0, Relaxed);
        }
        self.note_deadline(room.segment, deadline);
        let Some(at) = header.version_at() else {
            return 0;
        };
        let version = self.next_version(seat, old.map_or(0, |old| self.version(old)));
        self.memory.word(room.at() + at).store(version, Relaxed);
        version
    }

    /// Removes a record of a locked group from the index.
    pub(crate) fn unlink(&self, seat: &Seat, found: &Found) {
        self.set_slot(found.slot_at, Slot::EMPTY);
        self.discharge_item(seat, found, None);
        self.discount(seat, Counter::ItemsCurrent, 1);
        self.note_slots(seat, -1);
    }

    /// Tells of a record that another was put in place of. One made from it is no replacement: the item goes on.
    fn tell_replaced(&self, old: &Found, condition: &Condition<'_>, now: Second) {
        match (condition, self.death(old, now)) {
            (_, Some(death)) => self.tell_removal(old, death.into()),
            (Condition::Requested(..), None) => self.tell_removal(old, Reason::Replaced),
            (Condition::Over(..), None) => {}
        }
    }

    /// Adds a record to the accounts.
    pub(crate) fn account(&self, seat: &Seat, segment: u32, bytes: usize) {
        self.add_live(segment, bytes);
        self.count(seat, Counter::BytesLive, bytes as u64);
        self.count(seat, Counter::BytesWritten, bytes as u64);
    }

    /// Takes a record out of the accounts, after nothing names it any more: a segment without live bytes is
    /// given to other use without a look.
    pub(crate) fn discharge(&self, seat: &Seat, segment: u32, bytes: usize) {
        self.subtract_live(segment, bytes);
        self.discount(seat, Counter::BytesLive, bytes as u64);
    }

    /// Takes an item's record, and the pieces of a large one but for those carried over, out of the accounts. Under the lock of its
    /// group. The record last: as soon as it is out, its segment may be given to other use, and with it the
    /// table that names the pieces.
    fn discharge_item(&self, seat: &Seat, found: &Found, carried: Option<Carried>) {
        if found.header.is_large() {
            let is_carried = |piece| carried.is_some_and(|carried| carried.holds(piece));
            for (_, at) in self.table(found).enumerate().filter(|(piece, _)| !is_carried(*piece)) {
                let piece = self.slot(at);
                let record_at = self.layout.segment_at(piece.segment()) + piece.offset();
                let bytes = Header::load(&self.memory, record_at).record_bytes();
                self.discharge(seat, piece.segment(), bytes);
            }
        }
        self.discharge(seat, found.slot.segment(), found.header.record_bytes());
    }
}
