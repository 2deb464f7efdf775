//! The system clock is set between two processes, and while a process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::store::{Change, Durability, Known, Settings, Started, Store};
use larder_tier::{LogTime, Tier};

use super::faults::item;
use super::{NOW, TestStore, open, settings};

/// The clocks of a process: the system clock, which the test sets, and the log's time.
#[derive(Clone)]
struct Clocks {
    wall: Arc<AtomicU64>,
    log: Arc<AtomicU64>,
}

impl Clocks {
    fn at(wall: u64) -> Self {
        let clock = || Arc::new(AtomicU64::new(wall));
        Self { wall: clock(), log: clock() }
    }

    fn start(&self, disk: &SimulatedDisk) -> (TestStore, Started) {
        let (wall, log) = (Arc::clone(&self.wall), Arc::clone(&self.log));
        let settings = Settings {
            clock: Arc::new(move || log.load(Relaxed)),
            wall: Arc::new(move || wall.load(Relaxed)),
            ..settings(Durability::Async)
        };
        let (store, started) = Store::start(open(disk, 16), settings, &mut |_, _| ()).unwrap();
        // Like the caller of a store: from here on it uses the log's time.
        let ahead = started.time.ahead_secs;
        self.log.store(self.wall.load(Relaxed).saturating_add_signed(ahead), Relaxed);
        (store, started)
    }

    /// Advances both clocks.
    fn pass(&self, secs: u64) {
        self.wall.fetch_add(secs, Relaxed);
        self.log.fetch_add(secs, Relaxed);
    }

    fn log_now(&self) -> u64 {
        self.log.load(Relaxed)
    }
}

fn put(store: &TestStore, key: &[u8], now_unix_secs: u64) {
    let change = Change { now_unix_secs, is_resident: false, is_gone: &|| false };
    store.put(&item(key, b"value"), &change, &Known::default()).unwrap();
    store.sync();
}

/// Ends the process with a clean stop or a kill.
fn end(store: TestStore, disk: &SimulatedDisk, is_clean: bool) {
    if is_clean {
        assert_eq!(store.stop(Duration::from_secs(10)), 0);
    } else {
        disk.kill();
        drop(store);
    }
}

#[test]
fn the_logs_time_stands_while_the_clock_is_behind_and_goes_on_with_it() {
    for is_clean in [true, false] {
        let disk = SimulatedDisk::new(1);
        let clocks = Clocks::at(NOW);
        let (store, started) = clocks.start(&disk);
        assert_eq!(started.time, LogTime::default());
        clocks.pass(100);
        put(&store, b"a", clocks.log_now());
        end(store, &disk, is_clean);
        // The clock was ahead by 20 years, and is correct now.
        let years = 20 * 365 * 86_400;
        let right = Clocks::at(NOW + 100 - years);
        let (store, started) = right.start(&disk);
        let expected = LogTime { ahead_secs: years.cast_signed(), skew_secs: years };
        assert_eq!(started.time, expected, "clean: {is_clean}");
        assert_eq!(right.log_now(), NOW + 100, "no time has passed");
        right.pass(50);
        put(&store, b"b", right.log_now());
        end(store, &disk, is_clean);
        // Ten seconds later according to a correct clock.
        let later = Clocks::at(NOW + 160 - years);
        let (store, started) = later.start(&disk);
        assert_eq!(started.time.skew_secs, 0, "the clock is where it was, clean: {is_clean}");
        assert_eq!(later.log_now(), NOW + 160, "ten seconds have passed");
        end(store, &disk, true);
    }
}

#[test]
fn a_clock_that_is_set_while_the_store_serves_shifts_nothing_at_the_next_start() {
    for step_secs in [3600_i64, -3600] {
        let disk = SimulatedDisk::new(2);
        let clocks = Clocks::at(NOW);
        let (store, _) = clocks.start(&disk);
        put(&store, b"k", clocks.log_now());
        let before = clocks.log_now();
        let wall = clocks.wall.load(Relaxed).saturating_add_signed(step_secs);
        clocks.wall.store(wall, Relaxed);
        clocks.pass(30);
        end(store, &disk, true);
        let next = Clocks::at(wall + 40);
        let (store, started) = next.start(&disk);
        assert_eq!(started.time.skew_secs, 0, "set by {step_secs} s");
        assert_eq!(next.log_now(), before + 40, "set by {step_secs} s");
        end(store, &disk, true);
    }
}

#[test]
fn a_time_that_no_manifest_holds_is_the_nearest_one() {
    let disk = SimulatedDisk::new(3);
    let mut tier: Tier<_> = open(&disk, 16);
    for (ahead_secs, kept) in [(i64::MAX, i32::MAX), (i64::MIN, i32::MIN), (-7, -7)] {
        tier.note_ahead(ahead_secs);
        assert_eq!(tier.manifest().ahead_secs, kept);
        let far = tier.log_time(u64::MAX, 0);
        assert!(far.skew_secs > 0, "nothing overflows: {far:?}");
    }
}
