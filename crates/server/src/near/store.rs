//! The copies in this server's cache.

use larder::copies::{CopyStore, Fetched};
use larder::{Cache, Deadline, StoreMode, StoreRequest, Stored};

use super::boot_ms;

/// The cache that contains the copies.
#[derive(Debug)]
pub(crate) struct LocalStore(Cache);

impl LocalStore {
    pub(crate) fn new(cache: Cache) -> Self {
        Self(cache)
    }
}

impl CopyStore for LocalStore {
    fn put(&self, key: &[u8], copy: &Fetched, until_ms: Option<u64>) -> bool {
        let deadline = match until_ms {
            None => Deadline::NEVER,
            Some(until_ms) => {
                // The copy expires when the second of the cache begins that contains the deadline,
                // so up to a second earlier than its item, and never later. Read in this order, the
                // clocks make it earlier if a second begins in between.
                let now = self.0.now();
                let left_ms = until_ms.saturating_sub(boot_ms()) + self.0.system_ms() % 1000;
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
        matches!(self.0.store(&request, &copy.value), Ok(Stored::Stored { .. }))
    }

    fn remove(&self, key: &[u8]) {
        self.0.delete_if(key, None).expect("a cache without a disk tier can always delete");
    }

    fn has(&self, key: &[u8]) -> bool {
        self.0.peek(key).is_some()
    }

    fn clear(&self) {
        self.0.clear();
    }

    fn limit_readers(&self, until_ms: u64) {
        self.0.limit_readers(until_ms);
    }
}
