//! A change stream, as its connection sees it: lines `alive` arrive, and messages leave.

use std::ops::RangeInclusive;
use std::os::fd::RawFd;
use std::sync::Arc;

use larder::Cache;
use larder_protocol::Refusal;
use larder_protocol::follow::{Message, Terms, alive};
use larder_stats::{Counter, Counters};

use super::Followers;
use super::ring::EVERYTHING;
use super::slot::{Messages, Slot};
use super::subscription::Subscription;
use super::woken::Woken;
use crate::clock::monotonic_us;

/// The change stream of a connection. Dropping it ends the subscription.
#[derive(Debug)]
pub(crate) struct Follow {
    followers: Arc<Followers>,
    subscription: Arc<Subscription>,
    /// How long copies may be out of date.
    max_stale_us: i64,
    /// When the last `alive` was received, on the monotonic clock.
    heard_us: i64,
    /// The number of an `alive` without a response, and the position in the ring that must be
    /// reached first.
    owed: Option<(u64, u64)>,
}

/// The result of a step of a stream.
#[derive(Debug)]
pub(crate) enum StreamStep {
    /// The output is full.
    Drain,
    /// All messages are written, and all lines have their response.
    Wait,
    /// The stream ends, for this reason.
    End(Refusal),
}

impl Follow {
    /// Begins a stream on the connection with this descriptor, whose worker `woken` wakes.
    ///
    /// # Errors
    /// [`Refusal`]: the staleness is out of range, there are too many streams, or another process
    /// changes the items.
    pub(crate) fn begin(
        followers: &Arc<Followers>,
        cache: &Cache,
        max_stale_ms: Option<u32>,
        woken: &Arc<Woken>,
        descriptor: RawFd,
    ) -> Result<(Self, Terms), Refusal> {
        let max_stale_ms = max_stale_ms.filter(|ms| MAX_STALE_MS.contains(ms));
        let max_stale_ms = max_stale_ms.ok_or(Refusal::BadMaxStale)?;
        let (subscription, terms) = followers.subscribe(cache, woken, descriptor)?;
        let follow = Self {
            followers: Arc::clone(followers),
            subscription,
            max_stale_us: i64::from(max_stale_ms) * 1000,
            heard_us: monotonic_us(),
            owed: None,
        };
        Ok((follow, terms))
    }

    /// Reads lines of `input` and writes messages to `out`, until it has `out_bytes_max` bytes.
    /// Returns the number of bytes that were consumed.
    pub(crate) fn step(
        &mut self,
        cache: &Cache,
        counters: &Counters,
        input: &[u8],
        out: &mut Vec<u8>,
        out_bytes_max: usize,
    ) -> (usize, StreamStep) {
        let mut consumed = 0;
        loop {
            if self.subscription.is_over() {
                return (consumed, StreamStep::End(Refusal::FollowDuringUpgrade));
            }
            if self.owed.is_none() {
                match self.take_alive(cache, &input[consumed..]) {
                    Ok(bytes) => consumed += bytes,
                    Err(refusal) => return (consumed, StreamStep::End(refusal)),
                }
            }
            let messages = self.write(counters, out, out_bytes_max);
            if let Some((number, position)) = self.owed
                && messages.position >= position
            {
                // Rule: SignalAfterRings
                Message::Heard(number).push(out);
                self.owed = None;
                if out.len() < out_bytes_max {
                    continue;
                }
            }
            let is_full = messages.are_more || out.len() >= out_bytes_max;
            return (consumed, if is_full { StreamStep::Drain } else { StreamStep::Wait });
        }
    }

    /// Reads a line `alive`, if it is complete. Returns its length, or 0.
    fn take_alive(&mut self, cache: &Cache, input: &[u8]) -> Result<usize, Refusal> {
        let start = &input[..input.len().min(LINE_BYTES_MAX)];
        let Some(end) = start.iter().position(|byte| *byte == b'\n') else {
            return if input.len() < LINE_BYTES_MAX { Ok(0) } else { Err(Refusal::NotAlive) };
        };
        let line = &start[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let number = alive(line).ok_or(Refusal::NotAlive)?;
        self.heard_us = monotonic_us();
        self.followers.check_again(cache)?;
        // A flush that is due but not done has not been reported.
        cache.clear_if_due();
        self.owed = self.slot().map(|slot| (number, slot.end()));
        Ok(end + 1)
    }

    /// Writes messages of the ring.
    fn write(&self, counters: &Counters, out: &mut Vec<u8>, out_bytes_max: usize) -> Messages {
        let Some(slot) = self.slot() else { return Messages::default() };
        let count_max = out_bytes_max.saturating_sub(out.len()).div_ceil(MESSAGE_BYTES_MAX);
        let messages = slot.read(self.subscription.reader(), count_max, |message| match message {
            EVERYTHING => Message::Flushed.push(out),
            bucket => Message::Changed(bucket).push(out),
        });
        counters.add(Counter::FollowerChanges, messages.changes);
        counters.add(Counter::FollowerFlushes, messages.flushes);
        counters.add(Counter::FollowerOverflows, messages.overflows);
        messages
    }

    fn slot(&self) -> Option<&Slot> {
        Some(&self.followers.table.get()?.slots[self.subscription.slot()])
    }

    /// True if no `alive` has arrived for a long time.
    pub(crate) fn is_silent(&self) -> bool {
        monotonic_us() - self.heard_us > SILENT_TIMES * self.max_stale_us
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        self.followers.unsubscribe(&self.subscription);
    }
}

/// The milliseconds for which copies may be out of date.
const MAX_STALE_MS: RangeInclusive<u32> = 100..=60_000;

/// A stream ends if no `alive` arrives for this many times the staleness that the peer accepts.
const SILENT_TIMES: i64 = 5;

/// The longest line that a near cache sends.
const LINE_BYTES_MAX: usize = 64;

/// The length of the longest message that reports a change.
const MESSAGE_BYTES_MAX: usize = 14;
