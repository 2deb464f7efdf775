//! Observation and maintenance: `watch`, prefix counters, dumps, the crawler, size classes and the
//! connection table. The server state contains these modules, so none of them imports it.

pub(crate) mod census;
pub(crate) mod classes;
pub(crate) mod conn_table;
pub(crate) mod crawler;
pub(crate) mod dump;
pub(crate) mod hot;
pub(crate) mod latency;
pub(crate) mod listing;
pub(crate) mod prefix_removal;
pub(crate) mod prefix_stats;
pub(crate) mod prefixes;
pub(crate) mod readers;
pub(crate) mod slow;
pub(crate) mod tally;
pub(crate) mod watch;
