//! Copies of items that another server owns, its *origin*: the state of a near cache that several
//! threads share. docs/near-cache.md describes the whole, and decision 43 the rules that make it
//! correct. Comments name the rule that the code keeps.
//!
//! ```text
//! reader ─▶ fresh_until ─▶ copy in the store ─▶ is it fresh still?
//!                │ no copy
//!                ▼
//!        join ─▶ Flight ─▶ (the caller fetches) ─▶ land: keep, or invalidate
//! origin reports a change ─▶ invalidate_bucket: drop the copies, detach the flights
//! ```
//!
//! A *flight* is the fetch of one key that is under way. Readers of this key join it. A flight that
//! is *listed* may keep its value; an invalidation removes it from the list, which *detaches* it.
//! So a listed flight is the newest of its key, and no invalidation has concerned the key since it
//! began.
//!
//! Keys belong to *buckets*, by which the origin reports changes. Each bucket belongs to a
//! *stripe*, whose lock makes the check of a flight and the store of its value one step. The stripe
//! also lists the keys of the copies, so that an invalidation of a bucket finds them without a
//! walk.

mod flight;
#[cfg(test)]
#[cfg(feature = "interleavings")]
mod interleavings;
mod keys;
mod limit;
mod stripe;
mod sync;
#[cfg(test)]
#[cfg(not(feature = "interleavings"))]
mod tests;

use std::sync::Arc;
use std::task::Waker;

pub use self::flight::{FetchFailure, Fetched, Flight, FlightResult};
use self::keys::Keys;
pub use self::limit::ReaderLimits;
use self::stripe::Stripe;
use self::sync::{AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering::SeqCst, lock};

/// Where the copies are stored. The methods are called while a lock is held, so they must not call
/// methods of [`Copies`]: not even through the cache's listeners.
pub trait CopyStore: Send + Sync {
    /// Stores a copy. Returns false if that is impossible.
    fn put(&self, key: &[u8], copy: &Fetched, until_ms: Option<u64>) -> bool;

    /// Removes a copy, if there is one.
    fn remove(&self, key: &[u8]);

    /// True if there is a copy.
    fn has(&self, key: &[u8]) -> bool;

    /// Removes all copies of all origins.
    fn clear(&self);

    /// True if the store also has copies of other origins, so that [`Self::clear`] is not called.
    fn is_shared(&self) -> bool {
        false
    }

    /// True if the key belongs to this origin. Always true for a store that is not shared.
    fn owns(&self, key: &[u8]) -> bool {
        let _ = key;
        true
    }

    /// Allows processes that read the store's memory to use copies until `until_ms`. Does nothing
    /// for a store that no other process can read.
    fn limit_readers(&self, until_ms: u64) {
        let _ = until_ms;
    }

    /// Ends this permission. The store has no copies of this origin.
    fn end_limit(&self) {}
}

/// The copies of a near cache.
#[derive(Debug)]
pub struct Copies<S> {
    store: S,
    stripes: Box<[Mutex<Stripe>]>,
    /// Until when a copy may be used, in milliseconds of the clock of the callers; 0: not at all.
    fresh_until_ms: AtomicU64,
    /// The number of the current subscription. It is never used again.
    subscription: AtomicU64,
    limits: CopyLimits,
    /// The limits of the lists, which may change.
    listed_bytes_max: AtomicUsize,
    absent_bytes_max: AtomicUsize,
    /// The bytes of the lists of keys.
    listed_bytes: AtomicUsize,
    /// The bytes of the keys that are remembered as absent.
    absent_bytes: AtomicUsize,
}

/// The limits of the copies.
#[derive(Clone, Copy, Debug)]
pub struct CopyLimits {
    /// The maximum length of the lists of keys, in bytes.
    pub listed_bytes_max: usize,
    /// The part of them that keys without an item may use.
    pub absent_bytes_max: usize,
    /// The longest value that is kept.
    pub value_bytes_max: usize,
    /// The maximum age of a flight that a reader may join, in milliseconds.
    pub flight_age_max_ms: u64,
}

/// The place of a key: its bucket in a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the subscription that defines the bucket.
    pub subscription: u64,
    /// The bucket.
    pub bucket: u32,
}

