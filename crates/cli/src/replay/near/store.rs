//! The copies of a simulated near cache, in a cache of this process.

use larder::copies::{CopyStore, Fetched};
use larder::{Cache, Deadline, Second, StoreMode, StoreRequest, Stored};

/// The cache that contains the copies. Its time is that of the trace.
#[derive(Debug)]
pub(super) struct CopyCache(pub(super) Cache);

impl CopyStore for CopyCache {
    fn put(&self, key: &[u8], copy: &Fetched, until_ms: Option<u64>) -> bool {
        let deadline = match until_ms {
            None => Deadline::NEVER,
            Some(until_ms) => Deadline(Second::try_from(until_ms / 1000).unwrap_or(Second::MAX)),
        };
        let version = Some(copy.cas);
        let request = StoreRequest { version, deadline, ..StoreRequest::new(key, StoreMode::Set) };
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
}

/// Returns a second of a cache in milliseconds.
pub(super) fn millis(second: Second) -> u64 {
    u64::from(second) * 1000
}
