//! Compressed values: readers find the plain values, whatever happens to the directory.

mod crashes;
mod damage;
mod directory;
mod fixture;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use larder_tier::compression::Compression;
use larder_tier::disk::simulated::{SimulatedDirectory, SimulatedDisk};
use larder_tier::format::{Item, Mode, SEGMENT_BYTES, Uuid};
use larder_tier::store::{
    Change, Demoted, Durability, Durable, KeyRecords, Refusal, Settings, StartReport, Store,
    WalkStep,
};
use larder_tier::{Entropy, OpenError, RequestedTier, Tier};

/// The current second in all tests, as a Unix time.
const NOW: u64 = 1_790_000_000;
const EXTENTS: u64 = 8;
const STOP: Duration = Duration::from_secs(20);
const NEW: Change<'static> = Change { now_unix_secs: NOW, is_resident: false, is_gone: &|| false };

type TestStore = Store<SimulatedDirectory>;

/// Short dictionaries, which are trained early.
const COMPRESSION: Compression =
    Compression { dictionary_bytes: 1 << 10, train_after_bytes: 64 << 10 };

fn settings(compression: Option<Compression>) -> Settings {
    Settings {
        durability: Durability::Async,
        dirty_bytes_max: 4 << 20,
        catalog_bytes_max: 1 << 20,
        clock: Arc::new(|| NOW),
        wall: Arc::new(|| NOW),
        before_change: Arc::new(|| ()),
        accept_loss: None,
        compression,
    }
}

fn open(disk: &SimulatedDisk, mode: Mode) -> Result<Tier<SimulatedDirectory>, OpenError> {
    let wanted = RequestedTier { mode, bytes: EXTENTS * SEGMENT_BYTES as u64 };
    let entropy = Entropy { uuid: Uuid([7; 16]), index_seed: 1, hash_key: [2; 16] };
    Tier::open(disk.open(), wanted, entropy, NOW)
}

fn start_as(
    disk: &SimulatedDisk,
    mode: Mode,
    compression: Option<Compression>,
) -> (TestStore, StartReport) {
    Store::start(open(disk, mode).unwrap(), settings(compression), &mut |_, _| ()).unwrap()
}

fn start(disk: &SimulatedDisk) -> TestStore {
    start_as(disk, Mode::Store, Some(COMPRESSION)).0
}

/// Returns a value of about 285 bytes. Values of different numbers are similar.
fn json(number: u32) -> Vec<u8> {
    let mut rng = Rng::with_seed(number.into());
    let token: String = (0..32).map(|_| rng.digit(16)).collect();
    let city = ["Aarhus", "Berlin", "Dublin", "Essen", "Izmir", "Oslo"][rng.usize(..6)];
    let text = format!(
        "{{\"id\":{number},\"name\":\"user {}\",\"email\":\"user.{}@example.com\",\
         \"city\":\"{city}\",\"session\":\"{token}\",\"visits\":{},\"active\":{},\
         \"roles\":[\"reader\",\"editor\"],\"last_seen\":\"2026-11-{:02}T{:02}:00:00Z\",\
         \"settings\":{{\"theme\":\"dark\",\"language\":\"en\",\"mails\":{}}}}}",
        rng.u32(..900),
        rng.u32(..900),
        rng.u32(..9000),
        rng.bool(),
        rng.u32(1..30),
        rng.u32(..24),
        rng.bool()
    );
    text.into_bytes()
}

fn key(number: u32) -> Vec<u8> {
    format!("session:{number:08}").into_bytes()
}

fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item {
        key,
        value,
        flags: 9,
        version: 5,
        deadline_unix_secs: None,
        stale: false,
        token_sent: false,
        number: false,
    }
}

fn put(store: &TestStore, key: &[u8], value: &[u8]) {
    let mut known = KeyRecords::default();
    let deadline = Instant::now() + STOP;
    loop {
        match store.put(&item(key, value), &NEW, &known) {
            Err(Refusal::Busy) => store.wait_for_progress(deadline).unwrap(),
            Err(Refusal::NeedsDisk) => known = store.find(key).unwrap().0,
            done => return done.unwrap(),
        }
    }
}

