//! Tracks whether a connection has a request in flight, and since when. A request is in flight
//! until its response has been sent, so it may wait for its peer. When there are too many
//! connections, this decides which one is closed first.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};

use crate::clock::monotonic_us;

/// The state of a connection. The connection's task writes it, and the task that accepts
/// connections reads it.
#[derive(Debug)]
pub(in crate::admin) struct Activity {
    is_in_flight: AtomicBool,
    since_us: AtomicI64,
}

/// The body of a response. Dropping it ends the request, after the body was sent or abandoned.
#[derive(Debug)]
struct Response {
    body: Body,
    activity: Arc<Activity>,
}

impl Default for Activity {
    fn default() -> Self {
        let since_us = AtomicI64::new(monotonic_us());
        Self { is_in_flight: AtomicBool::new(false), since_us }
    }
}

impl Activity {
    /// Records that a request has arrived.
    pub(in crate::admin) fn note(&self) {
        self.set(false);
    }

    /// Marks the request as in flight, which protects its connection from being closed. Only
    /// requests whose role permits more than a probe are marked.
    pub(in crate::admin) fn begin(&self) {
        self.set(true);
    }

    /// Returns the body of the response. The request ends at the end of the body.
    pub(in crate::admin) fn until_end_of(self: Arc<Self>, body: Body) -> Body {
        Body::new(Response { body, activity: self })
    }

    /// Returns whether a request is in flight, and since when the connection has been in this
    /// state. The connection with the smallest rank is closed first.
    pub(in crate::admin) fn rank(&self) -> (bool, i64) {
        (self.is_in_flight.load(Relaxed), self.since_us.load(Relaxed))
    }

    /// Returns how much longer the connection is protected when others need its slot.
    pub(in crate::admin) fn spared(&self) -> Duration {
        let (is_in_flight, since_us) = self.rank();
        let spared_us = if is_in_flight { IN_FLIGHT_SPARED_US } else { WAITING_SPARED_US };
        let left_us = since_us.saturating_add(spared_us).saturating_sub(monotonic_us());
        Duration::from_micros(u64::try_from(left_us).unwrap_or(0))
    }

    fn set(&self, is_in_flight: bool) {
        self.is_in_flight.store(is_in_flight, Relaxed);
        self.since_us.store(monotonic_us(), Relaxed);
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        self.activity.set(false);
    }
}

impl HttpBody for Response {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection without a request is protected long enough for a new peer to send one. A connection
/// with a request is protected until most requests have ended.
const WAITING_SPARED_US: i64 = 50_000;
const IN_FLIGHT_SPARED_US: i64 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_lasts_until_its_response_is_dropped() {
        let activity = Arc::<Activity>::default();
        assert!(!activity.rank().0);
        activity.begin();
        assert!(activity.spared() > Duration::from_micros(WAITING_SPARED_US as u64));
        let body = Arc::clone(&activity).until_end_of(Body::from("x"));
        assert_eq!(body.size_hint().exact(), Some(1));
        assert!(activity.rank().0);
        drop(body);
        assert!(!activity.rank().0);
        assert!(activity.spared() <= Duration::from_micros(WAITING_SPARED_US as u64));
    }
}
