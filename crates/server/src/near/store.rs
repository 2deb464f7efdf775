//! The copies in this server's cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use arc_swap::ArcSwap;
use larder::copies::{CopyStore, Fetched, ReaderLimits};
use larder::{Cache, Deadline, StoreMode, StoreRequest, Stored};

use super::boot_ms;
use super::ring::Ring;

/// The cache that contains the copies of all origins, and which keys belong to each.
#[derive(Debug)]
pub(crate) struct SharedStore {
    cache: Cache,
    /// Workers look up a key for each command, so they take no lock.
    placement: ArcSwap<Placement>,
    limits: ReaderLimits,
    /// The limit of the readers in memory, by the boot clock: until then each copy in the cache may
    /// be used, of all origins.
    readable_until_ms: AtomicU64,
    origin_count: usize,
}

/// Which keys belong to each origin.
#[derive(Debug)]
struct Placement {
    current: Arc<Ring>,
    /// The ring that will be the current one when all copies of keys that it moves are dropped.
    next: Option<Arc<Ring>>,
}

/// The copies of one origin.
#[derive(Debug)]
pub(crate) struct OriginStore {
    shared: Arc<SharedStore>,
    origin: usize,
}

impl SharedStore {
    pub(super) fn new(cache: Cache, ring: Ring) -> Self {
        let origin_count = ring.weights().count();
        let limits = ReaderLimits::new(origin_count);
        let placement = Placement { current: Arc::new(ring), next: None };
        Self {
            cache,
            placement: ArcSwap::from_pointee(placement),
            limits,
            readable_until_ms: AtomicU64::new(0),
            origin_count,
        }
    }

    /// Returns the number of the origin that a key belongs to.
    #[inline]
    pub(super) fn owner_of(&self, key: &[u8]) -> usize {
        if self.origin_count == 1 { 0 } else { self.placement.load().current.owner_of(key) }
    }

    /// True if every copy in the cache may be used by a read that began before this time of the
    /// boot clock. The caller looks for the copy afterwards.
    #[inline]
    pub(super) fn is_readable_at(&self, now_ms: u64) -> bool {
        // Rule: FreshBeforeLook
        now_ms <= self.readable_until_ms.load(SeqCst)
    }

    fn limit_readers(&self, until_ms: u64) {
        self.readable_until_ms.store(until_ms, SeqCst);
        self.cache.limit_readers(until_ms);
    }

    /// Notes that another ring will be the current one. From here on no origin keeps copies of keys
    /// that move.
    pub(super) fn announce(&self, next: &Arc<Ring>) {
        let placement = Placement { current: self.ring(), next: Some(Arc::clone(next)) };
        self.placement.store(Arc::new(placement));
    }

    /// Makes an announced ring the current one.
    pub(super) fn set_ring(&self, ring: Arc<Ring>) {
        self.placement.store(Arc::new(Placement { current: ring, next: None }));
    }

    /// True if the origin owns the key, and will own it.
    fn keeps(&self, origin: usize, key: &[u8]) -> bool {
        if self.origin_count == 1 {
            return true;
        }
        let placement = self.placement.load();
        let rings = [Some(&placement.current), placement.next.as_ref()];
        rings.into_iter().flatten().all(|ring| ring.owner_of(key) == origin)
    }

    pub(super) fn ring(&self) -> Arc<Ring> {
        Arc::clone(&self.placement.load().current)
    }
}

impl OriginStore {
    pub(super) fn new(shared: Arc<SharedStore>, origin: usize) -> Self {
        Self { shared, origin }
    }
}

impl CopyStore for OriginStore {
    fn put(&self, key: &[u8], copy: &Fetched, until_ms: Option<u64>) -> bool {
        let deadline = match until_ms {
            None => Deadline::NEVER,
            Some(until_ms) => {
                // The copy expires when the second of the cache begins that contains the deadline,
                // so up to a second earlier than its item, and never later. Read in this order, the
                // clocks make it earlier if a second begins in between.
                let now = self.shared.cache.now();
                let left_ms =
                    until_ms.saturating_sub(boot_ms()) + self.shared.cache.system_ms() % 1000;
                let secs = u32::try_from(left_ms / 1000).unwrap_or(u32::MAX);
                if secs == 0 {
                    return false;
                }
                Deadline(now.saturating_add(secs))
            }
        };
        let request = StoreRequest {
            flags: copy.flags,
            version: Some(copy.cas),
            deadline,
            ..StoreRequest::new(key, StoreMode::Set)
        };
        matches!(self.shared.cache.store(&request, &copy.value), Ok(Stored::Stored { .. }))
    }

    fn remove(&self, key: &[u8]) {
        self.shared
            .cache
            .delete_if(key, None)
            .expect("a cache without a disk tier can always delete");
    }

    fn has(&self, key: &[u8]) -> bool {
        self.shared.cache.peek(key).is_some()
    }

    fn clear(&self) {
        self.shared.cache.clear();
    }

    fn limit_readers(&self, until_ms: u64) {
        let publish = |until_ms| self.shared.limit_readers(until_ms);
        self.shared.limits.set(self.origin, until_ms, publish);
    }

    fn end_limit(&self) {
        self.shared.limits.end(self.origin, |until_ms| self.shared.limit_readers(until_ms));
    }

    fn is_shared(&self) -> bool {
        self.shared.origin_count > 1
    }

    fn owns(&self, key: &[u8]) -> bool {
        self.shared.keeps(self.origin, key)
    }
}
