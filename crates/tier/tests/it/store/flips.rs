//! One flipped bit in a directory that no process uses: a flip outside of records loses nothing,
//! and an address that a start once found durable stays durable.

use std::time::Duration;

use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::disk::{Directory, File, PAGE_BYTES, zeroed_pages};
use larder_tier::store::{Durability, Durable, Trust, salvage};
use larder_tier::{OpenError, Tier};
use zerocopy::IntoBytes;

use super::acceptance::{accept, copy, plain};
use super::doubt::zero;
use super::faults::{NEW, item, put, value};
use super::{NOW, TestStore, open, start, try_open};

const SEGMENT: usize = 4 << 20;
const EXTENTS: u64 = 16;
const STOP: Duration = Duration::from_secs(10);

pub(crate) fn log(disk: &SimulatedDisk, segments: usize) -> Vec<u8> {
    let file = disk.open().open("log").unwrap().unwrap();
    let mut pages = zeroed_pages(segments * SEGMENT / PAGE_BYTES);
    file.read_pages(0, &mut pages).unwrap();
    pages.as_bytes().to_vec()
}

/// Flips the lowest bit of a byte of the log.
pub(crate) fn flip(disk: &SimulatedDisk, byte: usize) {
    assert!(disk.flip_bit("log", 8 * byte as u64), "the log has byte {byte}");
}

const ITEMS: u32 = 200;

/// Fills three segments with durable items, and kills the process.
fn filled(disk: &SimulatedDisk) {
    let (store, _) = start(disk, EXTENTS, Durability::Async);
    (0..ITEMS).for_each(|n| put(&store, &n.to_le_bytes(), &[7; 50_000]).unwrap());
    sync(&store);
    disk.kill();
}

/// Makes everything durable, and records that in the log.
pub(crate) fn sync(store: &TestStore) {
    assert_eq!(store.sync(), Durable::Yes);
    put(store, b"last", b"").unwrap();
    assert_eq!(store.sync(), Durable::Yes);
}

fn items(store: &TestStore) -> usize {
    (0..ITEMS).filter(|n| value(store, &n.to_le_bytes()).is_some()).count()
}

/// The page of the void unit that closes the second segment.
fn void(log: &[u8]) -> usize {
    let pages = (SEGMENT..2 * SEGMENT).step_by(PAGE_BYTES).skip(1);
    pages.into_iter().find(|at| log[at + 4..].starts_with(b"LrdU") && log[at + 8] == 2).unwrap()
}

/// Page 0 of an extent that was never used.
fn unused(log: &[u8]) -> usize {
    let mut extents = (0..log.len()).step_by(SEGMENT);
    extents.find(|at| log[*at..at + SEGMENT].iter().all(|byte| *byte == 0)).unwrap()
}

#[test]
fn a_flip_where_no_record_lies_costs_no_item() {
    type Place = fn(&[u8]) -> usize;
    let places: [(&str, Place); 6] = [
        ("the time of a void unit", |log| void(log) + 32),
        ("the checksum of a void unit", void),
        ("page 0 of an unused extent", |log| unused(log) + 2000),
        ("the zeros of the oldest header", |_| 3000),
        ("the number of the second header", |_| SEGMENT + 16),
        ("the checksum of the newest header", |_| 2 * SEGMENT),
    ];
    for (name, place) in places {
        let disk = SimulatedDisk::new(1);
        filled(&disk);
        // A start reads the void unit of a segment that has no summary.
        zero(&disk, 2 * SEGMENT / PAGE_BYTES - 1, 1);
        flip(&disk, place(&log(&disk, EXTENTS as usize)));
        let other = copy(&disk, 1);
        let (store, started) = plain(&disk).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((items(&store), started.flipped), (ITEMS as usize, 1), "{name}");
        disk.kill();
        drop(store);
        let (store, started) = plain(&disk).unwrap();
        assert_eq!((items(&store), started.flipped), (ITEMS as usize, 0), "{name}: the next start");
        let (accepted, said) = accept(open(&other, EXTENTS));
        let (store, _) = accepted.unwrap();
        assert_eq!(items(&store), ITEMS as usize, "{name}, accepted: {said:?}");
        assert!(said.iter().all(|said| said.ends_with("nothing in it is lost")), "{said:?}");
    }
}

/// A key whose records have 48 bytes, the same length as the header of a unit.
fn key(n: u32) -> Vec<u8> {
    [b"k2345678".as_slice(), &n.to_be_bytes()].concat()
}

