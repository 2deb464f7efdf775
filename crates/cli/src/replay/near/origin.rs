//! The origin of the simulated near caches: a cache of this process and a table of interest.

use std::task::Poll;

use anyhow::Result;
use larder::{Cache, Meta, PromotionPolicy, Read, ReadOptions, Second, Wait};
use larder_protocol::follow::Terms;

use crate::replay::key::Key;
use crate::replay::play::Target;

/// The cache that owns the items.
pub(super) struct Origin {
    pub(super) cache: Cache,
    terms: Terms,
    /// For each bucket, the bits of the near caches that may have a copy of its items.
    interest: Box<[u64]>,
}

impl Origin {
    /// Creates an origin around an empty cache.
    pub(super) fn new(cache: Cache, seed: u64) -> Self {
        let terms = Terms::new(0, 0, BUCKETS_LOG2, seed);
        Self { cache, terms, interest: vec![0; 1 << BUCKETS_LOG2].into() }
    }

    pub(super) fn bucket_of(&self, key: &Key) -> u32 {
        self.bucket_of_text(key.text())
    }

    pub(super) fn bucket_of_text(&self, key: &[u8]) -> u32 {
        self.terms.bucket_of(key)
    }

    /// Notes the interest of a near cache, and reads an item for it.
    pub(super) fn fetch(&mut self, key: &Key, bit: u64, value: &mut Vec<u8>) -> Option<Meta> {
        self.interest[self.bucket_of(key) as usize] |= bit;
        let noted = ReadOptions { noted: true, value: true };
        match self.read(key, noted, value) {
            Poll::Ready(Read::Hit(meta)) => Some(meta),
            _ => None,
        }
    }

    /// Marks an item as used, which a near cache has read in a copy.
    pub(super) fn note_read(&self, key: &Key) {
        let noted = ReadOptions { noted: true, value: false };
        let _ = self.read(key, noted, &mut Vec::new());
    }

    /// Forgets the interest in the bucket of a key, and returns it.
    pub(super) fn take_interest(&mut self, key: &Key) -> u64 {
        let bucket = self.bucket_of(key) as usize;
        std::mem::take(&mut self.interest[bucket])
    }

    pub(super) fn begin_second(&mut self, second: Second) {
        self.cache.tick(second);
        self.cache.maintain();
    }

    pub(super) fn set(&mut self, key: &Key, value: &[u8], ttl_secs: u32) -> Result<bool> {
        Target::set(&mut self.cache, key, value, ttl_secs)
    }

    fn read(&self, key: &Key, options: ReadOptions, out: &mut Vec<u8>) -> Poll<Read> {
        let raw = self.cache.raw(Wait::Block);
        raw.read(key.text(), options, PromotionPolicy::Always, out, |_, _| ())
    }
}

/// The number of buckets of an origin is 2 to the power of this, as in larderd.
const BUCKETS_LOG2: u32 = 20;
