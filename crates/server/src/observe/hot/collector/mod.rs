//! Estimates the hottest keys from samples.

use super::sampler::Sample;
use super::sketch::{Order, Sketch};

/// Evaluates samples. It does not read a clock: the caller passes the elapsed time.
#[derive(Debug)]
pub(super) struct Collector {
    sketch: Sketch,
    /// The time that the counts cover, and the number of samples in them. Both are halved together
    /// with the counts.
    window_secs: f64,
    sampled: f64,
    /// Time since the counts were last halved.
    unhalved_secs: f64,
}

/// The keys with the most commands and the keys with the most bytes, at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HotList {
    /// The time over which the rates are averaged, in seconds. Older commands count less.
    pub(crate) window_secs: f64,
    /// The number of samples from which the rates were computed.
    pub(crate) sampled: u64,
    /// The keys with the most commands, the first with the highest rate.
    pub(crate) by_rate: Vec<HotKey>,
    /// The keys with the most bytes, the first with the highest rate.
    pub(crate) by_bytes: Vec<HotKey>,
}

/// A key of the list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct HotKey {
    pub(crate) key: Box<[u8]>,
    /// Commands per second.
    pub(crate) per_sec: f64,
    /// Bytes of these commands and of their responses per second.
    pub(crate) bytes_per_sec: f64,
    /// The likely maximum error of the number by which the list is ordered, in its unit. Fewer than
    /// one in a hundred rows have a larger error.
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

    /// Advances the time by `secs`.
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
                // A row only shows the error of the number by which it is ordered.
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

/// Maximum number of keys in a list.
pub(crate) const LISTED_MAX: usize = 100;

#[cfg(test)]
mod tests;
