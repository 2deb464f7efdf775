//! Random work on a log, on a disk that loses power, tears pages and fails. After each crash,
//! recovery must find all acknowledged changes, and nothing that did not happen.
//!
//! A seed is a complete run: `LARDER_SEED=17` runs only this seed. `LARDER_SEEDS=100000` runs that
//! many, and a 50th of them with a power loss at each call of recovery.

mod history;
mod scribe;

use std::collections::BTreeMap;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use fastrand::Rng;
use history::{Change, History, State};
use larder_tier::disk::Call;
use larder_tier::disk::simulated::{Fault, SimulatedDirectory, SimulatedDisk, When};
use larder_tier::flusher::FlushError;
use larder_tier::format::{
    KeyHash, KeyHasher, Mode, Record, SEGMENT_BYTES, SummaryEntry, SummaryKind, Uuid,
};
use larder_tier::recovery::{Place, Visitor, recover};
use larder_tier::{Entropy, OpenError, RequestedTier, Tier};
use scribe::{Live, NOW, Scribe, value_of};

const KEYS: u8 = 6;
const EXTENTS: u64 = 5;

fn wanted() -> RequestedTier {
    RequestedTier { mode: Mode::Store, bytes: EXTENTS * SEGMENT_BYTES as u64 }
}

fn entropy() -> Entropy {
    Entropy { uuid: Uuid([7; 16]), index_seed: 1, hash_key: [2; 16] }
}

/// The items that recovery shows, collected in the same way as in the index.
#[derive(Default)]
struct Index {
    live: BTreeMap<u8, Live>,
}

impl Visitor for Index {
    fn record(&mut self, place: Place, record: &Record<'_>) {
        match record {
            Record::Item(item) => {
                let write = item.version as u32;
                assert_eq!(item.value, value_of(write), "the value of a write is its own");
                self.live.insert(item.key[0], Live { place, write });
            }
            Record::Tombstone { key } => drop(self.live.remove(&key[0])),
            Record::Flush => self.live.clear(),
            Record::Compressed(_) => panic!("nothing is compressed"),
            Record::Delay { .. } | Record::Lost { .. } | Record::Void { .. } => {}
        }
    }

    fn reads_summaries(&self) -> bool {
        true
    }

    fn entry(&mut self, place: Place, entry: &SummaryEntry) {
        match entry.what {
            // The write is read later, as a client would read it.
            SummaryKind::Item { key, .. } => {
                self.live.insert(key_of(key), Live { place, write: UNREAD });
            }
            SummaryKind::Tombstone { key } => drop(self.live.remove(&key_of(key))),
            SummaryKind::Flush => self.live.clear(),
            SummaryKind::Delay { .. } | SummaryKind::Lost { .. } => {}
        }
    }
}

/// The write of an item that was found in a summary.
const UNREAD: u32 = u32::MAX;

fn key_of(hash: KeyHash) -> u8 {
    let hasher = KeyHasher::new(&entropy().hash_key);
    (0..KEYS).find(|key| hasher.identity(&[*key]) == hash.identity).expect("the hash of a key")
}

impl Index {
    /// Reads the items that were found in summaries. Returns an error only if the disk fails.
    fn read(&mut self, tier: &Tier<SimulatedDirectory>) -> Result<(), ()> {
        for (key, live) in self.live.iter_mut().filter(|(_, live)| live.write == UNREAD) {
            let (Place { extent, at }, mut pages) = (live.place, Vec::new());
            live.write = match tier.log().fetch(extent, at, 4, &mut pages) {
                Ok(Record::Item(item)) if item.key == [*key] => item.version as u32,
                Ok(other) => panic!("{at} has {other:?}, and a summary names key {key}"),
                Err(larder_tier::log::ReadError::Disk(_)) => return Err(()),
                Err(damage) => panic!("a summary names a record that was lost: {damage}"),
            };
        }
        Ok(())
    }
}

type Started = Scribe<SimulatedDirectory>;

/// Starts without memory, as after a reboot. Returns an error only if the disk fails.
fn start(disk: &SimulatedDisk, history: &mut History) -> Result<Started, ()> {
    let opened = Tier::open(disk.open(), wanted(), entropy(), NOW);
    let mut tier = opened.map_err(only_disk)?;
    tier.begin_anew().map_err(only_disk)?;
    let mut index = Index::default();
    let found = match recover(&tier, NOW, &mut index) {
        Ok(found) => found,
        Err(larder_tier::recovery::RecoveryError::Disk(_)) => return Err(()),
        Err(larder_tier::recovery::RecoveryError::Header(larder_tier::log::HeaderError::Disk(
            _,
        ))) => return Err(()),
        Err(damage) => panic!("no power loss looks like damage: {damage}"),
    };
    index.read(&tier)?;
    let items = index.live.iter().map(|(key, live)| (*key, live.write)).collect();
    history.recovered(State { items, delay: found.delay.map(|delay| delay.due_unix_secs) });
    Ok(Scribe::new(tier, &found, index.live))
}

fn only_disk(error: OpenError) {
    assert!(matches!(error, OpenError::Disk(_)), "no power loss looks like damage: {error}");
}

/// The state between two crashes.
struct Life<'a> {
    scribe: Started,
    history: &'a mut History,
    rng: &'a mut Rng,
    writes: &'a mut u32,
}

