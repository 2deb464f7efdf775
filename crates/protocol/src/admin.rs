//! What operators ask of a server while it runs.

use std::ops::BitOr;

/// An administrative command. Only the text protocol has them.
///
/// Where memcached looks at whether a command is switched on before it looks at the arguments, wrong arguments are
/// part of the command: what is told depends on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// `slabs reassign`: move memory from one size class to another; `None`: these are no numbers.
    ReassignSlabs(Option<(i32, i32)>),
    /// Change what `stats settings` shows.
    Tune(Knob),
    /// `lru_crawler enable` and `disable`.
    EnableCrawler(bool),
    /// `lru_crawler crawl`: look for expired items.
    Crawl(Result<Crawled, Refusal>),
    /// `lru_crawler metadump` and `mgdump`: list items.
    Dump(DumpForm, Result<Crawled, Refusal>),
    /// `watch`: turn the connection into a log; `None`: one of the words is no topic.
    Watch(Option<Topics>),
    /// `stats detail`: count by the prefix of keys; `None`: this is no way to do so.
    Detail(Option<Detail>),
    /// `debugtime`: move the clock; `None`: this is no way to do so.
    DebugTime(Option<ClockMove>),
}

/// What can be tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Knob {
    /// `slabs automove`: 0 to 2.
    SlabAutomove(u8),
    /// `slabs automove ratio`
    SlabAutomoveRatio(Factor),
    /// `slabs automove freeratio`
    SlabAutomoveFreeratio(Factor),
    /// `slabs automove window`: 3 to 1800.
    SlabAutomoveWindow(u32),
    /// `lru mode`
    LruSegmented(bool),
    /// `lru tune`
    LruPools {
        /// Percent of the memory for hot items …
        hot_pct: u32,
        /// … and for warm ones, together at most 80.
        warm_pct: u32,
        /// The age of the oldest hot item, in that of the oldest cold one …
        hot_factor: Factor,
        /// … and of the oldest warm one; both above 0.
        warm_factor: Factor,
    },
    /// `lru temp_ttl`: seconds of life up to which an item is temporary; `None`: none is.
    TemporaryTtl(Option<u32>),
    /// `lru_crawler sleep`, in microseconds: at most a second.
    CrawlerSleep(u32),
    /// `lru_crawler tocrawl`: items; 0: all.
    CrawlerTocrawl(u32),
}

/// A number that may have a fraction. It is finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor(f64);

// Finite numbers are equal to themselves.
impl Eq for Factor {}

impl Factor {
    /// A number, if it is finite.
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self(number))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// The items that a crawl or a dump is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crawled {
    /// All of them, class by class.
    All,
    /// All of them, as the index has them.
    Hash,
    /// Those of some size classes: bit n stands for class n.
    Classes(u64),
}

impl Crawled {
    /// Are the items of a class among them?
    pub fn has(self, class: u8) -> bool {
        match self {
            Self::All | Self::Hash => true,
            Self::Classes(classes) => class < 64 && classes >> class & 1 == 1,
        }
    }
}

/// How items are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpForm {
    /// All that is known of each (`metadump`).
    Meta,
    /// As commands that ask for each (`mgdump`).
    Get,
}

/// `stats detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Count from now on, or no more.
    Count(bool),
    /// Show what was counted.
    Dump,
}

/// How the clock is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockMove {
    /// By so many seconds.
    By(i64),
    /// It stands still.
    Pause,
    /// It goes on.
    Resume,
}

/// Kinds of lines that `watch` shows: a set of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics(u16);

impl Topics {
    /// No line.
    pub const NONE: Self = Self(0);
    /// Looking for items.
    pub const FETCHERS: Self = Self(1);
    /// Storing items.
    pub const MUTATIONS: Self = Self(1 << 1);
    /// Items that had to make room.
    pub const EVICTIONS: Self = Self(1 << 2);
    /// Connections coming and going.
    pub const CONNEVENTS: Self = Self(1 << 3);
    /// Items that were deleted.
    pub const DELETIONS: Self = Self(1 << 4);
    /// What memcached knows besides: nothing happens in Larder that these would show.
    pub const SILENT: Self = Self(1 << 5);

    /// The topics that belong to commands.
    pub const OF_COMMANDS: Self = Self(Self::FETCHERS.0 | Self::MUTATIONS.0 | Self::DELETIONS.0);

    /// Have the two sets a topic in common?
    #[inline]
    pub const fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The set as bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The set with these [`Topics::bits`].
    pub const fn of_bits(bits: u16) -> Self {
        Self(bits)
    }
}

impl BitOr for Topics {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Why an administrative command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `slabs reassign` is switched off.
    ReassignDisabled,
    /// No such size class.
    NoSuchSlabClass,
    /// A class cannot give memory to itself.
    SameSlabClass,
    /// The class has no memory to give.
    NoSparePage,
    /// The window of `slabs automove` is shorter than 3 or longer than 1800 seconds.
    BadWindow,
    /// Hot and warm items would have more than 80 percent.
    PercentsTooHigh,
    /// A factor is not above 0.
    FactorsTooLow,
    /// The crawler is enabled already.
    CrawlerRuns,
    /// The crawler is not enabled.
    CrawlerDisabled,
    /// The crawler would sleep for more than a second.
    SleepTooLong,
    /// A crawl is under way.
    Crawling,
    /// A crawl names a class that cannot be.
    NoSuchCrawlClass,
    /// A crawl names no class.
    NothingToCrawl,
    /// A crawl was asked for that there is not.
    NoSuchCrawl,
    /// Dumps are switched off.
    DumpNotAllowed(DumpForm),
    /// Answers to other commands wait before the dump.
    DumpPipelined(DumpForm),
    /// `watch` is switched off.
    WatchNotAllowed,
    /// Answers to other commands wait before the log.
    WatchPipelined,
    /// There are as many watching connections as there may be.
    TooManyWatchers,
    /// The connection cannot watch.
    CannotWatch,
    /// `stats detail` is switched off.
    DetailNotAllowed,
    /// `stats detail` has another word than on, off and dump.
    BadDetail,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_classes_has_those_named() {
        let crawled = Crawled::Classes(1 << 1 | 1 << 63);
        let had: Vec<u8> = (0..=255).filter(|class| crawled.has(*class)).collect();
        assert_eq!(had, [1, 63]);
        assert!(Crawled::All.has(7) && Crawled::Hash.has(200));
    }

    #[test]
    fn a_factor_is_finite() {
        assert_eq!(Factor::new(0.5).map(Factor::get), Some(0.5));
        assert_eq!((Factor::new(f64::NAN), Factor::new(f64::INFINITY)), (None, None));
    }
}
