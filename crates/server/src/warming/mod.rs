//! Copies of items from other servers into this one, which `larder warm` makes while clients use
//! all of them. docs/decisions/0047 describes the protocol and names its rules. A comment here
//! names the rule that the code keeps.
//!
//! ```text
//! larder_warm ─▶ store what the client has not changed ─▶ larder_warm end
//!                                                      └▶ the connection ends: remove what was stored
//! ```
//!
//! A *session* lasts from `larder_warm` to `larder_warm end` on one connection. While it is open,
//! the server records each key that a client changes, before it makes the change, and refuses to
//! store a copied item under such a key: the copied item may be older. A session that ends in any
//! other way is *undone*: the source may have changed an item since it was copied, and no one
//! reports that any more.

mod keys;
mod session;
mod undo;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use larder::{Cache, ChangeListener};
use larder_options::{Options, TierMode};
use larder_protocol::{Refusal, WarmEnd as EndReason, WarmRefusal};

use crate::followers::Followers;
use crate::succession::Succession;
use keys::{Keys, Recorded};
pub(crate) use session::WarmSession;

/// The copy into a server.
#[derive(Debug)]
pub(crate) struct Warming {
    cache: Cache,
    /// The other process of an upgrade.
    succession: Arc<Succession>,
    /// Why the server accepts no copy; `None` if it does.
    refusal: Option<Refusal>,
    /// The limit on the number of keys that are recorded.
    keys_max: usize,
    /// True while a session is open.
    records: AtomicBool,
    keys: Keys,
    state: Mutex<State>,
}

/// The phase of the copy. The numbers are those of `stats larder`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No session has begun, or the last one is complete or undone.
    #[default]
    Idle = 0,
    /// Items are copied.
    Open = 1,
    /// The items of a session that has failed are removed.
    Undoing = 2,
}

#[derive(Debug, Default)]
struct State {
    phase: Phase,
    /// The number of sessions that have begun. Identifies the current one.
    session: u64,
    /// Why the current session stores no more items.
    ended: Option<EndReason>,
    counts: WarmCounts,
}

/// The numbers of the current session, or of the last one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WarmCounts {
    /// Items stored.
    pub(crate) stored: u64,
    /// Items not stored, because a client had changed the key or stored an item.
    pub(crate) refused: u64,
    /// Sessions that were undone, since the server started.
    pub(crate) undone: u64,
}

/// The result of storing a copied item.
pub(crate) enum Copied<T> {
    /// The server has tried to store it, with this result.
    Tried(T),
    /// A client has changed the key.
    Changed,
    /// The session has ended.
    Over(EndReason),
}

impl Warming {
    /// Creates the state of a server.
    pub(crate) fn new(cache: Cache, options: &Options, succession: Arc<Succession>) -> Arc<Self> {
        let keys_max = (options.cache_bytes() / MEMORY_BYTES_PER_KEY).max(KEYS_MIN);
        let is_store = options.disk_tier.as_ref().is_some_and(|tier| tier.mode == TierMode::Store);
        let refusal = match (&options.near, is_store) {
            (Some(_), _) => Some(Refusal::Warm(WarmRefusal::NearCache)),
            (None, true) => Some(Refusal::Warm(WarmRefusal::Store)),
            (None, false) => None,
        };
        Arc::new(Self {
            cache,
            succession,
            refusal,
            keys_max: usize::try_from(keys_max).unwrap_or(usize::MAX),
            records: AtomicBool::new(false),
            keys: Keys::default(),
            state: Mutex::default(),
        })
    }

