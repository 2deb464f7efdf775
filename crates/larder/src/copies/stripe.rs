//! A stripe: the flights and the listed keys of some buckets, under one lock.

use std::collections::HashMap;
use std::sync::Arc;

use super::flight::Flight;
use super::keys::{Keys, entry_bytes};
use super::{CopyStore, Room, STRIPES};

/// The flights and the copies of some buckets.
#[derive(Debug, Default)]
pub(super) struct Stripe {
    /// The flights that may keep their value, at most one of each key.
    flights: HashMap<Box<[u8]>, Arc<Flight>>,
    buckets: HashMap<u32, Keys>,
    /// The bucket that makes room next, if it has copies.
    next: u32,
    /// The highest bucket that has had copies.
    highest: u32,
    listed_bytes: usize,
    absent_bytes: usize,
}

impl Stripe {
    pub(super) fn flight(&self, key: &[u8]) -> Option<&Arc<Flight>> {
        self.flights.get(key)
    }

    pub(super) fn list(&mut self, flight: Arc<Flight>) {
        self.flights.insert(flight.key().into(), flight);
    }

    /// Removes a flight from the list. Returns false if it was not listed.
    pub(super) fn unlist(&mut self, flight: &Arc<Flight>) -> bool {
        let is_listed =
            self.flights.get(flight.key()).is_some_and(|listed| Arc::ptr_eq(listed, flight));
        if is_listed {
            self.flights.remove(flight.key());
        }
        is_listed
    }

    pub(super) fn is_absent(&self, bucket: u32, key: &[u8]) -> bool {
        self.buckets
            .get(&bucket)
            .is_some_and(|keys| keys.iter().any(|(listed, is_absent)| is_absent && listed == key))
    }

    /// Lists the key of a copy. Returns false if there is no room.
    pub(super) fn remember(
        &mut self,
        store: &impl CopyStore,
        bucket: u32,
        key: &[u8],
        is_absent: bool,
        room: Room,
    ) -> bool {
        self.forget(bucket, key);
        let bytes = entry_bytes(key);
        let absent_bytes = if is_absent { bytes } else { 0 };
        let never_fits = bytes > room.listed_bytes || absent_bytes > room.absent_bytes;
        if never_fits || key.len() > Keys::KEY_BYTES_MAX {
            return false;
        }
        while self.absent_bytes + absent_bytes > room.absent_bytes {
            if !self.make_room(store, bucket, true) {
                return false;
            }
        }
        while self.listed_bytes + bytes > room.listed_bytes {
            if !self.make_room(store, bucket, false) {
                return false;
            }
        }
        self.buckets.entry(bucket).or_default().add(key, is_absent);
        self.highest = self.highest.max(bucket);
        self.listed_bytes += bytes;
        self.absent_bytes += absent_bytes;
        true
    }

    /// Drops the copies of a bucket to make room for one that is asking; if `is_absent`, of one
    /// that has a key without an item. Returns false if there is none.
    ///
    /// The buckets have their turns in the order of their numbers, so that a new copy stays for a
    /// round. In the order of the table, buckets near its beginning would never keep a copy.
    fn make_room(&mut self, store: &impl CopyStore, asking: u32, is_absent: bool) -> bool {
        let is_chosen = |keys: &Keys| !is_absent || keys.iter().any(|(_, is_absent)| is_absent);
        let first = asking % STRIPES as u32;
        if self.next < first {
            self.next = first;
        }
        // If few buckets have copies, any of them is found faster.
        for _ in 0..self.buckets.len().min(PROBES_MAX) {
            let bucket = self.next;
            let next = bucket.saturating_add(STRIPES as u32);
            self.next = if next > self.highest { first } else { next };
            if self.buckets.get(&bucket).is_some_and(is_chosen) {
                return self.drop_copies(store, bucket) > 0;
            }
        }
        let chosen = self.buckets.iter().find(|(_, keys)| is_chosen(keys));
        let chosen = chosen.map(|(bucket, _)| *bucket);
        chosen.is_some_and(|bucket| self.drop_copies(store, bucket) > 0)
    }

    /// Drops the copies of a bucket, and detaches its flights. Returns how many copies there were.
    pub(super) fn invalidate(&mut self, store: &impl CopyStore, bucket: u32) -> usize {
        if !self.flights.is_empty() {
            self.flights.retain(|_, flight| flight.place().bucket != bucket);
        }
        self.drop_copies(store, bucket)
    }

    fn drop_copies(&mut self, store: &impl CopyStore, bucket: u32) -> usize {
        let Some(keys) = self.buckets.remove(&bucket) else { return 0 };
        let mut dropped = 0;
        for (key, is_absent) in keys.iter() {
            if !is_absent {
                store.remove(key);
            }
            self.uncount(key, is_absent);
            dropped += 1;
        }
        dropped
    }

    /// Drops the copy of a key, and detaches its flight.
    pub(super) fn invalidate_key(&mut self, store: &impl CopyStore, bucket: u32, key: &[u8]) {
        self.flights.remove(key);
        self.drop_copy(store, bucket, key);
    }

    /// Drops the copy of a key.
    pub(super) fn drop_copy(&mut self, store: &impl CopyStore, bucket: u32, key: &[u8]) {
        self.forget(bucket, key);
        // Also a key that is not listed: the place of the caller may be of another subscription.
        store.remove(key);
    }

    /// Forgets a copy that is no longer in the store.
    pub(super) fn forget(&mut self, bucket: u32, key: &[u8]) {
        let Some(keys) = self.buckets.get_mut(&bucket) else { return };
        if let Some(is_absent) = keys.remove(key) {
            if keys.is_empty() {
                self.buckets.remove(&bucket);
            }
            self.uncount(key, is_absent);
        }
    }

    /// Drops the copies of the keys that are not to stay, and detaches their flights. Returns how
    /// many copies there were.
    pub(super) fn retain(
        &mut self,
        store: &impl CopyStore,
        stays: impl Fn(&[u8]) -> bool,
    ) -> usize {
        self.flights.retain(|key, _| stays(key));
        let listed = |(bucket, keys): (&u32, &Keys)| {
            let leaving = keys.iter().filter(|(key, _)| !stays(key));
            leaving.map(|(key, _)| (*bucket, Box::from(key))).collect::<Vec<(u32, Box<[u8]>)>>()
        };
        let leaving: Vec<_> = self.buckets.iter().flat_map(listed).collect();
        for (bucket, key) in &leaving {
            self.drop_copy(store, *bucket, key);
        }
        leaving.len()
    }

    /// Drops all copies, and detaches all flights.
    pub(super) fn drop_all(&mut self, store: &impl CopyStore) {
        let buckets: Vec<_> = self.buckets.keys().copied().collect();
        for bucket in buckets {
            self.drop_copies(store, bucket);
        }
        self.forget_all();
    }

    pub(super) fn detach_all(&mut self) {
        self.flights.clear();
    }

    /// Forgets all copies, which the caller removes from the store, and detaches all flights.
    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }

    pub(super) fn listed_bytes(&self) -> usize {
        self.listed_bytes
    }

    pub(super) fn absent_bytes(&self) -> usize {
        self.absent_bytes
    }

    fn uncount(&mut self, key: &[u8], is_absent: bool) {
        self.listed_bytes -= entry_bytes(key);
        self.absent_bytes -= if is_absent { entry_bytes(key) } else { 0 };
    }
}

/// How many buckets are tried in the order of their numbers.
const PROBES_MAX: usize = 64;
