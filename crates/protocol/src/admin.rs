//! Administrative commands: requests that operators send to a running server.

use std::ops::BitOr;

/// An administrative command. Only the text protocol has them.
///
/// memcached checks some of these commands against the configuration before it checks their
/// arguments. Invalid arguments are therefore part of the command: the response depends on both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admin {
    /// `slabs reassign`: moves memory from the first size class to the second; `None` if the
    /// arguments are not numbers.
    ReassignSlabs(Option<(i32, i32)>),
    /// Changes a setting that `stats settings` shows.
    Tune(Knob),
    /// `lru_crawler enable` and `disable`.
    EnableCrawler(bool),
    /// `lru_crawler crawl`: removes expired items.
    Crawl(Result<CrawlScope, Refusal>),
    /// `lru_crawler metadump` and `mgdump`: lists items.
    Dump(DumpForm, Result<CrawlScope, Refusal>),
    /// `watch`: from now on the server writes log lines about these topics to the connection;
    /// `None` if an argument is not a topic.
    Watch(Option<Topics>),
    /// `stats detail`: counts commands by the prefix of their keys; `None` if the argument is
    /// invalid.
    Detail(Option<Detail>),
    /// `debugtime`: moves the clock; `None` if the argument is invalid.
    DebugTime(Option<ClockMove>),
}

/// A setting that clients can tune.
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
        /// Percentage of memory for hot items.
        hot_pct: u32,
        /// Percentage of memory for warm items; both together at most 80.
        warm_pct: u32,
        /// Age limit of hot items, as a factor of the age of the oldest cold item; above 0.
        hot_factor: Factor,
        /// Age limit of warm items, as a factor of the age of the oldest cold item; above 0.
        warm_factor: Factor,
    },
    /// `lru temp_ttl`: items with a time to live up to this number of seconds are temporary;
    /// `None`: no item is temporary.
    TemporaryTtl(Option<u32>),
    /// `lru_crawler sleep`, in microseconds; at most one second.
    CrawlerSleep(u32),
    /// `lru_crawler tocrawl`, in items; 0: all.
    CrawlerTocrawl(u32),
}

/// A finite floating-point number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factor(f64);

// A finite number equals itself, so equality is reflexive.
impl Eq for Factor {}

impl Factor {
    /// Returns the number as a factor if it is finite.
    pub fn new(number: f64) -> Option<Self> {
        number.is_finite().then_some(Self(number))
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// The items that a crawl or a dump covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlScope {
    /// All items, class by class.
    All,
    /// All items, in the order of the index.
    Hash,
    /// Items of some size classes: bit n selects class n.
    Classes(u64),
}

impl CrawlScope {
    /// True if the set contains the items of this class.
    pub fn has(self, class: u8) -> bool {
        match self {
            Self::All | Self::Hash => true,
            Self::Classes(classes) => class < 64 && classes >> class & 1 == 1,
        }
    }
}

/// The output format of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpForm {
    /// One line of metadata per item (`metadump`).
    Meta,
    /// One `mg` command per item (`mgdump`).
    Get,
}

/// The argument of `stats detail`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Switches the counting on or off.
    Count(bool),
    /// Shows the counts.
    Dump,
}

/// The argument of `debugtime`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockMove {
    /// Moves the clock by this many seconds.
    By(i64),
    /// Stops the clock.
    Pause,
    /// Restarts the clock.
    Resume,
}

/// A set of `watch` topics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Topics(u16);

impl Topics {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Lookups.
    pub const FETCHERS: Self = Self(1);
    /// Stores.
    pub const MUTATIONS: Self = Self(1 << 1);
    /// Evictions.
    pub const EVICTIONS: Self = Self(1 << 2);
    /// Opened and closed connections.
    pub const CONNEVENTS: Self = Self(1 << 3);
    /// Deletions.
    pub const DELETIONS: Self = Self(1 << 4);
    /// memcached's other topics. Larder accepts them and never writes a line for them.
    pub const SILENT: Self = Self(1 << 5);

    /// The topics that report commands.
    pub const OF_COMMANDS: Self = Self(Self::FETCHERS.0 | Self::MUTATIONS.0 | Self::DELETIONS.0);

