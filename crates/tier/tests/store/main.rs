//! Threads change a store, on a disk that loses power in the middle of it: after each start every
//! key has what was acknowledged last, or a later change that was in flight.
//!
//! A seed is a whole run: `LARDER_SEED=17` runs it alone, `LARDER_SEEDS=1000` runs that number.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

mod faults;
mod keys;
mod reclaim;
mod tags;
mod user;

use std::env;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use larder_tier::disk::simulated::{Fault, SimulatedDirectory, SimulatedDisk, When};
use larder_tier::format::{Mode, SEGMENT_BYTES, Uuid};
use larder_tier::store::{Durability, Settings, Started, Store};
use larder_tier::{Entropy, Tier, Wanted};
use user::User;

/// The second of all tests, as a Unix time.
const NOW: u64 = 1_790_000_000;

/// The key of the hash that files keys.
const HASH_KEY: [u8; 16] = [2; 16];

type TestStore = Store<SimulatedDirectory>;

fn settings(durability: Durability) -> Settings {
    Settings {
        durability,
        dirty_bytes_max: 4 << 20,
        catalog_bytes_max: 1 << 20,
        clock: Arc::new(|| NOW),
    }
}

fn open(disk: &SimulatedDisk, extents: u64) -> Tier<SimulatedDirectory> {
    let wanted = Wanted { mode: Mode::Store, bytes: extents * SEGMENT_BYTES as u64 };
    let entropy = Entropy { uuid: Uuid([7; 16]), index_seed: 1, hash_key: HASH_KEY };
    Tier::open(disk.open(), wanted, entropy, NOW).unwrap()
}

fn start(disk: &SimulatedDisk, extents: u64, durability: Durability) -> (TestStore, Started) {
    Store::start(open(disk, extents), settings(durability), &mut |_, _| ()).unwrap()
}

/// Lets users work until the power is lost. Returns how many segments were reclaimed.
fn live(disk: &SimulatedDisk, users: &mut [User], extents: u64, rng: &mut Rng) -> u64 {
    let (store, _) = start(disk, extents, Durability::Sync);
    for user in &mut *users {
        user.check_all_after_start(&store);
    }
    // The power is lost at any time, or in a call.
    let is_in_call = rng.bool();
    let life = Duration::from_micros(if is_in_call { 0 } else { rng.u64(0..40_000) });
    if is_in_call {
        disk.inject(When::nth_of_any(rng.u64(1..400)), Fault::PowerLoss);
    }
    thread::scope(|scope| {
        for user in users {
            let store = &store;
            scope.spawn(move || user.work(store));
        }
        if !is_in_call {
            thread::sleep(life);
            disk.lose_power();
        }
    });
    disk.clear_faults();
    let why = store.failure().unwrap_or_else(|| "the simulated process has ended".into());
    assert!(why.contains("has ended"), "the store failed by itself: {why}");
    store.statistics().reclaimed_segments
}

fn run(seed: u64) -> u64 {
    let (disk, mut rng) = (SimulatedDisk::new(seed), Rng::with_seed(seed));
    let extents = rng.u64(8..12);
    let mut users: Vec<User> = (0..3).map(|number| User::new(number, rng.fork())).collect();
    let reclaimed: u64 = (0..12).map(|_| live(&disk, &mut users, extents, &mut rng)).sum();
    let (store, _) = start(&disk, extents, Durability::Sync);
    for user in &mut users {
        user.check_all_after_start(&store);
    }
    reclaimed
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

#[test]
fn what_was_acknowledged_survives_every_power_loss() {
    if let Some(seed) = number("LARDER_SEED") {
        run(seed);
        return;
    }
    let seeds = number("LARDER_SEEDS").unwrap_or(12);
    let reclaimed: u64 = (0..seeds)
        .map(|seed| {
            let result = std::panic::catch_unwind(|| run(seed));
            result.unwrap_or_else(|panic| {
                eprintln!("run it alone: LARDER_SEED={seed}");
                std::panic::resume_unwind(panic)
            })
        })
        .sum();
    assert!(reclaimed > seeds, "only {reclaimed} segments were reclaimed in {seeds} runs");
}
