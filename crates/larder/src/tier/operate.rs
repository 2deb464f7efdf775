//! Operations on a cache with a disk tier: what they do when memory lacks the item.

use std::cell::RefCell;
use std::time::Instant;

use larder_engine::{
    Deletion, Engine, Refusal, Stale, StoreError, StoreRequest, Stored, ThreadSlot,
};
use larder_item::{Meta, Second, StoreMode};
use larder_tier::format::{Address, Item};
use larder_tier::store::{FindError, Known, StoredItem};

use super::{KNOWN, Tier, demoter, recorder};

thread_local! {
    /// What is known of the key whose item this thread could not read last.
    static UNREAD: RefCell<Known> = RefCell::new(Known::default());
}

/// How often an item is brought back that eviction takes away again.
const RETURNS_MAX: u32 = 16;

/// What the disk has of a key that memory lacks.
pub(crate) enum Brought {
    /// No item. What it has are records of other keys, or an old one of this key.
    Nothing(Known),
    /// Memory has the item again. The disk has this of the key.
    Back(Known),
    /// It stays where it is: memory has no room for this item, or it was read for the first time.
    Left(StoredItem),
}

/// When a read brings an item back into memory that only the disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returns {
    /// At once.
    Always,
    /// If memory has room for it, or if the item was read on the disk lately. A large or a stale
    /// item returns at once.
    IfReused,
}

/// How an operation uses the present item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It replaces the item, whatever that is.
    Replaces,
    /// It needs the item.
    Needs,
}

impl Use {
    /// The use that a store makes of the present item.
    pub(crate) fn of(request: &StoreRequest<'_>) -> Self {
        let is_plain = request.mode == StoreMode::Set
            && request.cas.is_none()
            && request.stale != Stale::IfOlder;
        if is_plain { Self::Replaces } else { Self::Needs }
    }
}

impl Tier {
    /// Runs a change until it depends on nothing that only the disk has. `is_absent` says whether
    /// an outcome means that the key has no item.
    pub(crate) fn change<T>(
        &self,
        engine: &Engine,
        thread: &ThreadSlot,
        (key, uses, now): (&[u8], Use, Second),
        change: impl FnMut() -> Result<T, StoreError>,
        is_absent: impl Fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        let deadline = self.patience();
        self.clear_if_due(engine, now);
        self.share_memory_if_due(engine, thread, now);
        if !self.is_cache() {
            self.store.wait_for_room(deadline).map_err(recorder::refusal)?;
        }
        let outcome = demoter::using(uses, || {
            self.settle(engine, thread, (key, uses, now), (deadline, change), is_absent)
        });
        // What is known of one key is not known of another.
        KNOWN.set(Known::default());
        outcome
    }

