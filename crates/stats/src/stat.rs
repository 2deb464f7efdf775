//! The columns of the table.

use crate::table::{ClassCounter, ClassGauge, Counter, Gauge, TABLE, TierGauge};

/// The reply of `stats` that contains a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section {
    /// The reply to `stats`.
    General,
    /// The reply to `stats items`, for each size class.
    Items,
    /// The reply to `stats slabs`, for each size class.
    Slabs,
    /// The lines of `stats slabs` after the classes.
    SlabsTotal,
    /// The reply to `stats larder`: statistics that memcached does not have.
    Larder,
}

impl Section {
    /// All sections, in the order of the table.
    pub const ALL: [Self; 5] =
        [Self::General, Self::Items, Self::Slabs, Self::SlabsTotal, Self::Larder];

    /// Returns the command that shows the section.
    pub fn command(self) -> &'static str {
        match self {
            Self::General => "stats",
            Self::Items => "stats items",
            Self::Slabs | Self::SlabsTotal => "stats slabs",
            Self::Larder => "stats larder",
        }
    }

    /// Returns the rows of the section, in the order of the reply.
    pub fn rows(self) -> impl Iterator<Item = &'static Stat> {
        TABLE.iter().filter(move |stat| stat.section == self)
    }
}

/// An option on which a row depends. Without the option the row is omitted, as in memcached.
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
    /// `--tier-path`.
    Tier,
    /// `--tier-mode cache`.
    TierCache,
    /// `--tier-mode store`.
    TierStore,
    /// `--origin`.
    Near,
    /// `--cluster-file` or `--cluster-dns`.
    Discovery,
    /// `--followers` above 0.
    Followers,
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

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The sum of the counter over all threads.
    Counter(Counter),
    /// Computed on request.
    Gauge(Gauge),
    /// Looked up on request in the disk tier.
    TierGauge(TierGauge),
    /// The sum of the size class's counter over all threads.
    ClassCounter(ClassCounter),
    /// Computed on request, per size class.
    ClassGauge(ClassGauge),
    /// A fixed text.
    Constant(&'static str),
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Name in the protocol, without the prefix of the class.
    pub name: &'static str,
    /// The source of the value.
    pub source: Source,
    /// The reply that contains the row.
    pub section: Section,
    /// The conditions that must all hold for the row to be shown.
    pub conditions: &'static [Condition],
    /// The meaning and the unit.
    pub doc: &'static str,
}

/// The unit of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// A number of things or events.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// Hundredths.
    Percent,
}

impl Stat {
    /// True if the value only grows, until `stats reset`: a counter of events. Other values are
    /// gauges.
    pub fn is_counter(&self) -> bool {
        matches!(self.source, Source::Counter(counter) if counter.is_reset())
    }

    /// Returns the unit of the value.
    pub fn unit(&self) -> Unit {
        match self.name {
            name if name.ends_with("_secs") => Unit::Seconds,
            name if name.ends_with("bytes") => Unit::Bytes,
            name if name.ends_with("_percent") => Unit::Percent,
            _ => Unit::Count,
        }
    }

    /// Returns the name of the value as a metric: with Prometheus' name of the unit, and `_total`
    /// for a counter.
    pub fn metric_name(&self) -> String {
        let name = match self.name.strip_suffix("_secs") {
            Some(stem) => format!("larder_{stem}_seconds"),
            None => format!("larder_{}", self.name),
        };
        if self.is_counter() { name + "_total" } else { name }
    }
}
