//! Starts that accept a loss (`Settings::accept_loss`) after segments were freed, cut off or lost.
//! The items of these segments must not come back. A log that has lost nothing must not be refused.

use std::time::Duration;

use larder_tier::Tier;
use larder_tier::disk::simulated::{Fates, Fault, SimulatedDisk, When};
use larder_tier::disk::{Call, Directory, File, PAGE_BYTES, zeroed_pages};
use larder_tier::format::VALUE_BYTES_MAX;
use larder_tier::store::{Durability, Durable, StartError, Trust, salvage};

use super::acceptance::{accept, copy, plain};
use super::faults::{NEW, put, value};
use super::flips::{flip, log, sync};
use super::{NOW, TestStore, open, start};

const SEGMENT: usize = 4 << 20;
const PAGES: usize = SEGMENT / PAGE_BYTES;
const EXTENTS: u64 = 16;

/// Writes zeros, like a start that prepares an extent.
pub(crate) fn zero(disk: &SimulatedDisk, first_page: usize, pages: usize) {
    let file = disk.open().open("log").unwrap().unwrap();
    file.write_pages(first_page as u64, &zeroed_pages(pages)).unwrap();
    file.sync_data().unwrap();
}

fn delete(store: &TestStore, key: &[u8]) {
    let known = store.find(key).unwrap().0;
    store.remove(key, &NEW, &known).unwrap();
}

fn count(store: &TestStore, keys: std::ops::Range<u32>) -> usize {
    keys.filter(|n| value(store, &n.to_le_bytes()).is_some()).count()
}

const DELETED: u32 = 260;

/// Stores items in the first three segments, and deletes all of them in the fourth, which also has
/// other items.
fn deleted(disk: &SimulatedDisk) {
    let (store, _) = start(disk, EXTENTS, Durability::Async);
    (0..DELETED).for_each(|n| put(&store, &n.to_le_bytes(), &[7; 50_000]).unwrap());
    (0..DELETED).for_each(|n| delete(&store, &n.to_le_bytes()));
    (1000..1030_u32).for_each(|n| put(&store, &n.to_le_bytes(), &[7; 50_000]).unwrap());
    sync(&store);
    disk.kill();
}

/// The power is lost while the start fills extents with zeros that an acceptance has freed. Some of
/// the zeros are on the disk, followed by old units.
#[test]
fn a_freed_segment_whose_header_is_zeros_stays_free() {
    for zeroed in [1, 256] {
        let disk = SimulatedDisk::new(1);
        deleted(&disk);
        flip(&disk, 3 * SEGMENT + 1_500_000);
        let (store, _) = accept(open(&disk, EXTENTS)).0.unwrap();
        assert_eq!(count(&store, 0..DELETED), 0);
        disk.set_fates(Fates { kept: 0, lost: 1, torn: 0 });
        disk.lose_power();
        drop(store);
        (0..3).for_each(|extent| zero(&disk, extent * PAGES, zeroed));
        let (accepted, said) = accept(open(&disk, EXTENTS));
        let (store, _) = accepted.unwrap();
        assert_eq!(
            count(&store, 0..DELETED),
            0,
            "{zeroed} pages: deleted items are back: {said:?}"
        );
    }
}

#[test]
fn deleted_items_stay_deleted_when_the_power_goes_while_extents_are_prepared() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        deleted(&disk);
        flip(&disk, 3 * SEGMENT + 1_500_000);
        let tier = open(&disk, EXTENTS);
        disk.set_fates(Fates { kept: 1, lost: 2, torn: 0 });
        disk.inject(When::nth(Call::Allocate, 1 + seed % 4), Fault::PowerLoss);
        drop(accept(tier));
        disk.lose_power();
        disk.clear_faults();
        let (accepted, said) = accept(open(&disk, EXTENTS));
        let (store, _) = accepted.unwrap();
        assert_eq!(count(&store, 0..DELETED), 0, "seed {seed}: {said:?}");
    }
}

/// The number of items of [`cut`] that were durable.
const DURABLE: u32 = 72;

/// Returns a log after a power loss: a unit at the end of segment 1 is lost, and the later segment
/// 2 exists.
fn cut() -> SimulatedDisk {
    // If the flusher happened to sync between the two, the unit was durable.
    let is_cut = |disk: &SimulatedDisk| {
        let started = plain(&copy(disk, 1)).map(|(_, started)| started);
        started.is_ok_and(|started| started.cut.is_some_and(|at| at.number().stored() == 1))
    };
    (0..50).map(written_and_cut).find(is_cut).unwrap()
}

fn written_and_cut(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    let (store, _) = start(&disk, EXTENTS, Durability::Interval(Duration::from_secs(5)));
    (0..DURABLE).for_each(|n| put(&store, &n.to_le_bytes(), &[7; 50_000]).unwrap());
    sync(&store);
    (100..130_u32).for_each(|n| put(&store, &n.to_le_bytes(), &[7; 50_000]).unwrap());
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let bytes = log(&disk, 1);
    let is_unit = |page: &usize| {
        let unit = &bytes[page * PAGE_BYTES..];
        unit[4..].starts_with(b"LrdU") && unit[8] == 1
    };
    zero(&disk, (1..PAGES).rfind(is_unit).unwrap(), 1);
    disk
}