fn value(store: &TestStore, key: &[u8]) -> Option<Vec<u8>> {
    store.find(key).unwrap().1.map(|item| item.value)
}

/// The number of items that are stored before the first dictionary.
const BEFORE: u32 = 400;
/// The number of all items.
const ITEMS: u32 = 600;

fn wait_for_dictionary(store: &TestStore, number: u64) {
    let deadline = Instant::now() + STOP;
    while store.statistics().dictionary < number {
        assert!(Instant::now() < deadline, "no dictionary: {:?}", store.statistics());
        assert_eq!(store.sync(), Durable::Yes);
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Stores items before and after the first dictionary is trained.
fn fill(store: &TestStore) {
    (0..BEFORE).for_each(|number| put(store, &key(number), &json(number)));
    assert_eq!(store.sync(), Durable::Yes);
    wait_for_dictionary(store, 1);
    (BEFORE..ITEMS).for_each(|number| put(store, &key(number), &json(number)));
}

fn check(store: &TestStore, what: &str) {
    for number in 0..ITEMS {
        assert_eq!(value(store, &key(number)), Some(json(number)), "{what}: item {number}");
    }
}

/// Overwrites one key until reclaim has processed every current segment.
fn churn(store: &TestStore, cycles: u64) {
    let before = store.statistics().reclaimed_segments;
    let mut rng = Rng::with_seed(1);
    let noise: Vec<u8> = (0..500_000).map(|_| rng.u8(..)).collect();
    while store.statistics().reclaimed_segments < before + cycles {
        put(store, b"churn", &noise);
    }
}

#[test]
fn values_are_shorter_on_the_disk_and_unchanged_for_readers() {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    check(&store, "not durable yet");
    assert_eq!(store.sync(), Durable::Yes);
    check(&store, "on the disk");
    let statistics = store.statistics();
    assert_eq!(statistics.compressed_items, u64::from(ITEMS - BEFORE));
    let (from, to) = (statistics.compressed_from_bytes, statistics.compressed_to_bytes);
    assert!(from > to * 5 / 2, "{from} bytes became {to}");
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    for compression in [None, Some(COMPRESSION)] {
        let (store, started) = start_as(&disk, Mode::Store, compression);
        assert!(started.is_from_index);
        check(&store, "after a stop");
        disk.kill();
        drop(store);
        let (store, started) = start_as(&disk, Mode::Store, compression);
        assert!(!started.is_from_index);
        check(&store, "after a kill");
        put(&store, b"more", &json(7));
        assert_eq!(store.statistics().compressed_items, u64::from(compression.is_some()));
        assert_eq!(store.stop(STOP), 0);
    }
}

#[test]
fn reclaim_compresses_older_values() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start_as(&disk, Mode::Store, None);
    (0..ITEMS).for_each(|number| put(&store, &key(number), &json(number)));
    let plain = store.statistics().compressed_items;
    assert_eq!((plain, store.stop(STOP)), (0, 0));
    drop(store);
    let store = start(&disk);
    wait_for_dictionary(&store, 1);
    churn(&store, EXTENTS);
    assert!(store.statistics().compressed_items >= u64::from(ITEMS), "{:?}", store.statistics());
    check(&store, "copied");
    // Without the setting, reclaim copies compressed values as they are.
    drop(store);
    let (store, _) = start_as(&disk, Mode::Store, None);
    churn(&store, EXTENTS);
    assert_eq!(store.statistics().compressed_items, 0);
    check(&store, "copied without the setting");
    disk.kill();
    drop(store);
    check(&start(&disk), "after a kill");
}

#[test]
fn a_newer_dictionary_serves_newer_records_only() {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    // Other values, for which the first dictionary does not help.
    let other = |number: u32| -> Vec<u8> {
        let rows = (0..8).map(|row| format!("<td class=\"c{row}\">{}</td>", number % (row + 7)));
        rows.collect::<String>().into_bytes()
    };
    let deadline = Instant::now() + STOP;
    let mut number = 0;
    while store.statistics().dictionary < 2 {
        assert!(Instant::now() < deadline, "no second dictionary: {:?}", store.statistics());
        put(&store, (number % 2000).to_string().as_bytes(), &other(number));
        number += 1;
    }
    put(&store, b"last", &other(number));
    check(&store, "of the first dictionary");
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let store = start(&disk);
    assert!(store.statistics().dictionary >= 2);
    check(&store, "of the first dictionary, after a kill");
    assert_eq!(value(&store, b"last"), Some(other(number)));
}

#[test]
fn values_that_do_not_become_shorter_stay_plain() {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    let before = store.statistics().compressed_items;
    let mut rng = Rng::with_seed(1);
    let noise: Vec<u8> = (0..4000).map(|_| rng.u8(..)).collect();
    let long = json(1).repeat(200);
    put(&store, b"short", &json(1)[..63]);
    put(&store, b"long", &long);
    (0..100).for_each(|_| put(&store, b"noise", &noise));
    assert_eq!(store.statistics().compressed_items, before);
    assert_eq!(value(&store, b"short"), Some(json(1)[..63].to_vec()));
    assert_eq!(value(&store, b"long"), Some(long));
    assert_eq!(value(&store, b"noise"), Some(noise));
    // After many failures only some values are tried, until one becomes shorter.
    (0..16).for_each(|number| put(&store, &key(number), &json(number)));
    let tried = store.statistics().compressed_items - before;
    assert!((1..=16).contains(&tried), "{tried} of 16 values");
    put(&store, &key(1), &json(1));
    assert_eq!(store.statistics().compressed_items, before + tried + 1);
}

#[test]
fn a_walk_shows_plain_values() {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    for what in ["not durable yet", "on the disk"] {
        let (mut walk, mut reads) = (store.walk(larder_tier::store::PLACES), Vec::new());
        let mut shown = 0;
        loop {
            let mut show = |_, item: &Item<'_>| {
                let number: u32 = String::from_utf8_lossy(&item.key[8..]).parse().unwrap();
                assert_eq!((item.value, item.flags), (&json(number)[..], 9), "{what}");
                shown += 1;
            };
            match store.walk_on(&mut walk, std::mem::take(&mut reads), &mut show) {
                WalkStep::Reads(wanted) => {
                    reads = wanted.into_iter().map(|wanted| store.read(wanted)).collect();
                }
                WalkStep::GoesOn | WalkStep::Slice => {}
                WalkStep::Over => break,
            }
        }
        assert_eq!((shown, walk.unreadable()), (ITEMS, 0), "{what}");
        assert_eq!(store.sync(), Durable::Yes);
    }
}

#[test]
fn a_cache_compresses_evicted_items() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start_as(&disk, Mode::Cache, Some(COMPRESSION));
    let keep = |number: u32| {
        let deadline = Instant::now() + STOP;
        while store.keep(&item(&key(number), &json(number)), &NEW) == Demoted::Busy {
            store.wait_for_progress(deadline).unwrap();
        }
    };
    (0..BEFORE).for_each(keep);
    assert_eq!(store.sync(), Durable::Yes);
    wait_for_dictionary(&store, 1);
    (BEFORE..ITEMS).for_each(keep);
    let compressed = store.statistics().compressed_items;
    assert_eq!(compressed, u64::from(ITEMS - BEFORE));
    assert_eq!(store.keep(&item(&key(ITEMS - 1), b"old"), &NEW), Demoted::Present);
    assert_eq!(store.statistics().compressed_items, compressed);
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    let (store, _) = start_as(&disk, Mode::Cache, None);
    check(&store, "after a stop");
}
