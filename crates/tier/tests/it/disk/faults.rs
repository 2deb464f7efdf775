//! The injected faults of the simulated disk.

use std::collections::BTreeSet;
use std::thread;

use larder_tier::disk::simulated::{
    Counts, Fates, Fault, SimulatedDirectory, SimulatedDisk, SimulatedFile, When,
};
use larder_tier::disk::{Call, Directory, DiskError, File, PAGE_BYTES, Page, zeroed_pages};
use rustix::io::Errno;

use super::page;

const EIO: Fault = Fault::Errno(Errno::IO.raw_os_error());

/// Returns a disk with these durable pages in the file `log`.
fn disk(seed: u64, pages: &[Page]) -> (SimulatedDisk, SimulatedDirectory, SimulatedFile) {
    let disk = SimulatedDisk::new(seed);
    let directory = disk.open();
    let log = directory.create("log").unwrap();
    directory.sync().unwrap();
    log.write_pages(0, pages).unwrap();
    log.sync_data().unwrap();
    (disk, directory, log)
}

/// Reads one page.
fn read(file: &SimulatedFile, at: u64) -> Page {
    let mut pages = zeroed_pages(1);
    file.read_pages(at, &mut pages).unwrap();
    pages.remove(0)
}

fn errno(error: &DiskError) -> Option<i32> {
    let DiskError::Io { error, .. } = error else { return None };
    error.raw_os_error()
}

#[test]
fn the_nth_call_of_a_kind_fails_once() {
    let (disk, directory, log) = disk(1, &[page(1)]);
    disk.inject(When::nth(Call::Read, 2), EIO);
    disk.inject(When::nth(Call::Rename, 1), Fault::Errno(Errno::ACCESS.raw_os_error()));
    read(&log, 0);
    let error = log.read_pages(0, &mut zeroed_pages(1)).unwrap_err();
    assert_eq!(errno(&error), Some(Errno::IO.raw_os_error()));
    assert!(error.to_string().starts_with("cannot read /simulated/log: "), "{error}");
    read(&log, 0);
    directory.rename("log", "old").unwrap_err();
    assert!(directory.open("log").unwrap().is_some(), "a failed rename has no effect");
}

#[test]
fn a_broken_disk_fails_from_a_call_onwards() {
    let (disk, directory, log) = disk(1, &[page(1)]);
    disk.inject(When::nth_of_any(2).onwards(), EIO);
    read(&log, 0);
    log.sync_data().unwrap_err();
    directory.space().unwrap_err();
    disk.clear_faults();
    log.sync_data().unwrap();
}

#[test]
fn a_failed_write_has_written_some_of_its_pages() {
    let mut counts = BTreeSet::new();
    for seed in 0..64 {
        let (disk, _, log) = disk(seed, &[page(1), page(1)]);
        disk.inject(When::nth(Call::Write, 1), EIO);
        log.write_pages(0, &[page(2), page(2)]).unwrap_err();
        counts.insert((0..2).filter(|at| read(&log, *at) == page(2)).count());
    }
    assert_eq!(counts, [0, 1, 2].into(), "how many pages are written, over all seeds");
}

#[test]
fn a_failed_sync_can_be_repeated_unless_it_loses_pages() {
    let (disk, _, log) = disk(1, &[page(1)]);
    disk.inject(When::nth(Call::SyncData, 1), EIO);
    log.write_pages(0, &[page(2)]).unwrap();
    log.sync_data().unwrap_err();
    assert_eq!(disk.platter("log").unwrap(), page(1).bytes());
    log.sync_data().unwrap();
    assert_eq!(disk.platter("log").unwrap(), page(2).bytes());
}

#[test]
fn a_sync_that_loses_pages_hides_it_from_reads_through_the_cache() {
    let (disk, _, log) = disk(1, &[page(1), page(1)]);
    disk.inject(When::nth(Call::SyncData, 1), Fault::LosePages { some: false });
    log.write_pages(0, &[page(2), page(2)]).unwrap();
    let error = log.sync_data().unwrap_err();
    assert_eq!(errno(&error), Some(Errno::IO.raw_os_error()));
    log.sync_data().unwrap();
    assert_eq!([read(&log, 0), read(&log, 1)], [page(2), page(2)], "the cache shows the writes");
    log.write_pages(1, &[page(3)]).unwrap();
    log.drop_cached().unwrap();
    assert_eq!(read(&log, 0), page(1), "the platter lacks the write");
    assert_eq!(read(&log, 1), page(3), "a page that is written again is synced");
    assert_eq!(disk.platter("log").unwrap()[PAGE_BYTES..], *page(3).bytes());
}

