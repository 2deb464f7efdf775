//! A subscription: one near cache's change stream, as its other connections see it.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

/// A change stream that has begun.
#[derive(Debug)]
pub(crate) struct Subscription {
    token: u128,
    slot: usize,
    /// The number of its reader in the slot.
    reader: u64,
    is_over: AtomicBool,
}

impl Subscription {
    pub(super) fn new(token: u128, slot: usize, reader: u64) -> Self {
        Self { token, slot, reader, is_over: AtomicBool::new(false) }
    }

    pub(super) fn token(&self) -> u128 {
        self.token
    }

    pub(super) fn slot(&self) -> usize {
        self.slot
    }

    pub(super) fn reader(&self) -> u64 {
        self.reader
    }

    /// True once the stream has ended, or will end with the next turn of its connection.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Acquire)
    }

    pub(super) fn end(&self) {
        self.is_over.store(true, Release);
    }
}