/// Returns a key whose newest record begins a page inside a unit, and that page.
fn at_page(log: &[u8], is_delete: bool) -> (Vec<u8>, usize) {
    let pages = (PAGE_BYTES..SEGMENT).step_by(PAGE_BYTES);
    let is_newest = |at: &usize| {
        let record = &log[*at..];
        let kind = if is_delete { 2 } else { 1 };
        record[4] == kind
            && record[32..].starts_with(b"k2345678")
            && (is_delete || record[44..].starts_with(b"new"))
    };
    let at = pages.into_iter().find(is_newest).unwrap();
    (log[at + 32..at + 44].to_vec(), at)
}

/// Stores each key, then stores it again or deletes it.
fn changed(disk: &SimulatedDisk, is_delete: bool) {
    let (store, _) = start(disk, EXTENTS, Durability::Interval(Duration::from_secs(5)));
    (0..4000).for_each(|n| put(&store, &key(n), b"old").unwrap());
    assert_eq!(store.sync(), Durable::Yes);
    for n in 0..4000 {
        let known = store.find(&key(n)).unwrap().0;
        match is_delete {
            true => store.remove(&key(n), &NEW, &known).unwrap(),
            false => store.put(&item(&key(n), b"new"), &NEW, &known).unwrap(),
        }
    }
    sync(&store);
    disk.kill();
}

#[test]
fn a_record_at_the_begin_of_a_page_is_not_taken_for_the_header_of_a_unit() {
    for is_delete in [false, true] {
        let disk = SimulatedDisk::new(1);
        changed(&disk, is_delete);
        let (victim, at) = at_page(&log(&disk, 1), is_delete);
        // Damages the flags, so that the key is readable.
        flip(&disk, at + 12);
        let (accepted, said) = accept(open(&disk, EXTENTS));
        let (store, started) = accepted.unwrap();
        assert_eq!(started.accepted.unwrap().lost_bytes, 48, "{said:?}");
        assert_eq!(value(&store, &victim), None, "an old value came back");
    }
}

#[test]
fn an_export_knows_that_a_deleted_item_may_be_out_of_date() {
    let disk = SimulatedDisk::new(1);
    changed(&disk, true);
    let (victim, at) = at_page(&log(&disk, 1), true);
    // Damages the key.
    flip(&disk, at + 33);
    let tier = Tier::open_existing(disk.open()).unwrap();
    let mut shown = Vec::new();
    let mut show = |item: &larder_tier::format::Item<'_>, trust| {
        if item.key == victim {
            shown.push(trust);
        }
    };
    salvage(&tier, NOW, &mut |_, _| (), &mut |_| (), &mut show).unwrap();
    assert_eq!(shown, [Trust::Doubtful]);
}

#[test]
fn a_full_last_segment_is_no_damage() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, EXTENTS, Durability::Sync);
    // Each unit has one page.
    for n in 0..1023_u32 {
        put(&store, &n.to_le_bytes(), b"value").unwrap();
        assert_eq!(store.sync(), Durable::Yes);
    }
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    let store = start(&disk, EXTENTS, Durability::Sync);
    disk.kill();
    drop(store);
    let (accepted, said) = accept(open(&disk, EXTENTS));
    let (store, started) = accepted.unwrap();
    assert_eq!((started.accepted, started.items), (None, 1023), "{said:?}");
    assert_eq!(value(&store, &0_u32.to_le_bytes()), Some(b"value".to_vec()));
}

#[test]
fn a_delayed_flush_stays_pending() {
    // The record of the delayed flush is dropped, or only a header has it.
    for items_before in [0, 100] {
        let disk = SimulatedDisk::new(1);
        let (store, _) = start(&disk, EXTENTS, Durability::Async);
        let fill = |items: std::ops::Range<u32>| {
            items.for_each(|n| put(&store, &n.to_le_bytes(), &[7; 50_000]).unwrap());
        };
        fill(0..items_before);
        store.flush_at(NOW + 100, || ()).unwrap();
        fill(items_before..ITEMS);
        sync(&store);
        disk.kill();
        drop(store);
        // A value in the second segment. A third segment follows.
        flip(&disk, SEGMENT + 2_000_000);
        let (accepted, said) = accept(open(&disk, EXTENTS));
        let (store, _) = accepted.unwrap();
        let case = format!("after {items_before} items: {said:?}");
        assert_eq!(store.flush_due_unix_secs(), Some(NOW + 100), "{case}");
        disk.kill();
        drop(store);
        let (store, _) = plain(&disk).unwrap();
        assert_eq!(store.flush_due_unix_secs(), Some(NOW + 100), "{case}: the next start");
    }
}