#[test]
fn a_page_that_is_written_while_others_are_dropped_stays_in_the_cache() {
    let (disk, _, log) = disk(1, &[page(1)]);
    disk.inject(When::nth(Call::SyncData, 1), Fault::LosePages { some: false });
    disk.inject(When::nth(Call::DropCached, 1), Fault::Hang);
    log.write_pages(0, &[page(2)]).unwrap();
    log.sync_data().unwrap_err();
    thread::scope(|scope| {
        let hanging = scope.spawn(|| log.drop_cached().unwrap());
        disk.wait_for_hanging(1);
        let written = log.write_pages(0, &[page(3)]);
        disk.release();
        hanging.join().unwrap();
        written.unwrap();
    });
    assert_eq!(read(&log, 0), page(3));
}

#[test]
fn pages_that_a_sync_lost_survive_a_kill_and_end_with_the_power() {
    let (disk, _, log) = disk(1, &[page(1)]);
    disk.set_fates(Fates::ALL_KEPT);
    disk.inject(When::nth(Call::SyncData, 1), Fault::LosePages { some: false });
    log.write_pages(0, &[page(2)]).unwrap();
    log.sync_data().unwrap_err();
    disk.kill();
    let log = disk.open().create("log").unwrap();
    log.sync_data().unwrap();
    assert_eq!(read(&log, 0), page(2), "a new process reads the cache");
    disk.lose_power();
    assert_eq!(read(&disk.open().create("log").unwrap(), 0), page(1));
}

#[test]
fn a_sync_that_loses_some_pages_has_written_others() {
    let mut platters = BTreeSet::new();
    for seed in 0..64 {
        let (disk, _, log) = disk(seed, &[page(1)]);
        disk.inject(When::nth(Call::SyncData, 1), Fault::LosePages { some: true });
        log.write_pages(0, &[page(2)]).unwrap();
        log.sync_data().unwrap_err();
        assert_eq!(read(&log, 0), page(2), "seed {seed}: the cache shows the write");
        let bytes: BTreeSet<u8> = disk.platter("log").unwrap().into_iter().collect();
        platters.insert(bytes.into_iter().collect::<Vec<_>>());
    }
    assert_eq!(platters, [vec![1], vec![1, 2], vec![2]].into());
}

#[test]
fn a_misdirected_write_lands_elsewhere_and_succeeds() {
    let (disk, _, log) = disk(1, &[page(1), page(1), page(1)]);
    disk.inject(When::nth(Call::Write, 1), Fault::Misdirect(2));
    log.write_pages(0, &[page(2)]).unwrap();
    log.sync_data().unwrap();
    disk.lose_power();
    let log = disk.open().create("log").unwrap();
    assert_eq!([0, 1, 2].map(|at| read(&log, at)), [page(1), page(1), page(2)]);
}

#[test]
fn a_flipped_bit_stays_where_it_was_written_and_passes_where_it_was_read() {
    let (disk, _, log) = disk(1, &[page(0), page(0)]);
    let bit = PAGE_BYTES as u64 * 8 + 3;
    disk.inject(When::nth(Call::Read, 1), Fault::FlipBit(bit));
    let mut pages = zeroed_pages(2);
    log.read_pages(0, &mut pages).unwrap();
    assert_eq!((&pages[0], pages[1].bytes()[0]), (&page(0), 8), "the read has the flipped bit");
    assert_eq!(read(&log, 1), page(0), "the next read does not");
    disk.inject(When::nth(Call::Write, 1), Fault::FlipBit(bit));
    log.write_pages(0, &pages[..1]).unwrap();
    assert_eq!(read(&log, 0).bytes()[0], 8, "the written page keeps the flipped bit");
}

#[test]
fn a_bit_that_the_test_flips_is_flipped_in_all_copies_of_its_page() {
    for fates in [Fates::ALL_KEPT, Fates::ALL_LOST] {
        let (disk, _, log) = disk(1, &[page(0)]);
        disk.set_fates(fates);
        log.write_pages(0, &[page(0)]).unwrap();
        assert!(disk.flip_bit("log", 12));
        assert_eq!(read(&log, 0).bytes()[..3], [0, 16, 0], "through the cache");
        disk.lose_power();
        let after = read(&disk.open().create("log").unwrap(), 0);
        assert_eq!(after.bytes()[..3], [0, 16, 0], "after a power loss with {fates:?}");
        assert!(!disk.flip_bit("log", 8 * PAGE_BYTES as u64), "the file has no such bit");
    }
}

#[test]
fn a_full_disk_refuses_new_pages_and_takes_old_ones() {
    let (disk, directory, log) = disk(1, &[page(1)]);
    disk.set_capacity(3 * PAGE_BYTES as u64);
    assert_eq!(directory.space().unwrap().free_bytes, 2 * PAGE_BYTES as u64);
    let error = log.allocate(0, 4).unwrap_err();
    assert!(error.is_full(), "{error}");
    assert_eq!(log.len().unwrap(), PAGE_BYTES as u64, "a refused allocation adds nothing");
    log.allocate(1, 2).unwrap();
    log.allocate(0, 3).unwrap();
    let error = log.write_pages(2, &[page(2), page(2)]).unwrap_err();
    assert!(error.is_full(), "{error}");
    log.write_pages(0, &[page(3), page(3), page(3)]).unwrap();
    assert_eq!(directory.space().unwrap().free_bytes, 0);
    log.set_len(0).unwrap();
    log.sync_data().unwrap();
    assert_eq!(directory.space().unwrap().free_bytes, 3 * PAGE_BYTES as u64, "a cut frees pages");
}

