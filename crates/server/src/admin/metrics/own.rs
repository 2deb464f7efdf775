//! Larder's own metrics: the rows of `stats larder`, the histograms, and the build.

use larder_stats::{HISTOGRAMS, Section, Stat};

use super::family::{Kind, Page};
use super::rows::Rows;
use crate::observe::latency::LatencySnapshot;

/// Appends a family for each row of the section, with the row's name.
pub(super) fn show(rows: &Rows, page: &mut Page) {
    let text = |name: &str| rows.larder.get(name).cloned().unwrap_or_default();
    let labels = vec![("version", text(VERSION)), ("commit", text(COMMIT))];
    let help = "1, with version and commit of the build.";
    page.family("larder_build_info", Kind::Gauge, help, &[(labels, "1".to_owned())]);
    let numbers = Section::Larder.rows().filter(|stat| ![VERSION, COMMIT].contains(&stat.name));
    for stat in numbers {
        let is_known = |value: &&String| stat.name != CERTIFICATE_EXPIRY || **value != "0";
        // A row that is a word, such as `near_state`, is no metric.
        let is_number = |value: &&String| value.parse::<f64>().is_ok();
        let value = rows.larder.get(stat.name).filter(is_known).filter(is_number);
        if let Some(value) = value {
            page.single(&stat.metric_name(), kind(stat), stat.doc, value.clone());
        }
    }
}

/// Appends the families of histograms.
pub(super) fn show_histograms(latency: &LatencySnapshot, page: &mut Page) {
    for family in HISTOGRAMS {
        let histograms = family.timings.iter().map(|timing| {
            (timing.command().map(|command| ("command", command)), *latency.of(*timing))
        });
        page.histograms(family.name, family.doc, &histograms.collect::<Vec<_>>());
    }
}

fn kind(stat: &Stat) -> Kind {
    if stat.is_counter() { Kind::Counter } else { Kind::Gauge }
}

/// The rows that are labels of `larder_build_info`.
const VERSION: &str = "larder_version";
const COMMIT: &str = "larder_commit";

/// The row in which 0 means an unknown time. An alert would take it for a time in the past.
const CERTIFICATE_EXPIRY: &str = "certificate_expiry_secs";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_derive_from_the_rows() {
        let named = |row: &str| {
            let stat = Section::Larder.rows().find(|stat| stat.name == row).unwrap();
            stat.metric_name()
        };
        assert_eq!(named("ghost_hits"), "larder_ghost_hits_total");
        assert_eq!(named("evicted_age_secs"), "larder_evicted_age_seconds_total");
        assert_eq!(named("eviction_age_secs"), "larder_eviction_age_seconds");
        assert_eq!(named("segments_free"), "larder_segments_free");
        let failures = named("certificate_reload_failures");
        assert_eq!(failures, "larder_certificate_reload_failures_total");
    }
}
