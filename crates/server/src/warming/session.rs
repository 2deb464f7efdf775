//! The part of a session that belongs to its connection.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use larder_protocol::{Refusal, WarmEnd as EndReason, WarmRefusal};

use super::{Changes, Copied, Warming};
use crate::clock::monotonic_us;

/// The session of a connection. Dropping it undoes it, unless it has been completed.
#[derive(Debug)]
pub(crate) struct WarmSession {
    warming: Arc<Warming>,
    number: u64,
    max_silence_us: i64,
    /// When the last request was received, on the monotonic clock.
    heard_us: AtomicI64,
}

impl WarmSession {
    /// Begins a session.
    ///
    /// # Errors
    /// [`Refusal`]: the argument is out of range, the server cannot observe all changes of its
    /// items, or another session is open.
    pub(crate) fn begin(
        warming: &Arc<Warming>,
        max_silence_ms: Option<u32>,
    ) -> Result<Self, Refusal> {
        let max_silence_ms = max_silence_ms.filter(|ms| MAX_SILENCE_MS.contains(ms));
        let max_silence_ms = max_silence_ms.ok_or(Refusal::Warm(WarmRefusal::BadSilence))?;
        let warming = Arc::clone(warming);
        // Only the first call counts. A server with --followers has made it at its start.
        let changes = Changes { warming: Arc::clone(&warming), followers: None };
        warming.cache.set_change_listener(Arc::new(changes));
        let number = warming.begin()?;
        let max_silence_us = i64::from(max_silence_ms) * 1000;
        Ok(Self { warming, number, max_silence_us, heard_us: monotonic_us().into() })
    }

    /// Stores a copied item as [`Warming::store`] does, and counts it.
    pub(crate) fn store<T>(
        &self,
        key: &[u8],
        store: impl FnOnce() -> T,
        is_stored: impl FnOnce(&T) -> bool,
    ) -> Copied<T> {
        let mut has_stored = false;
        let copied = self.warming.store(self.number, key, store, |result| {
            has_stored = is_stored(result);
            has_stored
        });
        self.warming.count(|counts| match has_stored {
            true => counts.stored += 1,
            false => counts.refused += 1,
        });
        copied
    }

    /// Calls `remove` to remove a copied item whose original has changed.
    pub(crate) fn drop_copy<T>(&self, key: &[u8], remove: impl FnOnce() -> T) -> T {
        self.warming.drop_copy(key, remove)
    }

    /// Ends the session, and keeps its items.
    ///
    /// # Errors
    /// [`EndReason`]: the session had already ended, and its items are being removed.
    pub(crate) fn complete(&self) -> Result<(), EndReason> {
        self.warming.complete(self.number)
    }

    /// Notes that a request has arrived.
    pub(crate) fn hear(&self) {
        self.heard_us.store(monotonic_us(), Relaxed);
    }

    /// True if no request has arrived for longer than the peer has announced.
    pub(crate) fn is_silent(&self) -> bool {
        monotonic_us() - self.heard_us.load(Relaxed) > self.max_silence_us
    }
}

impl Drop for WarmSession {
    fn drop(&mut self) {
        self.warming.fail(EndReason::Lost, Some(self.number));
    }
}

/// The longest pause between two requests of a session, in milliseconds.
const MAX_SILENCE_MS: RangeInclusive<u32> = 100..=60_000;
