//! Changes between two starts of a disk tier: of the clock, the memory and the size.

use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use larder::{Cache, Clock, Deadline, DiskTier, Durability, StoreMode, StoreRequest, TierMode};
use tempfile::TempDir;

const MODES: [TierMode; 2] = [TierMode::Store, TierMode::Cache];

/// A directory, and the clock of the caches that open it.
struct Place {
    folder: TempDir,
    mode: TierMode,
}

impl Place {
    fn of_each_mode() -> impl Iterator<Item = Self> {
        MODES.into_iter().map(|mode| Self { folder: tempfile::tempdir().unwrap(), mode })
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("items")
    }

    fn open(&self, clock: Clock, memory_bytes: u64, disk_bytes: u64) -> Cache {
        let disk = disk(&self.path(), self.mode, disk_bytes);
        Cache::builder().memory_bytes(memory_bytes).clock(clock).tier(disk).open().unwrap()
    }

    /// Opens the cache with the system's time, until the test ticks its clock.
    fn ticked(&self) -> Cache {
        self.open(Clock::Ticked, 2 << 20, 64 << 20)
    }
}

fn disk(path: &Path, mode: TierMode, bytes: u64) -> DiskTier {
    let disk = DiskTier::new(path, bytes).mode(mode).dirty_bytes(16 << 20);
    match mode {
        TierMode::Store => disk.durability(Durability::Sync),
        TierMode::Cache => disk,
    }
}

fn set_until(cache: &Cache, key: &str, deadline: Deadline) {
    let request = StoreRequest { deadline, ..StoreRequest::new(key.as_bytes(), StoreMode::Set) };
    cache.store(&request, b"v").unwrap();
}

#[test]
fn a_clock_that_is_set_back_while_down_brings_nothing_back() {
    for place in Place::of_each_mode() {
        let cache = place.ticked();
        cache.set("cleared", "v", None).unwrap();
        cache.clear_at(cache.now() + 100);
        cache.tick(cache.now() + 101);
        assert_eq!(cache.get("cleared"), None);
        set_until(&cache, "expired", Deadline::after(cache.now(), 50));
        set_until(&cache, "alive", Deadline::after(cache.now(), 1000));
        cache.tick(cache.now() + 60);
        assert_eq!(cache.get("expired"), None);
        cache.set("later", "v", None).unwrap();
        drop(cache);
        // The system's clock is 161 seconds earlier than the clock that the test has moved.
        let cache = place.ticked();
        let mode = place.mode;
        assert_eq!(cache.get("cleared"), None, "{mode:?}: the clear was due");
        assert_eq!(cache.get("expired"), None, "{mode:?}: the item had expired");
        assert!(cache.get("later").is_some() && cache.get("alive").is_some(), "{mode:?}");
    }
}

#[test]
fn a_delayed_clear_that_falls_due_while_down_holds_and_a_later_one_replaces_it() {
    for place in Place::of_each_mode() {
        let cache = place.ticked();
        cache.set("cleared", "v", None).unwrap();
        cache.clear_at(cache.now() + 1);
        drop(cache);
        sleep(Duration::from_millis(2100));
        let cache = place.ticked();
        assert_eq!(cache.get("cleared"), None, "{:?}: it fell due while down", place.mode);
        cache.set("kept", "v", None).unwrap();
        cache.clear_at(cache.now() + 1);
        cache.clear_at(cache.now() + 500);
        drop(cache);
        sleep(Duration::from_millis(2100));
        let cache = place.ticked();
        assert!(cache.get("kept").is_some(), "{:?}: the second one replaces it", place.mode);
        cache.tick(cache.now() + 501);
        assert_eq!(cache.get("kept"), None, "{:?}: the second one is due", place.mode);
        cache.set("after", "v", None).unwrap();
        drop(cache);
        let cache = place.ticked();
        let found = ["cleared", "kept", "after"].map(|key| cache.get(key).is_some());
        assert_eq!(found, [false, false, true], "{:?}", place.mode);
    }
}

#[test]
fn memory_and_size_may_change_between_starts() {
    let value = "v".repeat(2000);
    for place in Place::of_each_mode() {
        let mut stored: Vec<String> = Vec::new();
        for (memory_mib, disk_mib) in [(4, 64), (32, 64), (2, 64), (8, 96), (4, 128)] {
            let cache = place.open(Clock::System, memory_mib << 20, disk_mib << 20);
            for key in &stored {
                let found = cache.get(key).map(|found| found.len());
                assert_eq!(found, Some(value.len()), "{:?}: {key} at {memory_mib}", place.mode);
            }
            for n in 0..1500 {
                let key = format!("{memory_mib}-{disk_mib}-{n}");
                cache.set(&key, &value, None).unwrap();
                stored.push(key);
            }
        }
        let path = place.path();
        let shrunk = Cache::builder().memory_bytes(4 << 20).tier(disk(&path, place.mode, 64 << 20));
        let refused = shrunk.open().unwrap_err().to_string();
        assert!(refused.contains("can grow, not shrink"), "{refused}");
    }
}
