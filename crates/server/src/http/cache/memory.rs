//! The memory that requests of the admin listener take together, besides what each connection has.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes that requests may still take.
#[derive(Debug)]
pub(in crate::http) struct Memory(Arc<Semaphore>);

/// The memory of one request. It is given back when the lease is dropped.
#[derive(Debug)]
pub(in crate::http) struct Lease {
    free: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

impl Default for Memory {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(BYTES_MAX)))
    }
}

impl Memory {
    /// The words for a request that gets no more.
    pub(in crate::http) const EXHAUSTED: &str =
        "other requests take all memory of the admin listener; try again";

    /// Begins a lease of nothing.
    pub(in crate::http) fn lease(&self) -> Lease {
        Lease { free: Arc::clone(&self.0), taken: None }
    }
}

impl Lease {
    /// Extends the lease to this many bytes, if it is less. Returns false if they are not free:
    /// nothing waits, since those who hold memory might wait for more too.
    pub(in crate::http) fn grow_to(&mut self, bytes: usize) -> bool {
        let missing =
            bytes.saturating_sub(self.taken.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        let Ok(missing) = u32::try_from(missing) else { return false };
        if missing == 0 {
            return true;
        }
        let Ok(more) = Arc::clone(&self.free).try_acquire_many_owned(missing) else { return false };
        match &mut self.taken {
            Some(taken) => taken.merge(more),
            None => self.taken = Some(more),
        }
        true
    }
}

/// Beside these 8 MiB each of 128 connections has 16 KiB for input, 16 KiB for output and a value
/// of 16 KiB: at most 14 MiB in all.
const BYTES_MAX: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_grows_until_all_is_taken_and_gives_back() {
        let memory = Memory::default();
        let (mut first, mut second) = (memory.lease(), memory.lease());
        assert!(first.grow_to(5 << 20));
        assert!(first.grow_to(6 << 20));
        assert!(first.grow_to(1));
        assert!(!second.grow_to(3 << 20));
        assert!(second.grow_to(2 << 20));
        assert!(!first.grow_to((6 << 20) + 1));
        drop(first);
        assert!(second.grow_to(8 << 20));
        assert!(!second.grow_to(usize::MAX));
    }
}
