//! Random lives of a cache with memory and disk: work, then a stop, a kill or a power loss.

use std::collections::BTreeMap;
use std::env;
use std::time::Duration;

use fastrand::Rng;
use larder_tier::disk::simulated::{Fault, SimulatedDisk, When};
use larder_tier::store::{Change, Kept, Known};

use super::{ABSENT, TestStore, item, start};

const KEYS: u32 = 400;

/// The state of a process: the items in its memory, and the items that it evicted and did not
/// change since.
#[derive(Default)]
struct Model {
    resident: BTreeMap<u32, Vec<u8>>,
    evicted: BTreeMap<u32, Vec<u8>>,
    next: u64,
}

impl Model {
    /// Changes a key: memory has a new item, or no item.
    fn change(&mut self, store: &TestStore, key: u32, rng: &mut Rng) {
        let change = Change { is_resident: self.resident.contains_key(&key), ..ABSENT };
        if store.forget(&key.to_le_bytes(), &change, false, &Known::default()).is_err() {
            return;
        }
        self.evicted.remove(&key);
        self.next += 1;
        let value = [self.next.to_le_bytes().as_slice(), &vec![1; rng.usize(..9000)]].concat();
        match rng.u8(..8) {
            0 => drop(self.resident.remove(&key)),
            _ => drop(self.resident.insert(key, value)),
        }
    }

    fn evict(&mut self, store: &TestStore, key: u32) {
        let Some(value) = self.resident.remove(&key) else { return };
        let change = Change { is_resident: true, ..ABSENT };
        let kept = store.keep(&item(&key.to_le_bytes(), &value), &change);
        if matches!(kept, Kept::Written | Kept::Present) {
            self.evicted.insert(key, value);
        }
    }

    /// Checks that the disk has the item that was evicted last, or nothing.
    fn read(&mut self, store: &TestStore, key: u32) {
        let Ok((known, found)) = store.find(&key.to_le_bytes()) else { return };
        if self.resident.contains_key(&key) && self.evicted.contains_key(&key) {
            panic!("the model has key {key} twice");
        }
        let Some(found) = found else { return };
        if let Some(value) = self.resident.get(&key) {
            assert_eq!(&found.value, value, "key {key}: memory has another item at {known:?}");
            return;
        }
        assert_eq!(Some(&found.value), self.evicted.get(&key), "key {key} is at {known:?}");
        // The item is brought back into memory, and the disk still has it.
        self.resident.insert(key, found.value);
        self.evicted.remove(&key);
    }

    fn work(&mut self, store: &TestStore, rng: &mut Rng) {
        for _ in 0..rng.u32(..3000) {
            let key = rng.u32(..KEYS);
            match rng.u32(..1000) {
                0..400 => self.change(store, key, rng),
                400..750 => self.evict(store, key),
                750..999 => self.read(store, key),
                _ if store.flush(|| ()).is_ok() => {
                    self.resident.clear();
                    self.evicted.clear();
                }
                _ => {}
            }
        }
    }
}

fn run(seed: u64) -> u64 {
    let (disk, mut rng) = (SimulatedDisk::new(seed), Rng::with_seed(seed));
    let (mut model, mut kept) = (Model::default(), 0);
    for life in 0..10 {
        let (store, started) = start(&disk);
        let expected = model.evicted.len();
        assert!(
            started.items as usize <= expected + model.resident.len(),
            "life {life}: {} items of {expected}",
            started.items
        );
        kept += started.items;
        // Memory is lost. Items that the disk returns must be current: they have not changed since.
        let resident = std::mem::take(&mut model.resident);
        model.evicted.extend(resident);
        model.work(&store, &mut rng);
        if rng.bool() {
            // The power is lost during a call while the store works, while it stops, or never.
            disk.inject(When::nth_of_any(rng.u64(1..60)), Fault::PowerLoss);
        }
        match rng.u8(..4) {
            0 => disk.lose_power(),
            _ => {
                let left = store.stop(Duration::from_secs(20));
                assert!(left == 0 || store.has_failed(), "{left} bytes are left");
            }
        }
        drop(store);
        disk.clear_faults();
    }
    kept
}

#[test]
fn the_disk_returns_the_item_that_was_evicted_last_or_none() {
    let number = |name: &str| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    if let Some(seed) = number("LARDER_SEED") {
        run(seed);
        return;
    }
    let seeds = number("LARDER_SEEDS").unwrap_or(12);
    let kept: u64 = (0..seeds)
        .map(|seed| {
            let result = std::panic::catch_unwind(|| run(seed));
            result.unwrap_or_else(|panic| {
                eprintln!("run it alone: LARDER_SEED={seed}");
                std::panic::resume_unwind(panic)
            })
        })
        .sum();
    assert!(kept > seeds * 100, "only {kept} items survived clean stops in {seeds} runs");
}