#[test]
fn replaced_small_files_free_their_pages() {
    let disk = SimulatedDisk::new(1);
    disk.set_capacity(2 * PAGE_BYTES as u64);
    for round in 0..10_u8 {
        disk.open().replace_small("MANIFEST", &[round; 100]).unwrap();
    }
}

#[test]
fn a_read_only_file_system_is_read() {
    let (disk, directory, log) = disk(1, &[page(1)]);
    disk.set_read_only(true);
    assert_eq!(read(&log, 0), page(1));
    let refused = [
        log.write_pages(0, &[page(2)]),
        log.allocate(0, 1),
        log.set_len(0),
        directory.create("new").map(drop),
        directory.rename("log", "old"),
    ];
    for error in refused {
        let error = error.unwrap_err();
        assert!(error.is_read_only() && !error.is_full(), "{error}");
    }
    assert_eq!(read(&log, 0), page(1));
}

#[test]
fn a_hanging_call_blocks_no_other_and_goes_on_when_released() {
    let (disk, _, log) = disk(1, &[page(1)]);
    disk.inject(When::nth(Call::SyncData, 1), Fault::Hang);
    log.write_pages(0, &[page(2)]).unwrap();
    thread::scope(|scope| {
        let hanging = scope.spawn(|| log.sync_data());
        disk.wait_for_hanging(1);
        // If an assertion failed before the release, the test would wait for the call forever.
        let mut pages = zeroed_pages(1);
        let meanwhile = log.read_pages(0, &mut pages);
        let platter = disk.platter("log").unwrap();
        let is_finished = hanging.is_finished();
        disk.release();
        hanging.join().unwrap().unwrap();
        meanwhile.unwrap();
        assert_eq!(pages, [page(2)], "a read does not wait for the sync");
        assert_eq!(platter, page(1).bytes(), "the sync has no effect yet");
        assert!(!is_finished, "the sync returned before its release");
    });
    assert_eq!(disk.platter("log").unwrap(), page(2).bytes());
}

#[test]
fn the_end_of_the_process_ends_a_hanging_call() {
    let (disk, _, log) = disk(1, &[page(1)]);
    disk.inject(When::nth(Call::Write, 1), Fault::Hang);
    thread::scope(|scope| {
        let hanging = scope.spawn(|| log.write_pages(0, &[page(2)]));
        disk.wait_for_hanging(1);
        disk.kill();
        hanging.join().unwrap().unwrap_err();
    });
    assert_eq!(read(&disk.open().create("log").unwrap(), 0), page(1));
}

#[test]
fn a_call_that_the_process_dies_in_may_have_its_effect() {
    for (fault, call) in [(Fault::Kill, Call::Write), (Fault::PowerLoss, Call::SyncData)] {
        let mut bytes = BTreeSet::new();
        for seed in 0..64 {
            let (disk, _, log) = disk(seed, &[page(1)]);
            disk.set_fates(Fates::ALL_LOST);
            disk.inject(When::nth(call, 1), fault);
            log.write_pages(0, &[page(2)]).and_then(|()| log.sync_data()).unwrap_err();
            log.len().unwrap_err();
            assert_eq!(disk.deaths(), 1);
            bytes.insert(read(&disk.open().create("log").unwrap(), 0).bytes()[0]);
        }
        assert_eq!(bytes, [1, 2].into(), "{fault:?} in {call:?}, over all seeds");
    }
}

#[test]
fn calls_and_bytes_are_counted_by_kind() {
    let (disk, _, log) = disk(1, &[page(1), page(2)]);
    let before = disk.counts(Call::Write);
    assert_eq!(before, Counts { calls: 1, bytes: 2 * PAGE_BYTES as u64 });
    disk.inject(When::nth(Call::Write, 2), EIO);
    log.write_pages(0, &[page(1)]).unwrap();
    log.write_pages(0, &[page(1)]).unwrap_err();
    assert_eq!(disk.counts(Call::Write), Counts { calls: 3, bytes: 4 * PAGE_BYTES as u64 });
    log.allocate(0, 8).unwrap();
    assert_eq!(disk.counts(Call::Allocate), Counts { calls: 1, bytes: 8 * PAGE_BYTES as u64 });
    assert_eq!(disk.counts(Call::SyncData), Counts { calls: 1, bytes: 0 });
    assert_eq!(disk.counts(Call::Rename), Counts::default());
}

#[test]
#[should_panic(expected = "cannot meet")]
fn a_fault_that_its_call_cannot_meet_is_refused() {
    SimulatedDisk::new(1).inject(When::nth(Call::Read, 1), Fault::Misdirect(1));
}