#[test]
fn what_a_start_has_found_is_durable() {
    for stops in [false, true] {
        let disk = SimulatedDisk::new(1);
        let (store, _) = start(&disk, EXTENTS, Durability::Sync);
        put(&store, b"k", b"old").unwrap();
        assert_eq!(store.sync(), Durable::Yes);
        let known = store.find(b"k").unwrap().0;
        store.remove(b"k", &NEW, &known).unwrap();
        assert_eq!(store.sync(), Durable::Yes);
        disk.kill();
        drop(store);
        // These starts write nothing.
        let (store, _) = start(&disk, EXTENTS, Durability::Sync);
        if stops {
            assert_eq!(store.stop(STOP), 0);
        }
        drop(store);
        let store = start(&disk, EXTENTS, Durability::Sync);
        disk.kill();
        drop(store);
        let log = log(&disk, 1);
        let pages = (PAGE_BYTES..SEGMENT).step_by(PAGE_BYTES);
        let delete = pages.into_iter().find(|at| log[at + 48 + 4] == 2).unwrap();
        flip(&disk, delete + 48 + 16);
        let refused = plain(&disk).map(|(store, _)| value(&store, b"k"));
        assert!(refused.is_err(), "stops {stops}: the deleted key is {refused:?}");
    }
}

#[test]
fn a_newest_segment_that_is_gone_is_noticed() {
    let disk = SimulatedDisk::new(1);
    filled(&disk);
    let store = start(&disk, EXTENTS, Durability::Async);
    disk.kill();
    drop(store);
    let file = disk.open().open("log").unwrap().unwrap();
    file.write_pages(2 * (SEGMENT / PAGE_BYTES) as u64, &zeroed_pages(1)).unwrap();
    let refused = plain(&disk).unwrap_err().to_string();
    assert!(refused.contains("was durable up to 4/0x0"), "{refused}");
}

#[test]
fn each_flipped_bit_of_the_manifest_is_mended() {
    let disk = SimulatedDisk::new(1);
    filled(&disk);
    let manifest = open(&disk, EXTENTS).manifest().clone();
    for bit in 0..108 * 8 {
        assert!(disk.flip_bit("MANIFEST", bit));
        let tier =
            Tier::open_existing(disk.open()).unwrap_or_else(|error| panic!("{bit}: {error}"));
        assert_eq!((tier.manifest(), tier.is_manifest_flipped()), (&manifest, true), "bit {bit}");
        drop(tier);
        assert!(disk.flip_bit("MANIFEST", bit));
    }
    assert!(disk.flip_bit("MANIFEST", 300));
    let (store, started) = start(&disk, EXTENTS, Durability::Async);
    assert_eq!(started.flipped, 1);
    assert_eq!(items(&store), ITEMS as usize);
    disk.kill();
    drop(store);
    assert!(!open(&disk, EXTENTS).is_manifest_flipped(), "the start writes it anew");
    assert!(disk.flip_bit("MANIFEST", 300) && disk.flip_bit("MANIFEST", 500));
    let refused = try_open(&disk, EXTENTS).unwrap_err();
    assert!(matches!(refused, OpenError::Manifest { .. }), "two bits: {refused}");
}

/// A manifest whose lease ends before segment numbers that the log used later.
#[test]
fn an_older_manifest_is_refused() {
    for stops in [false, true] {
        let disk = SimulatedDisk::new(1);
        let (store, _) = start(&disk, EXTENTS, Durability::Sync);
        if !stops {
            disk.kill();
        }
        drop(store);
        let older = disk.open().read_small("MANIFEST").unwrap().unwrap();
        filled(&disk);
        disk.open().replace_small("MANIFEST", &older).unwrap();
        let refused = plain(&disk).unwrap_err().to_string();
        assert!(refused.contains("MANIFEST is older than the log"), "stops {stops}: {refused}");
    }
}

#[test]
fn a_start_does_without_an_index_that_the_disk_does_not_return() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, EXTENTS, Durability::Async);
    (0..ITEMS).for_each(|n| put(&store, &n.to_le_bytes(), b"value").unwrap());
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    disk.set_bad_pages("INDEX", 0..2);
    let (store, started) = plain(&disk).unwrap();
    assert_eq!((started.is_from_index, started.is_index_unread), (false, true));
    assert_eq!(items(&store), ITEMS as usize);
}
