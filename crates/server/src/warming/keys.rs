//! The keys that a session has stored, and those that clients have changed since it began.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::mem;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The keys of a session, as hashes of 64 bits that clients cannot compute. Two keys with one hash
/// cost an item that is not copied, or one that is removed.
#[derive(Debug)]
pub(super) struct Keys {
    stripes: Box<[Mutex<Stripe>]>,
    count: AtomicUsize,
    count_max: AtomicUsize,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Stripe {
    /// False once the session has ended.
    is_open: bool,
    /// True if a changed key could not be recorded.
    is_full: bool,
    changed: Set,
    stored: Set,
}

pub(super) type Set = HashSet<u64, BuildHasherDefault<Unhashed>>;

/// The result of storing an item.
pub(super) enum Recorded<T> {
    Done(T),
    /// A client has changed the key.
    Changed,
    /// No more keys can be recorded.
    Full,
}

impl Default for Keys {
    fn default() -> Self {
        Self {
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            count_max: AtomicUsize::new(0),
            hasher: RandomState::new(),
        }
    }
}

impl Keys {
    /// Begins a session, which may record `count_max` keys.
    pub(super) fn begin(&self, count_max: usize) {
        self.count.store(0, Relaxed);
        self.count_max.store(count_max, Relaxed);
        for stripe in &self.stripes {
            *lock(stripe) = Stripe { is_open: true, ..Stripe::default() };
        }
    }

    /// Ends a session. When this returns, no thread stores an item. Returns the sets of stored
    /// keys, one for each stripe.
    pub(super) fn end(&self) -> Vec<Set> {
        let stripes = self.stripes.iter();
        stripes.map(|stripe| mem::take(&mut *lock(stripe)).stored).collect()
    }

    /// Ends a session and forgets its keys.
    pub(super) fn clear(&self) {
        drop(self.end());
    }

    /// Records that a client is about to change a key. Without space for it, the stripe refuses all
    /// further items.
    pub(super) fn record(&self, key: &[u8]) {
        let (hash, mut stripe) = self.stripe_of(key);
        if !stripe.is_open || stripe.changed.contains(&hash) {
            return;
        }
        match self.take_place() {
            true => _ = stripe.changed.insert(hash),
            false => stripe.is_full = true,
        }
    }

    /// Calls `store` if no client has changed the key, under a lock for which such a change waits.
    /// Returns `None` if the session has ended.
    pub(super) fn store<T>(
        &self,
        key: &[u8],
        store: impl FnOnce() -> T,
        is_stored: impl FnOnce(&T) -> bool,
    ) -> Option<Recorded<T>> {
        let (hash, mut stripe) = self.stripe_of(key);
        if !stripe.is_open {
            return None;
        }
        if stripe.is_full || (!stripe.stored.contains(&hash) && !self.has_place()) {
            return Some(Recorded::Full);
        }
        if stripe.changed.contains(&hash) {
            return Some(Recorded::Changed);
        }
        let result = store();
        if is_stored(&result) && stripe.stored.insert(hash) {
            self.count.fetch_add(1, Relaxed);
        }
        Some(Recorded::Done(result))
    }

    /// Calls `remove`, which removes the copied item of a key.
    pub(super) fn drop_copy<T>(&self, key: &[u8], remove: impl FnOnce() -> T) -> T {
        let (_, stripe) = self.stripe_of(key);
        // The lock orders the removal with a store of the same key.
        let result = remove();
        drop(stripe);
        result
    }

    /// Returns the number of the stripe of a key, and its hash.
    pub(super) fn place_of(&self, key: &[u8]) -> (usize, u64) {
        let hash = self.hasher.hash_one(key);
        // The sets use the lower bits.
        ((hash >> (u64::BITS - STRIPES.ilog2())) as usize, hash)
    }

    fn stripe_of(&self, key: &[u8]) -> (u64, MutexGuard<'_, Stripe>) {
        let (stripe, hash) = self.place_of(key);
        (hash, lock(&self.stripes[stripe]))
    }

    fn has_place(&self) -> bool {
        self.count.load(Relaxed) < self.count_max.load(Relaxed)
    }

    fn take_place(&self) -> bool {
        self.has_place() && {
            self.count.fetch_add(1, Relaxed);
            true
        }
    }
}

fn lock(stripe: &Mutex<Stripe>) -> MutexGuard<'_, Stripe> {
    stripe.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a hash unchanged.
#[derive(Debug, Default)]
pub(super) struct Unhashed(u64);

impl Hasher for Unhashed {
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn write(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        self.0 = words.first().map_or(0, |word| u64::from_ne_bytes(*word));
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

const STRIPES: usize = 64;
