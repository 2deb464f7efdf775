//! Leases: permissions to store an item after a miss, so that only one of many clients that miss it
//! queries the database.
//!
//! Source: Nishtala and others, Scaling Memcache at Facebook (NSDI 2013), section 3.2.1.
//!
//! ```text
//! client    lease-get ─ miss, token ─▶ database ─▶ lease-set with the token
//! delete    revoke the key's lease, then delete the item
//! redeem    lock the set │ check the key's token │ store │ unlock
//! ```
//!
//! So a delete cannot be overtaken by an older value. Either the delete revokes the lease before
//! the token is checked, and the store is refused; or the delete waits for the set's lock, and then
//! deletes the stored item. A *set* here is a small array of leases with one lock. A keyed hash of
//! the key chooses the set. In a full set the oldest lease is dropped. So a client that requests
//! very many leases shortens the leases of other clients, but does not keep them from receiving new
//! ones.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use larder_item::Second;

/// All outstanding leases.
#[derive(Debug)]
pub(crate) struct Leases {
    /// Allocated when the first lease is requested.
    sets: OnceLock<Box<[Mutex<Set>]>>,
    /// The second at which the newest lease expires. From then on no lease is outstanding.
    ended: AtomicU32,
    next_token: AtomicU64,
    hasher: RandomState,
}

type Set = [Lease; SET_LEASES];

/// A lease; unused if the token is 0.
#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    /// A hash of the key that clients cannot compute.
    key: u64,
    token: u64,
    /// The second at which the lease expires.
    ends: Second,
}

impl Lease {
    fn is_of(&self, key: u64, now: Second) -> bool {
        self.token != 0 && self.key == key && self.ends > now
    }
}

impl Default for Leases {
    fn default() -> Self {
        let hasher = RandomState::new();
        // Tokens of an earlier server process must not match those of this process.
        let first = hasher.hash_one("first token") >> 2;
        let next_token = AtomicU64::new(first.max(HOT_MISS + 1));
        Self { sets: OnceLock::new(), ended: AtomicU32::new(0), next_token, hasher }
    }
}

impl Leases {
    /// Returns the token with which the caller may store the item it missed, or [`HOT_MISS`] if
    /// another client has the lease.
    pub(crate) fn ask(&self, key: &[u8], now: Second) -> u64 {
        let ends = now.saturating_add(LEASE_SECS);
        // Pairs with the acquire in `may_be_out`. Stored before any client receives the token.
        self.ended.fetch_max(ends, Ordering::Release);
        let sets = self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::default()).collect());
        let key = self.hasher.hash_one(key);
        let mut set = lock(&sets[key as usize % SETS]);
        if set.iter().any(|lease| lease.is_of(key, now)) {
            return HOT_MISS;
        }
        let token = self.next_token.fetch_add(1, Ordering::Relaxed);
        // Tokens increase, so the oldest lease has the lowest token; an expired lease counts as the
        // oldest.
        let age = |lease: &&mut Lease| if lease.ends > now { lease.token } else { 0 };
        let place = set.iter_mut().min_by_key(age).expect("a set has places");
        *place = Lease { key, token, ends };
        token
    }

    /// Calls `store` if the token is still valid for the key, and ends the lease. No
    /// [`Leases::revoke`] of the key returns in between.
    pub(crate) fn redeem<T>(
        &self,
        key: &[u8],
        token: u64,
        now: Second,
        store: impl FnOnce() -> T,
    ) -> Option<T> {
        let sets = self.sets.get()?;
        let key = self.hasher.hash_one(key);
        let mut set = lock(&sets[key as usize % SETS]);
        let lease = set.iter_mut().find(|lease| lease.is_of(key, now) && lease.token == token)?;
        *lease = Lease::default();
        Some(store())
    }

    /// Ends the lease of a key that is about to be deleted, because a store that is in progress
    /// with it would be stale.
    #[inline]
    pub(crate) fn revoke(&self, key: &[u8], now: Second) {
        if self.may_be_out(now) {
            self.revoke_here(key);
        }
    }

    #[cold]
    fn revoke_here(&self, key: &[u8]) {
        let Some(sets) = self.sets.get() else { return };
        let key = self.hasher.hash_one(key);
        let mut set = lock(&sets[key as usize % SETS]);
        set.iter_mut().filter(|lease| lease.key == key).for_each(|lease| *lease = Lease::default());
    }

    /// Ends all leases, before all items are flushed.
    pub(crate) fn revoke_all(&self, now: Second) {
        if self.may_be_out(now) {
            for set in self.sets.get().into_iter().flatten() {
                *lock(set) = Set::default();
            }
        }
    }

    #[inline]
    fn may_be_out(&self, now: Second) -> bool {
        // Pairs with the release in `ask`.
        self.ended.load(Ordering::Acquire) > now
    }
}

