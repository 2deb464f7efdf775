//! Operations on a cache with a disk tier when memory does not have the item. To *promote* an item
//! is to copy it from the disk into memory.

use std::sync::Arc;
use std::task::Poll;

use larder_engine::{
    Deletion, Engine, Operation, Refusal, Stale, StoreError, StoreRequest, Stored,
};
use larder_item::{Meta, Second, StoreMode};
use larder_tier::format::{Address, Item};
use larder_tier::store::{KeyRecords, Removal, StoredItem};

use super::lookup::Pending;
use super::recording::JournalContext;
use super::wait::Wait;
use super::{Tier, store_journal};

/// How often one operation promotes an item again that eviction has removed before the operation
/// could use it.
const RETURNS_MAX: u32 = 16;

/// The result of promoting the item of a key that memory does not have.
pub(crate) enum Promotion {
    /// The disk has no item of the key. Contains the records that the lookup found instead: they
    /// belong to other keys, or are out of date.
    Nothing(KeyRecords),
    /// Memory has the item again. Contains its record on the disk, and records of other keys.
    Back(KeyRecords),
    /// The item stays on the disk, because memory has no space for it, or because this was its
    /// first read. Contains a copy of it.
    Left(StoredItem),
}

/// When a read promotes an item that only the disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromotionPolicy {
    /// At every read.
    Always,
    /// If memory has space for it, or if the item was recently read from the disk. A large or a
    /// stale item is promoted immediately.
    IfReused,
}

/// How an operation depends on the current item of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dependency {
    /// The operation replaces the item without reading it.
    Replaces,
    /// The operation needs the item: it reads or changes it, or its outcome depends on it.
    Needs,
}

/// The key of an operation, and how the operation uses the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) uses: Dependency,
    pub(crate) wait: Wait<'a>,
    /// The removal by prefix of which this operation is a part, if any.
    pub(crate) removal: Option<&'a Arc<Removal>>,
}

/// The reason why an operation was not performed.
#[derive(Debug)]
pub(crate) enum NotPerformed {
    /// The operation was refused.
    Refused(StoreError),
    /// The disk failed to return the item. Contains the records that the key has if the unreadable
    /// one is its record.
    Unread(KeyRecords),
    /// The caller must look the key up first, or wait until the disk accepts changes.
    Pending,
}

impl From<Pending> for NotPerformed {
    fn from(Pending: Pending) -> Self {
        Self::Pending
    }
}

impl From<StoreError> for NotPerformed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Refusal> for NotPerformed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.into())
    }
}

impl NotPerformed {
    /// Converts this to the result for the caller.
    pub(crate) fn into_poll<T>(self) -> Poll<Result<T, StoreError>> {
        match self {
            Self::Refused(error) => Poll::Ready(Err(error)),
            Self::Unread(_) => Poll::Ready(Err(StoreError::Journal(Refusal::Unreadable))),
            Self::Pending => Poll::Pending,
        }
    }
}

impl<'a> Target<'a> {
    pub(crate) fn new(key: &'a [u8], uses: Dependency, wait: Wait<'a>) -> Self {
        Self { key, uses, wait, removal: None }
    }
}

impl Dependency {
    /// Returns how a store depends on the current item.
    pub(crate) fn of(request: &StoreRequest<'_>) -> Self {
        let is_plain = request.mode == StoreMode::Set
            && request.cas.is_none()
            && request.stale != Stale::IfOlder;
        if is_plain { Self::Replaces } else { Self::Needs }
    }
}