/// The reason why a value was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotKept {
    /// The flight was detached: its key may have changed since it began, or a newer flight exists.
    Detached,
    /// The subscription of the flight has ended, copies may not be used yet, or the key belongs to
    /// another origin now.
    Unsubscribed,
    /// The origin does not report changes of the item, or the item must not be copied.
    Unnoted,
    /// The item expires too soon.
    Expiring,
    /// The item must not be copied: its value is longer than the limit, it is stale, or it has a
    /// recache token.
    Uncopied,
    /// No memory is left.
    NoMemory,
    /// The fetch failed.
    Failed,
}

impl<S: CopyStore> Copies<S> {
    /// Creates the state without copies. `store` is empty.
    pub fn new(store: S, limits: CopyLimits) -> Self {
        Self {
            store,
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            fresh_until_ms: AtomicU64::new(0),
            subscription: AtomicU64::new(0),
            limits,
            listed_bytes_max: AtomicUsize::new(limits.listed_bytes_max),
            absent_bytes_max: AtomicUsize::new(limits.absent_bytes_max),
            listed_bytes: AtomicUsize::new(0),
            absent_bytes: AtomicUsize::new(0),
        }
    }

    /// Returns the store of the copies.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Returns until when copies may be used. A reader must call this before it looks for a copy,
    /// and compare the clock with the result after it has copied the value.
    #[inline]
    pub fn fresh_until_ms(&self) -> u64 {
        // Rule: FreshBeforeLook
        self.fresh_until_ms.load(SeqCst)
    }

    /// Allows the use of copies until `until_ms`: the moment at which the near cache has sent the
    /// message that the origin now answers, plus the longest time for which a copy may be stale.
    /// The thread that calls this also calls [`Self::resubscribe`].
    pub fn refresh(&self, until_ms: u64) {
        // Rule: FreshFromSending
        let before_ms = self.fresh_until_ms();
        if until_ms <= before_ms {
            return;
        }
        self.store.limit_readers(until_ms);
        if before_ms == 0 {
            // A reader in memory that began before this limit may find a copy that is kept after
            // it. The copy is not too old if its fetch began later.
            self.detach_all();
        }
        self.fresh_until_ms.store(until_ms, SeqCst);
    }

    /// Returns the number of the current subscription.
    pub fn subscription(&self) -> u64 {
        self.subscription.load(SeqCst)
    }

    /// Ends the subscription and begins the next one: drops everything. Returns the number of the
    /// next one.
    pub fn resubscribe(&self) -> u64 {
        // Rule: LostStreamEmpties
        self.fresh_until_ms.store(0, SeqCst);
        // Before the copies are dropped: a flight that is kept later would compare this number.
        let next = self.subscription.fetch_add(1, SeqCst) + 1;
        self.invalidate_all();
        // Only now: without this limit, copies of this origin could be readable for longer.
        self.store.end_limit();
        next
    }

    /// True if the origin is known to have no item of this key. The caller must treat the answer
    /// like a copy: see [`Self::fresh_until_ms`].
    pub fn is_absent(&self, place: Place, key: &[u8]) -> bool {
        // Most near caches have few absent keys, and their misses need no lock then.
        self.absent_bytes.load(SeqCst) > 0 && {
            let stripe = self.stripe(place.bucket);
            place.subscription == self.subscription() && stripe.is_absent(place.bucket, key)
        }
    }

    /// Joins the flight of a key, or begins one. `waker` is woken when it has landed. The second
    /// value is true if the caller must fetch the item, and then call [`Self::land`].
    ///
    /// The answers to the fetches of a key must reach [`Self::land`] in the order in which the
    /// origin has read the item: all fetches of a key use one connection, from which one thread
    /// receives. If the connection is lost, the caller gives its flights up.
    pub fn join(
        &self,
        place: Place,
        key: &[u8],
        now_ms: u64,
        waker: Option<&Waker>,
    ) -> (Arc<Flight>, bool) {
        let mut stripe = self.stripe(place.bucket);
        // Rule: JoinWhileYoung
        let young = |flight: &Flight| {
            flight.place() == place
                && now_ms.saturating_sub(flight.began_ms()) <= self.limits.flight_age_max_ms
        };
        if let Some(flight) = stripe.flight(key).filter(|flight| young(flight)) {
            if let Some(waker) = waker {
                flight.add(waker);
            }
            return (Arc::clone(flight), false);
        }
        let flight = Arc::new(Flight::new(place, key, now_ms));
        if let Some(waker) = waker {
            flight.add(waker);
        }
        // The flight takes the place of an older one, which is thereby detached.
        stripe.list(Arc::clone(&flight));
        (flight, true)
    }

