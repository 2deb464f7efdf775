//! The flusher enforces its rules, whatever its caller requests. The tests in `crashes` check that
//! a log that was written by these rules survives crashes.

use larder_tier::disk::simulated::{Fault, SimulatedDirectory, SimulatedDisk, When};
use larder_tier::disk::{Call, DiskError};
use larder_tier::flusher::{FlushError, Flusher};
use larder_tier::format::{
    Address, Mode, Record, SEGMENT_BYTES, SegmentHeader, SegmentNumber, Uuid,
};
use larder_tier::{Entropy, RequestedTier, Tier};

const NOW: u64 = 1_790_000_000;
const EIO: i32 = 5;

/// Returns a flusher that has begun segments 1 to `count`, in extents 0, 1 and so on.
fn flusher(disk: &SimulatedDisk, count: u64) -> Flusher<SimulatedDirectory> {
    let wanted = RequestedTier { mode: Mode::Store, bytes: 4 * SEGMENT_BYTES as u64 };
    let entropy = Entropy { uuid: Uuid([7; 16]), index_seed: 1, hash_key: [2; 16] };
    let mut flusher = Flusher::new(Tier::open(disk.open(), wanted, entropy, NOW).unwrap());
    let mut previous = None;
    for (extent, number) in (0..).zip(flusher.lease(count).unwrap()) {
        let header = SegmentHeader { number, previous, delay: None };
        flusher.begin_segment(extent, &header, NOW).unwrap();
        previous = Some(number);
    }
    flusher
}

fn push(flusher: &mut Flusher<SimulatedDirectory>) -> Address {
    flusher.push(&Record::Flush, 1).unwrap()
}

#[test]
fn a_sync_says_how_far_the_log_is_durable() {
    let disk = SimulatedDisk::new(1);
    let mut flusher = flusher(&disk, 1);
    let first = push(&mut flusher);
    assert!(flusher.sync().unwrap().through <= Some(first), "the unit is not written");
    flusher.write(NOW).unwrap();
    let second = push(&mut flusher);
    let through = flusher.sync().unwrap().through;
    assert!(through > Some(first) && through <= Some(second), "{first} is written, {second} not");
}

#[test]
fn a_segment_waits_for_the_header_before_it() {
    let disk = SimulatedDisk::new(1);
    let syncs = |disk: &SimulatedDisk| disk.counts(Call::SyncData).calls;
    drop(flusher(&disk, 1));
    let one = syncs(&disk);
    let other = SimulatedDisk::new(1);
    drop(flusher(&other, 3));
    assert_eq!(syncs(&other), one + 2, "each further segment syncs once before it begins");
}

#[test]
fn a_source_stays_until_its_copies_are_written() {
    let disk = SimulatedDisk::new(1);
    let mut flusher = flusher(&disk, 2);
    let copy = push(&mut flusher);
    let refused = flusher.give_up(0, SegmentNumber::FIRST, Some(copy)).unwrap_err();
    assert!(matches!(refused, FlushError::NotWritten { judged } if judged == copy), "{refused}");
    assert!(flusher.tier().log().header(0).unwrap().is_some(), "the source is there");
    flusher.write(NOW).unwrap();
    flusher.give_up(0, SegmentNumber::FIRST, Some(copy)).unwrap();
    assert!(flusher.tier().log().header(0).unwrap().is_none(), "the source is given up");
}

#[test]
fn an_extent_is_free_when_its_erasure_is_durable() {
    let disk = SimulatedDisk::new(1);
    let mut flusher = flusher(&disk, 3);
    let second = SegmentNumber::FIRST.further(1).unwrap();
    let none: Vec<u32> = Vec::new();
    assert_eq!(flusher.give_up(0, SegmentNumber::FIRST, None).unwrap().freed, none);
    assert_eq!(flusher.give_up(1, second, None).unwrap().freed, [0], "one erasure at a time");
    assert_eq!(flusher.sync().unwrap().freed, [1]);
    assert_eq!(flusher.sync().unwrap().freed, none, "an extent is freed once");
}

#[test]
fn a_refusal_to_give_up_frees_nothing_unsaid() {
    let disk = SimulatedDisk::new(1);
    let mut flusher = flusher(&disk, 3);
    let second = SegmentNumber::FIRST.further(1).unwrap();
    flusher.give_up(0, SegmentNumber::FIRST, None).unwrap();
    let copy = push(&mut flusher);
    flusher.give_up(1, second, Some(copy)).unwrap_err();
    assert_eq!(flusher.sync().unwrap().freed, [0], "the refusal has not used up the report");
}

#[test]
fn an_error_is_final() {
    let faults = [
        (When::nth(Call::SyncData, 1), Fault::Errno(EIO)),
        (When::nth(Call::SyncData, 1), Fault::LosePages { some: false }),
        (When::nth(Call::Write, 1), Fault::Errno(EIO)),
    ];
    for (when, fault) in faults {
        let disk = SimulatedDisk::new(1);
        let mut flusher = flusher(&disk, 1);
        push(&mut flusher);
        disk.inject(when, fault);
        let failed = flusher.write(NOW).and_then(|()| flusher.sync().map(drop)).unwrap_err();
        assert!(matches!(failed, FlushError::Disk(DiskError::Io { .. })), "{fault:?}: {failed}");
        let calls = |call| disk.counts(call).calls;
        let before = (calls(Call::Write), calls(Call::SyncData));
        for again in [flusher.write(NOW), flusher.sync().map(drop), flusher.lease(1).map(drop)] {
            assert!(matches!(again, Err(FlushError::Failed)), "{fault:?}: {again:?}");
        }
        assert_eq!((calls(Call::Write), calls(Call::SyncData)), before, "{fault:?}");
        assert!(flusher.has_failed());
    }
}

#[test]
fn a_full_disk_is_noticed_before_a_segment_begins() {
    let disk = SimulatedDisk::new(1);
    let mut flusher = flusher(&disk, 1);
    disk.set_capacity(SEGMENT_BYTES as u64 * 3 / 2);
    flusher.prepare(2).unwrap();
    let full = flusher.prepare(3).unwrap_err();
    assert!(matches!(full, FlushError::Full { .. }), "{full}");
    push(&mut flusher);
    flusher.write(NOW).unwrap();
    flusher.sync().unwrap();
    disk.set_capacity(SEGMENT_BYTES as u64 * 3);
    flusher.prepare(3).unwrap();
}
