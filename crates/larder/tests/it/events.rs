//! The events that the feature `tracing` reports.

use std::convert::Infallible;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder::{Cache, Clock, LoadOptions, Opening, TypedCache};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Collects the events of a thread as text.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<String>>>);

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "larder"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(event.metadata().level().to_string());
        event.record(&mut text);
        self.0.lock().unwrap().push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Returns the events during `run`.
fn events(run: impl FnOnce()) -> Vec<String> {
    let collector = Collector::default();
    tracing::subscriber::with_default(collector.clone(), run);
    let events = collector.0.lock().unwrap();
    events.clone()
}

fn cache() -> Cache {
    let builder = Cache::builder().memory_bytes(1 << 20).clock(Clock::Ticked).evict(false);
    builder.open().unwrap()
}

#[test]
fn hits_misses_and_stores_report_nothing() {
    let cache = cache();
    let found = events(|| {
        cache.set("k", "v", None).unwrap();
        assert!(cache.get("k").is_some() && cache.get("missing").is_none());
        cache.get_or_load("other", &LoadOptions::new(), || Ok::<_, Infallible>("v")).unwrap();
        cache.delete("k").unwrap();
        cache.maintain();
    });
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn an_opened_cache_is_reported() {
    let found = events(|| drop(cache()));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("INFO") && found[0].contains("memory_bytes=1048576"), "{found:?}");
}

#[test]
fn a_replaced_file_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let smaller = Cache::builder().memory_bytes(1 << 20).shared(folder.path().join("cache"));
    drop(smaller.clone().open().unwrap());
    let larger = smaller.memory_bytes(2 << 20).exactly(true).replaces_unusable(true);
    let mut opened = None;
    let found = events(|| opened = larger.open().ok());
    assert!(matches!(opened.unwrap().opening(), Opening::Replaced(_)));
    assert!(found[0].starts_with("WARN") && found[0].contains("memory in bytes"), "{found:?}");
}

#[test]
fn failed_loads_are_reported_with_their_keys() {
    let cache = cache();
    let options = LoadOptions::new().ttl(Duration::from_secs(60)).stale(Duration::from_secs(600));
    let fails = || Err::<&str, _>("no database");
    let found = events(|| drop(cache.get_or_load("k\n", &options, fails)));
    assert!(found[0].starts_with("DEBUG") && found[0].contains("key=k\\n"), "{found:?}");
    cache.get_or_load("k", &options, || Ok::<_, Infallible>("old")).unwrap();
    cache.tick(cache.now() + 70);
    let found = events(|| assert_eq!(cache.get_or_load("k", &options, fails).unwrap(), b"old"));
    assert!(found[0].starts_with("WARN") && found[0].contains("refresh"), "{found:?}");
}

#[test]
fn failed_stores_are_warnings_once_a_second() {
    let cache = cache();
    let found = events(|| {
        for key in 0..10_000_u32 {
            let _ = cache.set(key.to_le_bytes(), [1; 1000], None);
        }
    });
    assert!(!found.is_empty() && found.len() < 10, "{} events", found.len());
    assert!(found[0].starts_with("WARN") && found[0].contains("no memory"), "{found:?}");
}

#[test]
fn a_value_in_another_format_is_reported() {
    let cache = cache();
    let typed: TypedCache<str, bool> = TypedCache::new(cache.clone());
    cache.set("k", "1", None).unwrap();
    let found = events(|| assert_eq!(typed.get("k").unwrap(), None));
    assert!(found[0].contains("another format") && found[0].contains("flags=0"), "{found:?}");
}