impl Tier {
    /// Runs a change, and repeats it until it no longer depends on an item that only the disk has.
    /// `is_absent` returns true if an outcome means that the key has no item. `change` runs the
    /// operation that it receives.
    pub(crate) fn change<T>(
        &self,
        engine: &Engine,
        operation: &Operation<'_>,
        target: &Target<'_>,
        mut change: impl FnMut(&Operation<'_>) -> Result<T, StoreError>,
        is_absent: impl Fn(&T) -> bool,
    ) -> Result<T, NotPerformed> {
        let deadline = self.patience(target.wait);
        self.clear_if_due(engine, operation.now);
        self.share_memory_if_due(engine, operation.thread, operation.now);
        if target.wait.asks() && self.must_wait_for_room(target.wait) {
            return Err(NotPerformed::Pending);
        }
        if !self.is_cache() {
            self.store.wait_for_room(deadline).map_err(store_journal::refusal)?;
        }
        let &Target { key, uses, wait, removal } = target;
        let (mut returns, mut known) = (0, KeyRecords::default());
        loop {
            let terms = JournalContext { known: &known, needs: uses == Dependency::Needs, removal };
            match change(&operation.journaled(&self.journal.on(terms))) {
                Err(StoreError::Journal(Refusal::NeedsDisk)) if uses == Dependency::Replaces => {
                    // An unreadable item can still be replaced. The key is then readable again.
                    known = self.find(key, wait)?.map_or_else(
                        |error| {
                            self.note_unreadable(&error);
                            error.known
                        },
                        |(known, _)| known,
                    );
                }
                Err(StoreError::Journal(Refusal::NeedsDisk)) => {
                    known = self.resolve(engine, operation, target)?.0;
                }
                Err(StoreError::Journal(Refusal::Busy)) => {
                    self.clear_if_due(engine, operation.now);
                    self.wait_for_progress(deadline)?;
                }
                Ok(outcome) if is_absent(&outcome) && returns < RETURNS_MAX => {
                    let (learned, is_there) = self.resolve(engine, operation, target)?;
                    if !is_there {
                        return Ok(outcome);
                    }
                    known = learned;
                    returns += 1;
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Promotes the item of a key, or finds that it does not exist. Returns the records of the key,
    /// and whether memory has its item.
    fn resolve(
        &self,
        engine: &Engine,
        operation: &Operation<'_>,
        target: &Target<'_>,
    ) -> Result<(KeyRecords, bool), NotPerformed> {
        match self.promote(engine, operation, target, PromotionPolicy::Always)? {
            // The known records of other keys are kept, so that the change does not need to read
            // them again. The record of this key is not kept: if eviction removes the item again,
            // the change must read it again.
            Promotion::Back(known) => Ok((KeyRecords { own: None, ..known }, true)),
            Promotion::Nothing(known) => Ok((known, false)),
            Promotion::Left(_) => Err(StoreError::NoMemory.into()),
        }
    }

    /// Promotes the item of a key into memory.
    pub(crate) fn promote(
        &self,
        engine: &Engine,
        operation: &Operation<'_>,
        &Target { key, wait, .. }: &Target<'_>,
        returns: PromotionPolicy,
    ) -> Result<Promotion, NotPerformed> {
        let now = operation.now;
        let mut may_stay = returns == PromotionPolicy::IfReused && engine.is_memory_full();
        loop {
            if self.store.is_flush_due(self.unix_of(now)) {
                return Err(Refusal::Busy.into());
            }
            if !self.store.may_have(key) {
                return Ok(Promotion::Nothing(KeyRecords::default()));
            }
            let found = match self.find(key, wait)? {
                Ok(found) => found,
                Err(error) if self.is_cache() => {
                    self.note_unreadable(&error);
                    self.store.give_up(key);
                    return Ok(Promotion::Nothing(KeyRecords::default()));
                }
                Err(error) => {
                    self.note_unreadable(&error);
                    return Err(NotPerformed::Unread(error.known));
                }
            };
            let (known, Some(item)) = found else { return Ok(Promotion::Nothing(found.0)) };
            let Some(at) = known.own else { return Ok(Promotion::Nothing(known)) };
            if self.is_being_removed(key, at) {
                self.store.forget_being_removed(key, at);
                engine.report_change(key);
                return Ok(Promotion::Nothing(KeyRecords { own: None, ..known }));
            }
            let now_unix_secs = self.unix_of(now);
            if item.is_expired(now_unix_secs) {
                self.store.forget_expired(key, at, now_unix_secs);
                return Ok(Promotion::Nothing(KeyRecords { own: None, ..known }));
            }
            let is_current = || self.store.is_current(key, at) && !self.is_being_removed(key, at);
            // The recache token of a stale item is stored only with its record in memory.
            may_stay &= !item.stale && item.value.len() <= engine.inline_bytes_max();
            may_stay = may_stay && self.recent_reads.is_first(self.store.identity(key));
            if may_stay {
                match is_current() {
                    true => return Ok(Promotion::Left(item)),
                    false => continue,
                }
            }
            self.note_return(key);
            match self.restore(engine, operation, key, &item, &is_current) {
                Ok(Stored::Stored { .. } | Stored::NotStored) => return Ok(Promotion::Back(known)),
                // The item changed, or reclaim moved it: look again.
                Ok(Stored::NotFound | Stored::Exists) => {}
                Err(StoreError::NoMemory) => return Ok(Promotion::Left(item)),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// True if a removal by prefix applies to this item of a cache. A removal from a store writes
    /// records instead.
    fn is_being_removed(&self, key: &[u8], at: Address) -> bool {
        self.is_cache() && self.store.is_being_removed(key, at)
    }

    fn restore(
        &self,
        engine: &Engine,
        operation: &Operation<'_>,
        key: &[u8],
        item: &StoredItem,
        is_current: &dyn Fn() -> bool,
    ) -> Result<Stored, StoreError> {
        let request = StoreRequest {
            flags: item.flags,
            deadline: self.deadline(item.deadline_unix_secs),
            version: Some(item.version),
            stale: if item.stale { Stale::Always } else { Stale::Never },
            ..StoreRequest::new(key, StoreMode::Set)
        };
        engine.restore(operation.thread, &request, &item.value, is_current, operation.now)
    }

    /// Returns the value and the metadata of an item that only the disk has, without promoting it.
    /// Counts items that the disk fails to return.
    pub(crate) fn peek_value(&self, key: &[u8], now: Second) -> Option<(Vec<u8>, Meta)> {
        let found = self.store.find(key).inspect_err(|error| self.note_unreadable(error));
        let (known, item) = found.ok()?;
        let item = item.filter(|item| !item.is_expired(self.unix_of(now)))?;
        known.own.filter(|at| !self.is_being_removed(key, *at))?;
        let meta = self.meta(&item, now);
        Some((item.value, meta))
    }

    /// Returns the metadata of an item that is read from the disk.
    pub(crate) fn meta(&self, item: &StoredItem, now: Second) -> Meta {
        let &StoredItem { ref value, flags, version, deadline_unix_secs, stale } = item;
        let (token_sent, number) = (false, false);
        let (key, value) = (&[][..], &value[..]);
        let item =
            Item { key, value, flags, version, deadline_unix_secs, stale, token_sent, number };
        self.meta_of(&item, now)
    }

    /// Same as [`Self::meta`], for an item of a walk.
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

    /// Runs a delayed clear that is due. If the log does not accept it, memory is cleared anyway,
    /// and [`Self::promote`] fails until the log accepts it.
    #[inline]
    pub(crate) fn clear_if_due(&self, engine: &Engine, now: Second) {
        if self.store.is_flush_due(self.unix_of(now)) {
            if self.clear(|| engine.flush()).is_err() {
                engine.flush();
            }
            engine.report_clear();
        }
    }

    /// Removes the item of a key. An unreadable item is removed without reading it, unless the
    /// caller requires a CAS token.
    pub(crate) fn remove(
        &self,
        engine: &Engine,
        operation: &Operation<'_>,
        target: &Target<'_>,
        cas: Option<u64>,
    ) -> Result<Deletion, NotPerformed> {
        let (key, now) = (target.key, operation.now);
        let is_absent = |deletion: &Deletion| *deletion == Deletion::NotFound;
        let delete = |operation: &Operation<'_>| engine.delete(operation, key, cas);
        match self.change(engine, operation, target, delete, is_absent) {
            Err(NotPerformed::Unread(known)) if cas.is_none() => {
                let terms = JournalContext { known: &known, needs: true, removal: target.removal };
                let change = store_journal::unconditional(self.unix_of(now));
                store_journal::remove(&self.store, key, &change, &terms)
                    .map_err(store_journal::refusal)?;
                Ok(Deletion::Deleted(Meta { seen: now, ..Meta::default() }))
            }
            removed => removed,
        }
    }
}
