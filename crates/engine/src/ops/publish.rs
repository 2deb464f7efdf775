//! Publishing a written record: the one moment at which a store happens.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::sync::atomic::Ordering::Relaxed;

use larder_item::{Deadline, Meta, Second, StoreMode};
use larder_stats::Counter;

use crate::index::find::Found;
use crate::index::group::Locked;
use crate::index::slot::Slot;
use crate::ops::large::{Piece, table_at};
use crate::ops::load::Basis;
use crate::segment::appender::Reservation;
use crate::segment::header::Account;
use crate::segment::record::{Draft, Header, INITIAL_FREQ_MAX, Marks};
use crate::{Engine, Reason, Stale, StoreError, StoreRequest, Stored, Stuck, ThreadSlot};

/// When a record replaces what is there.
#[derive(Clone, Copy)]
pub(crate) enum Condition<'a> {
    /// As a request says.
    Requested(&'a StoreRequest<'a>),
    /// Only over the record from which the new one was made.
    Replace(Replace<'a>),
    /// Where nothing happened to the key since a load of its value began.
    Loaded(Basis),
    /// A reservation until a second, where no item is and no reservation.
    Reserve(Deadline),
}

/// A record from which another was made.
#[derive(Clone, Copy)]
pub(crate) struct Replace<'a> {
    pub(crate) found: &'a Found,
    /// What it was when it was read: its [`Engine::origin`].
    pub(crate) origin: u64,
    /// The version that the new one is asked to get.
    pub(crate) version: Option<u64>,
    /// The deadline that the new one gets in place of the old one's.
    pub(crate) deadline: Option<Deadline>,
    /// Is it the same item in other words? Else what was said of it, and whether it was read, is over.
    pub(crate) keeps_identity: bool,
}

impl Replace<'_> {
    /// What the new item has of the old one, of which this was known.
    pub(crate) fn meta(&self, old: Meta) -> Meta {
        let kept = |mark: bool| mark && self.keeps_identity;
        Meta {
            deadline: self.deadline.unwrap_or(old.deadline),
            stale: kept(old.stale),
            token_sent: kept(old.token_sent),
            fetched: kept(old.fetched),
            ..old
        }
    }
}

impl Condition<'_> {
    /// The deadline field of the new record. One made from another keeps the field, even if it says never:
    /// the other's may be changed until the new one is published. So does one that may be told to keep it.
    pub(crate) fn deadline_field(&self, request: &StoreRequest<'_>) -> Option<Deadline> {
        let keeps = match self {
            Self::Replace(over) => over.found.header.deadline_at().is_some(),
            Self::Requested(request) => request.stale == Stale::IfOlder,
            Self::Loaded(_) | Self::Reserve(_) => false,
        };
        (keeps || request.deadline != Deadline::NEVER).then_some(request.deadline)
    }

    fn version(&self) -> Option<u64> {
        match self {
            Self::Replace(over) => over.version,
            Self::Requested(request) => request.version,
            Self::Loaded(_) | Self::Reserve(_) => None,
        }
    }

    /// True if what is published counts as one more item that was stored. As in memcached, a number that stays as
    /// long as it was is the same item.
    fn is_new_item(&self) -> bool {
        match self {
            Self::Replace(over) => !over.keeps_identity,
            Self::Requested(_) | Self::Loaded(_) => true,
            Self::Reserve(_) => false,
        }
    }
}

/// What becomes known under the lock of an item that is stored.
struct Life {
    /// What its slot counts.
    freq: u64,
    /// The header with what is told there.
    header: Header,
    /// The deadline that it gets in place of that of its draft.
    deadline: Option<Deadline>,
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
    /// The value comes too late: it is stored, but out of date.
    StoreStale,
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

impl From<Stuck> for Unpublished {
    fn from(stuck: Stuck) -> Self {
        Self::Refused(stuck.into())
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
        thread: &ThreadSlot,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let published = self.try_publish(thread, publication, room, condition, now);
        if !matches!(published, Ok(Stored::Stored { .. })) {
            room.give_back();
        }
        published
    }

