//! Directories that cannot be opened as requested. Each is refused with the reason and a remedy,
//! and nothing in it changes.

use std::env;

use larder_tier::disk::simulated::{Fault, SimulatedDirectory, SimulatedDisk, When};
use larder_tier::disk::{Directory, DiskError, File, PAGE_BYTES};
use larder_tier::format::{
    Address, Item, Manifest, Mode, Record, SEGMENT_BYTES, SegmentHeader, SegmentNumber, UnitWriter,
    Uuid,
};
use larder_tier::recovery::{Place, RecoveredLog, RecoveryError, Visitor, examine, recover};
use larder_tier::{EXTENTS_MIN, Entropy, Lease, OpenError, RequestedTier, Tier};

const NOW: u64 = 1_790_000_000;
const EXTENTS: u64 = 4;
const HEADER_BYTES: usize = 64;

fn wanted() -> RequestedTier {
    RequestedTier { mode: Mode::Store, bytes: EXTENTS * SEGMENT_BYTES as u64 }
}

fn entropy() -> Entropy {
    Entropy { uuid: Uuid([7; 16]), index_seed: 1, hash_key: [2; 16] }
}

type Opened = Tier<SimulatedDirectory>;

fn open_as(disk: &SimulatedDisk, wanted: RequestedTier) -> Result<Opened, OpenError> {
    Tier::open(disk.open(), wanted, entropy(), NOW)
}

fn open(disk: &SimulatedDisk) -> Result<Opened, OpenError> {
    open_as(disk, wanted())
}

/// Returns a disk with a directory in which the keys `a` and `b` were stored, in two units.
fn stored() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let mut tier = open(&disk).unwrap();
    tier.begin_anew().unwrap();
    let number = tier.lease(8).unwrap().next().unwrap();
    let header = SegmentHeader { number, previous: None, delay: None };
    tier.log().begin(0, &header).unwrap();
    for (page, key) in [(1, b"a"), (2, b"b")] {
        let mut unit = UnitWriter::new(tier.log().seal(), number, page, 1);
        let at = unit.push(&Record::Item(item(key))).unwrap();
        let synced_through = (page == 2).then_some(at);
        tier.log().write(0, page, &unit.seal(synced_through, NOW)).unwrap();
        tier.log().sync().unwrap();
    }
    drop(tier);
    disk.kill();
    disk
}

fn item(key: &[u8]) -> Item<'_> {
    Item {
        key,
        value: b"value",
        flags: 0,
        version: 1,
        deadline_unix_secs: None,
        stale: false,
        token_sent: false,
        number: false,
    }
}

/// Returns the keys in a log.
#[derive(Default)]
struct Keys(Vec<u8>);

impl Visitor for Keys {
    fn record(&mut self, _: Place, record: &Record<'_>) {
        let Record::Item(found) = record else { panic!("{record:?} was never written") };
        assert_eq!(*found, item(found.key), "a value is as written, or is not shown");
        self.0.push(found.key[0]);
    }
}

fn keys(tier: &Opened) -> Result<(Vec<u8>, RecoveredLog), RecoveryError> {
    let mut keys = Keys::default();
    let found = examine(tier, &mut keys)?;
    Ok((keys.0, found))
}

#[test]
fn a_directory_is_made_and_opened_again() {
    let disk = stored();
    let tier = open(&disk).unwrap();
    assert_eq!((tier.manifest().epoch, tier.manifest().mode), (2, Mode::Store));
    let (keys, found) = keys(&tier).unwrap();
    assert_eq!((keys.as_slice(), found.segments.len()), (&b"ab"[..], 1));
}

#[test]
fn a_directory_in_use_is_refused() {
    let disk = SimulatedDisk::new(1);
    let first = open(&disk).unwrap();
    let refused = open(&disk).unwrap_err();
    assert!(matches!(refused, OpenError::Disk(DiskError::Locked { .. })), "{refused}");
    drop(first);
    open(&disk).unwrap();
}