    /// True if the sets share a topic.
    #[inline]
    pub const fn meet(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the set as bits.
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// Returns the set with these [`Topics::bits`].
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

/// The reason why an administrative command is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `slabs reassign` is disabled.
    ReassignDisabled,
    /// The size class does not exist.
    NoSuchSlabClass,
    /// Source and target are the same class.
    SameSlabClass,
    /// The source class has no spare page.
    NoSparePage,
    /// The window of `slabs automove` is not between 3 and 1800 seconds.
    BadWindow,
    /// The hot and warm percentages add up to more than 80.
    PercentsTooHigh,
    /// A factor is not above 0.
    FactorsTooLow,
    /// The crawler is already enabled.
    CrawlerRuns,
    /// The crawler is disabled.
    CrawlerDisabled,
    /// The crawler's sleep exceeds one second.
    SleepTooLong,
    /// A crawl is already running.
    Crawling,
    /// A crawl names a class that cannot exist.
    NoSuchCrawlClass,
    /// A crawl names no class.
    NothingToCrawl,
    /// The kind of crawl does not exist.
    NoSuchCrawl,
    /// Dumps are disabled.
    DumpNotAllowed(DumpForm),
    /// Responses to earlier commands are still unsent.
    DumpPipelined(DumpForm),
    /// `watch` is disabled.
    WatchNotAllowed,
    /// Responses to earlier commands are still unsent.
    WatchPipelined,
    /// The limit of watching connections is reached.
    TooManyWatchers,
    /// This kind of connection cannot watch.
    CannotWatch,
    /// `delete_prefix` is disabled.
    DeletePrefixNotAllowed,
    /// `delete_prefix` has no prefix.
    NoPrefix,
    /// A prefix is longer than a key.
    PrefixTooLong,
    /// A prefix is not valid base64.
    BadPrefix,
    /// This kind of connection cannot remove a prefix.
    CannotDeletePrefix,
    /// Another removal by prefix is in progress.
    DeletingPrefix,
    /// The server has no thread for a removal by prefix, or a suspended process holds a resource
    /// that the removal needs.
    NoPrefixRemoval,
    /// `stats detail` is disabled.
    DetailNotAllowed,
    /// `stats hotkeys` is disabled, or the peer uses UDP.
    HotKeysNotAllowed,
    /// The peer of `stats slow` uses UDP.
    SlowNotAllowed,
    /// `stats prefixes` is disabled, or the peer uses UDP.
    PrefixesNotAllowed,
    /// The argument of `stats detail` is neither on, off nor dump.
    BadDetail,
    /// The argument of `larder_follow` is not in the range.
    BadMaxStale,
    /// The server is a near cache itself, so it owns no items.
    FollowOfNearCache,
    /// Responses to earlier commands are still unsent.
    FollowPipelined,
    /// This kind of connection cannot follow.
    CannotFollow,
    /// The argument of `larder_follower` is not a token.
    BadStreamToken,
    /// No change stream has the token.
    NoSuchStream,
    /// The limit of change streams is reached.
    TooManyFollowers,
    /// Another server takes over, or has not left yet.
    FollowDuringUpgrade,
    /// Other processes change the cache, and do not report their changes.
    FollowOfSharedCache,
    /// The peer of a change stream has sent something other than `alive`.
    NotAlive,
    /// The peer of a change stream has not sent `alive` for a long time.
    FollowerSilent,
    /// A copy into the server is not possible.
    Warm(WarmRefusal),
}

/// Why a server refuses `larder_warm`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmRefusal {
    /// The argument is not in the range.
    BadSilence,
    /// The server is a near cache, so it owns no items.
    NearCache,
    /// The server is a durable store: the removal of a copy that failed could remove items that
    /// exist nowhere else.
    Store,
    /// This kind of connection cannot copy items.
    Unconnected,
    /// Another copy into the server is in progress.
    Busy,
    /// The items of a copy that failed are being removed.
    Undoing,
    /// The connection copies no items.
    NotBegun,
    /// The copy has ended before `larder_warm end`.
    Over(WarmEnd),
}

/// Why a copy into a server has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmEnd {
    /// Its connection has ended.
    Lost,
    /// The server cannot record more keys.
    Full,
    /// `flush_all`, `delete_prefix` or an admin request removed items.
    Removal,
    /// A new process takes over.
    Upgrade,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_classes_has_those_named() {
        let crawled = CrawlScope::Classes(1 << 1 | 1 << 63);
        let had: Vec<u8> = (0..=255).filter(|class| crawled.has(*class)).collect();
        assert_eq!(had, [1, 63]);
        assert!(CrawlScope::All.has(7));
        assert!(CrawlScope::Hash.has(200));
    }

    #[test]
    fn a_factor_is_finite() {
        assert_eq!(Factor::new(0.5).map(Factor::get), Some(0.5));
        assert_eq!((Factor::new(f64::NAN), Factor::new(f64::INFINITY)), (None, None));
    }
}
