//! Settings that clients tune while a server runs.

use crate::given::values::Values;
use crate::table::Id;

/// The settings that memcached's clients tune at run time. Larder stores and shows them.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuning {
    /// `-o slab_automove`, `slabs automove`: 0 to 2.
    pub slab_automove: u8,
    /// `-o slab_automove_ratio`, `slabs automove ratio`.
    pub slab_automove_ratio: f64,
    /// `-o slab_automove_freeratio`, `slabs automove freeratio`.
    pub slab_automove_freeratio: f64,
    /// `-o slab_automove_window`, `slabs automove window`.
    pub slab_automove_window_secs: u32,
    /// `-o lru_crawler_sleep`, `lru_crawler sleep`, in microseconds.
    pub lru_crawler_sleep_us: u32,
    /// `-o lru_crawler_tocrawl`, `lru_crawler tocrawl`: items; 0: all.
    pub lru_crawler_tocrawl: u32,
    /// `lru mode`: segmented or flat. `-o lru_maintainer` sets it at the start.
    pub lru_segmented: bool,
    /// `-o hot_lru_pct`, `lru tune`.
    pub hot_lru_pct: u32,
    /// `-o warm_lru_pct`, `lru tune`.
    pub warm_lru_pct: u32,
    /// `-o hot_max_factor`, `lru tune`.
    pub hot_max_factor: f64,
    /// `-o warm_max_factor`, `lru tune`.
    pub warm_max_factor: f64,
    /// `-o temporary_ttl`, `lru temp_ttl`: the time to live up to which an item is temporary, in
    /// seconds; `None`: no item is.
    pub temporary_ttl_secs: Option<u32>,
    /// `-D`, `stats detail on`: count commands by the prefix of their keys.
    pub detail: bool,
}

impl Tuning {
    pub(crate) fn new(values: &Values) -> Self {
        Self {
            slab_automove: values.unsigned(Id::SlabAutomove),
            slab_automove_ratio: values.real(Id::SlabAutomoveRatio),
            slab_automove_freeratio: values.real(Id::SlabAutomoveFreeratio),
            slab_automove_window_secs: values.unsigned(Id::SlabAutomoveWindow),
            lru_crawler_sleep_us: values.unsigned(Id::LruCrawlerSleep),
            lru_crawler_tocrawl: values.unsigned(Id::LruCrawlerTocrawl),
            lru_segmented: values.switch(Id::LruMaintainer),
            hot_lru_pct: values.unsigned(Id::HotLruPct),
            warm_lru_pct: values.unsigned(Id::WarmLruPct),
            hot_max_factor: values.real(Id::HotMaxFactor),
            warm_max_factor: values.real(Id::WarmMaxFactor),
            temporary_ttl_secs: values
                .number(Id::TemporaryTtl)
                .and_then(|secs| u32::try_from(secs).ok()),
            detail: values.character(Id::StatPrefix).is_some(),
        }
    }
}
