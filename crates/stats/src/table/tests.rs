use std::collections::HashSet;

use super::*;
use crate::Counters;

fn names(section: Section) -> Vec<&'static str> {
    section.rows().map(|stat| stat.name).collect()
}

#[test]
fn a_name_occurs_once_per_reply() {
    for section in Section::ALL {
        let unique: HashSet<_> = names(section).into_iter().collect();
        assert_eq!(unique.len(), section.rows().count(), "{section:?}");
    }
}

/// Returns the names shown when all conditions except these hold.
fn names_without(section: Section, missing: &[Condition]) -> Vec<&'static str> {
    let shown = section
        .rows()
        .filter(|stat| stat.conditions.iter().all(|condition| !missing.contains(condition)));
    shown.map(|stat| stat.name).collect()
}

#[test]
fn replies_have_memcacheds_keys_in_memcacheds_order() {
    // Larder's own keys come last.
    let general = format!("{GENERAL} larder_version larder_commit");
    for (section, keys) in [
        (Section::General, &general[..]),
        (Section::Items, ITEMS),
        (Section::Slabs, SLABS),
        (Section::SlabsTotal, "active_slabs total_malloced"),
    ] {
        let names = names_without(section, &[Condition::Answers18]);
        assert_eq!(names, keys.split_whitespace().collect::<Vec<_>>(), "{section:?}");
    }
}

#[test]
fn without_the_maintainer_stats_items_has_the_keys_of_1_6_18() {
    let names = names_without(Section::Items, &[Condition::LruMaintainer]);
    let keys =
        "number age mem_requested evicted evicted_nonzero evicted_time outofmemory tailrepairs
        reclaimed expired_unfetched evicted_unfetched crawler_reclaimed crawler_items_checked
        lrutail_reflocked";
    assert_eq!(names, keys.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn without_crawler_and_maintainer_stats_shows_84_keys_or_83() {
    let off = [
        Condition::LruCrawler,
        Condition::LruMaintainer,
        Condition::IdleTimeout,
        Condition::TlsSessions,
        Condition::TierCache,
    ];
    for (version, count, with_tls) in
        [(Condition::Answers18, 84, 87), (Condition::Answers45, 83, 85)]
    {
        let missing = [&off[..], &[version]].concat();
        assert_eq!(names_without(Section::General, &missing).len(), with_tls, "not {version:?}");
        let missing = [&missing[..], &[Condition::Tls]].concat();
        assert_eq!(names_without(Section::General, &missing).len(), count, "not {version:?}");
    }
}

#[test]
fn every_doc_is_a_sentence_and_every_constant_has_a_reason() {
    for stat in TABLE {
        assert!(stat.doc.ends_with('.'), "{} has no full stop", stat.name);
        assert!(!stat.doc.contains('|'), "{} would break the Markdown table", stat.name);
        if let Source::Constant(text) = stat.source {
            let promise = [format!("Always {text}"), format!("Always `{text}`")];
            let says = promise.iter().any(|promise| stat.doc.starts_with(promise.as_str()));
            assert!(says || stat.name == "pointer_size", "{}", stat.name);
        }
    }
}

#[test]
fn every_counter_and_gauge_has_a_row() {
    let shown: HashSet<_> = TABLE.iter().map(|stat| stat.source).collect();
    assert!(Counter::ALL.iter().all(|counter| shown.contains(&Source::Counter(*counter))));
    assert!(Gauge::ALL.iter().all(|gauge| shown.contains(&Source::Gauge(*gauge))));
    let (counters, gauges) = (ClassCounter::ALL, ClassGauge::ALL);
    assert!(counters.iter().all(|counter| shown.contains(&Source::ClassCounter(*counter))));
    assert!(gauges.iter().all(|gauge| shown.contains(&Source::ClassGauge(*gauge))));
}

#[test]
fn a_reset_keeps_levels() {
    assert!(Counter::GetHits.is_reset());
    assert!(Counter::ItemsTotal.is_reset());
    assert!(!Counter::ConnectionsCurrent.is_reset());
}

#[test]
fn a_level_goes_down_by_adding_the_twos_complement() {
    let counters = Counters::default();
    counters.add(Counter::ConnectionsCurrent, 3);
    counters.add(Counter::ConnectionsCurrent, 1u64.wrapping_neg());
    counters.bump(Counter::ItemsTotal);
    assert_eq!(counters.read(Counter::ConnectionsCurrent), 2);
    assert_eq!(counters.read(Counter::ItemsTotal), 1);
}

/// The keys of `stats` in memcached 1.6.45 without a flash tier and a proxy, with all conditions
/// true.
const GENERAL: &str = "pid uptime time version libevent pointer_size rusage_user rusage_system
    max_connections curr_connections total_connections rejected_connections connection_structures
    response_obj_oom response_obj_count response_obj_bytes read_buf_count read_buf_bytes
    read_buf_bytes_free read_buf_oom reserved_fds cmd_get cmd_set cmd_flush cmd_touch cmd_meta
    get_hits get_misses get_expired get_flushed badcrc_from_extstore delete_misses delete_hits incr_misses incr_hits
    decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses store_too_large
    store_no_memory auth_cmds auth_errors idle_kicks bytes_read bytes_written limit_maxbytes
    accepting_conns listen_disabled_num time_in_listen_disabled_us threads conn_yields
    hash_power_level hash_bytes hash_is_expanding slab_reassign_rescues
    slab_reassign_chunk_rescues slab_reassign_inline_reclaim slab_reassign_busy_items
    slab_reassign_busy_deletes slab_reassign_busy_nomem slab_reassign_last_busy_status
    slab_reassign_running slabs_moved lru_crawler_running lru_crawler_starts
    lru_maintainer_juggles malloc_fails log_worker_dropped log_worker_written log_watcher_skipped
    log_watcher_sent log_watchers
    extstore_compact_lost extstore_compact_rescues extstore_compact_resc_cold
    extstore_compact_resc_old extstore_compact_skipped extstore_page_allocs
    extstore_page_evictions extstore_page_reclaims extstore_pages_free extstore_pages_used
    extstore_objects_evicted extstore_objects_read extstore_objects_written extstore_objects_used
    extstore_bytes_evicted extstore_bytes_written extstore_bytes_read extstore_bytes_used
    extstore_bytes_fragmented extstore_limit_maxbytes
    ssl_new_sessions ssl_handshake_errors ssl_proto_errors
    time_since_server_cert_refresh unexpected_napi_ids round_robin_fallback bytes curr_items
    total_items slab_global_page_pool expired_unfetched evicted_unfetched evicted_active evictions
    reclaimed crawler_reclaimed crawler_items_checked lrutail_reflocked moves_to_cold
    moves_to_warm moves_within_lru direct_reclaims lru_bumps_dropped";

const ITEMS: &str = "number number_hot number_warm number_cold number_temp age_hot age_warm age
    mem_requested evicted evicted_nonzero evicted_time outofmemory tailrepairs reclaimed
    expired_unfetched evicted_unfetched evicted_active crawler_reclaimed crawler_items_checked
    lrutail_reflocked moves_to_cold moves_to_warm moves_within_lru direct_reclaims hits_to_hot
    hits_to_warm hits_to_cold hits_to_temp";

const SLABS: &str = "chunk_size chunks_per_page total_pages total_chunks used_chunks free_chunks
    free_chunks_end get_hits cmd_set delete_hits incr_hits decr_hits cas_hits cas_badval touch_hits";
