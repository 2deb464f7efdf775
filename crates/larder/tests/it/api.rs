//! Runs the scenes of conformance/api on the library. A scene is a list of operations with their
//! expected results; every language binding runs the same scenes.

use std::time::Duration;

use larder::{
    Cache, CountError, Cursor, Deadline, DiskTier, ItemReports, Lease, Refusal, Signed, StoreError,
    StoreMode, StoreRequest, Stored, Swap, SwapError, TierMode,
};
use larder_testkit::api::{FrontDoor, Got, Settings, ToStore, play};

struct Library(Cache);

fn ttl(secs: u32) -> Option<Duration> {
    (secs != 0).then(|| Duration::from_secs(secs.into()))
}

fn refusal(error: StoreError) -> &'static str {
    match error {
        StoreError::TooLarge => "too_large",
        StoreError::NoMemory => "no_memory",
        StoreError::Key(_) => "key",
        StoreError::Stuck(_) => "stuck",
        StoreError::Journal(Refusal::Full) => "disk_full",
        StoreError::Journal(_) => "refused",
    }
}

fn refused_count(error: CountError) -> String {
    match error {
        CountError::NotANumber => "not_a_number".to_owned(),
        CountError::Store(error) => refusal(error).to_owned(),
    }
}

/// Returns the name of the outcome of a change: stored, or `otherwise` if nothing was changed.
fn named(done: Result<bool, StoreError>, otherwise: &'static str) -> String {
    done.map_or_else(refusal, |done| if done { "ok" } else { otherwise }).to_owned()
}

/// Returns the request of a store with flags.
fn request<'a>(cache: &Cache, how: &str, key: &'a [u8], item: &ToStore<'_>) -> StoreRequest<'a> {
    let mode = match how {
        "set" => StoreMode::Set,
        "add" => StoreMode::Add,
        "replace" => StoreMode::Replace,
        "append" => StoreMode::Append,
        _ => StoreMode::Prepend,
    };
    let deadline = ttl(item.ttl).map_or(Deadline::NEVER, |ttl| cache.deadline_after(ttl));
    StoreRequest { flags: item.flags, deadline, ..StoreRequest::new(key, mode) }
}

