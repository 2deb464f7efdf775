//! Judges reads by the values that they return: a number for each key that only grows.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use larder_testkit::random::Random;

/// What is known of a key. One thread writes it.
#[derive(Debug, Default)]
pub(super) struct Key {
    /// The number that was written last. Only its writer uses it.
    written: AtomicU64,
    /// The largest number that a client of the near cache has received, or has written through it.
    received: AtomicU64,
    /// Writes that were answered, with the time of the answer.
    answered: Mutex<Answered>,
    /// A write whose answer was lost may be executed later than the next one, so the next one
    /// waits until this time.
    rests_until: Mutex<Option<Instant>>,
}

#[derive(Debug, Default)]
struct Answered {
    recent: VecDeque<(Instant, u64)>,
    /// The largest number that a read may not fall short of.
    settled: u64,
}

/// The least number that a read may return.
#[derive(Clone, Copy, Debug)]
pub(super) struct Floor(pub(super) u64);

/// How long a write whose answer was lost may still be executed: the drain of an upgrade, and what
/// a busy machine adds.
const REST: Duration = Duration::from_secs(5);

impl Key {
    /// Returns the next number to write, or `None` while the key rests.
    pub(super) fn next(&self) -> Option<u64> {
        let mut rests_until = self.rests_until.lock().unwrap();
        if rests_until.is_some_and(|until| Instant::now() < until) {
            return None;
        }
        *rests_until = None;
        Some(self.written.fetch_add(1, Relaxed) + 1)
    }

    /// Records a write that was answered.
    pub(super) fn note_stored(&self, number: u64, is_through_near: bool) {
        self.answered.lock().unwrap().recent.push_back((Instant::now(), number));
        if is_through_near {
            self.received.fetch_max(number, Relaxed);
        }
    }

    /// Records a write that may or may not be executed.
    pub(super) fn note_lost(&self) {
        *self.rests_until.lock().unwrap() = Some(Instant::now() + REST);
    }

    /// Returns what a read that begins at this time must return at least.
    pub(super) fn floor(&self, began: Instant, stale_max: Duration) -> Floor {
        let mut answered = self.answered.lock().unwrap();
        while let Some((at, number)) = answered.recent.front().copied()
            && at + stale_max <= began
        {
            answered.recent.pop_front();
            answered.settled = answered.settled.max(number);
        }
        Floor(answered.settled.max(self.received.load(Relaxed)))
    }

    /// Judges what a read has returned.
    pub(super) fn judge(&self, number: u64, floor: Floor) -> Result<()> {
        ensure!(number >= floor.0, "{number}, and {} was answered before", floor.0);
        let written = self.written.load(Relaxed);
        ensure!(number <= written, "{number}, and {written} was written last");
        self.received.fetch_max(number, Relaxed);
        Ok(())
    }
}

/// Returns a value for a key: the number in text, and a filling of some length.
pub(super) fn value(key: usize, number: u64, random: &mut Random) -> String {
    format!("{key}:{number}:{}", "v".repeat(random.below(400) as usize))
}

/// Returns the number in a value of a key.
pub(super) fn number_in(key: usize, value: &str) -> Result<u64> {
    let rest = value.strip_prefix(&format!("{key}:")).context("the value of another key")?;
    let (number, filling) = rest.split_once(':').context("no value")?;
    ensure!(filling.bytes().all(|byte| byte == b'v'), "a torn value");
    Ok(number.parse()?)
}
