//! The cluster on which a trace is replayed: near caches in front of an origin.

use anyhow::Result;
use larder::Epoch;
use larder_loadgen::mix::mix;

use super::copies::{Answer, NearCache};
use super::origin::Origin;
use crate::replay::key::Key;
use crate::replay::play::Target;

/// The random numbers that distribute the requests over the near caches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Routes {
    pub(super) seed: u64,
    pub(super) near_count: usize,
}

impl Routes {
    /// Returns the number of the near cache that serves the request with this index.
    pub(super) fn near_of(self, index: usize) -> usize {
        let word = mix(mix(self.seed).wrapping_add(index as u64)) >> 32;
        ((word * self.near_count as u64) >> 32) as usize
    }
}

/// The near caches and their origin.
pub(super) struct Cluster {
    near: Vec<NearCache>,
    origin: Origin,
    routes: Routes,
    /// The near cache that serves the current request.
    current: usize,
    /// The index of the first request that is counted.
    counted_from: usize,
    pub(super) counts: NearCounts,
}

/// The counts of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NearCounts {
    pub(super) gets: u64,
    /// Gets that a copy has answered.
    pub(super) hits: u64,
    /// Gets that have asked the origin.
    pub(super) fetches: u64,
    /// Gets of items that the origin does not have.
    pub(super) absent: u64,
    /// Sets, including those after misses.
    pub(super) writes: u64,
    /// Messages to near caches.
    pub(super) messages: u64,
    /// Copies that were dropped because of them.
    pub(super) dropped: u64,
}

impl Cluster {
    /// Creates a cluster of empty near caches.
    ///
    /// # Errors
    /// The memory is too small.
    pub(super) fn open(
        origin: Origin,
        routes: Routes,
        memory_bytes: u64,
        counted_from: usize,
    ) -> Result<Self> {
        let near = (0..routes.near_count).map(|number| NearCache::open(memory_bytes, number));
        let (near, counts) = (near.collect::<Result<_>>()?, NearCounts::default());
        Ok(Self { near, origin, routes, current: 0, counted_from, counts })
    }

    /// Returns the mean number of copies of a near cache.
    pub(super) fn copies_mean(&self) -> u64 {
        self.near.iter().map(NearCache::len).sum::<u64>() / self.near.len().max(1) as u64
    }
}

impl Target for Cluster {
    fn begin_request(&mut self, index: usize) {
        self.current = self.routes.near_of(index);
        if index == self.counted_from {
            self.counts = NearCounts::default();
        }
    }

    fn begin_second(&mut self, second: u32) {
        let second = Epoch::FIRST_SECOND.saturating_add(second);
        self.origin.begin_second(second);
        self.near.iter().for_each(|near| near.begin_second(second));
    }

    fn get(&mut self, key: &Key, value: &mut Vec<u8>) -> Result<bool> {
        let answer = self.near[self.current].get(&mut self.origin, key, value);
        let counts = &mut self.counts;
        counts.gets += 1;
        counts.hits += u64::from(answer == Answer::Copy);
        counts.fetches += u64::from(matches!(answer, Answer::Fetched | Answer::Absent));
        let is_absent = matches!(answer, Answer::Absent | Answer::KnownAbsent);
        counts.absent += u64::from(is_absent);
        Ok(!is_absent)
    }

    fn set(&mut self, key: &Key, value: &[u8], ttl_secs: u32) -> Result<bool> {
        let is_stored = self.origin.set(key, value, ttl_secs)?;
        // Also a set that is refused changes the item: it removes the old value.
        let interest = self.origin.take_interest(key);
        let bucket = self.origin.bucket_of(key);
        for near in self.near.iter().filter(|near| near.bit() & interest != 0) {
            self.counts.messages += 1;
            self.counts.dropped += near.copies.invalidate_bucket(bucket) as u64;
        }
        self.near[self.current].invalidate_key(&self.origin, key);
        self.counts.writes += 1;
        Ok(is_stored)
    }
}
