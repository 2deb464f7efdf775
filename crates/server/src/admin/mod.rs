//! Administration: statistics, `watch`, prefix counters, dumps and the crawler.

pub(crate) mod census;
pub(crate) mod classes;
pub(crate) mod conn_table;
pub(crate) mod crawler;
pub(crate) mod dump;
pub(crate) mod prefixes;
pub(crate) mod readers;
pub(crate) mod tally;
pub(crate) mod watch;
