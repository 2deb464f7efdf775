//! Metrics of the key prefixes with the most bytes, with `--prefix-metrics`.

use larder_protocol::text::dump::push_uri;

use super::family::{Kind, Page};
use crate::observe::prefix_stats::{Label, PrefixReport, Series};

/// Appends four families with a sample for each prefix that has a series.
pub(super) fn show(report: &PrefixReport, page: &mut Page) {
    for (name, kind, help, value) in FAMILIES {
        let samples = report
            .series
            .iter()
            .map(|series| (vec![("prefix", text(&series.label))], value(series).to_string()));
        page.family(name, kind, help, &samples.collect::<Vec<_>>());
    }
}

/// Returns the text of a label. The encoding of a prefix has no parentheses, so the other texts are
/// unique.
fn text(label: &Label) -> String {
    match label {
        Label::Prefix(prefix) => {
            let mut encoded = Vec::new();
            push_uri(&mut encoded, prefix);
            String::from_utf8_lossy(&encoded).into_owned()
        }
        Label::None => "(none)".to_owned(),
        Label::Other => "(other)".to_owned(),
    }
}

/// A family of this page.
type Family = (&'static str, Kind, &'static str, fn(&Series) -> u64);

/// The name, type and help of each family, and its value in a series.
const FAMILIES: [Family; 4] = [
    (
        "larder_prefix_items",
        Kind::Gauge,
        "Items by key prefix, of the 50 prefixes with the most bytes; from a census.",
        |series| series.items,
    ),
    (
        "larder_prefix_bytes",
        Kind::Gauge,
        "Bytes of items by key prefix, as memcached counts them; from a census.",
        |series| series.bytes,
    ),
    (
        "larder_prefix_gets_total",
        Kind::Counter,
        "Gets by key prefix; an estimate from samples.",
        |series| series.gets,
    ),
    (
        "larder_prefix_hits_total",
        Kind::Counter,
        "Hits by key prefix; an estimate from samples.",
        |series| series.hits,
    ),
];