fn lock(set: &Mutex<Set>) -> MutexGuard<'_, Set> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The token that does not permit a store.
const HOT_MISS: u64 = 1;

/// A lease expires after this time.
const LEASE_SECS: Second = 10;

/// Number of sets: 65,536 leases in 1.7 MB.
const SETS: usize = 4096;
const SET_LEASES: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn may_store(leases: &Leases, key: &[u8], token: u64, now: Second) -> bool {
        leases.redeem(key, token, now, || ()).is_some()
    }

    #[test]
    fn one_of_two_clients_may_store_the_item_once() {
        let leases = Leases::default();
        let token = leases.ask(b"k", 2);
        assert!(token > HOT_MISS);
        assert_eq!(leases.ask(b"k", 2), HOT_MISS);
        assert!(!may_store(&leases, b"k", HOT_MISS, 2));
        assert!(!may_store(&leases, b"other", token, 2));
        assert!(may_store(&leases, b"k", token, 2));
        assert!(!may_store(&leases, b"k", token, 2));
        assert!(leases.ask(b"k", 2) > token);
    }

    #[test]
    fn a_lease_ends_with_its_time_or_with_the_item() {
        let leases = Leases::default();
        let late = leases.ask(b"k", 2);
        let token = leases.ask(b"k", 2 + LEASE_SECS);
        assert!(token > late);
        assert!(!may_store(&leases, b"k", late, 2 + LEASE_SECS));
        leases.revoke(b"k", 2 + LEASE_SECS);
        assert!(!may_store(&leases, b"k", token, 2 + LEASE_SECS));
        let token = leases.ask(b"k", 20);
        leases.revoke_all(20);
        assert!(!may_store(&leases, b"k", token, 20));
    }

    #[test]
    fn tokens_of_two_servers_differ() {
        assert_ne!(Leases::default().ask(b"k", 2), Leases::default().ask(b"k", 2));
    }

    /// After a lease has expired, deletes no longer look for it.
    #[test]
    fn deletes_look_for_leases_only_while_one_may_be_out() {
        let leases = Leases::default();
        assert!(!leases.may_be_out(2));
        leases.ask(b"k", 2);
        assert!(leases.may_be_out(2));
        assert!(leases.may_be_out(1 + LEASE_SECS));
        assert!(!leases.may_be_out(2 + LEASE_SECS));
    }

    /// A client that requests more leases than fit does not keep others from receiving one.
    #[test]
    fn very_many_leases_do_not_keep_others_from_getting_one() {
        let leases = Leases::default();
        let ask = |number: u32| leases.ask(&[b"flood", &number.to_be_bytes()[..]].concat(), 2);
        for number in 0..200_000 {
            assert!(ask(number) > HOT_MISS);
        }
        for number in 0..100_u32 {
            let key = number.to_be_bytes();
            let token = leases.ask(&key, 2);
            assert!(token > HOT_MISS);
            for more in 0..10 {
                ask(200_000 + number * 10 + more);
            }
            assert!(may_store(&leases, &key, token, 2), "a newer lease outlives older ones");
        }
    }

    #[test]
    fn a_delete_waits_for_a_store_that_was_allowed_before_it() {
        let leases = Leases::default();
        let token = leases.ask(b"k", 2);
        let (begun, begins) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel::<()>();
        let (deleted, is_deleted) = mpsc::channel();
        let leases = &leases;
        thread::scope(|scope| {
            scope.spawn(move || {
                leases.redeem(b"k", token, 2, || {
                    begun.send(()).unwrap();
                    goes_on.recv().unwrap();
                })
            });
            begins.recv().unwrap();
            scope.spawn(move || {
                leases.revoke(b"k", 2);
                deleted.send(()).unwrap();
            });
            let early = is_deleted.recv_timeout(Duration::from_millis(100));
            assert!(early.is_err(), "the delete came between the look at the token and the store");
            go_on.send(()).unwrap();
            is_deleted.recv().unwrap();
        });
    }
}