    fn try_publish(
        &self,
        thread: &ThreadSlot,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        condition: &Condition<'_>,
        now: Second,
    ) -> Result<Stored, Unpublished> {
        let Publication { draft, pieces, carried } = publication;
        let bytes = draft.header().record_bytes();
        room.fill(bytes);
        let locked = self.lock(thread, draft.hash)?;
        let old = self.find_locked(&locked, draft.hash, draft.key);
        let live = old.filter(|found| self.death(found, now).is_none());
        let verdict = self.judge(condition, old.as_ref(), live.as_ref());
        match verdict {
            Verdict::Store | Verdict::StoreStale => {}
            Verdict::Not(stored) => return Ok(stored),
            Verdict::Changed => return Err(Unpublished::Changed),
        }
        // Before the look for a flush: a piece that one has taken is no lost one.
        let are_kept = pieces.iter().all(|piece| self.is_kept(piece));
        if pieces.iter().any(|piece| self.is_flushed(piece.sequence)) {
            // A flush came while the value was arriving: the store happened before it.
            old.inspect(|old| {
                self.report_removal(old, Reason::Cleared);
                self.unlink(thread, old);
            });
            // What is lost, or about to be, goes with its segment, which is reclaimable.
            for piece in *pieces {
                self.give_back_piece(thread, piece);
            }
            let cas = match self.keeps_versions {
                true => self.give_version(thread, condition.version(), 0),
                false => 0,
            };
            return Ok(Stored::Stored { cas, value_bytes: draft.shown_bytes() });
        }
        if !are_kept {
            return Err(Unpublished::PieceLost);
        }
        let slot_at = self.place_for(thread, &locked, draft.hash, old.as_ref())?;
        let life = self.life(draft, condition, &verdict, live.as_ref());
        let life = Life { header: life.header.with_used(now), ..life };
        let cas = self.complete(thread, publication, room, condition, &life, old.as_ref());
        self.charge(room.segment, Account { items: 1, bytes });
        self.intend_to_replace(thread, old.map_or(Slot::EMPTY, |old| old.slot));
        self.set_slot(slot_at, room.slot().tagged(self.tag_of(draft.hash), life.freq));
        pieces.iter().for_each(|piece| self.note_arrived(piece.slot.segment()));
        if let Some(old) = &old {
            self.tell_replaced(old, condition, now);
            self.discharge_item(old, *carried);
            let is_reclaimed = live.is_none() && self.reserved_until(old).is_none();
            self.bump(thread, Counter::Reclaimed, u64::from(is_reclaimed));
        }
        self.bump(thread, Counter::BytesWritten, bytes as u64);
        self.bump(thread, Counter::ItemsTotal, u64::from(condition.is_new_item()));
        if old.is_none() {
            let is_remembered = self.forget(&locked, draft.hash);
            self.bump(thread, Counter::GhostHits, u64::from(is_remembered));
            self.note_slots(thread, 1);
        }
        Ok(Stored::Stored { cas, value_bytes: draft.shown_bytes() })
    }

    fn judge(
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
            // An item that expired during the load is a basis as good as before.
            Condition::Loaded(basis) => {
                return match old {
                    Some(old) if self.is_based_on(old, *basis) => Verdict::Store,
                    _ if live.is_some() => Verdict::Not(Stored::Exists),
                    _ => Verdict::Not(Stored::NotFound),
                };
            }
            Condition::Reserve(_) => {
                let is_reserved = |old: &Found| self.reserved_until(old).is_some();
                let is_flushed = |old: &Found| self.is_flushed(old.sequence);
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
            (_, Some(cas), Some(found)) => match cas.cmp(&self.version(found)) {
                Equal => Verdict::Store,
                Less if request.stale == Stale::IfOlder => Verdict::StoreStale,
                Less | Greater => Verdict::Not(Stored::Exists),
            },
            (StoreMode::Replace, None, None) => Verdict::Not(Stored::NotStored),
            _ => Verdict::Store,
        }
    }

