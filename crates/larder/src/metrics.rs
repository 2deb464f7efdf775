//! [`CacheMetrics`]: the statistics of a cache as metrics of the crate `metrics`.

use std::collections::HashMap;
use std::fmt;

use larder_stats::{Section, Unit};
use metrics::{Counter, Gauge, Key, KeyName, Label, Level, Metadata, with_recorder};

use crate::api::cache::Cache;

/// Passes the statistics of a cache to the recorder of the crate `metrics`, with the feature
/// `metrics`. The names are those of docs/stats.md, as in larderd's `/metrics`: `get_hits` is
/// `larder_get_hits_total`.
///
/// The cache counts in its own memory. A program therefore calls [`CacheMetrics::record`] before
/// each export or at intervals, and operations on the cache cost the same as without metrics.
///
/// ```
/// use larder::{Cache, CacheMetrics};
///
/// let cache = Cache::builder().open()?;
/// let metrics = CacheMetrics::register(&cache, &[("cache", "sessions")]);
/// cache.get("missing");
/// metrics.record();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CacheMetrics {
    cache: Cache,
    /// The handles of the recorder, by the names of the statistics.
    handles: HashMap<&'static str, Handle>,
}

enum Handle {
    Counter(Counter),
    Gauge(Gauge),
}

const METADATA: Metadata<'static> = Metadata::new("larder", Level::INFO, Some(module_path!()));

impl CacheMetrics {
    /// Describes and registers a metric for each statistic of [`Cache::stats`], with these labels.
    /// Install the recorder first. Each cache of a program needs other labels.
    pub fn register(cache: &Cache, labels: &[(&'static str, &str)]) -> Self {
        let labels: Vec<Label> =
            labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect();
        let names: Vec<&str> = cache.stats().map(|stat| stat.name).collect();
        let rows = Section::General.rows().chain(Section::Larder.rows());
        let handles = rows.filter(|row| names.contains(&row.name)).map(|row| {
            let name = KeyName::from(row.metric_name());
            let key = Key::from_parts(name.clone(), labels.clone());
            let (unit, doc) = (Some(unit(row.unit())), row.doc.into());
            let handle = with_recorder(|recorder| {
                if row.is_counter() {
                    recorder.describe_counter(name, unit, doc);
                    return Handle::Counter(recorder.register_counter(&key, &METADATA));
                }
                recorder.describe_gauge(name, unit, doc);
                Handle::Gauge(recorder.register_gauge(&key, &METADATA))
            });
            (row.name, handle)
        });
        Self { cache: cache.clone(), handles: handles.collect() }
    }

    /// Passes the current values to the recorder. Recorders ignore a counter that has become
    /// smaller, which happens after [`Cache::reset_counters`].
    ///
    /// Cost: same as [`Cache::stats`], and the recorder's.
    pub fn record(&self) {
        for stat in self.cache.stats() {
            match self.handles.get(stat.name) {
                Some(Handle::Counter(counter)) => counter.absolute(stat.value),
                // An f64 holds integers up to 2⁵³ exactly.
                Some(Handle::Gauge(gauge)) => gauge.set(stat.value as f64),
                None => {}
            }
        }
    }
}

fn unit(unit: Unit) -> metrics::Unit {
    match unit {
        Unit::Count => metrics::Unit::Count,
        Unit::Bytes => metrics::Unit::Bytes,
        Unit::Seconds => metrics::Unit::Seconds,
        Unit::Percent => metrics::Unit::Percent,
    }
}

impl fmt::Debug for CacheMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheMetrics").field("cache", &self.cache).finish_non_exhaustive()
    }
}
