//! The memory that requests of the admin listener may occupy together, in addition to the buffers
//! of each connection.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The number of bytes that requests may still occupy.
#[derive(Debug)]
pub(in crate::admin) struct Memory(Arc<Semaphore>);

/// The memory of one request. Dropping the lease releases it.
#[derive(Debug)]
pub(in crate::admin) struct Lease {
    /// The bytes that are free, one permit for each.
    free: Arc<Semaphore>,
    taken: Option<OwnedSemaphorePermit>,
}

/// Marks a response that needs no lease: its body is in the cache's memory, or already has a lease.
#[derive(Clone, Copy, Debug)]
pub(in crate::admin) struct Streams;

/// The body of a response, with its lease.
struct LeasedBody {
    body: Bytes,
    _lease: Lease,
}

impl AsRef<[u8]> for LeasedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(BYTES_MAX)
    }
}

impl Memory {
    /// The error message for a request that cannot have more memory.
    pub(in crate::admin) const EXHAUSTED: &str =
        "other requests occupy all memory of the admin listener; try again";

    pub(in crate::admin) fn new(bytes: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes)))
    }

    /// Leases memory for a long response, from the first of `memories` that has enough. The lease
    /// ends when the peer has received the response. Refuses the response if none has enough.
    pub(in crate::admin) async fn lease_of(memories: &[&Self], response: Response) -> Response {
        let bytes = response.body().size_hint().lower();
        if bytes <= OF_CONNECTION || response.extensions().get::<Streams>().is_some() {
            return response;
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut leases = memories.iter().map(|memory| memory.lease());
        let Some(lease) = leases.find_map(|mut lease| lease.grow_to(bytes).then_some(lease)) else {
            let words = format!("{}\n", Self::EXHAUSTED);
            return (StatusCode::SERVICE_UNAVAILABLE, words).into_response();
        };
        let (head, body) = response.into_parts();
        // The body is already complete, so this does not wait.
        let Ok(body) = to_bytes(body, usize::MAX).await else {
            return StatusCode::INTERNAL_SERVER_ERROR.into_response();
        };
        let body = Bytes::from_owner(LeasedBody { body, _lease: lease });
        Response::from_parts(head, Body::from(body))
    }

    /// Begins an empty lease.
    pub(in crate::admin) fn lease(&self) -> Lease {
        Lease { free: Arc::clone(&self.0), taken: None }
    }
}

impl Lease {
    /// Extends the lease to this many bytes, if it is smaller. Returns false if they are not free.
    /// Does not wait, because other requests that hold memory might also wait for more.
    pub(in crate::admin) fn grow_to(&mut self, bytes: usize) -> bool {
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

/// Memory in bytes that is reserved for the responses of probes.
pub(in crate::admin) const OF_PROBES: usize = 2 << 20;

/// A response up to this length needs no lease, because it fits into the buffers of its connection.
const OF_CONNECTION: u64 = 16 * 1024;

/// In addition to these 8 MiB, each of 128 connections has 16 KiB for input, 16 KiB for output and
/// 16 KiB for a value. Together with the memory of probes this is at most 16 MiB.
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
