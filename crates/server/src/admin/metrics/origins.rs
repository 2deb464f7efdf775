//! Metrics of the origins of a near cache, with the address of each as label.

use super::family::{Kind, Page};
use crate::stats::origins::{COUNTERS, OriginRow};

/// Appends the families; none for a server that owns its items.
pub(super) fn show(origins: &[OriginRow], page: &mut Page) {
    if origins.is_empty() {
        return;
    }
    let mut family = |name: &str, kind, help, value: &dyn Fn(&OriginRow) -> String| {
        let label = |row: &OriginRow| vec![("origin", row.address.clone())];
        let samples: Vec<_> = origins.iter().map(|row| (label(row), value(row))).collect();
        page.family(&format!("larder_near_origin_{name}"), kind, help, &samples);
    };
    for (name, help, value) in GAUGES {
        family(name, Kind::Gauge, help, &value);
    }
    for (at, (name, _, help)) in COUNTERS.into_iter().enumerate() {
        let value = |row: &OriginRow| row.counts[at].1.to_string();
        family(&format!("{name}_total"), Kind::Counter, help, &value);
    }
}

/// The name and the help of a gauge, and its value for an origin.
type Gauge = (&'static str, &'static str, fn(&OriginRow) -> String);

const GAUGES: [Gauge; 3] = [
    ("reachable", "1 unless the last attempt to connect to the origin failed.", |row| {
        u8::from(row.state != "unreachable").to_string()
    }),
    ("fresh", "1 while the copies of the origin's items may be used.", |row| {
        u8::from(row.is_fresh).to_string()
    }),
    ("share", "The part of the keys that the origin owns, from 0 to 1.", |row| {
        format!("{:.4}", row.share)
    }),
];
