//! The one table of statistics.
//!
//! A statistic is a row of [`TABLE`]: its name on memcached's wire, where its value comes from, which
//! section of `stats` shows it and what it means. Everything else is derived from the rows: the
//! counters a thread keeps, the order of `stats`, docs/stats.md.
//!
//! Files in reading order: [`stat`], [`table`], [`counters`], [`docs`].
#![forbid(unsafe_code)]

pub mod counters;
pub mod docs;
pub mod stat;
pub mod table;

pub use counters::{ClassCounters, Counters};
pub use stat::{Condition, Section, Source, Stat};
pub use table::{ClassCounter, ClassGauge, Counter, Gauge, TABLE};
