//! The table of statistics.
//!
//! A statistic is a row of [`TABLE`]: its name in memcached's protocol, the source of its value,
//! the section of `stats` that shows it, and its meaning. Everything else is derived from the rows:
//! the counters of a thread, the order of the `stats` reply, and docs/stats.md.
//!
//! Files in reading order: [`stat`], [`table`], [`counters`], [`histogram`], [`docs`].
#![forbid(unsafe_code)]

pub mod counters;
pub mod docs;
pub mod histogram;
pub mod stat;
pub mod table;

pub use counters::{ClassCounters, Counters};
pub use histogram::{Distribution, HISTOGRAMS, Histogram, HistogramFamily, Timing};
pub use stat::{Condition, Section, Source, Stat, Unit};
pub use table::{ClassCounter, ClassGauge, Counter, Gauge, TABLE, TierGauge};
