//! Memory that is too small, and stores that were refused.

use larder_loadgen::argument::were;

use super::facts::Facts;
use super::{Finding, Rule, percent};

pub(super) const RULES: &[Rule] = &[is_too_small, refuses_stores, refuses_large_values];

/// An item that is stored again shortly after its eviction was a miss that a larger memory would
/// have avoided. With a disk tier it was not a miss: the item came back from the disk.
fn is_too_small(facts: &Facts) -> Option<Finding> {
    if !facts.setting("tier_path").is_empty() {
        return None;
    }
    let reads = facts.number("get_hits") + facts.number("get_misses");
    let stored_again = facts.number("ghost_hits");
    let share = percent(stored_again, reads);
    let is_proved = facts.number("evictions") >= EVICTIONS_MIN && share >= STORED_AGAIN_PERCENT_MIN;
    is_proved.then(|| {
        let megabytes = facts.number("limit_maxbytes") >> 20;
        let age = facts.number("eviction_age_secs");
        Finding::new(
            "memory-small",
            format!(
                "{stored_again} items were stored again shortly after their eviction, {share} % of \
                 the {reads} reads; evicted items were {age} s old on average. Raise -m, now \
                 {megabytes} MiB; `cache_memlimit {}` doubles it immediately",
                megabytes * 2
            ),
        )
    })
}

fn refuses_stores(facts: &Facts) -> Option<Finding> {
    let refused = facts.number("store_no_memory");
    (refused > 0).then(|| {
        let remedy = match facts.setting("evictions") {
            "off" => "start without -M, so that the server evicts old items, or raise -m",
            _ => "raise -m",
        };
        let sentence =
            format!("{} refused because memory was full: {remedy}", were(refused, "store"));
        Finding::new("memory-refused", sentence)
    })
}

fn refuses_large_values(facts: &Facts) -> Option<Finding> {
    let refused = facts.number("store_too_large");
    (refused > 0).then(|| {
        let limit = facts.setting("item_size_max");
        let sentence = format!(
            "{} refused because the item is larger than -I, now {limit} bytes: raise -I, or \
             make clients store less",
            were(refused, "store")
        );
        Finding::new("value-too-large", sentence)
    })
}

/// The share of fewer evictions is not representative.
const EVICTIONS_MIN: u64 = 1000;
const STORED_AGAIN_PERCENT_MIN: u64 = 5;
