//! The metrics of memcached_exporter 0.14.4, with its names, labels and types, computed from the
//! same rows.
//!
//! A family (the metrics with one name) is omitted if Larder has no truthful value for it. This
//! concerns values that only make sense for memcached's memory pages, and counters per size class
//! that Larder keeps only for all classes together. A test compares the page with the exporter's
//! page and lists the differences.

use std::collections::BTreeMap;

use larder_stats::Section;

use super::family::{Kind, Page};
use super::rows::{NamedRows, Rows};
use Kind::{Counter, Gauge};

/// A family with one sample: its name after `memcached_`, its type, and its row.
type Single = (&'static str, Kind, &'static str);

/// From `stats` and the last lines of `stats slabs`. The latest version of the exporter lacks
/// `direct_reclaims_total`; the next one has it.
const GENERAL: &[Single] = &[
    ("uptime_seconds", Counter, "uptime"),
    ("time_seconds", Gauge, "time"),
    ("process_user_cpu_seconds_total", Counter, "rusage_user"),
    ("process_system_cpu_seconds_total", Counter, "rusage_system"),
    ("read_bytes_total", Counter, "bytes_read"),
    ("written_bytes_total", Counter, "bytes_written"),
    ("current_connections", Gauge, "curr_connections"),
    ("connections_total", Counter, "total_connections"),
    ("connections_rejected_total", Counter, "rejected_connections"),
    ("connections_yielded_total", Counter, "conn_yields"),
    ("connections_listener_disabled_total", Counter, "listen_disabled_num"),
    ("accepting_connections", Gauge, "accepting_conns"),
    ("current_bytes", Gauge, "bytes"),
    ("limit_bytes", Gauge, "limit_maxbytes"),
    ("malloced_bytes", Gauge, "total_malloced"),
    ("current_items", Gauge, "curr_items"),
    ("items_total", Counter, "total_items"),
    ("items_evicted_total", Counter, "evictions"),
    ("items_reclaimed_total", Counter, "reclaimed"),
    ("item_too_large_total", Counter, "store_too_large"),
    ("item_no_memory_total", Counter, "store_no_memory"),
    ("direct_reclaims_total", Counter, "direct_reclaims"),
    ("lru_crawler_starts_total", Counter, "lru_crawler_starts"),
    ("lru_crawler_items_checked_total", Counter, "crawler_items_checked"),
    ("lru_crawler_reclaimed_total", Counter, "crawler_reclaimed"),
    ("lru_crawler_moves_to_cold_total", Counter, "moves_to_cold"),
    ("lru_crawler_moves_to_warm_total", Counter, "moves_to_warm"),
    ("lru_crawler_moves_within_lru_total", Counter, "moves_within_lru"),
    // Only with a disk tier of mode cache.
    ("extstore_compact_lost_total", Counter, "extstore_compact_lost"),
    ("extstore_compact_rescued_total", Counter, "extstore_compact_rescues"),
    ("extstore_compact_skipped_total", Counter, "extstore_compact_skipped"),
    ("extstore_pages_allocated_total", Counter, "extstore_page_allocs"),
    ("extstore_pages_evicted_total", Counter, "extstore_page_evictions"),
    ("extstore_pages_reclaimed_total", Counter, "extstore_page_reclaims"),
    ("extstore_pages_free", Gauge, "extstore_pages_free"),
    ("extstore_pages_used", Gauge, "extstore_pages_used"),
    ("extstore_objects_evicted_total", Counter, "extstore_objects_evicted"),
    ("extstore_objects_read_total", Counter, "extstore_objects_read"),
    ("extstore_objects_written_total", Counter, "extstore_objects_written"),
    ("extstore_objects_used", Gauge, "extstore_objects_used"),
    ("extstore_bytes_evicted_total", Counter, "extstore_bytes_evicted"),
    ("extstore_bytes_written_total", Counter, "extstore_bytes_written"),
    ("extstore_bytes_read_total", Counter, "extstore_bytes_read"),
    // The exporter also declares it as a counter.
    ("extstore_bytes_used", Counter, "extstore_bytes_used"),
    ("extstore_bytes_fragmented", Gauge, "extstore_bytes_fragmented"),
    ("extstore_bytes_limit", Gauge, "extstore_limit_maxbytes"),
];

