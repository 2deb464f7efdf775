//! The quota of the mechanism `scan`: the bytes of the flooder, and the hand that passes all
//! records in the order of their segments.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use larder::Cache;

use crate::scenario::{Key, Tenant, tenant_of};

/// The records of a cache, in the order in which they were stored. Survivors of an eviction keep
/// their place in this order, although the engine appends them to other segments.
pub(crate) struct Ledger {
    quota_bytes: u64,
    flooder_bytes: u64,
    stored: u64,
    records: VecDeque<(Key, u64)>,
    live: HashMap<Key, Live>,
    /// The keys that the engine has evicted or expired since the last request.
    departed: Arc<Mutex<Vec<Key>>>,
    pub(crate) work: Work,
}

struct Live {
    /// The number of the store.
    number: u64,
    bytes: u64,
    /// True if the item was read since it was stored, or since the hand passed it.
    is_read: bool,
}

/// The work of the hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// Records that the hand has passed.
    pub(crate) scanned: u64,
    /// Items of the flooder that it has deleted, and the bytes of their records.
    pub(crate) deleted: u64,
    pub(crate) deleted_bytes: u64,
}

impl Ledger {
    pub(crate) fn new(cache: &Cache, quota_bytes: u64) -> Self {
        let departed: Arc<Mutex<Vec<Key>>> = Arc::default();
        let queue = Arc::clone(&departed);
        cache.set_departure_hook(move |leaving| {
            let mut key = Vec::with_capacity(size_of::<Key>());
            leaving.read_key(&mut key);
            if let Ok(key) = Key::try_from(&key[..]) {
                queue.lock().unwrap_or_else(PoisonError::into_inner).push(key);
            }
        });
        Self {
            quota_bytes,
            flooder_bytes: 0,
            stored: 0,
            records: VecDeque::new(),
            live: HashMap::new(),
            departed,
            work: Work::default(),
        }
    }

    /// Notes that an item was read.
    pub(crate) fn note_read(&mut self, key: &Key) {
        if let Some(live) = self.live.get_mut(key) {
            live.is_read = true;
        }
    }

    /// Notes that an item was stored, and deletes items if the flooder exceeds its quota.
    pub(crate) fn note_store(&mut self, cache: &Cache, key: Key, bytes: u64) -> Result<()> {
        let departed =
            std::mem::take(&mut *self.departed.lock().unwrap_or_else(PoisonError::into_inner));
        departed.iter().for_each(|key| self.forget(key));
        self.forget(&key);
        self.stored += 1;
        self.live.insert(key, Live { number: self.stored, bytes, is_read: false });
        self.records.push_back((key, self.stored));
        if tenant_of(&key) == Tenant::Flooder {
            self.flooder_bytes += bytes;
        }
        if self.flooder_bytes > self.quota_bytes {
            self.enforce(cache)?;
        }
        Ok(())
    }

    /// Deletes a batch of the flooder's items.
    fn enforce(&mut self, cache: &Cache) -> Result<()> {
        let target = self.quota_bytes - self.quota_bytes / BATCH;
        while self.flooder_bytes > target
            && let Some((key, number)) = self.records.pop_front()
        {
            // A record that was replaced or evicted is no longer in memory, or soon will not be.
            let Some(live) = self.live.get_mut(&key).filter(|live| live.number == number) else {
                continue;
            };
            self.work.scanned += 1;
            let is_kept = std::mem::take(&mut live.is_read);
            if tenant_of(&key) == Tenant::Others || is_kept {
                self.records.push_back((key, number));
                continue;
            }
            self.work.deleted += 1;
            self.work.deleted_bytes += live.bytes;
            cache.delete(key)?;
            self.forget(&key);
        }
        Ok(())
    }

    fn forget(&mut self, key: &Key) {
        if let Some(live) = self.live.remove(key)
            && tenant_of(key) == Tenant::Flooder
        {
            self.flooder_bytes -= live.bytes;
        }
    }
}

/// The hand frees this fraction of the quota at a time.
const BATCH: u64 = 50;