#[test]
fn a_segment_above_the_cut_stays_away_after_its_header_is_zeros() {
    let disk = cut();
    let (store, _) = plain(&disk).unwrap();
    let kept = count(&store, 0..130);
    disk.set_fates(Fates { kept: 0, lost: 1, torn: 0 });
    disk.lose_power();
    drop(store);
    zero(&disk, PAGES, 1);
    let (accepted, said) = accept(open(&disk, EXTENTS));
    assert_eq!(count(&accepted.unwrap().0, 0..130), kept, "{said:?}");
    assert!(said.is_empty(), "nothing is damaged: {said:?}");
}

#[test]
fn a_page_above_the_cut_that_the_disk_does_not_return_costs_nothing_durable() {
    let disk = cut();
    disk.set_bad_pages("log", PAGES as u64 + 3..PAGES as u64 + 4);
    assert!(plain(&disk).is_err());
    let (accepted, said) = accept(open(&disk, EXTENTS));
    let (store, started) = accepted.unwrap();
    assert_eq!(count(&store, 0..DURABLE), DURABLE as usize, "{said:?}");
    assert_eq!(started.accepted.unwrap().lost_bytes, 0, "{said:?}");
}

#[test]
fn an_older_manifest_is_refused_before_a_loss_is_accepted() {
    let disk = SimulatedDisk::new(1);
    let (store, _) = start(&disk, EXTENTS, Durability::Sync);
    disk.kill();
    drop(store);
    let older = disk.open().read_small("MANIFEST").unwrap().unwrap();
    deleted(&disk);
    flip(&disk, 3 * SEGMENT + 1_500_000);
    disk.open().replace_small("MANIFEST", &older).unwrap();
    let before = disk.platter("log").unwrap();
    let refused = accept(open(&disk, EXTENTS)).0.unwrap_err();
    assert!(matches!(refused, StartError::Recovery(_)), "{refused}");
    assert!(before == disk.platter("log").unwrap(), "the refused start has changed the log");
}

#[test]
fn the_items_of_a_log_that_was_cut_off_may_all_be_out_of_date() {
    let disk = SimulatedDisk::new(1);
    deleted(&disk);
    let file = disk.open().open("log").unwrap().unwrap();
    file.set_len(3 * SEGMENT as u64).unwrap();
    file.sync_data().unwrap();
    drop(file);
    let tier = Tier::open_existing(disk.open()).unwrap();
    let mut current = 0;
    let mut show = |_: &larder_tier::format::Item<'_>, trust| {
        current += u32::from(trust == Trust::Current);
    };
    salvage(&tier, NOW, &mut |_, _| (), &mut |_| (), &mut show).unwrap();
    assert_eq!(current, 0, "all items of these segments were deleted in the next one");
}

/// Returns a segment that one record fills, and the next one, which has only a header. The record
/// is damaged.
fn full(disk: &SimulatedDisk, due_unix_secs: Option<u64>) {
    let (store, _) = start(disk, EXTENTS, Durability::Sync);
    if let Some(due) = due_unix_secs {
        store.flush_at(due, || ()).unwrap();
        assert_eq!(store.sync(), Durable::Yes);
    }
    put(&store, b"full", &vec![7; VALUE_BYTES_MAX]).unwrap();
    assert_eq!(store.stop(Duration::from_secs(10)), 0);
    drop(store);
    let (store, _) = start(disk, EXTENTS, Durability::Sync);
    put(&store, b"lost", b"by the power loss").unwrap();
    let _ = store.sync();
    disk.kill();
    drop(store);
    let bytes = log(disk, 4);
    let is_live = |extent: &usize| {
        let header = &bytes[extent * SEGMENT..];
        header[4..].starts_with(b"LrdS") && header[12] == 1
    };
    let last = (1..4).rfind(is_live).unwrap();
    zero(disk, last * PAGES + 1, 1);
    flip(disk, last * SEGMENT - PAGE_BYTES + 48);
}

#[test]
fn a_store_of_which_nothing_stays_starts_again() {
    let disk = SimulatedDisk::new(1);
    full(&disk, None);
    let (accepted, said) = accept(open(&disk, EXTENTS));
    let (store, started) = accepted.unwrap();
    assert_eq!((started.items, started.segments), (0, 0), "{said:?}");
    disk.kill();
    drop(store);
    let again = plain(&disk).map(|(_, started)| started.items);
    assert!(matches!(again, Ok(0)), "{again:?}");
}

#[test]
fn a_delayed_flush_stays_pending_when_nothing_else_stays() {
    let disk = SimulatedDisk::new(1);
    full(&disk, Some(NOW + 100));
    let (accepted, said) = accept(open(&disk, EXTENTS));
    let (store, _) = accepted.unwrap();
    assert_eq!(store.flush_due_unix_secs(), Some(NOW + 100), "{said:?}");
    put(&store, b"later", b"value").unwrap();
    assert_eq!(store.sync(), Durable::Yes);
    disk.kill();
    drop(store);
    let (store, _) = plain(&disk).unwrap();
    assert_eq!(store.flush_due_unix_secs(), Some(NOW + 100), "the next start");
}
