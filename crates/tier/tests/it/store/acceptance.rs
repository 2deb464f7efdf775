//! A start that accepts a loss: items that may be out of date are dropped, later ones are kept, and
//! the next start finds no damage.

use std::collections::BTreeMap;
use std::env;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use larder_tier::Tier;
use larder_tier::disk::simulated::{Fault, SimulatedDirectory, SimulatedDisk, When};
use larder_tier::disk::{Directory, File, zeroed_pages};
use larder_tier::store::{
    Durability, Durable, KeyRecords, Settings, StartError, StartReport, Store,
};

use super::faults::{NEW, put, value};
use super::{TestStore, open, settings, start};

const SEGMENT: u64 = 4 << 20;
const PAGES: u64 = SEGMENT / 4096;
const EXTENTS: u64 = 16;
const KEYS: u32 = 300;

/// The changes of each key: the turn of a stored value, `None` for a delete. The last one is
/// current.
type History = BTreeMap<u32, Vec<Option<u32>>>;

fn bytes_of(n: u32, turn: u32) -> Vec<u8> {
    [n, turn].map(u32::to_le_bytes).concat().repeat(1000 + (n as usize * 37 + turn as usize) % 500)
}

fn delete(store: &TestStore, n: u32) {
    let key = n.to_le_bytes();
    let known = store.find(&key).map_or(KeyRecords::default(), |(known, _)| known);
    store.remove(&key, &NEW, &known).unwrap();
}

/// Fills some segments while replacing and deleting items, then kills the process.
fn fill(disk: &SimulatedDisk, rng: &mut Rng) -> History {
    let (store, _) = start(disk, EXTENTS, Durability::Async);
    let mut history = History::new();
    for turn in 0..1500_u32 {
        let n = rng.u32(0..KEYS);
        let is_delete = rng.u64(0..4) == 0;
        if is_delete {
            delete(&store, n);
        } else {
            put(&store, &n.to_le_bytes(), &bytes_of(n, turn)).unwrap();
        }
        history.entry(n).or_default().push((!is_delete).then_some(turn));
        if rng.u64(0..20) == 0 {
            assert_eq!(store.sync(), Durable::Yes);
        }
    }
    assert_eq!(store.sync(), Durable::Yes);
    // This unit proves that everything before it is durable.
    put(&store, b"last", b"").unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    history
}

pub(crate) fn accept(
    tier: Tier<SimulatedDirectory>,
) -> (Result<(TestStore, StartReport), StartError>, Vec<String>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let note = Arc::clone(&said);
    let settings = Settings {
        accept_loss: Some(Arc::new(move |damage| note.lock().unwrap().push(damage.to_string()))),
        ..settings(Durability::Async)
    };
    let started = Store::start(tier, settings, &mut |_, _| ());
    let said = said.lock().unwrap().clone();
    (started, said)
}

pub(crate) fn plain(disk: &SimulatedDisk) -> Result<(TestStore, StartReport), StartError> {
    Store::start(open(disk, EXTENTS), settings(Durability::Async), &mut |_, _| ())
}

/// Counts the keys that are readable and have their newest value. Fails if a key has an older
/// value, or one that was deleted.
fn current(store: &TestStore, history: &History) -> usize {
    let mut count = 0;
    for (n, changes) in history {
        let newest = changes.last().unwrap();
        // The item is damaged if the read fails.
        let Ok((_, Some(found))) = store.find(&n.to_le_bytes()) else { continue };
        let found = found.value;
        let is_newest = newest.is_some_and(|turn| found == bytes_of(*n, turn));
        assert!(is_newest, "key {n} is back from the dead, of {changes:?}");
        count += 1;
    }
    count
}

/// Damages the log.
fn damage(disk: &SimulatedDisk, rng: &mut Rng, turn: u64) {
    let at = rng.u64(0..3 * SEGMENT);
    match turn % 4 {
        // A bit anywhere, or in a header.
        0 | 1 => assert!(disk.flip_bit("log", at * 8 + rng.u64(0..8))),
        2 => assert!(disk.flip_bit("log", (at / SEGMENT * SEGMENT + rng.u64(0..64)) * 8)),
        // A page.
        _ => (0..4096).for_each(|byte| {
            assert!(disk.flip_bit("log", (at / 4096 * 4096 + byte) * 8 + rng.u64(0..8)));
        }),
    }
}

#[test]
fn what_may_be_out_of_date_is_dropped_and_nothing_comes_back() {
    let (mut accepted_losses, mut dropped_some) = (0, 0);
    for seed in 0..60 {
        let (disk, mut rng) = (SimulatedDisk::new(seed), Rng::with_seed(seed));
        let history = fill(&disk, &mut rng);
        damage(&disk, &mut rng, seed);
        if let Ok((store, _)) = plain(&copy(&disk, seed)) {
            // The damage is in a free segment, after the end of the log, or in a segment with a
            // summary.
            current(&store, &history);
        }
        let (accepted, said) = accept(open(&disk, EXTENTS));
        let (store, started) = accepted.unwrap();
        let Some(found) = started.accepted else {
            current(&store, &history);
            continue;
        };
        accepted_losses += 1;
        assert_eq!(said.len() as u64, found.damages, "seed {seed}: {said:?}");
        let kept = current(&store, &history);
        let all = history.values().filter(|changes| changes.last().unwrap().is_some()).count();
        dropped_some += usize::from(kept > 0 && kept < all);
        // The damage does not affect the record after it.
        let is_last = said.iter().any(|said| said.contains("header and all units"));
        assert!(is_last || value(&store, b"last").is_some(), "seed {seed}: {said:?}");
        disk.kill();
        drop(store);
        let (store, started) = start(&disk, EXTENTS, Durability::Async);
        assert_eq!(started.accepted, None);
        assert_eq!(current(&store, &history), kept, "seed {seed}: the next start finds as much");
    }
    let enough = accepted_losses > 30 && dropped_some > 10;
    assert!(enough, "{accepted_losses} accepted losses, {dropped_some} dropped some");
}

