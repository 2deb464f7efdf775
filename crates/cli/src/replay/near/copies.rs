//! A simulated near cache: the copies of larderd's near cache, with an origin that responds at
//! once.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use larder::copies::{Copies, CopyLimits, Fetched, FlightResult, Place};
use larder::{Cache, Clock, Deadline, Reason, Second};
use larder_options::Near;

use super::origin::Origin;
use super::store::{CopyCache, millis};
use crate::replay::key::Key;

/// A near cache.
pub(super) struct NearCache {
    pub(super) copies: Copies<CopyCache>,
    /// The keys whose copies the cache has evicted since they were last forgotten.
    departed: Arc<Mutex<Vec<Box<[u8]>>>>,
    /// The bit of this near cache in the origin's table of interest.
    slot: u32,
    reads_until_hint: u32,
}

/// The result of a read through a near cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// A copy had the value.
    Copy,
    /// The near cache has fetched the value.
    Fetched,
    /// The near cache has asked the origin, which has no item.
    Absent,
    /// The near cache remembers that the origin has no item.
    KnownAbsent,
}

impl NearCache {
    /// Opens an empty near cache with the memory of larderd's `-m`. `number` is its number in the
    /// cluster.
    ///
    /// # Errors
    /// The memory is too small.
    pub(super) fn open(memory_bytes: u64, number: usize) -> Result<Self> {
        let listed_bytes = Near::listed_bytes(memory_bytes);
        let listed_bytes_max = usize::try_from(listed_bytes)?;
        let cache_bytes = memory_bytes - listed_bytes;
        let cache = Cache::builder()
            .memory_bytes(cache_bytes)
            .item_bytes_max((cache_bytes / 2).min(1 << 20))
            .cas(true)
            .clock(Clock::Ticked)
            .open()
            .with_context(|| {
                format!(
                    "--near-memory {memory_bytes}: a quarter is for the keys of the copies, and \
                     the rest is not enough"
                )
            })?;
        let departed = Arc::new(Mutex::default());
        let noted: Arc<Mutex<Vec<Box<[u8]>>>> = Arc::clone(&departed);
        cache.set_departure_hook(move |leaving| {
            if leaving.reason() != Reason::Cleared {
                let mut key = Vec::with_capacity(leaving.key_bytes());
                leaving.read_key(&mut key);
                noted.lock().unwrap_or_else(PoisonError::into_inner).push(key.into());
            }
        });
        let limits = CopyLimits {
            listed_bytes_max,
            absent_bytes_max: listed_bytes_max / 2,
            value_bytes_max: VALUE_BYTES_MAX,
            flight_age_max_ms: 1000,
        };
        let copies = Copies::new(CopyCache(cache), limits);
        copies.refresh(u64::MAX);
        let slot = (number % SLOTS) as u32;
        Ok(Self { copies, departed, slot, reads_until_hint: READS_PER_HINT })
    }

    /// Returns the bit of this near cache in a word of interest.
    pub(super) fn bit(&self) -> u64 {
        1 << self.slot
    }

    pub(super) fn begin_second(&self, second: Second) {
        let cache = &self.copies.store().0;
        cache.tick(second);
        cache.maintain();
    }

    /// Reads a key, from a copy or from the origin, into `value`.
    pub(super) fn get(&mut self, origin: &mut Origin, key: &Key, value: &mut Vec<u8>) -> Answer {
        value.clear();
        self.forget_departed(origin);
        if self.copies.store().0.get_into(key.text(), value).is_some() {
            self.reads_until_hint -= 1;
            if self.reads_until_hint == 0 {
                self.reads_until_hint = READS_PER_HINT;
                origin.note_read(key);
            }
            return Answer::Copy;
        }
        let place = self.place(origin, key);
        if self.copies.is_absent(place, key.text()) {
            return Answer::KnownAbsent;
        }
        let now = self.copies.store().0.now();
        let (flight, _) = self.copies.join(place, key.text(), millis(now), None);
        let (result, answer) = match origin.fetch(key, self.bit(), value) {
            None => (FlightResult::Absent { is_noted: true }, Answer::Absent),
            Some(meta) => {
                let (cas, is_noted) = (meta.cas, true);
                let ttl_ms = (meta.deadline != Deadline::NEVER)
                    .then(|| millis(meta.deadline.0.saturating_sub(now)));
                let fetched = Fetched { value: value.clone(), flags: 0, cas, ttl_ms, is_noted };
                (FlightResult::Value(Arc::new(fetched)), Answer::Fetched)
            }
        };
        // A value that is not kept is fetched again by the next read, as in larderd.
        let _ = self.copies.land(&flight, place, result);
        answer
    }

    /// Drops the copy of a key that was written through this near cache.
    pub(super) fn invalidate_key(&self, origin: &Origin, key: &Key) {
        self.copies.invalidate_key(self.place(origin, key), key.text());
    }

    /// Returns the number of copies.
    pub(super) fn len(&self) -> u64 {
        self.copies.store().0.len()
    }

    fn place(&self, origin: &Origin, key: &Key) -> Place {
        Place { subscription: self.copies.subscription(), bucket: origin.bucket_of(key) }
    }

    fn forget_departed(&self, origin: &Origin) {
        let departed =
            std::mem::take(&mut *self.departed.lock().unwrap_or_else(PoisonError::into_inner));
        for key in departed {
            let bucket = origin.bucket_of_text(&key);
            self.copies.forget(Place { subscription: self.copies.subscription(), bucket }, &key);
        }
    }
}

/// The subscriptions of an origin share this many bits of its table of interest.
const SLOTS: usize = 64;

/// A near cache reports one in this many reads of copies to the origin.
const READS_PER_HINT: u32 = 16;

/// Same as the default of larderd's `--near-item-max`.
const VALUE_BYTES_MAX: usize = 64 << 10;