    /// What becomes known under the lock of an item that is put in place of a live one, or of none.
    fn life(
        &self,
        draft: &Draft<'_>,
        condition: &Condition<'_>,
        verdict: &Verdict,
        live: Option<&Found>,
    ) -> Life {
        let header = draft.header();
        let freq = live.map_or(0, |live| self.slot(live.slot_at).freq());
        // What replaces a live item is asked for as often as that was.
        let anew = freq.min(INITIAL_FREQ_MAX);
        match (condition, live) {
            (Condition::Replace(over), Some(live)) => {
                let deadline = over.deadline.or_else(|| Some(self.deadline(live)));
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
                Life { freq: anew, header, deadline: Some(self.deadline(live)) }
            }
            (Condition::Requested(request), _) => {
                let marks =
                    Marks { stale: request.stale == Stale::Always, token_sent: request.token_sent };
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

    /// The slot to publish in: the old record's, or an empty one. An error where there is none to be had.
    fn place_for(
        &self,
        thread: &ThreadSlot,
        locked: &Locked<'_>,
        hash: u64,
        old: Option<&Found>,
    ) -> Result<usize, Unpublished> {
        if let Some(old) = old {
            return Ok(old.slot_at);
        }
        match locked.slots(hash).find(|at| self.slot(*at).is_empty()) {
            Some(empty) => Ok(empty),
            None => self.make_slot(thread, locked),
        }
    }

    /// Fills in what is only known under the lock: the version, and what may have changed since the new record
    /// was made from the old: a deadline touched, pieces moved.
    fn complete(
        &self,
        thread: &ThreadSlot,
        publication: &Publication<'_>,
        room: &Reservation<'_>,
        condition: &Condition<'_>,
        life: &Life,
        old: Option<&Found>,
    ) -> u64 {
        let Publication { draft, carried, .. } = publication;
        let header = life.header;
        self.memory.word(room.at()).store(header.word(), Relaxed);
        if let (Some(carried), Some(old)) = (carried, old) {
            let from = table_at(old.record_at, old.header) + carried.from * 8;
            let to = table_at(room.at(), header) + carried.to * 8;
            self.memory.copy(from, to, carried.count * 8);
        }
        let mut deadline = draft.deadline.unwrap_or(Deadline::NEVER);
        if let (Some(kept), Some(at)) = (life.deadline, header.deadline_at()) {
            deadline = kept;
            self.memory.half(room.at() + at).store(deadline.0, Relaxed);
        }
        // A reservation has expired for readers, but is to be swept up later.
        let swept_at = if let Condition::Reserve(until) = condition { *until } else { deadline };
        self.note_deadline(room.segment, swept_at);
        let Some(at) = header.version_at() else {
            return 0;
        };
        let replaced = old.map_or(0, |old| self.version(old));
        let version = self.give_version(thread, condition.version(), replaced);
        self.memory.word(room.at() + at).store(version, Relaxed);
        version
    }

    /// Removes a record of a locked group from the index.
    pub(crate) fn unlink(&self, thread: &ThreadSlot, found: &Found) {
        self.intend_to_replace(thread, found.slot);
        self.set_slot(found.slot_at, Slot::EMPTY);
        self.discharge_item(found, None);
        self.note_slots(thread, -1);
    }

    /// Tells of a record that another was put in place of. One made from it is no replacement: the item goes on.
    fn tell_replaced(&self, old: &Found, condition: &Condition<'_>, now: Second) {
        match (condition, self.death(old, now)) {
            (_, Some(death)) => self.report_removal(old, death.into()),
            (Condition::Requested(..) | Condition::Loaded(_), None) => {
                self.report_removal(old, Reason::Replaced);
            }
            (Condition::Replace(..) | Condition::Reserve(_), None) => {}
        }
    }

    /// Takes an item's record, and the pieces of a large one but for those carried over, out of the accounts. Under the lock of its
    /// group. The record last: as soon as it is out, its segment may be given to other use, and with it the
    /// table that names the pieces.
    fn discharge_item(&self, found: &Found, carried: Option<Carried>) {
        if found.header.is_large() {
            let is_carried = |piece| carried.is_some_and(|carried| carried.holds(piece));
            for (_, at) in self.table(found).enumerate().filter(|(piece, _)| !is_carried(*piece)) {
                let piece = self.slot(at);
                let record_at = self.layout.segment_at(piece.segment()) + piece.offset();
                self.discharge(piece.segment(), Account::of(Header::load(&self.memory, record_at)));
            }
        }
        self.discharge(found.slot.segment(), Account::of(found.header));
    }
}