/// From `stats settings`, with the help texts, because these rows are not in a table. A switch is 0
/// or 1.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("max_connections", "maxconns", "Limit on open connections (`-c`)."),
    ("lru_crawler_enabled", "lru_crawler", "1 if the commands of the crawler are allowed."),
    ("lru_crawler_sleep", "lru_crawler_sleep", "As set; Larder's maintainer paces itself."),
    ("lru_crawler_to_crawl", "lru_crawler_tocrawl", "As set; Larder's maintainer paces itself."),
    ("lru_crawler_maintainer_thread", "lru_maintainer_thread", "1 with `-o lru_maintainer`."),
    ("lru_crawler_hot_percent", "hot_lru_pct", "As set; Larder evicts by S3-FIFO."),
    ("lru_crawler_warm_percent", "warm_lru_pct", "As set; Larder evicts by S3-FIFO."),
    ("lru_crawler_hot_max_factor", "hot_max_factor", "As set; Larder evicts by S3-FIFO."),
    ("lru_crawler_warm_max_factor", "warm_max_factor", "As set; Larder evicts by S3-FIFO."),
];

/// From `stats items`, with the label `slab`.
const ITEMS: &[Single] = &[
    ("slab_current_items", Gauge, "number"),
    ("slab_items_age_seconds", Gauge, "age"),
    ("slab_hot_items", Gauge, "number_hot"),
    ("slab_warm_items", Gauge, "number_warm"),
    ("slab_cold_items", Gauge, "number_cold"),
    ("slab_temporary_items", Gauge, "number_temp"),
    ("slab_hot_age_seconds", Gauge, "age_hot"),
    ("slab_warm_age_seconds", Gauge, "age_warm"),
    ("slab_mem_requested_bytes", Counter, "mem_requested"),
    ("slab_items_evicted_total", Counter, "evicted"),
    ("slab_items_evicted_nonzero_total", Counter, "evicted_nonzero"),
    ("slab_items_evicted_time_seconds", Counter, "evicted_time"),
    ("slab_items_evicted_unfetched_total", Counter, "evicted_unfetched"),
    ("slab_items_expired_unfetched_total", Counter, "expired_unfetched"),
    ("slab_items_reclaimed_total", Counter, "reclaimed"),
    ("slab_items_crawler_reclaimed_total", Counter, "crawler_reclaimed"),
    ("slab_items_tailrepairs_total", Counter, "tailrepairs"),
];

/// From `stats slabs`, with the label `slab`.
const SLABS: &[Single] = &[("slab_chunk_size_bytes", Gauge, "chunk_size")];

/// Commands with a row for each status. `stats` contains all of them, `stats slabs` only hits and
/// `cas_badval`.
const COMMANDS: &[(&str, &str, &str)] = &[
    ("get", "hit", "get_hits"),
    ("get", "miss", "get_misses"),
    ("delete", "hit", "delete_hits"),
    ("delete", "miss", "delete_misses"),
    ("incr", "hit", "incr_hits"),
    ("incr", "miss", "incr_misses"),
    ("decr", "hit", "decr_hits"),
    ("decr", "miss", "decr_misses"),
    ("cas", "hit", "cas_hits"),
    ("cas", "miss", "cas_misses"),
    ("cas", "badval", "cas_badval"),
    ("touch", "hit", "touch_hits"),
    ("touch", "miss", "touch_misses"),
    ("flush", "hit", "cmd_flush"),
];