    fn settle<T>(
        &self,
        engine: &Engine,
        thread: &ThreadSlot,
        (key, uses, now): (&[u8], Use, Second),
        (deadline, mut change): (Instant, impl FnMut() -> Result<T, StoreError>),
        is_absent: impl Fn(&T) -> bool,
    ) -> Result<T, StoreError> {
        let mut returns = 0;
        loop {
            match change() {
                Err(StoreError::Journal(Refusal::AskDisk)) if uses == Use::Replaces => {
                    KNOWN.set(match self.find(key) {
                        Ok((known, _)) => known,
                        // What cannot be read can be replaced, and is whole again then.
                        Err(error) => {
                            self.note_unreadable(&error);
                            error.known
                        }
                    });
                }
                Err(StoreError::Journal(Refusal::AskDisk)) => {
                    self.learn(engine, thread, key, now)?;
                }
                Err(StoreError::Journal(Refusal::Busy)) => {
                    self.clear_if_due(engine, now);
                    self.wait_for_progress(deadline)?;
                }
                Ok(outcome) if is_absent(&outcome) && returns < RETURNS_MAX => {
                    if !self.learn(engine, thread, key, now)? {
                        return Ok(outcome);
                    }
                    returns += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Brings the item of a key back, or learns that there is none. False if there is none.
    fn learn(
        &self,
        engine: &Engine,
        thread: &ThreadSlot,
        key: &[u8],
        now: Second,
    ) -> Result<bool, StoreError> {
        match self.bring(engine, thread, (key, Returns::Always), now)? {
            Brought::Back(known) => {
                // Which records are other keys', or the change asks again without end. The key's
                // own is not known: if memory loses it again, the change has to ask.
                KNOWN.set(Known { own: None, ..known });
                Ok(true)
            }
            Brought::Nothing(known) => {
                KNOWN.set(known);
                Ok(false)
            }
            Brought::Left(_) => Err(StoreError::NoMemory),
        }
    }

    /// Brings the item of a key back into memory.
    pub(crate) fn bring(
        &self,
        engine: &Engine,
        thread: &ThreadSlot,
        (key, returns): (&[u8], Returns),
        now: Second,
    ) -> Result<Brought, StoreError> {
        let mut may_stay = returns == Returns::IfReused && engine.is_memory_full();
        loop {
            if self.store.is_flush_due(self.unix_of(now)) {
                return Err(StoreError::Journal(Refusal::Busy));
            }
            if !self.store.may_have(key) {
                return Ok(Brought::Nothing(Known::default()));
            }
            let found = match self.find(key) {
                Ok(found) => found,
                Err(error) if self.is_cache() => {
                    self.note_unreadable(&error);
                    self.store.give_up(key);
                    return Ok(Brought::Nothing(Known::default()));
                }
                Err(error) => return Err(self.failed(error)),
            };
            let (known, Some(item)) = found else { return Ok(Brought::Nothing(found.0)) };
            let Some(at) = known.own else { return Ok(Brought::Nothing(known)) };
            if self.is_condemned(key, at) {
                self.store.forget_condemned(key, at);
                return Ok(Brought::Nothing(Known { own: None, ..known }));
            }
            let now_unix_secs = self.unix_of(now);
            if item.is_expired(now_unix_secs) {
                self.store.forget_expired(key, at, now_unix_secs);
                return Ok(Brought::Nothing(Known { own: None, ..known }));
            }
            let is_current = || self.store.is_current(key, at) && !self.is_condemned(key, at);
            // The recache token of a stale item is a mark of its record in memory.
            may_stay &= !item.stale && item.value.len() <= engine.inline_bytes_max();
            may_stay = may_stay && self.recent_reads.is_first(self.store.identity(key));
            if may_stay {
                match is_current() {
                    true => return Ok(Brought::Left(item)),
                    false => continue,
                }
            }
            self.note_return(key);
            match self.restore(engine, thread, (key, &item), &is_current, now) {
                Ok(Stored::Stored { .. } | Stored::NotStored) => return Ok(Brought::Back(known)),
                // It changed, or reclaim has moved it: look again.
                Ok(Stored::NotFound | Stored::Exists) => {}
                Err(StoreError::NoMemory) => return Ok(Brought::Left(item)),
                Err(error) => return Err(error),
            }
        }
    }

    /// True if a removal by prefix takes this item of a cache. One from a store deletes by records.
    fn is_condemned(&self, key: &[u8], at: Address) -> bool {
        self.is_cache() && self.store.is_condemned(key, at)
    }

    fn restore(
        &self,
        engine: &Engine,
        thread: &ThreadSlot,
        (key, item): (&[u8], &StoredItem),
        is_current: &dyn Fn() -> bool,
        now: Second,
    ) -> Result<Stored, StoreError> {
        let request = StoreRequest {
            flags: item.flags,
            deadline: self.deadline(item.deadline_unix_secs),
            version: Some(item.version),
            stale: if item.stale { Stale::Always } else { Stale::Never },
            ..StoreRequest::new(key, StoreMode::Set)
        };
        engine.restore(thread, &request, &item.value, is_current, now)
    }

    /// The value and the metadata of an item that only the disk has. It stays there, and what the
    /// disk does not return is counted.
    pub(crate) fn peek_value(&self, key: &[u8], now: Second) -> Option<(Vec<u8>, Meta)> {
        let found = self.store.find(key).inspect_err(|error| self.note_unreadable(error));
        let (known, item) = found.ok()?;
        let item = item.filter(|item| !item.is_expired(self.unix_of(now)))?;
        known.own.filter(|at| !self.is_condemned(key, *at))?;
        let meta = self.meta(&item, now);
        Some((item.value, meta))
    }

    /// The metadata of an item that is shown from the disk.
    pub(crate) fn meta(&self, item: &StoredItem, now: Second) -> Meta {
        let &StoredItem { ref value, flags, version, deadline_unix_secs, stale } = item;
        let (token_sent, number) = (false, false);
        let (key, value) = (&[][..], &value[..]);
        let item =
            Item { key, value, flags, version, deadline_unix_secs, stale, token_sent, number };
        self.meta_of(&item, now)
    }

    /// As [`Self::meta`], for an item that a walk meets.
    pub(super) fn meta_of(&self, item: &Item<'_>, now: Second) -> Meta {
        Meta {
            flags: item.flags,
            deadline: self.deadline(item.deadline_unix_secs),
            cas: item.version,
            value_bytes: item.value.len(),
            stale: item.stale,
            token_sent: false,
            fetched: false,
            seen: now,
        }
    }

    /// Runs a delayed clear that is due. If the log does not take it, memory is cleared all the
    /// same, and [`Self::bring`] fails until the log takes it.
    #[inline]
    pub(crate) fn clear_if_due(&self, engine: &Engine, now: Second) {
        if self.store.is_flush_due(self.unix_of(now)) && self.clear(|| engine.flush()).is_err() {
            engine.flush();
        }
    }

    /// Removes the item of a key. One that cannot be read is removed unread, unless it is to have a
    /// cas token.
    pub(crate) fn remove(
        &self,
        engine: &Engine,
        thread: &ThreadSlot,
        (key, cas, now): (&[u8], Option<u64>, Second),
    ) -> Result<Deletion, StoreError> {
        let is_absent = |deletion: &Deletion| *deletion == Deletion::NotFound;
        let delete = || engine.delete(thread, key, cas, now);
        let removed = self.change(engine, thread, (key, Use::Needs, now), delete, is_absent);
        let known = UNREAD.take();
        if removed != Err(StoreError::Journal(Refusal::Unreadable)) || cas.is_some() {
            return removed;
        }
        let change = recorder::unconditional(self.unix_of(now));
        recorder::remove(&self.store, key, &change, &known).map_err(recorder::refusal)?;
        Ok(Deletion::Deleted(Meta { seen: now, ..Meta::default() }))
    }

    fn failed(&self, error: FindError) -> StoreError {
        self.note_unreadable(&error);
        UNREAD.set(error.known);
        StoreError::Journal(Refusal::Unreadable)
    }
}