    /// Ends a flight with what the origin has answered: keeps the value if it may be kept,
    /// otherwise drops the copy of the key, and then wakes the readers. `place` is the current
    /// place of the key, which the caller looks up after the answer has arrived.
    ///
    /// # Errors
    /// Returns the reason why the value was not kept. The readers receive it nevertheless.
    pub fn land(
        &self,
        flight: &Arc<Flight>,
        place: Place,
        result: FlightResult,
    ) -> Result<(), NotKept> {
        let kept = self.keep(flight, &result);
        if kept.is_err() {
            // Rule: UnkeptDrops
            // The value may be newer than a copy. The fetch of the current flight was sent later,
            // so it reads nothing older (FetchesInOrder).
            self.drop_copy(place, flight.key());
        }
        flight.land(result);
        kept
    }

    /// Gives up a flight whose answer takes too long, or will not come. The caller ignores the
    /// answer if it still arrives.
    pub fn give_up(&self, flight: &Arc<Flight>, result: FlightResult) {
        self.stripe(flight.place().bucket).unlist(flight);
        flight.land(result);
    }

    fn keep(&self, flight: &Arc<Flight>, result: &FlightResult) -> Result<(), NotKept> {
        let place = flight.place();
        let mut stripe = self.stripe(place.bucket);
        // Rule: KeepUnlessInvalidated
        // Rule: KeepIsOneStep
        // The lock is held until the value is stored.
        if !stripe.unlist(flight) {
            return Err(NotKept::Detached);
        }
        // Rule: TokenIsCurrent
        if place.subscription != self.subscription() {
            return Err(NotKept::Unsubscribed);
        }
        if self.fresh_until_ms() == 0 || !self.store.owns(flight.key()) {
            return Err(NotKept::Unsubscribed);
        }
        match result {
            FlightResult::Failed(_) => Err(NotKept::Failed),
            FlightResult::Uncopied => Err(NotKept::Uncopied),
            FlightResult::Absent { is_noted: false } => Err(NotKept::Unnoted),
            FlightResult::Absent { is_noted: true } => {
                self.store.remove(flight.key());
                self.remember(&mut stripe, flight, true)
            }
            FlightResult::Value(fetched) => {
                let until_ms = fetched.keepable_until_ms(flight.began_ms())?;
                if fetched.value.len() > self.limits.value_bytes_max {
                    return Err(NotKept::Uncopied);
                }
                self.remember(&mut stripe, flight, false)?;
                match self.store.put(flight.key(), fetched, until_ms) {
                    true => Ok(()),
                    false => Err(NotKept::NoMemory),
                }
            }
        }
    }

    /// Lists the key of a copy.
    fn remember(
        &self,
        stripe: &mut Stripe,
        flight: &Flight,
        is_absent: bool,
    ) -> Result<(), NotKept> {
        let bucket = flight.place().bucket;
        let room = Room {
            listed_bytes: self.listed_bytes_max.load(SeqCst) / STRIPES,
            absent_bytes: self.absent_bytes_max.load(SeqCst) / STRIPES,
        };
        let before = (stripe.listed_bytes(), stripe.absent_bytes());
        let is_listed = stripe.remember(&self.store, bucket, flight.key(), is_absent, room);
        self.account(stripe, before);
        if is_listed { Ok(()) } else { Err(NotKept::NoMemory) }
    }

    /// Drops the copies of a bucket, and detaches its flights. Returns how many copies there were.
    pub fn invalidate_bucket(&self, bucket: u32) -> usize {
        // Rule: InvalidateBucket
        // Rule: CountBeforeDrop
        // Under the lock both are one step.
        let mut stripe = self.stripe(bucket);
        let before = (stripe.listed_bytes(), stripe.absent_bytes());
        let dropped = stripe.invalidate(&self.store, bucket);
        self.account(&stripe, before);
        dropped
    }