type Samples = Vec<(Vec<(&'static str, String)>, String)>;

/// Appends the families.
pub(super) fn show(rows: &Rows, page: &mut Page) {
    page.single(&full("up"), Gauge, "1: the server answers.", "1".to_owned());
    let version = vec![("version", rows.general.get("version").cloned().unwrap_or_default())];
    let help = "1, with the memcached version that Larder is compatible with.";
    page.family(&full("version"), Gauge, help, &[(version, "1".to_owned())]);
    for (name, kind, row) in GENERAL {
        if let Some(value) = rows.general.get(*row) {
            page.single(&full(name), *kind, help_of(row, GENERAL_SECTIONS), value.clone());
        }
    }
    show_settings(&rows.settings, page);
    let samples = commands(&rows.general, None);
    let help = "Commands by their result; set: those of `cmd_set` that are not cas.";
    page.family(&full("commands_total"), Counter, help, &samples);
    show_classes(ITEMS, &rows.items, &[Section::Items], page);
    show_classes(SLABS, &rows.slabs, &[Section::Slabs], page);
    // Shown from the start and for every class, even if it is 0, because alerts divide by it.
    let samples: Samples = rows
        .out_of_memory
        .iter()
        .map(|(class, count)| (vec![("slab", class.to_string())], count.to_string()))
        .collect();
    let help = help_of("outofmemory", &[Section::Items]);
    page.family(&full("slab_items_outofmemory_total"), Counter, help, &samples);
    let samples: Samples =
        rows.slabs.iter().flat_map(|(class, of)| commands(of, Some(*class))).collect();
    let help = "Commands by size class and result; set: those of `cmd_set` that are not cas.";
    page.family(&full("slab_commands_total"), Counter, help, &samples);
}

/// Like the exporter, shows the settings of the crawler only if it is enabled.
fn show_settings(settings: &NamedRows, page: &mut Page) {
    let has_crawler = settings.get("lru_crawler").is_some_and(|value| value == "yes");
    for (name, row, help) in SETTINGS {
        if let Some(value) = settings.get(*row)
            && (has_crawler || *row == "maxconns")
        {
            let value = match value.as_str() {
                "yes" => "1",
                "no" => "0",
                number => number,
            };
            page.single(&full(name), Gauge, help, value.to_owned());
        }
    }
}

fn show_classes(
    families: &[Single],
    classes: &BTreeMap<u8, NamedRows>,
    sections: &[Section],
    page: &mut Page,
) {
    for (name, kind, row) in families {
        let samples = classes.iter().filter_map(|(class, of)| {
            Some((vec![("slab", class.to_string())], of.get(*row)?.clone()))
        });
        let samples: Samples = samples.collect();
        page.family(&full(name), *kind, help_of(row, sections), &samples);
    }
}

/// Returns the samples of the commands of the server or of a size class.
fn commands(rows: &NamedRows, class: Option<u8>) -> Samples {
    let labels = |command: &str, status: &str| {
        let class = class.map(|class| ("slab", class.to_string()));
        let others = [("command", command.to_owned()), ("status", status.to_owned())];
        class.into_iter().chain(others).collect::<Vec<_>>()
    };
    let mut samples: Samples = COMMANDS
        .iter()
        .filter_map(|(command, status, row)| {
            Some((labels(command, status), rows.get(*row)?.clone()))
        })
        .collect();
    let number = |row: &str| rows.get(row).and_then(|value| value.parse::<u64>().ok());
    if let Some(stores) = number("cmd_set") {
        // memcached also counts a cas in cmd_set. The rows are read one after the other, so a cas
        // that happens in between may be counted in only one of them.
        let cas: u64 =
            ["cas_misses", "cas_hits", "cas_badval"].into_iter().filter_map(number).sum();
        samples.push((labels("set", "hit"), stores.saturating_sub(cas).to_string()));
    }
    samples
}

fn full(name: &str) -> String {
    format!("memcached_{name}")
}

/// Returns the description of a row in the table of statistics.
fn help_of(row: &str, sections: &[Section]) -> &'static str {
    let mut rows = sections.iter().flat_map(|section| section.rows());
    rows.find(|stat| stat.name == row).map_or("", |stat| stat.doc)
}

const GENERAL_SECTIONS: &[Section] = &[Section::General, Section::SlabsTotal];

#[cfg(test)]
mod tests {
    use larder_stats::Source;

    use super::*;

    #[test]
    fn every_family_has_a_row_that_is_counted_or_measured() {
        let tables =
            [(GENERAL, GENERAL_SECTIONS), (ITEMS, &[Section::Items]), (SLABS, &[Section::Slabs])];
        for (table, sections) in tables {
            for (name, _, row) in table {
                let mut rows = sections.iter().flat_map(|section| section.rows());
                let stat = rows.find(|stat| stat.name == *row);
                let stat = stat.unwrap_or_else(|| panic!("{name}: there is no row {row}"));
                let is_constant = matches!(stat.source, Source::Constant(_));
                // Larder has no queues to repair and does not compact its log, so 0 is the truthful
                // value.
                let is_true = *row == "tailrepairs" || row.starts_with("extstore_compact_");
                assert!(!is_constant || is_true, "{name} would always be the same");
            }
        }
        for (_, _, row) in COMMANDS {
            assert_ne!(help_of(row, &[Section::General]), "", "{row}");
        }
    }

    #[test]
    fn a_set_that_is_no_cas_is_counted_once() {
        let rows = [("cmd_set", "10"), ("cas_misses", "1"), ("cas_hits", "2"), ("cas_badval", "3")];
        let rows: NamedRows =
            rows.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let samples = commands(&rows, Some(7));
        let last = samples.last().unwrap();
        assert_eq!(last.1, "4");
        let labels: Vec<_> = last.0.iter().map(|(name, text)| format!("{name}={text}")).collect();
        assert_eq!(labels, ["slab=7", "command=set", "status=hit"]);
    }
}
