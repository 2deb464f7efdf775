//! The estimate of the hottest keys, made of samples.

use super::sampler::Sample;
use super::sketch::{Order, Sketch};

/// Evaluates samples. It reads no clock: the caller passes the time that has gone by.
#[derive(Debug)]
pub(super) struct Collector {
    sketch: Sketch,
    /// The time that the counts stand for, and the samples in them; both are halved with them.
    window_secs: f64,
    sampled: f64,
    /// Time since the counts were halved last.
    unhalved_secs: f64,
}

/// The keys that most commands and most bytes are for, at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HotList {
    /// The time that the rates are a mean of, in seconds. Older commands count less.
    pub(crate) window_secs: f64,
    /// How many samples the rates are made of.
    pub(crate) sampled: u64,
    pub(crate) by_rate: Vec<HotKey>,
    pub(crate) by_bytes: Vec<HotKey>,
}

/// A key of the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotKey {
    pub(crate) key: Box<[u8]>,
    /// Commands in a second.
    pub(crate) per_sec: f64,
    /// Bytes of these commands and of their responses in a second.
    pub(crate) bytes_per_sec: f64,
    /// How far the true number may be off the one that the list is ordered by, in its unit. It is
    /// further off in fewer than one of a hundred rows.
    pub(crate) error: f64,
}

impl Collector {
    pub(super) fn new() -> Self {
        Self { sketch: Sketch::new(LEFT_MAX), window_secs: 0.0, sampled: 0.0, unhalved_secs: 0.0 }
    }

    /// Counts a sample.
    pub(super) fn take(&mut self, sample: &Sample<'_>) {
        let commands = f64::from(sample.weight);
        let bytes = commands * f64::from(sample.bytes);
        self.sampled += 1.0;
        self.sketch.add(sample.key, [commands, bytes]);
    }

    /// Lets time go by.
    pub(super) fn age(&mut self, secs: f64) {
        self.window_secs += secs;
        self.unhalved_secs += secs;
        if self.unhalved_secs >= HALVED_EVERY_SECS {
            self.unhalved_secs %= HALVED_EVERY_SECS;
            self.sketch.halve();
            self.window_secs /= 2.0;
            self.sampled /= 2.0;
        }
    }

    /// Returns the hottest keys.
    pub(super) fn list(&self) -> HotList {
        HotList {
            window_secs: self.window_secs,
            sampled: self.sampled as u64,
            by_rate: self.heaviest(Order::Commands),
            by_bytes: self.heaviest(Order::Bytes),
        }
    }

    fn heaviest(&self, order: Order) -> Vec<HotKey> {
        let secs = self.window_secs.max(f64::MIN_POSITIVE);
        let heaviest = self.sketch.heaviest(order, LISTED_MAX);
        let hot_keys = heaviest.into_iter().map(|(key, count)| {
            let [commands, bytes] = Order::ALL.map(|of| match of == order {
                true => count.of(of).weight,
                // A row has an error for the number that it is ordered by only.
                false => count.of(of).own(),
            });
            let tally = count.of(order);
            HotKey {
                key: key.into(),
                per_sec: commands / secs,
                bytes_per_sec: bytes / secs,
                error: (tally.error + DEVIATIONS * tally.squares.sqrt()) / secs,
            }
        });
        hot_keys.collect()
    }
}

/// How many keys a purge of the sketch leaves in each order.
const LEFT_MAX: usize = 1024;

const HALVED_EVERY_SECS: f64 = 10.0;

/// How many standard deviations of the sample an error covers.
const DEVIATIONS: f64 = 3.0;

/// How many keys a list has at most.
pub(crate) const LISTED_MAX: usize = 100;

#[cfg(test)]
mod tests;
