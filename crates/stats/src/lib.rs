//! The one table of statistics.
//!
//! A statistic is a row of [`TABLE`]: its name on memcached's wire, where its value comes from, which
//! section of `stats` shows it and what it means. Everything else is derived from the rows: the
//! counters a thread keeps, the order of `stats`, docs/stats.md.
//!
//! Files in reading order: [`table`], [`counters`], [`docs`].
#![forbid(unsafe_code)]

pub mod counters;
pub mod docs;
pub mod table;

pub use counters::Counters;
pub use table::{Condition, Counter, Gauge, Section, Source, Stat, TABLE};
