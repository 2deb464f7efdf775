//! A slot: a ring of messages, and the subscriptions that read it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use super::ring::{EVERYTHING, Ring, Unread};

/// A ring and its readers.
#[derive(Debug, Default)]
pub(super) struct Slot(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    ring: Ring,
    readers: Vec<Reader>,
    /// The number of readers that wait for a message.
    waiting_count: usize,
    next_reader: u64,
}

/// The position of a subscription in the ring.
#[derive(Debug)]
struct Reader {
    id: u64,
    position: u64,
    /// True if the next message wakes the stream's connection.
    waits: bool,
    /// Wakes the stream's connection.
    waker: Waker,
}

/// Messages that a subscription has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Messages {
    /// The position of the subscription after them.
    pub(super) position: u64,
    /// True if more messages wait.
    pub(super) are_more: bool,
    /// Buckets that were reported.
    pub(super) changes: u64,
    /// Messages that everything may have changed.
    pub(super) flushes: u64,
    /// The ones among them that replaced messages which the ring does not hold any more.
    pub(super) overflows: u64,
}

impl Slot {
    /// Adds a reader, which `waker` wakes and which reads the messages that are pushed from now on.
    pub(super) fn add(&self, waker: Waker) -> u64 {
        let mut state = self.state();
        let (id, position) = (state.next_reader, state.ring.next());
        state.next_reader += 1;
        state.readers.push(Reader { id, position, waits: false, waker });
        id
    }

    /// Removes a reader.
    pub(super) fn remove(&self, id: u64) {
        let mut state = self.state();
        state.set_waiting(id, false);
        state.readers.retain(|reader| reader.id != id);
        if state.readers.is_empty() {
            *state = State { next_reader: state.next_reader, ..State::default() };
        }
    }

    /// Adds a message, and wakes the connections of the readers that wait for one.
    pub(super) fn push(&self, message: u32) {
        let mut state = self.state();
        if state.readers.is_empty() {
            return;
        }
        state.ring.push(message);
        if state.waiting_count == 0 {
            return;
        }
        state.waiting_count = 0;
        let waiting = state.readers.iter_mut().filter(|reader| reader.waits);
        let wakers: Vec<Waker> = waiting.map(Reader::take_waker).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes the connection of a reader.
    pub(super) fn wake(&self, id: u64) {
        let mut state = self.state();
        state.set_waiting(id, false);
        let found = state.readers.iter_mut().find(|reader| reader.id == id);
        let waker = found.map(Reader::take_waker);
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Returns the number of readers.
    pub(super) fn reader_count(&self) -> usize {
        self.state().readers.len()
    }

    /// Returns the position after the last message.
    pub(super) fn end(&self) -> u64 {
        self.state().ring.next()
    }

    /// Passes at most `count_max` messages of a reader to `take`. If no more wait, the next message
    /// wakes the reader's connection.
    pub(super) fn read(&self, id: u64, count_max: usize, mut take: impl FnMut(u32)) -> Messages {
        let mut state = self.state();
        let State { ring, readers, .. } = &mut *state;
        let mut messages = Messages::default();
        let Some(reader) = readers.iter_mut().find(|reader| reader.id == id) else {
            return messages;
        };
        for _ in 0..count_max {
            let message = match ring.read(&mut reader.position) {
                Unread::Nothing => break,
                Unread::Message(message) => message,
                Unread::TooMany => {
                    // Rule: FullRingFlushes
                    messages.overflows += 1;
                    EVERYTHING
                }
            };
            match message {
                EVERYTHING => messages.flushes += 1,
                _ => messages.changes += 1,
            }
            take(message);
        }
        messages.position = reader.position;
        messages.are_more = reader.position != ring.next();
        if !messages.are_more {
            state.set_waiting(id, true);
        }
        messages
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set_waiting(&mut self, id: u64, waits: bool) {
        let Some(reader) = self.readers.iter_mut().find(|reader| reader.id == id) else { return };
        match (reader.waits, waits) {
            (false, true) => self.waiting_count += 1,
            (true, false) => self.waiting_count -= 1,
            _ => {}
        }
        reader.waits = waits;
    }
}

impl Reader {
    fn take_waker(&mut self) -> Waker {
        self.waits = false;
        self.waker.clone()
    }
}