    /// Drops the copy of a key.
    fn drop_copy(&self, place: Place, key: &[u8]) {
        let mut stripe = self.stripe(place.bucket);
        let before = (stripe.listed_bytes(), stripe.absent_bytes());
        stripe.drop_copy(&self.store, place.bucket, key);
        self.account(&stripe, before);
    }

    /// Drops the copy of a key, and detaches its flight. `place` is the current place of the key,
    /// which the caller looks up after the answer that causes this has arrived.
    pub fn invalidate_key(&self, place: Place, key: &[u8]) {
        let mut stripe = self.stripe(place.bucket);
        let before = (stripe.listed_bytes(), stripe.absent_bytes());
        stripe.invalidate_key(&self.store, place.bucket, key);
        self.account(&stripe, before);
    }

    /// Drops all copies, and detaches all flights.
    ///
    /// Cost: a lock for each of 1024 stripes. If the store has copies of several origins, also the
    /// removal of each copy.
    pub fn invalidate_all(&self) {
        let is_shared = self.store.is_shared();
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            let before = (stripe.listed_bytes(), stripe.absent_bytes());
            if is_shared {
                stripe.drop_all(&self.store);
            } else {
                stripe.forget_all();
            }
            self.account(&stripe, before);
        }
        // A flight that began after its stripe was emptied may have kept its value since. The value
        // is lost, which is harmless.
        if !is_shared {
            self.store.clear();
        }
    }

    /// Drops the copies of the keys that the origin does not own any more, and detaches their
    /// flights. Returns how many copies there were.
    ///
    /// Cost: a look at the key of each copy.
    pub fn drop_moved(&self) -> usize {
        let mut dropped = 0;
        for stripe in &self.stripes {
            let mut stripe = lock(stripe);
            let before = (stripe.listed_bytes(), stripe.absent_bytes());
            dropped += stripe.retain(&self.store, |key| self.store.owns(key));
            self.account(&stripe, before);
        }
        dropped
    }

    fn detach_all(&self) {
        for stripe in &self.stripes {
            lock(stripe).detach_all();
        }
    }

    /// Forgets a copy that the store has evicted. Must not be called by a method of the store.
    pub fn forget(&self, place: Place, key: &[u8]) {
        let mut stripe = self.stripe(place.bucket);
        if place.subscription == self.subscription() && !self.store.has(key) {
            let before = (stripe.listed_bytes(), stripe.absent_bytes());
            stripe.forget(place.bucket, key);
            self.account(&stripe, before);
        }
    }

    /// Changes [`CopyLimits::listed_bytes_max`] and [`CopyLimits::absent_bytes_max`]. Longer lists
    /// become shorter when keys are added.
    pub fn limit_lists(&self, listed_bytes_max: usize, absent_bytes_max: usize) {
        self.listed_bytes_max.store(listed_bytes_max, SeqCst);
        self.absent_bytes_max.store(absent_bytes_max, SeqCst);
    }

    /// Returns the bytes of the lists of keys.
    pub fn listed_bytes(&self) -> usize {
        self.listed_bytes.load(SeqCst)
    }

    fn account(&self, stripe: &Stripe, before: (usize, usize)) {
        let change = |total: &AtomicUsize, before: usize, after: usize| {
            if after != before {
                total.fetch_add(after.wrapping_sub(before), SeqCst);
            }
        };
        change(&self.listed_bytes, before.0, stripe.listed_bytes());
        change(&self.absent_bytes, before.1, stripe.absent_bytes());
    }

    fn stripe(&self, bucket: u32) -> MutexGuard<'_, Stripe> {
        lock(&self.stripes[bucket as usize % STRIPES])
    }
}

/// With this limit of the lists, each of their parts has room for a key of any length.
pub const LISTED_BYTES_MIN: usize = STRIPES * (Keys::KEY_BYTES_MAX + 64);

/// What the keys of a stripe may use.
#[derive(Clone, Copy, Debug)]
struct Room {
    listed_bytes: usize,
    absent_bytes: usize,
}

/// The number of stripes. Two threads meet at one only if their keys do.
const STRIPES: usize = if cfg!(feature = "interleavings") { 2 } else { 1024 };