/// Returns the name of the outcome of a store with flags.
fn stored(cache: &Cache, request: &StoreRequest<'_>, value: &[u8]) -> &'static str {
    match cache.store(request, value) {
        Ok(Stored::Stored { .. }) => "ok",
        Ok(Stored::Exists) => "changed",
        Ok(Stored::NotStored) if request.mode == StoreMode::Add => "exists",
        Ok(Stored::NotStored | Stored::NotFound) => "missing",
        Err(error) => refusal(error),
    }
}

impl FrontDoor for Library {
    fn get(&mut self, key: &[u8]) -> (String, Option<Got>) {
        let now = self.0.now();
        let got = self.0.get_with(key, |value, meta| Got {
            value: value.to_vec(),
            ttl: meta.deadline.0.saturating_sub(now),
            token: meta.cas,
            flags: meta.flags,
        });
        (if got.is_some() { "ok" } else { "missing" }.to_owned(), got)
    }

    fn store(&mut self, how: &str, key: &[u8], item: &ToStore<'_>) -> String {
        let cache = &self.0;
        if item.flags != 0 {
            return stored(cache, &request(cache, how, key, item), item.value).to_owned();
        }
        let (value, ttl) = (item.value, ttl(item.ttl));
        match how {
            "set" => named(cache.set(key, value, ttl).map(|()| true), ""),
            "add" => named(cache.add(key, value, ttl), "exists"),
            "replace" => named(cache.replace(key, value, ttl), "missing"),
            "append" => named(cache.append(key, value), "missing"),
            _ => named(cache.prepend(key, value), "missing"),
        }
    }

    fn swap(&mut self, key: &[u8], item: &ToStore<'_>, token: u64) -> String {
        if item.flags != 0 {
            let set = request(&self.0, "set", key, item);
            let set = StoreRequest { cas: Some(token), ..set };
            return stored(&self.0, &set, item.value).to_owned();
        }
        match self.0.compare_and_set(key, item.value, None, token) {
            Ok(Swap::Stored { .. }) => "ok",
            Ok(Swap::Changed) => "changed",
            Ok(Swap::Missing) => "missing",
            Err(SwapError::NoTokens) => "no_tokens",
            Err(SwapError::Store(error)) => refusal(error),
        }
        .to_owned()
    }

    fn delete(&mut self, key: &[u8]) -> String {
        named(self.0.delete(key), "missing")
    }

    fn touch(&mut self, key: &[u8], secs: u32) -> String {
        named(self.0.touch(key, ttl(secs)), "missing")
    }

    fn count(&mut self, up: bool, key: &[u8], delta: u64) -> (String, Option<u64>) {
        let moved = if up { self.0.increment(key, delta) } else { self.0.decrement(key, delta) };
        match moved {
            Ok(Some(number)) => ("ok".to_owned(), Some(number)),
            Ok(None) => ("missing".to_owned(), None),
            Err(error) => (refused_count(error), None),
        }
    }

    fn get_many(&mut self, keys: &[Vec<u8>]) -> Vec<Option<(Vec<u8>, u32)>> {
        let mut found = Vec::new();
        self.0.get_many_with(keys, |_, item| {
            found.push(item.map(|(value, meta)| (value.to_vec(), meta.flags)));
        });
        found
    }

    fn keys(&mut self, prefix: &[u8]) -> Vec<Vec<u8>> {
        self.0.keys_with_prefix(prefix).collect()
    }

    fn remove_prefix(&mut self, prefix: &[u8]) -> (String, Option<u64>) {
        match self.0.remove_prefix(prefix) {
            Ok(removed) => ("ok".to_owned(), Some(removed)),
            Err(error) => (refusal(error).to_owned(), None),
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }

    fn length(&mut self) -> u64 {
        self.0.len()
    }

    fn add_signed(&mut self, key: &[u8], delta: i64, secs: u32) -> (String, Option<i64>) {
        match self.0.add_signed(key, delta, ttl(secs)) {
            Ok(number) => ("ok".to_owned(), Some(number)),
            Err(error) => (refused_count(error), None),
        }
    }

    fn cas_signed(&mut self, key: &[u8], old: i64, new: i64) -> String {
        match self.0.swap_signed(key, old, new) {
            Ok(Signed::Number(_)) => "ok".to_owned(),
            Ok(Signed::Differs(_)) => "changed".to_owned(),
            Ok(_) => "missing".to_owned(),
            Err(error) => refused_count(error),
        }
    }

    fn lease(&mut self, key: &[u8], ms: u32) -> (String, [u64; 4]) {
        match self.0.lease(key, Duration::from_millis(ms.into())) {
            Ok(Some(lease)) => ("ok".to_owned(), lease.words()),
            Ok(None) => ("busy".to_owned(), [0; 4]),
            Err(error) => (refusal(error).to_owned(), [0; 4]),
        }
    }

    fn release(&mut self, key: &[u8], lease: [u64; 4]) -> String {
        named(self.0.release(key, Lease::of_words(lease)), "missing")
    }

    fn reports(&mut self, prefix: &[u8]) -> Vec<(Vec<u8>, u64)> {
        let (mut cursor, mut found) = (Cursor::default(), ItemReports::default());
        while self.0.report_group(&mut cursor, prefix, &mut found) {}
        let mut keys = &found.keys[..];
        let items = found.items.iter().map(|item| {
            let (key, rest) = keys.split_at(item.key_bytes);
            keys = rest;
            assert_eq!(self.0.report_item(key).map(|item| item.meta), Some(item.meta));
            (key.to_vec(), item.meta.value_bytes as u64)
        });
        items.collect()
    }

    fn close(self) {
        assert_eq!(self.0.stop_tier(), 0);
    }
}

fn open(settings: &Settings) -> Result<Library, String> {
    let mut builder = Cache::builder().memory_bytes(8 << 20).cas(settings.cas);
    if let Some(tier) = &settings.tier {
        let mode = if tier.is_cache { TierMode::Cache } else { TierMode::Store };
        builder =
            builder.tier(DiskTier::new(&tier.path, tier.bytes).mode(mode).dirty_bytes(64 << 20));
    }
    builder.open().map(Library).map_err(|error| error.to_string())
}

#[test]
fn the_library_passes_the_shared_scenes() -> Result<(), anyhow::Error> {
    let scenes = play(open)?;
    assert!(scenes >= 12, "{scenes}");
    Ok(())
}
