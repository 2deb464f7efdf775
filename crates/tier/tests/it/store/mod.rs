//! Threads change a store on a disk that may lose power at any time. After each start every key
//! must have the last acknowledged change, or a later change that was not acknowledged before the
//! power loss. After a clean stop it must have the last recorded change.
//!
//! A seed is a complete run: `LARDER_SEED=17` runs only this seed, `LARDER_SEEDS=1000` runs that
//! many.

mod acceptance;
mod bits;
mod clock;
mod damage;
mod doubt;
mod expiry;
mod faults;
mod flips;
mod keys;
mod reclaim;
mod summaries;
mod tags;
mod user;
mod walk;

use std::env;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use larder_tier::disk::simulated::{Fault, SimulatedDirectory, SimulatedDisk, When};
use larder_tier::format::{Mode, SEGMENT_BYTES, Uuid};
use larder_tier::store::{Durability, Settings, StartReport, Store};
use larder_tier::{Entropy, RequestedTier, Tier};
use user::User;

/// The current second in all tests, as a Unix time.
const NOW: u64 = 1_790_000_000;

/// The key of the catalog's hash.
const HASH_KEY: [u8; 16] = [2; 16];

type TestStore = Store<SimulatedDirectory>;

fn settings(durability: Durability) -> Settings {
    Settings {
        durability,
        dirty_bytes_max: 4 << 20,
        catalog_bytes_max: 1 << 20,
        clock: Arc::new(|| NOW),
        wall: Arc::new(|| NOW),
        before_change: Arc::new(|| ()),
        accept_loss: None,
        compression: None,
    }
}

fn try_open(
    disk: &SimulatedDisk,
    extents: u64,
) -> Result<Tier<SimulatedDirectory>, larder_tier::OpenError> {
    let wanted = RequestedTier { mode: Mode::Store, bytes: extents * SEGMENT_BYTES as u64 };
    let entropy = Entropy { uuid: Uuid([7; 16]), index_seed: 1, hash_key: HASH_KEY };
    Tier::open(disk.open(), wanted, entropy, NOW)
}

fn open(disk: &SimulatedDisk, extents: u64) -> Tier<SimulatedDirectory> {
    try_open(disk, extents).unwrap()
}

fn start(disk: &SimulatedDisk, extents: u64, durability: Durability) -> (TestStore, StartReport) {
    Store::start(open(disk, extents), settings(durability), &mut |_, _| ()).unwrap()
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The power is lost at any time.
    PowerLoss,
    /// The power is lost during a call.
    PowerLossInCall,
    /// A clean stop.
    Stop,
    /// A stop during which the power may be lost.
    BrokenStop,
}

/// Runs users until the power is lost or the store stops. Returns how many segments were reclaimed,
/// and whether an index exists; `None` if the power was lost during the stop.
fn live(
    disk: &SimulatedDisk,
    users: &mut [User],
    (extents, has_index): (u64, Option<bool>),
    rng: &mut Rng,
) -> (u64, Option<bool>) {
    let (store, started) = start(disk, extents, Durability::Sync);
    if let Some(has_index) = has_index {
        assert_eq!(started.is_from_index, has_index, "only a clean stop leaves an index to read");
    }
    for user in &mut *users {
        user.check_all_after_start(&store);
    }
    let ends = [End::PowerLoss, End::PowerLossInCall, End::Stop, End::BrokenStop];
    let end = ends[rng.usize(..ends.len())];
    let life = Duration::from_micros(rng.u64(0..40_000));
    let (during_life, during_stop) = (rng.u64(1..400), rng.u64(1..16));
    if end == End::PowerLossInCall {
        disk.inject(When::nth_of_any(during_life), Fault::PowerLoss);
    }
    let left = thread::scope(|scope| {
        for user in &mut *users {
            let store = &store;
            scope.spawn(move || user.work(store));
        }
        if end != End::PowerLossInCall {
            thread::sleep(life);
        }
        match end {
            End::PowerLoss => disk.lose_power(),
            End::PowerLossInCall => {}
            End::BrokenStop => disk.inject(When::nth_of_any(during_stop), Fault::PowerLoss),
            End::Stop => {}
        }
        matches!(end, End::Stop | End::BrokenStop).then(|| store.stop(Duration::from_secs(20)))
    });
    disk.clear_faults();
    let is_clean = left == Some(0) && !store.has_failed();
    if is_clean {
        users.iter_mut().for_each(User::note_all_durable);
    } else {
        assert_ne!(end, End::Stop, "{left:?} bytes are left, {:?}", store.failure());
        let why = store.failure().unwrap_or_else(|| "the simulated process has ended".into());
        assert!(why.contains("has ended"), "the store failed by itself: {why}");
    }
    let has_index = (is_clean || left.is_none()).then_some(is_clean);
    (store.statistics().reclaimed_segments, has_index)
}

fn run(seed: u64) -> u64 {
    let (disk, mut rng) = (SimulatedDisk::new(seed), Rng::with_seed(seed));
    let extents = rng.u64(8..12);
    let mut users: Vec<User> = (0..3).map(|number| User::new(number, rng.fork())).collect();
    let (mut reclaimed, mut has_index) = (0, Some(false));
    for _ in 0..12 {
        let life = live(&disk, &mut users, (extents, has_index), &mut rng);
        (reclaimed, has_index) = (reclaimed + life.0, life.1);
    }
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