#[test]
fn a_store_is_no_cache() {
    let disk = stored();
    let refused = open_as(&disk, RequestedTier { mode: Mode::Cache, ..wanted() }).unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("is a store, but was opened as a cache"), "{text}");
}

#[test]
fn a_log_grows_and_does_not_shrink() {
    let disk = stored();
    let larger = RequestedTier { bytes: 2 * wanted().bytes, ..wanted() };
    assert_eq!(u64::from(open_as(&disk, larger).unwrap().log().extents()), 2 * EXTENTS);
    let refused = open(&disk).unwrap_err();
    assert!(refused.to_string().contains("can grow, not shrink"), "{refused}");
    assert_eq!(keys(&open_as(&disk, larger).unwrap()).unwrap().0, b"ab");
}

#[test]
fn a_log_has_room_for_reclaim() {
    let bytes = u64::from(EXTENTS_MIN) * SEGMENT_BYTES as u64;
    let disk = SimulatedDisk::new(1);
    let refused = open_as(&disk, RequestedTier { bytes: bytes - 1, ..wanted() }).unwrap_err();
    assert!(refused.to_string().contains("at least 12582912 bytes"), "{refused}");
    open_as(&disk, RequestedTier { bytes, ..wanted() }).unwrap();
}

#[test]
fn a_missing_log_is_not_taken_for_an_empty_one() {
    let disk = stored();
    disk.open().rename("log", "elsewhere").unwrap();
    let refused = open(&disk).unwrap_err();
    assert!(matches!(refused, OpenError::NoLog { .. }), "{refused}");
}

#[test]
fn a_log_without_its_manifest_is_refused() {
    let disk = stored();
    disk.open().rename("MANIFEST", "elsewhere").unwrap();
    let refused = open(&disk).unwrap_err();
    assert!(matches!(refused, OpenError::NoManifest { .. }), "{refused}");
}

#[test]
fn a_log_that_was_cut_off_is_refused() {
    let disk = stored();
    disk.open().open("log").unwrap().unwrap().set_len(SEGMENT_BYTES as u64).unwrap();
    let refused = open(&disk).unwrap_err();
    assert!(refused.to_string().contains("has 4194304 bytes, expected 16777216"), "{refused}");
}

#[test]
fn a_log_of_another_directory_is_refused() {
    let disk = stored();
    let mut other = open(&disk).unwrap().manifest().clone();
    other.uuid = Uuid([8; 16]);
    disk.open().replace_small("MANIFEST", &other.encode()).unwrap();
    let refused = keys(&open(&disk).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("belongs to another directory"), "{refused}");
}

#[test]
fn a_manifest_of_a_newer_release_is_refused() {
    let disk = stored();
    let mut bytes = disk.open().read_small("MANIFEST").unwrap().unwrap();
    bytes[8] = 6;
    disk.open().replace_small("MANIFEST", &bytes).unwrap();
    let refused = open(&disk).unwrap_err();
    assert!(refused.to_string().contains("has format 6, this release reads formats up to 2"));
}

#[test]
fn a_foreign_manifest_is_refused_and_stays() {
    let disk = SimulatedDisk::new(1);
    disk.open().replace_small("MANIFEST", b"not ours").unwrap();
    let refused = open(&disk).unwrap_err();
    assert!(refused.to_string().contains("not the manifest of a larder directory"), "{refused}");
    assert_eq!(disk.open().read_small("MANIFEST").unwrap().unwrap(), b"not ours");
}

#[test]
fn numbers_run_out_with_an_error() {
    let disk = stored();
    let last = SegmentNumber::from_stored((1 << 45) - 1);
    let made = open(&disk).unwrap().manifest().clone();
    disk.open()
        .replace_small("MANIFEST", &Manifest { epoch: u32::MAX, lease: last, ..made }.encode())
        .unwrap();
    let mut tier = open(&disk).unwrap();
    for refused in [tier.begin_anew().unwrap_err(), tier.lease(1).unwrap_err()] {
        assert!(
            refused.to_string().contains("has used up its segment numbers or epochs"),
            "{refused}"
        );
    }
}

