//! A change stream, as its connection sees it: lines `alive` arrive, and messages leave.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::task::Waker;

use larder::Cache;
use larder_protocol::Refusal;
use larder_protocol::follow::{Message, Terms, alive};
use larder_stats::{Counter, Counters};

use super::Followers;
use super::ring::EVERYTHING;
use super::slot::{Messages, Slot};
use super::subscription::Subscription;
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
    /// Begins a stream on the connection that `waker` wakes.
    ///
    /// # Errors
    /// [`Refusal`]: the staleness is out of range, there are too many streams, or another process
    /// changes the items.
    pub(crate) fn begin(
        followers: &Arc<Followers>,
        cache: &Cache,
        max_stale_ms: Option<u32>,
        waker: Waker,
    ) -> Result<(Self, Terms), Refusal> {
        let max_stale_ms = max_stale_ms.filter(|ms| MAX_STALE_MS.contains(ms));
        let max_stale_ms = max_stale_ms.ok_or(Refusal::BadMaxStale)?;
        let (subscription, terms) = followers.subscribe(cache, waker)?;
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
        self.followers.check(cache)?;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder::ChangeListener;

    use super::*;
    use crate::waker::{self, WakeList};

    /// An origin with one cache and a stream.
    struct Scene {
        cache: Cache,
        followers: Arc<Followers>,
        woken: Arc<WakeList>,
        follow: Follow,
        terms: Terms,
    }

    impl Scene {
        fn new() -> Self {
            let cache = Cache::builder().memory_bytes(8 << 20).open().unwrap();
            let followers = Arc::new(Followers::new(4, Arc::default()));
            cache.set_change_listener(Arc::clone(&followers) as _);
            let woken = Arc::new(WakeList::new(Arc::new(waker::Waker::new().unwrap())));
            let begun = Follow::begin(&followers, &cache, Some(1000), woken.waker_of(7));
            let (follow, terms) = begun.unwrap();
            Self { cache, followers, woken, follow, terms }
        }

        fn change(&self, key: &[u8]) {
            assert!(self.followers.note(&self.follow.subscription, key));
            self.cache.set(key, "v", None).unwrap();
        }

        /// Takes steps with outputs of at most `out_bytes_max` bytes until the stream waits.
        fn read(&mut self, input: &[u8], out_bytes_max: usize) -> Vec<Message> {
            let (mut consumed, mut all) = (0, Vec::new());
            loop {
                let mut out = Vec::new();
                let (bytes, step) = self.follow.step(
                    &self.cache,
                    &Counters::default(),
                    &input[consumed..],
                    &mut out,
                    out_bytes_max,
                );
                assert!(out.len() <= out_bytes_max + 40, "{}", out.len());
                consumed += bytes;
                all.append(&mut out);
                match step {
                    StreamStep::Drain => {}
                    StreamStep::Wait => break,
                    StreamStep::End(refusal) => panic!("{refusal:?}"),
                }
            }
            assert_eq!(consumed, input.len());
            let lines = all.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
            lines.map(|line| Message::read(line.trim_ascii_end()).unwrap()).collect()
        }
    }

    #[test]
    fn a_signal_follows_all_messages_however_little_fits_in_the_output() {
        for out_bytes_max in [1, 13, 64, 1 << 16] {
            let mut scene = Scene::new();
            let mut expected = Vec::new();
            for number in 0..100u32 {
                let key = number.to_le_bytes();
                scene.change(&key);
                expected.push(Message::Changed(scene.terms.bucket_of(&key)));
            }
            expected.extend([Message::Heard(1), Message::Heard(2)]);
            let found = scene.read(b"alive 1\r\nalive 2\r\n", out_bytes_max);
            assert_eq!(found, expected, "{out_bytes_max} bytes");
        }
    }

    #[test]
    fn only_the_first_message_wakes_the_connection() {
        let mut scene = Scene::new();
        assert!(scene.read(b"", 1000).is_empty());
        scene.change(b"a");
        scene.change(b"b");
        assert_eq!(scene.woken.take(), [7]);
        scene.change(b"c");
        assert!(scene.woken.take().is_empty());
        assert_eq!(scene.read(b"", 1000).len(), 3);
        scene.change(b"a");
        assert_eq!(scene.woken.take(), [7]);
    }

    #[test]
    fn a_suspended_stream_ends_and_its_connection_is_woken() {
        let mut scene = Scene::new();
        scene.followers.suspend();
        assert_eq!(scene.woken.take(), [7]);
        assert!(!scene.followers.note(&scene.follow.subscription, b"k"));
        let mut out = Vec::new();
        let counters = Counters::default();
        let (_, step) = scene.follow.step(&scene.cache, &counters, b"alive 1\r\n", &mut out, 100);
        assert!(matches!(step, StreamStep::End(Refusal::FollowDuringUpgrade)) && out.is_empty());
        let waker = || scene.woken.waker_of(8);
        let begin = || Follow::begin(&scene.followers, &scene.cache, Some(1000), waker());
        assert_eq!(begin().map(|_| ()).unwrap_err(), Refusal::FollowDuringUpgrade);
        scene.followers.succession.give_up();
        assert!(begin().is_ok());
    }

    #[test]
    fn a_full_ring_becomes_one_message() {
        let mut scene = Scene::new();
        for number in 0..10_000u32 {
            scene.change(&number.to_le_bytes());
        }
        assert_eq!(scene.read(b"alive 1\n", 1000), [Message::Flushed, Message::Heard(1)]);
        scene.change(b"a");
        assert_eq!(scene.read(b"", 1000), [Message::Changed(scene.terms.bucket_of(b"a"))]);
        scene.followers.cleared();
        assert_eq!(scene.read(b"", 1000), [Message::Flushed]);
    }

    #[test]
    fn a_stream_is_silent_only_after_a_long_time() {
        let mut scene = Scene::new();
        assert!(!scene.follow.is_silent());
        scene.follow.heard_us -= Duration::from_secs(6).as_micros() as i64;
        assert!(scene.follow.is_silent());
        scene.read(b"alive 1\n", 1000);
        assert!(!scene.follow.is_silent());
    }
}
