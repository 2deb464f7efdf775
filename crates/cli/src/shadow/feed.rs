//! The queue between the forwarding thread and the comparer. It copies the bytes of both directions
//! and has a limit, so that a slow comparer costs comparisons and never delays a client.

use std::mem;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of a client's connection, unique in one run.
pub(crate) type ConnectionId = u64;

/// Something that happened on a client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The client connected.
    Opened,
    /// The client sent bytes.
    Request,
    /// The live server sent bytes.
    Answer,
    /// Some bytes are missing here, because the queue was full.
    Gap,
    /// The connection ended.
    Closed,
}

/// One event; its bytes are in the batch.
#[derive(Clone, Copy, Debug)]
struct Event {
    connection: ConnectionId,
    kind: Kind,
    bytes: usize,
}

/// Events in the order in which they happened on all connections.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    events: Vec<Event>,
    bytes: Vec<u8>,
}

impl Batch {
    fn push(&mut self, connection: ConnectionId, kind: Kind, bytes: &[u8]) {
        self.events.push(Event { connection, kind, bytes: bytes.len() });
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the memory of the events, in bytes.
    fn held_bytes(&self) -> usize {
        self.bytes.len() + self.events.len() * size_of::<Event>()
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// True if the batch has no events.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Calls `take` with each event.
    pub(crate) fn for_each(&self, mut take: impl FnMut(ConnectionId, Kind, &[u8])) {
        let mut rest = &*self.bytes;
        for event in &self.events {
            let (bytes, after) = rest.split_at(event.bytes);
            rest = after;
            take(event.connection, event.kind, bytes);
        }
    }

    /// Removes all events. Keeps the memory for the next ones, unless it is much.
    fn clear(&mut self) {
        self.events.clear();
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
    }
}

/// The queue. The forwarding threads push, the comparer takes.
#[derive(Debug)]
pub(crate) struct Feed {
    shared: Mutex<Shared>,
    arrived: Condvar,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    batch: Batch,
    /// True if the comparer waits for events.
    is_awaited: bool,
    /// True if no more events follow.
    is_ended: bool,
}

impl Feed {
    /// Creates a queue that holds at most this number of bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { shared: Mutex::default(), arrived: Condvar::new(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an event. Returns false if the queue is full; then nothing was appended. Events
    /// without bytes are always appended.
    pub(crate) fn push(&self, connection: ConnectionId, kind: Kind, bytes: &[u8]) -> bool {
        let mut shared = self.lock();
        if !bytes.is_empty() && shared.batch.held_bytes() + bytes.len() > self.bytes_max {
            return false;
        }
        shared.batch.push(connection, kind, bytes);
        if mem::take(&mut shared.is_awaited) {
            self.arrived.notify_one();
        }
        true
    }

    /// Declares that no more events follow.
    pub(crate) fn end(&self) {
        self.lock().is_ended = true;
        self.arrived.notify_one();
    }

    /// Exchanges the collected events for an empty batch. Waits for up to `patience` if there are
    /// none. Returns false if none are left and none will follow.
    pub(crate) fn take(&self, batch: &mut Batch, patience: Duration) -> bool {
        batch.clear();
        let mut shared = self.lock();
        if shared.batch.is_empty() && !shared.is_ended && !patience.is_zero() {
            shared.is_awaited = true;
            let waited = self.arrived.wait_timeout(shared, patience);
            shared = waited.unwrap_or_else(PoisonError::into_inner).0;
            shared.is_awaited = false;
        }
        mem::swap(&mut shared.batch, batch);
        !(batch.is_empty() && shared.is_ended)
    }
}

/// The memory that an empty batch keeps.
const KEPT_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_refuses_bytes_and_accepts_ends_of_connections() {
        let feed = Feed::new(200);
        assert!(feed.push(1, Kind::Request, &[7; 100]));
        assert!(!feed.push(1, Kind::Answer, &[8; 100]), "the limit includes the events");
        assert!(feed.push(1, Kind::Closed, b""));
        let mut batch = Batch::default();
        assert!(feed.take(&mut batch, Duration::ZERO));
        let mut seen = Vec::new();
        batch.for_each(|connection, kind, bytes| seen.push((connection, kind, bytes.len())));
        assert_eq!(seen, [(1, Kind::Request, 100), (1, Kind::Closed, 0)]);
        feed.end();
        assert!(!feed.take(&mut batch, Duration::from_secs(60)), "ended, so that it does not wait");
    }
}