impl Life<'_> {
    fn step(&mut self) -> Result<(), FlushError> {
        let key = self.rng.u8(0..KEYS);
        if self.scribe.free() < 2 {
            return self.make_room();
        }
        match self.rng.u8(0..100) {
            0..45 => {
                *self.writes += 1;
                self.history.did(Change::Set(key, *self.writes));
                self.scribe.set(key, *self.writes)
            }
            45..60 => {
                self.history.did(Change::Delete(key));
                self.scribe.delete(key)
            }
            60..62 => {
                self.history.did(Change::Flush);
                self.scribe.flush()
            }
            62..64 => {
                let due = NOW + u64::from(self.rng.u8(..));
                self.history.did(Change::Delay(due));
                self.scribe.delay(due)
            }
            64..76 => self.scribe.write(),
            76..84 => {
                self.scribe.shut();
                Ok(())
            }
            84..88 if self.scribe.reclaimable() > 0 => self.make_room(),
            88..92 => self.read(key),
            _ => self.sync(),
        }
    }

    fn sync(&mut self) -> Result<(), FlushError> {
        self.scribe.sync()?;
        self.history.acknowledge();
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), FlushError> {
        if self.scribe.reclaimable() == 0 || self.scribe.free() == 0 {
            return self.sync();
        }
        self.scribe.reclaim()
    }

    /// Reads an item on the disk at its position.
    fn read(&mut self, key: u8) -> Result<(), FlushError> {
        self.scribe.write()?;
        let Some(live) = self.scribe.live.get(&key).copied() else { return Ok(()) };
        let mut pages = Vec::new();
        let guess = self.rng.usize(..500);
        let log = self.scribe.tier().log();
        match log.fetch(live.place.extent, live.place.at, guess, &mut pages) {
            Ok(Record::Item(item)) => assert_eq!(item.value, value_of(live.write)),
            Ok(other) => panic!("{:?} holds {other:?}", live.place),
            Err(larder_tier::log::ReadError::Disk(error)) => return Err(error.into()),
            Err(damage) => panic!("an item that was written is read: {damage}"),
        }
        Ok(())
    }
}

fn end(disk: &SimulatedDisk, rng: &mut Rng) {
    disk.clear_faults();
    match rng.bool() {
        true => disk.lose_power(),
        false => disk.kill(),
    }
}

/// A fault that the next calls may have.
fn inject(disk: &SimulatedDisk, rng: &mut Rng) {
    let nth = rng.u64(1..40);
    match rng.u8(0..10) {
        0..2 => disk.inject(When::nth_of_any(nth), Fault::PowerLoss),
        2..4 => disk.inject(When::nth_of_any(nth), Fault::Kill),
        4 => disk.inject(When::nth(Call::Write, nth), Fault::Errno(5)),
        5..7 => {
            let fault = Fault::LosePages { some: rng.bool() };
            disk.inject(When::nth(Call::SyncData, nth / 4 + 1), fault);
        }
        _ => {}
    }
}

/// Runs one life after another, each from recovery to a crash.
fn lives(disk: &SimulatedDisk, rng: &mut Rng, count: u8, history: &mut History) {
    let mut writes = 0;
    for _ in 0..count {
        inject(disk, rng);
        if let Ok(scribe) = start(disk, history) {
            let steps = rng.usize(1..60);
            let mut life = Life { scribe, history, rng, writes: &mut writes };
            // After an error the flusher neither writes nor syncs, however often it is called
            // (ErrorIsFinal).
            for _ in 0..steps {
                let _ = life.step();
            }
        }
        end(disk, rng);
    }
}

fn run(seed: u64) {
    let mut rng = Rng::with_seed(seed);
    let disk = SimulatedDisk::new(seed);
    let mut history = History::default();
    let count = rng.u8(2..6);
    lives(&disk, &mut rng, count, &mut history);
    start(&disk, &mut history).expect("a disk without faults is recovered");
}

/// Runs a seed, with a power loss at call `nth` of the last recovery. Returns whether that
/// happened.
fn run_to_recovery(seed: u64, nth: u64) -> bool {
    let mut rng = Rng::with_seed(seed);
    let disk = SimulatedDisk::new(seed);
    let mut history = History::default();
    lives(&disk, &mut rng, 1, &mut history);
    disk.inject(When::nth_of_any(nth), Fault::PowerLoss);
    let interrupted = start(&disk, &mut history).is_err();
    disk.clear_faults();
    start(&disk, &mut history).expect("a disk without faults is recovered");
    interrupted
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|text| text.parse().unwrap())
}

/// Runs each seed, and prints the one that fails.
fn each_seed(count: u64, run: impl Fn(u64)) {
    let seeds = match number("LARDER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    };
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed))) {
            eprintln!("this was the seed {seed}: LARDER_SEED={seed} runs it alone");
            resume_unwind(panic);
        }
    }
}

#[test]
fn recovery_finds_what_was_acknowledged() {
    each_seed(number("LARDER_SEEDS").unwrap_or(100), run);
}

#[test]
fn recovery_may_lose_power_at_any_call() {
    let seeds = number("LARDER_SEEDS").map_or(10, |seeds| seeds.div_ceil(50));
    each_seed(seeds, lose_power_at_each_call);
}

fn lose_power_at_each_call(seed: u64) {
    let interrupted = (1..).take_while(|nth| run_to_recovery(seed, *nth)).count();
    assert!(interrupted > 5, "a recovery has more calls than {interrupted}");
}