    /// Begins a session.
    ///
    /// # Errors
    /// [`Refusal`]: the server observes not all changes of its items, or another session is open or
    /// being undone.
    fn begin(&self) -> Result<u64, Refusal> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        if !self.cache.is_alone() {
            return Err(Refusal::FollowOfSharedCache);
        }
        let mut state = self.state();
        match state.phase {
            // Under the lock, so that no session begins after [`Self::interrupt`].
            Phase::Idle if !self.succession.is_alone() => {
                return Err(Refusal::FollowDuringUpgrade);
            }
            Phase::Open => return Err(Refusal::Warm(WarmRefusal::Busy)),
            Phase::Undoing => return Err(Refusal::Warm(WarmRefusal::Undoing)),
            Phase::Idle => {}
        }
        self.keys.begin(self.keys_max);
        state.phase = Phase::Open;
        state.session += 1;
        state.ended = None;
        state.counts = WarmCounts { undone: state.counts.undone, ..WarmCounts::default() };
        // Pairs with the acquire in `expect`. A change that begins from now on is recorded.
        self.records.store(true, Release);
        Ok(state.session)
    }

    /// Ends a session, and keeps its items.
    ///
    /// # Errors
    /// [`EndReason`]: the session had already ended, and its items are being removed.
    fn complete(&self, session: u64) -> Result<(), EndReason> {
        let mut state = self.state();
        if let Some(reason) = state.ended {
            return Err(reason);
        }
        if state.session == session && state.phase == Phase::Open {
            state.phase = Phase::Idle;
            self.records.store(false, Relaxed);
            self.keys.clear();
        }
        Ok(())
    }

    /// Ends the current session before something that must not be followed by the store of a copied
    /// item. When this returns, no further item is stored.
    pub(crate) fn interrupt(self: &Arc<Self>, reason: EndReason) {
        // Rule: FlushEnds
        self.fail(reason, None);
    }

    /// True while a session is open.
    pub(crate) fn is_open(&self) -> bool {
        self.records.load(Acquire)
    }

    /// Ends a session that cannot be completed, and begins to remove its items. Without a number it
    /// ends the current session.
    #[cold]
    fn fail(self: &Arc<Self>, reason: EndReason, session: Option<u64>) {
        let mut state = self.state();
        let is_current = session.is_none_or(|session| session == state.session);
        if state.phase != Phase::Open || !is_current {
            return;
        }
        // Rule: LossUndoes
        state.phase = Phase::Undoing;
        state.ended = Some(reason);
        self.records.store(false, Relaxed);
        state.counts.undone += 1;
        // A thread that stores an item holds the lock of the key's stripe.
        let stored = self.keys.end();
        drop(state);
        undo::begin(Arc::clone(self), stored, reason);
    }

    /// Calls `store` to store a copied item, unless a client has changed the key since the session
    /// began. The store must be unannounced, because it is not the change of a client.
    fn store<T>(
        self: &Arc<Self>,
        session: u64,
        key: &[u8],
        store: impl FnOnce() -> T,
        is_stored: impl FnOnce(&T) -> bool,
    ) -> Copied<T> {
        if let Some(reason) = self.end_of(session) {
            return Copied::Over(reason);
        }
        // Rule: CheckAndStoreTogether
        let copied = self.keys.store(key, store, is_stored);
        match copied {
            Some(Recorded::Done(copied)) => Copied::Tried(copied),
            Some(Recorded::Changed) => Copied::Changed,
            Some(Recorded::Full) => {
                self.fail(EndReason::Full, Some(session));
                Copied::Over(EndReason::Full)
            }
            // Another thread has ended the session since the check above.
            None => Copied::Over(self.end_of(session).unwrap_or(EndReason::Removal)),
        }
    }

    /// Calls `remove` to remove an item whose original has changed. The removal must be
    /// unannounced: the item may be copied again.
    fn drop_copy<T>(&self, key: &[u8], remove: impl FnOnce() -> T) -> T {
        self.keys.drop_copy(key, remove)
    }

    /// Returns why a session stores no more items; `None` while it is open.
    fn end_of(&self, session: u64) -> Option<EndReason> {
        let state = self.state();
        match state.phase == Phase::Open && state.session == session {
            true => None,
            false => Some(state.ended.unwrap_or(EndReason::Lost)),
        }
    }

    fn count(&self, count: impl FnOnce(&mut WarmCounts)) {
        count(&mut self.state().counts);
    }

    /// Notes that all items of a failed session are removed.
    fn undone(&self) {
        self.state().phase = Phase::Idle;
    }

    /// Returns the phase, and the numbers of the current or the last session.
    pub(crate) fn progress(&self) -> (Phase, WarmCounts) {
        let state = self.state();
        (state.phase, state.counts)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handles each change of a server: records the key while items are copied to it, and reports
/// the change to the near caches that follow it.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) warming: Arc<Warming>,
    /// `None` if near caches cannot follow the server.
    pub(crate) followers: Option<Arc<Followers>>,
}

impl Changes {
    /// Observes the changes of a cache from its start, if near caches may follow the server.
    /// Otherwise the first session observes them.
    pub(crate) fn observe(
        cache: &Cache,
        options: &Options,
        succession: &Arc<Succession>,
    ) -> (Arc<Warming>, Arc<Followers>) {
        let followers =
            Arc::new(Followers::new(options.follower_count_max, Arc::clone(succession)));
        let warming = Warming::new(cache.clone(), options, Arc::clone(succession));
        if followers.are_allowed() {
            let (warming, followers) = (Arc::clone(&warming), Some(Arc::clone(&followers)));
            cache.set_change_listener(Arc::new(Self { warming, followers }));
        }
        (warming, followers)
    }
}

impl ChangeListener for Changes {
    #[inline]
    fn expect(&self, key: &[u8]) {
        // Pairs with the release in `begin`.
        if self.warming.records.load(Acquire) {
            // Rule: RecordBeforeChange
            self.warming.keys.record(key);
        }
        if let Some(followers) = &self.followers {
            followers.expect(key);
        }
    }

    #[inline]
    fn changed(&self, key: &[u8]) {
        if let Some(followers) = &self.followers {
            followers.changed(key);
        }
    }

    fn cleared(&self) {
        // A flush that was scheduled before the session began. Others end the session before they
        // remove items.
        self.warming.interrupt(EndReason::Removal);
        if let Some(followers) = &self.followers {
            followers.cleared();
        }
    }
}

/// The part of `-m` for which the server records one key: it takes up to 20 bytes.
const MEMORY_BYTES_PER_KEY: u64 = 128;

const KEYS_MIN: u64 = 1 << 16;

#[cfg(test)]
mod tests;