#[test]
fn no_number_is_leased_twice() {
    let disk = SimulatedDisk::new(1);
    let mut tier = open(&disk).unwrap();
    let numbers = |lease: Lease| lease.map(SegmentNumber::stored).collect::<Vec<_>>();
    assert_eq!(numbers(tier.lease(2).unwrap()), [1, 2]);
    drop(tier);
    disk.lose_power();
    let mut tier = open(&disk).unwrap();
    assert_eq!(numbers(tier.lease(3).unwrap()), [3, 4, 5], "1 and 2 may be on the disk");
}

#[test]
fn memory_fits_in_its_epoch_and_boot_or_after_a_clean_stop() {
    let disk = stored();
    let mut tier = open(&disk).unwrap();
    let epoch = tier.manifest().epoch;
    assert!(tier.fits(epoch, true));
    assert!(
        !tier.fits(epoch, false),
        "after a power loss memory may have changes that the log lost"
    );
    tier.mark_clean(None).unwrap();
    assert!(tier.fits(epoch, false), "a clean stop left nothing to lose");
    tier.go_on().unwrap();
    assert!(!tier.fits(epoch, false), "the clean mark goes before the first change");
    tier.begin_anew().unwrap();
    assert!(!tier.fits(epoch, true), "another process served the log since");
}

#[test]
fn a_read_only_disk_can_be_examined() {
    let disk = stored();
    let tier = open(&disk).unwrap();
    disk.set_read_only(true);
    assert_eq!(keys(&tier).unwrap().0, b"ab");
    let failed = recover(&tier, NOW, &mut Keys::default()).unwrap_err();
    assert!(matches!(failed, RecoveryError::Disk(_)), "{failed}");
}

#[test]
fn a_segment_that_is_missing_is_damage() {
    let disk = stored();
    let tier = open(&disk).unwrap();
    let number = |number: u64| SegmentNumber::from_stored(number).unwrap();
    let header = SegmentHeader { number: number(3), previous: Some(number(2)), delay: None };
    tier.log().begin(1, &header).unwrap();
    let damage = keys(&tier).unwrap_err();
    assert!(damage.to_string().contains("the segments between 1 and 3 are missing"), "{damage}");
}

#[test]
fn a_segment_that_is_there_twice_is_damage() {
    let disk = stored();
    let tier = open(&disk).unwrap();
    let header = tier.log().header(0).unwrap().unwrap();
    tier.log().begin(2, &header).unwrap();
    let damage = keys(&tier).unwrap_err();
    assert!(damage.to_string().contains("extents 0 and 2 both hold segment 1"), "{damage}");
}

/// The bits of the log that are in use: the header's fields, then the used bytes of both units.
fn used_bits() -> impl Iterator<Item = u64> {
    let unit_bytes = 48 + Record::item_bytes(1, 5);
    let page = |page: usize, bytes: usize| {
        let begin = page * PAGE_BYTES * 8;
        (begin..begin + bytes * 8).map(|bit| bit as u64)
    };
    page(0, HEADER_BYTES).chain(page(1, unit_bytes)).chain(page(2, unit_bytes))
}

