//! What a row of the table says.

use crate::table::{ClassCounter, ClassGauge, Counter, Gauge, TABLE};

/// Which answer of `stats` a row stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// `stats`.
    General,
    /// `stats items`: for each size class.
    Items,
    /// `stats slabs`: for each size class.
    Slabs,
    /// The lines of `stats slabs` after the classes.
    SlabsTotal,
    /// `stats larder`: what memcached has no key for.
    Larder,
}

impl Section {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 5] =
        [Self::General, Self::Items, Self::Slabs, Self::SlabsTotal, Self::Larder];

    /// The command that shows it.
    pub fn command(self) -> &'static str {
        match self {
            Self::General => "stats",
            Self::Items => "stats items",
            Self::Slabs | Self::SlabsTotal => "stats slabs",
            Self::Larder => "stats larder",
        }
    }

    /// Its rows, in the order of the answer.
    pub fn rows(self) -> impl Iterator<Item = &'static Stat> {
        TABLE.iter().filter(move |stat| stat.section == self)
    }
}

/// Without what a row is left out, as memcached leaves it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// `-o maxconns_fast`, the default.
    MaxconnsFast,
    /// `-o idle_timeout` above 0.
    IdleTimeout,
    /// `-Z`.
    Tls,
    /// `-Z` and `-o ssl_session_cache`.
    TlsSessions,
    /// `-o slab_reassign`, the default.
    SlabReassign,
    /// `-o lru_crawler`, the default.
    LruCrawler,
    /// `-o lru_maintainer`, the default.
    LruMaintainer,
    /// `-o temporary_ttl`.
    TemporaryTtl,
    /// `-o answers_as=1.6.45`, the default.
    Answers45,
    /// `-o answers_as=1.6.18`.
    Answers18,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The sum over all threads' counters.
    Counter(Counter),
    /// Asked for when needed.
    Gauge(Gauge),
    /// The sum over all threads' counters for a size class.
    ClassCounter(ClassCounter),
    /// Asked for when needed, for a size class.
    ClassGauge(ClassGauge),
    /// Always this text.
    Constant(&'static str),
}

/// A row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name on the wire, without the class before it.
    pub name: &'static str,
    /// Where its value comes from.
    pub source: Source,
    /// Which answer it stands in.
    pub section: Section,
    /// What it needs to be shown, all of it.
    pub conditions: &'static [Condition],
    /// What it means, with its unit.
    pub doc: &'static str,
}