#[test]
fn a_log_without_damage_stays_as_it_is() {
    let disk = SimulatedDisk::new(1);
    let history = fill(&disk, &mut Rng::with_seed(1));
    let (accepted, said) = accept(open(&disk, EXTENTS));
    let (store, started) = accepted.unwrap();
    assert_eq!((started.accepted, said.len()), (None, 0));
    let all = history.values().filter(|changes| changes.last().unwrap().is_some()).count();
    assert_eq!(current(&store, &history), all);
}

/// The ways in which a log is damaged before its loss is accepted.
type Harm = fn(&SimulatedDisk);

const HARMS: [(&str, Harm); 3] = [
    ("a page of the newest segment", |disk| {
        (0..4096).for_each(|byte| assert!(disk.flip_bit("log", 8 * (DAMAGED + byte))));
    }),
    ("a bit of the segment before", |disk| {
        assert!(disk.flip_bit("log", 8 * (DAMAGED - SEGMENT)));
    }),
    ("the newest segment", |disk| disk.set_bad_pages("log", 2 * PAGES..3 * PAGES)),
];

/// Returns a disk with the same directory.
pub(crate) fn copy(disk: &SimulatedDisk, seed: u64) -> SimulatedDisk {
    let (from, copied) = (disk.open(), SimulatedDisk::new(seed));
    let to = copied.open();
    to.replace_small("MANIFEST", &from.read_small("MANIFEST").unwrap().unwrap()).unwrap();
    let mut pages = zeroed_pages((EXTENTS * PAGES) as usize);
    from.open("log").unwrap().unwrap().read_pages(0, &mut pages).unwrap();
    let log = to.create("log").unwrap();
    log.set_len(EXTENTS * SEGMENT).unwrap();
    log.write_pages(0, &pages).unwrap();
    log.sync_data().unwrap();
    to.sync().unwrap();
    copied
}

/// Accepts a loss, loses power during the given call, and accepts the remaining loss. Returns how
/// many keys have their value afterwards, and whether the first acceptance was completed.
fn accepted_in_two(disk: &SimulatedDisk, history: &History, call: Option<u64>) -> (usize, bool) {
    let tier = open(disk, EXTENTS);
    if let Some(call) = call {
        disk.inject(When::nth_of_any(call), Fault::PowerLoss);
    }
    let is_over = accept(tier).0.is_ok();
    disk.lose_power();
    disk.clear_faults();
    let (accepted, said) = accept(open(disk, EXTENTS));
    let (store, _) = accepted.unwrap_or_else(|error| panic!("call {call:?}: {error}: {said:?}"));
    (current(&store, history), is_over)
}

#[test]
fn an_acceptance_that_is_broken_off_drops_no_more_and_no_less_the_next_time() {
    for (name, harm) in HARMS {
        let disk = SimulatedDisk::new(1);
        let history = fill(&disk, &mut Rng::with_seed(1));
        let harmed = |seed: u64| {
            let disk = copy(&disk, seed);
            harm(&disk);
            disk
        };
        let (kept, _) = accepted_in_two(&harmed(0), &history, None);
        // Each call in turn is the last one before the power loss.
        let steps = if env::var_os("LARDER_SEEDS").is_some() { 1 } else { 97 };
        for call in (1..).step_by(steps) {
            let (now, is_over) = accepted_in_two(&harmed(call), &history, Some(call));
            assert_eq!(now, kept, "{name}: the power is lost in call {call}");
            if is_over {
                break;
            }
        }
    }
}

#[test]
fn pages_that_the_disk_does_not_return_are_written_anew() {
    // In records, in a header, and after the end of the log.
    for bad in [1500..1502, 0..1, 3 * 1024 - 1..3 * 1024] {
        let (disk, mut rng) = (SimulatedDisk::new(1), Rng::with_seed(1));
        let history = fill(&disk, &mut rng);
        disk.set_bad_pages("log", bad.clone());
        if bad.start != 1500 {
            // A start does not read the records of a segment with a summary.
            let refused = plain(&disk).unwrap_err().to_string();
            assert!(refused.contains("--tier-accept-loss"), "{refused}");
        }
        let (accepted, said) = accept(open(&disk, EXTENTS));
        let (store, started) = accepted.unwrap();
        assert!(started.accepted.is_some() && !said.is_empty());
        current(&store, &history);
        disk.kill();
        drop(store);
        current(&plain(&disk).unwrap().0, &history);
    }
}

/// A page of records in the third segment.
const DAMAGED: u64 = 2 * SEGMENT + 1_000_000 / 4096 * 4096;
