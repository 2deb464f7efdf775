//! The statistics as metrics of the crate `metrics`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use larder::{Cache, CacheMetrics};
use metrics::{
    Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

/// Records values by the names and the labels of their metrics, and descriptions by name.
#[derive(Default)]
struct Memory {
    values: Mutex<HashMap<String, Arc<AtomicU64>>>,
    described: Mutex<HashMap<String, (Option<Unit>, String)>>,
}

impl Memory {
    fn describe(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        let described = (unit, description.into_owned());
        self.described.lock().unwrap().insert(name.as_str().to_owned(), described);
    }

    fn register(&self, key: &Key) -> Arc<AtomicU64> {
        let labels = key.labels().map(|label| format!(" {}={}", label.key(), label.value()));
        let name = key.name().to_owned() + &labels.collect::<String>();
        Arc::clone(self.values.lock().unwrap().entry(name).or_default())
    }

    fn value(&self, name: &str) -> u64 {
        let values = self.values.lock().unwrap();
        let value = values.get(name).unwrap_or_else(|| panic!("no {name}: {:?}", values.keys()));
        value.load(Ordering::SeqCst)
    }
}

impl Recorder for Memory {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(name, unit, description);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, description: SharedString) {
        self.describe(name, unit, description);
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("the library has no histograms");
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.register(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.register(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("the library has no histograms");
    }
}

#[test]
fn every_statistic_is_a_metric_with_its_unit_and_meaning() {
    let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
    let memory = Memory::default();
    let metrics =
        with_local_recorder(&memory, || CacheMetrics::register(&cache, &[("cache", "pages")]));
    cache.set("k", "v", None).unwrap();
    cache.get("k");
    cache.get("k");
    cache.get("missing");
    metrics.record();
    assert_eq!(memory.value("larder_get_hits_total cache=pages"), 2);
    assert_eq!(memory.value("larder_get_misses_total cache=pages"), 1);
    let gauge = |name: &str| f64::from_bits(memory.value(&format!("{name} cache=pages")));
    assert_eq!(gauge("larder_curr_items"), 1.0);
    assert_eq!(gauge("larder_limit_maxbytes"), f64::from(1 << 20));
    assert_eq!(memory.values.lock().unwrap().len(), cache.stats().count());
    let described = memory.described.lock().unwrap();
    assert_eq!(described.len(), cache.stats().count());
    assert_eq!(described["larder_limit_maxbytes"].0, Some(Unit::Bytes));
    assert_eq!(described["larder_eviction_age_seconds"].0, Some(Unit::Seconds));
    assert_eq!(described["larder_get_hits_total"].0, Some(Unit::Count));
    assert!(described.values().all(|(_, description)| !description.is_empty()));
}

#[test]
fn counters_do_not_go_back_when_the_cache_resets_its_own() {
    let cache = Cache::builder().memory_bytes(1 << 20).open().unwrap();
    let memory = Memory::default();
    let metrics = with_local_recorder(&memory, || CacheMetrics::register(&cache, &[]));
    cache.get("missing");
    metrics.record();
    cache.reset_counters();
    metrics.record();
    assert_eq!(memory.value("larder_get_misses_total"), 1);
}
