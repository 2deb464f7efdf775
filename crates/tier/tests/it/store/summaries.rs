//! Starts after a crash, from the summaries of full segments.

use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::disk::{Call, PAGE_BYTES};
use larder_tier::format::{SEGMENT_BYTES, Seal, SegmentNumber, Summary, Uuid};
use larder_tier::store::{Durability, Durable};

use super::acceptance::{accept, plain};
use super::faults::{NEW, put, replace, value};
use super::flips::{flip, log, sync};
use super::{TestStore, open, start};

const EXTENTS: u64 = 16;

/// The number of items that fill three segments.
const ITEMS: u32 = 250;

/// Fills three segments with durable items, and kills the process. The first of four items is
/// changed later, and the second is removed later. The log begins with a flushed item.
fn killed(disk: &SimulatedDisk) {
    let (store, _) = start(disk, EXTENTS, Durability::Async);
    put(&store, b"flushed", b"value").unwrap();
    store.flush(|| ()).unwrap();
    (0..ITEMS).for_each(|n| put(&store, &n.to_le_bytes(), &[7; 50_000]).unwrap());
    (0..ITEMS).step_by(4).for_each(|n| replace(&store, &n.to_le_bytes(), b"new").unwrap());
    for n in (1..ITEMS).step_by(4) {
        let known = store.find(&n.to_le_bytes()).unwrap().0;
        store.remove(&n.to_le_bytes(), &NEW, &known).unwrap();
    }
    sync(&store);
    disk.kill();
}

fn expected(n: u32) -> Option<Vec<u8>> {
    match n % 4 {
        0 => Some(b"new".to_vec()),
        1 => None,
        _ => Some(vec![7; 50_000]),
    }
}

fn check(store: &TestStore, when: &str) {
    assert_eq!(value(store, b"flushed"), None, "{when}");
    for n in 0..ITEMS {
        assert!(value(store, &n.to_le_bytes()) == expected(n), "{when}: item {n}");
    }
}

/// Returns the length of the summary of a segment in bytes, if it has one.
fn summary_bytes(disk: &SimulatedDisk, number: u64) -> Option<usize> {
    let bytes = log(disk, number as usize);
    let number = SegmentNumber::from_stored(number).unwrap();
    let end = &bytes[bytes.len() - SEGMENT_BYTES..];
    let summary = Summary::read(&Seal::of(Uuid([7; 16])), number, end).ok()?;
    Some(SEGMENT_BYTES - summary.address.offset())
}

#[test]
fn a_start_after_a_kill_reads_the_summaries_of_full_segments() {
    let disk = SimulatedDisk::new(1);
    killed(&disk);
    assert!((1..4).all(|number| summary_bytes(&disk, number) == Some(PAGE_BYTES)));
    let before = disk.counts(Call::Read).bytes;
    let (store, started) = plain(&disk).unwrap();
    let read = disk.counts(Call::Read).bytes - before;
    assert!(read < SEGMENT_BYTES as u64 * 3, "{read} bytes were read of four segments");
    let left = u64::from(ITEMS) * 3 / 4 + 1;
    assert!(started.items.abs_diff(left) < 2 && started.segments == 4, "{started:?}");
    check(&store, "from summaries");
    assert_eq!((started.version_max, started.cut.is_some()), (5, true));
}

#[test]
fn a_segment_with_a_damaged_summary_is_read() {
    for byte in [2 * SEGMENT_BYTES - 1, 2 * SEGMENT_BYTES - PAGE_BYTES, 2 * SEGMENT_BYTES - 60] {
        let disk = SimulatedDisk::new(1);
        killed(&disk);
        flip(&disk, byte);
        assert_eq!(summary_bytes(&disk, 2), None);
        check(&plain(&disk).unwrap().0, "with a damaged summary");
    }
}

#[test]
fn damage_in_a_segment_with_a_summary_costs_only_the_item_in_it() {
    let disk = SimulatedDisk::new(1);
    killed(&disk);
    flip(&disk, SEGMENT_BYTES + 1_500_000);
    let (store, _) = plain(&disk).unwrap();
    let wrong = |n: &u32| match store.find(&n.to_le_bytes()) {
        Ok((_, item)) => item.map(|item| item.value) != expected(*n),
        Err(_) => true,
    };
    let wrong: Vec<u32> = (0..ITEMS).filter(wrong).collect();
    // The damaged record may have been replaced or removed.
    assert!(wrong.len() <= 1, "{wrong:?}");
    assert!(wrong.iter().all(|n| store.find(&n.to_le_bytes()).is_err()), "an old value");
}

#[test]
fn records_that_an_accepted_loss_drops_do_not_come_back_from_a_summary() {
    let disk = SimulatedDisk::new(1);
    killed(&disk);
    flip(&disk, SEGMENT_BYTES + 1_500_000);
    let (store, started) = accept(open(&disk, EXTENTS)).0.unwrap();
    let lost = started.accepted.unwrap();
    assert!(lost.damages > 0, "{lost:?}");
    assert_eq!(summary_bytes(&disk, 2), None, "the summary has the dropped records");
    let found: Vec<u32> =
        (0..ITEMS).filter(|n| value(&store, &n.to_le_bytes()).is_some()).collect();
    // The first segments had items 0 to about 160, of which the changed ones are in the fourth.
    let old = found.iter().filter(|n| **n < 80 && **n % 4 != 0);
    assert_eq!(old.count(), 0, "{found:?}");
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let (store, _) = plain(&disk).unwrap();
    let again: Vec<u32> =
        (0..ITEMS).filter(|n| value(&store, &n.to_le_bytes()).is_some()).collect();
    assert_eq!(again, found, "the next start");
}
