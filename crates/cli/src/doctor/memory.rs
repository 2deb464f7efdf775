//! Memory that is too small, and stores that were refused.

use larder_loadgen::argument::were;
use larder_options::{MemoryShare, fixed_memory_bytes};

use super::facts::Facts;
use super::{Finding, Rule, percent};

pub(super) const RULES: &[Rule] =
    &[is_too_small, exceeds_the_limit, refuses_stores, refuses_large_values];

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

/// larderd warns about this when it starts, but `cache_memlimit` can raise the limit of the cache
/// later.
fn exceeds_the_limit(facts: &Facts) -> Option<Finding> {
    let setting = |name| facts.setting(name).parse().unwrap_or(0);
    let fixed_bytes = fixed_memory_bytes(
        setting("read_buf_mem_limit"),
        setting("maxconns"),
        setting("num_threads"),
        facts.setting("ssl_enabled") == "yes",
    );
    let cache_bytes = facts.number("limit_maxbytes");
    // 0: larderd could not find it out, or the server is a memcached.
    let bound_bytes = facts.number("memory_bound_bytes");
    let is_proved = bound_bytes > 0 && cache_bytes.saturating_add(fixed_bytes) > bound_bytes;
    is_proved.then(|| {
        let left = bound_bytes.saturating_sub(fixed_bytes);
        let remedy = match left >= MemoryShare::CACHE_BYTES_MIN {
            true => format!("lower -m to {} or less", left >> 20),
            false => "lower -c or -o read_buf_mem_limit".to_owned(),
        };
        let [cache, fixed, bound] = [cache_bytes, fixed_bytes, bound_bytes].map(|n| n >> 20);
        Finding::new(
            "memory-limit",
            format!(
                "{cache} MiB for items (-m) and up to {fixed} MiB for connections and the process \
                 are more than the {bound} MiB that the server may use, the limit of its cgroup or \
                 the memory of its machine: {remedy}, raise that limit, or use -m 80%"
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
