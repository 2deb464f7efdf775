//! The power is lost while a store trains and writes dictionaries. Every acknowledged value is
//! found afterwards.
//!
//! `LARDER_SEED=17` runs only this seed, `LARDER_SEEDS=1000` runs that many.

use std::collections::BTreeMap;
use std::env;
use std::panic::{catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_tier::compression::Compression;
use larder_tier::disk::Directory;
use larder_tier::disk::simulated::{Fault, SimulatedDisk, When};
use larder_tier::format::{Manifest, Mode};
use larder_tier::store::{Durable, KeyRecords, Refusal};

use super::{NEW, TestStore, item, json, key, start_as};

const KEYS: u32 = 120;

/// The values that a key may have: the last acknowledged one, and all later ones.
type History = BTreeMap<u32, Vec<Option<u32>>>;

/// Stores a value. Returns false once the disk has failed.
fn put(store: &TestStore, number: u32, write: u32) -> bool {
    let mut known = KeyRecords::default();
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match store.put(&item(&key(number), &json(write)), &NEW, &known) {
            Ok(()) => return true,
            Err(Refusal::Busy) if store.wait_for_progress(deadline).is_ok() => {}
            Err(Refusal::NeedsDisk) => match store.find(&key(number)) {
                Ok((found, _)) => known = found,
                Err(_) => return false,
            },
            Err(_) => return false,
        }
    }
}

fn check(store: &TestStore, history: &mut History, writes: u32) {
    for (number, may_have) in history {
        let found = store.find(&key(*number)).unwrap().1.map(|item| item.value);
        let write = found.map(|value| {
            let of = (0..=writes).find(|write| json(*write) == value);
            of.unwrap_or_else(|| panic!("key {number} has a value that no write had"))
        });
        assert!(may_have.contains(&write), "key {number} has {write:?}, not one of {may_have:?}");
        *may_have = vec![write];
    }
}

/// Runs until the power is lost. Returns the number of the newest dictionary.
fn live(disk: &SimulatedDisk, history: &mut History, writes: &mut u32, rng: &mut Rng) -> u64 {
    // The first one is trained again and again, because each start begins with a short log.
    let compression =
        Compression { dictionary_bytes: 512, train_after_bytes: rng.u64(1..4) * (16 << 10) };
    let (store, _) = start_as(disk, Mode::Store, rng.bool().then_some(compression));
    check(&store, history, *writes);
    let (calls, waits) = (rng.u64(1..80), rng.bool());
    let mut is_armed = false;
    for turn in 0..400 {
        *writes += 1;
        let number = rng.u32(..KEYS);
        history.entry(number).or_insert_with(|| vec![None]).push(Some(*writes));
        if !put(&store, number, *writes) {
            break;
        }
        if turn % 40 == 39 {
            if store.sync() != Durable::Yes {
                break;
            }
            for states in history.values_mut() {
                states.drain(..states.len() - 1);
            }
            if waits {
                // Leaves the trainer some time.
                std::thread::sleep(Duration::from_millis(15));
            }
        }
        if turn > 200 && !is_armed {
            is_armed = true;
            disk.inject(When::nth_of_any(calls), Fault::PowerLoss);
        }
    }
    let dictionary = store.statistics().dictionary;
    disk.lose_power();
    disk.clear_faults();
    drop(store);
    dictionary
}

fn run(seed: u64) -> u64 {
    let (disk, mut rng) = (SimulatedDisk::new(seed), Rng::with_seed(seed));
    let (mut history, mut writes, mut newest) = (History::new(), 0, 0);
    for _ in 0..5 {
        newest = newest.max(live(&disk, &mut history, &mut writes, &mut rng));
        let manifest = disk.open().read_small("MANIFEST").unwrap().unwrap();
        let durable = Manifest::decode(&manifest).unwrap().dictionaries;
        assert!(newest <= durable.unwrap_or(0).into(), "records may name dictionary {newest}");
    }
    let (store, _) = start_as(&disk, Mode::Store, None);
    check(&store, &mut history, writes);
    newest
}

#[test]
fn no_power_loss_costs_an_acknowledged_value_or_its_dictionary() {
    let number = |name| env::var(name).ok().map(|text: String| text.parse::<u64>().unwrap());
    if let Some(seed) = number("LARDER_SEED") {
        run(seed);
        return;
    }
    let seeds = number("LARDER_SEEDS").map_or(8, |seeds| seeds.div_ceil(10));
    let dictionaries: u64 = (0..seeds)
        .map(|seed| {
            catch_unwind(|| run(seed)).unwrap_or_else(|panic| {
                eprintln!("run it alone: LARDER_SEED={seed}");
                resume_unwind(panic)
            })
        })
        .sum();
    assert!(dictionaries > seeds / 2, "only {dictionaries} dictionaries in {seeds} runs");
}
