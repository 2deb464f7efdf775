//! The statistics of a cache, and the memory that it uses.

use std::collections::BTreeSet;
use std::time::Duration;

use larder::{Cache, Clock, Deadline, LoadOptions, StoreMode, StoreRequest};
use larder_stats::Section;

fn stat(cache: &Cache, name: &str) -> u64 {
    cache.stats().find(|stat| stat.name == name).map(|stat| stat.value).unwrap()
}

/// The rows of `stats larder` that need a server or a disk tier.
const OF_SERVER: &[&str] = &[
    "larder_version",
    "larder_commit",
    "auth_failures",
    "not_permitted",
    "users_reload_failures",
    "rate_limited",
    "admin_auth_failures",
    "tls_handshakes",
    "tls_handshake_failures",
    "certificate_expiry_secs",
    "certificate_reload_failures",
    "memory_followed",
    "memory_bound_bytes",
    "memory_lowered",
    "output_budget_bytes",
    "output_budget_used_bytes",
    "hot_keys_sampled",
    "hot_keys_lost",
    "slow_requests",
    "tier_items",
    "tier_size_bytes",
    "tier_live_bytes",
    "tier_live_bytes_max",
    "tier_free_bytes",
    "tier_index_bytes",
    "tier_index_bytes_max",
    "tier_dirty_bytes",
    "tier_written_bytes",
    "tier_zeroed_bytes",
    "tier_syncs",
    "tier_sync_us",
    "tier_reads",
    "tier_segments_reclaimed",
    "tier_items_copied",
    "tier_segments_damaged",
    "tier_items_lost",
    "tier_reads_retried",
    "tier_items_unreadable",
    "tier_items_evicted",
    "tier_items_dropped",
    "tier_values_compressed",
    "tier_compressed_from_bytes",
    "tier_compressed_to_bytes",
    "tier_dictionary",
    "tier_clock_behind_secs",
    "tier_failed",
    "followers",
    "follower_changes",
    "follower_flushes",
    "follower_overflows",
    "follower_fetches",
    "follower_fetches_unnoted",
    "near_origins",
    "near_origins_unreachable",
    "near_origins_passing",
    "near_origins_late",
    "near_origins_timed",
    "near_fresh",
    "near_stale_max_ms",
    "near_state",
    "near_ahead",
    "near_joined",
    "near_fetches",
    "near_kept",
    "near_absent_hits",
    "near_passed",
    "near_unreachable",
    "near_unanswered",
    "near_changes",
    "near_dropped",
    "near_flushes",
    "near_streams_lost",
    "near_refused_detached",
    "near_refused_unsubscribed",
    "near_refused_unnoted",
    "near_refused_expiring",
    "near_refused_uncopied",
    "near_refused_no_memory",
    "near_weights_reload_failures",
    "near_fetched_bytes",
    "near_listed_bytes",
    "near_listed_bytes_max",
    "warm_phase",
    "warm_stored",
    "warm_refused",
    "warm_undone",
    "cluster_requests",
    "cluster_nodes",
    "cluster_version",
    "cluster_changes",
    "cluster_stale",
    "cluster_failures",
];

#[test]
fn every_statistic_of_the_library_is_reported_once() {
    let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
    let names: Vec<_> = cache.stats().map(|stat| stat.name).collect();
    let set: BTreeSet<_> = names.iter().copied().collect();
    assert_eq!(set.len(), names.len());
    for row in Section::Larder.rows() {
        let is_of_server = OF_SERVER.contains(&row.name);
        assert_eq!(set.contains(row.name), !is_of_server, "{}", row.name);
    }
    assert!(!set.contains("accepting_conns"), "the library reports a statistic of connections");
}