#[test]
fn no_flipped_bit_shows_a_wrong_value() {
    let disk = stored();
    let tier = open(&disk).unwrap();
    // A step of 7 visits each byte, and each bit of some byte. `make verify` flips all bits.
    let step = if env::var_os("LARDER_SEEDS").is_some() { 1 } else { 7 };
    for bit in used_bits().step_by(step) {
        assert!(disk.flip_bit("log", bit));
        let in_page = bit / 8 / PAGE_BYTES as u64;
        match (in_page, keys(&tier)) {
            // The header is read after the flip is repaired.
            (0, outcome) => {
                let (keys, found) = outcome.unwrap_or_else(|error| panic!("bit {bit}: {error}"));
                assert_eq!((keys.as_slice(), found.flipped), (&b"ab"[..], 1), "bit {bit}");
            }
            // The second unit proves that the first one was durable.
            (1, outcome) => {
                assert!(matches!(outcome, Err(RecoveryError::Lost { .. })), "bit {bit}")
            }
            // Nothing proves this for the last unit: it looks the same as after a power loss.
            (2, Ok((keys, found))) => {
                assert_eq!((keys.as_slice(), found.cut.is_some()), (&b"a"[..], true), "bit {bit}");
            }
            (_, outcome) => panic!("bit {bit}: {outcome:?}"),
        }
        assert!(disk.flip_bit("log", bit));
    }
    assert_eq!(keys(&tier).unwrap().0, b"ab", "all bits are as before");
}

#[test]
fn a_flipped_bit_in_the_last_unit_is_damage_after_a_clean_stop() {
    let disk = stored();
    let mut tier = open(&disk).unwrap();
    let end = Address::new(SegmentNumber::FIRST, 3 * PAGE_BYTES);
    tier.mark_clean(Some(end)).unwrap();
    assert_eq!(keys(&tier).unwrap().0, b"ab", "the cut is after the durable records");
    let in_last_unit = (2 * PAGE_BYTES * 8 + 300) as u64;
    assert!(disk.flip_bit("log", in_last_unit));
    let damage = keys(&tier).unwrap_err();
    assert!(matches!(damage, RecoveryError::Lost { .. }), "{damage}");
}

#[test]
fn two_flipped_bits_in_the_manifest_are_refused() {
    let disk = stored();
    let bytes = disk.open().read_small("MANIFEST").unwrap().unwrap();
    for bit in 1..bytes.len() as u64 * 8 {
        let flip = || assert!(disk.flip_bit("MANIFEST", bit - 1) && disk.flip_bit("MANIFEST", bit));
        flip();
        let refused = open(&disk).unwrap_err();
        assert!(matches!(refused, OpenError::Manifest { .. }), "bit {bit}: {refused}");
        flip();
    }
    open(&disk).unwrap();
}

/// Returns a disk with a log after a power loss: `a` is durable in segment 1, the next unit is
/// lost, and the later segment 2 contains `c`.
fn with_a_segment_above_the_cut(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    let mut tier = open(&disk).unwrap();
    tier.begin_anew().unwrap();
    let mut previous = None;
    for (extent, number) in (0..).zip(tier.lease(2).unwrap()) {
        tier.log().begin(extent, &SegmentHeader { number, previous, delay: None }).unwrap();
        let mut unit = UnitWriter::new(tier.log().seal(), number, 1, 1);
        let key = if extent == 0 { b"a" } else { b"c" };
        unit.push(&Record::Item(item(key))).unwrap();
        tier.log().write(extent, 1, &unit.seal(None, NOW)).unwrap();
        previous = Some(number);
    }
    tier.log().sync().unwrap();
    drop(tier);
    disk.kill();
    disk
}

#[test]
fn what_lies_above_the_cut_never_appears_whenever_recovery_loses_power() {
    for seed in 0..12 {
        for nth in 1..20 {
            let disk = with_a_segment_above_the_cut(seed);
            let tier = open(&disk).unwrap();
            disk.inject(When::nth_of_any(nth), Fault::PowerLoss);
            let _ = recover(&tier, NOW, &mut Keys::default());
            disk.clear_faults();
            disk.lose_power();
            let (keys, _) = keys(&open(&disk).unwrap()).unwrap();
            assert_eq!(keys, b"a", "seed {seed}, power lost at call {nth} of recovery");
        }
    }
}
