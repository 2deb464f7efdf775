//! Leases: the right to bring an item that was asked for and is not there, so that of many who miss it one
//! asks the database.
//!
//! Source: Nishtala and others, Scaling Memcache at Facebook (NSDI 2013), section 3.2.1.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use larder_item::Second;

/// The leases that are out.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    /// How many there are: where nobody uses leases, nobody locks.
    count: AtomicUsize,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    leases: HashMap<Box<[u8]>, Lease>,
    last_token: u64,
    /// When those that had ended were last removed: once in a second is enough.
    swept: Second,
}

#[derive(Debug)]
struct Lease {
    token: u64,
    ends: Second,
}

impl Leases {
    /// A peer has missed the item: the token with which it may bring it. [`HOT_MISS`] where somebody else
    /// has one, or where too many are out.
    pub(crate) fn ask(&self, key: &[u8], now: Second) -> u64 {
        let mut table = self.table();
        if table.leases.len() >= LEASES_MAX && table.swept != now {
            table.swept = now;
            table.leases.retain(|_, lease| lease.ends > now);
        }
        let is_out = table.leases.get(key).is_some_and(|lease| lease.ends > now);
        if is_out || table.leases.len() >= LEASES_MAX {
            return HOT_MISS;
        }
        table.last_token = (table.last_token + 1).max(HOT_MISS + 1);
        let lease = Lease { token: table.last_token, ends: now.saturating_add(LEASE_SECS) };
        let token = lease.token;
        table.leases.insert(key.into(), lease);
        self.count.store(table.leases.len(), Relaxed);
        token
    }

    /// A peer brings the item: does its token give it the right to? The lease is over then.
    pub(crate) fn redeem(&self, key: &[u8], token: u64, now: Second) -> bool {
        let mut table = self.table();
        let holds =
            table.leases.get(key).is_some_and(|lease| lease.token == token && lease.ends > now);
        if holds {
            table.leases.remove(key);
            self.count.store(table.leases.len(), Relaxed);
        }
        holds
    }

    /// The item was deleted: what is on its way to it is out of date.
    #[inline]
    pub(crate) fn revoke(&self, key: &[u8]) {
        if self.count.load(Relaxed) > 0 {
            let mut table = self.table();
            table.leases.remove(key);
            self.count.store(table.leases.len(), Relaxed);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The token that gives no right.
const HOT_MISS: u64 = 1;

/// Who does not bring an item within this time loses the right to.
const LEASE_SECS: Second = 10;

/// So many leases may be out: some 20 MiB with the longest keys.
const LEASES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn one_of_two_may_bring_the_item_and_only_once() {
        let leases = Leases::default();
        let token = leases.ask(b"k", 2);
        assert!(token > HOT_MISS);
        assert_eq!(leases.ask(b"k", 2), HOT_MISS);
        assert!(!leases.redeem(b"k", HOT_MISS, 2));
        assert!(!leases.redeem(b"other", token, 2));
        assert!(leases.redeem(b"k", token, 2));
        assert!(!leases.redeem(b"k", token, 2));
    }

    #[test]
    fn a_lease_ends_with_its_time_or_with_the_item() {
        let leases = Leases::default();
        let late = leases.ask(b"k", 2);
        let token = leases.ask(b"k", 2 + LEASE_SECS);
        assert!(token > late);
        assert!(!leases.redeem(b"k", late, 2 + LEASE_SECS));
        leases.revoke(b"k");
        assert!(!leases.redeem(b"k", token, 2 + LEASE_SECS));
    }

    #[test]
    fn there_is_a_bound_and_room_comes_back_with_time() {
        let leases = Leases::default();
        for key in 0..LEASES_MAX as u32 {
            assert!(leases.ask(&key.to_be_bytes(), 2) > HOT_MISS);
        }
        assert_eq!(leases.ask(b"one more", 2), HOT_MISS);
        assert!(leases.ask(b"one more", 2 + LEASE_SECS) > HOT_MISS);
    }

    /// Whoever takes all leases must not make each miss of everybody a walk through them.
    #[test]
    fn a_miss_costs_no_more_where_all_leases_are_out() {
        let leases = Leases::default();
        for key in 0..LEASES_MAX as u32 {
            leases.ask(&key.to_be_bytes(), 2);
        }
        let started = Instant::now();
        for key in 0..LEASES_MAX as u32 {
            assert_eq!(leases.ask(&[&b"more"[..], &key.to_be_bytes()].concat(), 3), HOT_MISS);
        }
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