#[test]
fn gets_and_refused_stores_are_counted() {
    let cache = Cache::builder().memory_bytes(1 << 20).clock(Clock::Ticked).open().unwrap();
    let second = Some(Duration::from_secs(1));
    cache.set("k", "v", None).unwrap();
    cache.set("dies", "v", second).unwrap();
    cache.get("k");
    cache.get_with("k", |_, _| ());
    cache.get_many(&["k", "missing", "missing too"]);
    cache.tick(cache.now() + 1);
    assert_eq!(cache.get("dies"), None);
    let load = || Ok::<_, std::io::Error>("v");
    cache.get_or_load("loaded", &LoadOptions::new(), load).unwrap();
    cache.get_or_load("loaded", &LoadOptions::new(), load).unwrap();
    cache.clear();
    cache.get("k");
    let gets = ["get_hits", "get_misses", "get_expired", "get_flushed"];
    assert_eq!(gets.map(|name| stat(&cache, name)), [4, 5, 1, 1]);
    assert!(cache.set("k", [0; 1 << 20], None).is_err());
    assert!(cache.set("", "", None).is_err());
    assert_eq!((stat(&cache, "store_too_large"), stat(&cache, "store_no_memory")), (1, 0));
    cache.reset_counters();
    assert_eq!(gets.map(|name| stat(&cache, name)), [0; 4]);
}

#[test]
fn memory_in_use_is_reported_and_stays_within_the_limit() {
    let cache = Cache::builder().memory_bytes(8 << 20).open().unwrap();
    let empty = cache.memory();
    assert_eq!((empty.limit, empty.items), (8 << 20, 0));
    assert!(empty.index > 0, "{empty:?}");
    assert!(empty.used < 1 << 20, "{empty:?}");
    for key in 0..20_000u32 {
        cache.set(key.to_le_bytes(), [0; 88], None).unwrap();
    }
    let memory = cache.memory();
    assert_eq!(memory.items, 20_000 * 104);
    assert!(memory.used > memory.items + memory.index, "{memory:?}");
    for key in 0..200_000u32 {
        cache.set(key.to_le_bytes(), [0; 88], None).unwrap();
    }
    let full = cache.memory();
    assert!(full.used <= full.limit, "{full:?}");
    assert!(full.used > full.limit * 8 / 10, "{full:?}");
}

/// The formula of the crate's documentation: `8 + key + value`, plus 8 with cas tokens, plus 4 with
/// a TTL, plus 4 with client flags, rounded up to 8.
fn documented_bytes(key: usize, value: usize, cas: bool, ttl: bool, flags: bool) -> u64 {
    let fields = 8 * usize::from(cas) + 4 * usize::from(ttl) + 4 * usize::from(flags);
    (8 + key + value + fields).next_multiple_of(8) as u64
}

#[test]
fn an_item_takes_the_documented_number_of_bytes() {
    for (cas, ttl, flags) in (0..8).map(|bits: u8| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0)) {
        let cache = Cache::builder().memory_bytes(4 << 20).cas(cas).open().unwrap();
        let mut expected = 0;
        for number in 0..1_000usize {
            let (key, value) = (format!("key {number}"), vec![0; number % 77]);
            let deadline = if ttl { Deadline::after(cache.now(), 100) } else { Deadline::NEVER };
            let flags = u32::from(flags);
            let request = StoreRequest {
                flags,
                deadline,
                ..StoreRequest::new(key.as_bytes(), StoreMode::Set)
            };
            cache.store(&request, &value).unwrap();
            expected += documented_bytes(key.len(), value.len(), cas, ttl, flags > 0);
        }
        assert_eq!((cache.len(), cache.memory().items), (1_000, expected));
    }
}

#[test]
fn the_index_takes_the_documented_number_of_bytes() {
    let cache = Cache::builder().memory_bytes(64 << 20).open().unwrap();
    for number in 0..600_000u32 {
        cache.set(number.to_le_bytes(), "", None).unwrap();
        if number >= 100_000 && number % 50_000 == 0 {
            let per_item = cache.memory().index as f64 / cache.len() as f64;
            assert!((12.8..=14.2).contains(&per_item), "{per_item} with {number} items");
        }
    }
}
