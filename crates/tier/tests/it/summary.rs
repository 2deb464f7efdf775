//! The format of a segment's summary: a written summary is read back. A damaged or invalid summary
//! is detected before its entries are read.

use larder_tier::format::{
    Address, CompressedItem, Item, KeyHash, KeyHasher, Record, SEGMENT_BYTES, SEGMENT_PAGES,
    SUMMARY_ENTRY_BYTES, Seal, SegmentNumber, Summary, SummaryEntry, SummaryFault, SummaryKind,
    SummaryWriter, Unit, UnitFault, UnitWriter, Uuid,
};
use proptest::collection::vec;
use proptest::prelude::*;

const UUID: Uuid = Uuid(*b"0123456789abcdef");
const PAGE: usize = SEGMENT_BYTES / SEGMENT_PAGES;
const NOW: u64 = 1_790_000_000;

/// The records of the tests: a key, a value, a version and a deadline for each kind.
#[derive(Clone, Debug)]
enum Wanted {
    Item(Vec<u8>, usize, u64, Option<u64>),
    Tombstone(Vec<u8>),
    Flush,
    Delay(u64),
    Lost(u64, Vec<u8>),
    Void(usize),
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let key = || vec(any::<u8>(), 1..=250);
    prop_oneof![
        4 => (key(), 0..300_usize, any::<u64>(), any::<Option<std::num::NonZeroU64>>()).prop_map(
            |(key, bytes, version, deadline)| {
                Wanted::Item(key, bytes, version, deadline.map(u64::from))
            }
        ),
        1 => key().prop_map(Wanted::Tombstone),
        1 => Just(Wanted::Flush),
        1 => any::<u64>().prop_map(Wanted::Delay),
        1 => (any::<u64>(), vec(any::<u8>(), 0..=250)).prop_map(|(place, key)| Wanted::Lost(place, key)),
        1 => (4..40_usize).prop_map(|words| Wanted::Void(words * 8)),
    ]
}

fn with_record<T>(wanted: &Wanted, then: impl FnOnce(&Record<'_>) -> T) -> T {
    let value = [b'v'; 300];
    then(&match wanted {
        Wanted::Item(key, bytes, version, deadline_unix_secs) => Record::Item(Item {
            key,
            value: &value[..*bytes],
            flags: 7,
            version: *version,
            deadline_unix_secs: *deadline_unix_secs,
            stale: false,
            token_sent: false,
            number: false,
        }),
        Wanted::Tombstone(key) => Record::Tombstone { key },
        Wanted::Flush => Record::Flush,
        Wanted::Delay(due) => Record::Delay { due_unix_secs: *due },
        Wanted::Lost(place, key) => Record::Lost { place: *place, key },
        Wanted::Void(bytes) => Record::Void { bytes: *bytes },
    })
}

fn seal() -> Seal {
    Seal::of(UUID)
}

fn number() -> SegmentNumber {
    SegmentNumber::from_stored(0x30_0000).unwrap()
}

/// Returns the two hashes of a key. The second one is a substitute for the index hash, which this
/// crate does not have.
fn hash(key: &[u8]) -> KeyHash {
    let identity = KeyHasher::new(b"a key for a hash").identity(key);
    KeyHash { identity, index: u64::from(crc32fast::hash(key)) << 20 }
}

/// Returns the expected entry of a record.
fn expected(at: Address, record: &Record<'_>) -> Option<SummaryEntry> {
    let what = match record {
        Record::Item(item) | Record::Compressed(CompressedItem { item, .. }) => {
            SummaryKind::Item { key: hash(item.key), deadline_unix_secs: item.deadline_unix_secs }
        }
        Record::Tombstone { key } => SummaryKind::Tombstone { key: hash(key) },
        Record::Flush => SummaryKind::Flush,
        Record::Delay { due_unix_secs } => SummaryKind::Delay { due_unix_secs: *due_unix_secs },
        Record::Lost { place, .. } => SummaryKind::Lost { place: *place },
        Record::Void { .. } => return None,
    };
    Some(SummaryEntry { at, bytes: record.bytes(), what })
}

/// Returns a segment's unit, its expected entries, and the summary.
fn write(records: &[Wanted]) -> (UnitWriter, Vec<SummaryEntry>, Vec<u8>) {
    let mut unit = UnitWriter::new(&seal(), number(), 1, 512);
    let mut summary = SummaryWriter::new(number());
    let mut entries = Vec::new();
    for wanted in records {
        with_record(wanted, |record| {
            let at = unit.push(record).unwrap();
            summary.push(at, record, hash);
            entries.extend(expected(at, record));
        });
    }
    let units_end = unit.next_address().unwrap().offset().div_ceil(PAGE);
    let mut bytes = vec![0xAA; summary.pages_with(0) * PAGE];
    summary.write(&seal(), units_end, NOW, &mut bytes);
    (unit, entries, bytes)
}

fn small() -> Vec<Wanted> {
    vec![
        Wanted::Item(b"key".to_vec(), 5, 99, Some(1_800_000_000)),
        Wanted::Void(40),
        Wanted::Tombstone(b"key".to_vec()),
        Wanted::Flush,
        Wanted::Delay(1_800_000_001),
        Wanted::Lost(1 << 32, b"key".to_vec()),
    ]
}

fn read(bytes: &[u8]) -> Result<Summary<'_>, SummaryFault> {
    Summary::read(&seal(), number(), bytes)
}

/// Recomputes the checksum, so that a change looks as if a writer had written it.
fn reseal(summary: &mut [u8]) {
    let at = summary.len() - 64;
    let address = summary[at + 16..at + 24].to_vec();
    let parts = [&UUID.0[..], &address, &summary[..at], &summary[at + 4..]];
    let checksum = crc32fast::hash(&parts.concat());
    summary[at..at + 4].copy_from_slice(&checksum.to_le_bytes());
}

proptest! {
    #[test]
    fn a_summary_says_what_its_segment_holds(records in vec(wanted(), 0..250)) {
        let (_, entries, bytes) = write(&records);
        let summary = read(&bytes).unwrap();
        prop_assert_eq!(summary.entries().collect::<Vec<_>>(), &entries[..]);
        prop_assert_eq!((summary.count(), summary.sealed_unix_secs), (entries.len(), NOW));
        let newest = records.iter().map(|wanted| match wanted {
            Wanted::Item(_, _, version, _) => *version,
            _ => 0,
        });
        prop_assert_eq!(summary.newest_version, newest.max().unwrap_or(0));
    }

    #[test]
    fn entries_of_a_hostile_summary_stay_inside_the_units(
        changes in vec((prop_oneof![0..160_usize, 4032..4096_usize], any::<u8>()), 1..20),
    ) {
        let (_, _, mut bytes) = write(&small());
        changes.iter().for_each(|(at, byte)| bytes[*at] = *byte);
        reseal(&mut bytes);
        if let Ok(summary) = read(&bytes) {
            let entries: Vec<_> = summary.entries().collect();
            prop_assert_eq!(entries.len(), summary.count(), "an entry vanished after the check");
            let mut from = PAGE;
            for entry in entries {
                prop_assert!(entry.at.offset() >= from, "{:?} lies in the one before", entry);
                from = entry.at.offset() + entry.bytes;
            }
            prop_assert!(from <= summary.units_end * PAGE, "an entry ends at {}", from);
        }
    }

    #[test]
    fn any_bytes_are_refused_without_a_panic(mut bytes in vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
        if let Some(magic) = bytes.len().checked_sub(60) {
            bytes[magic..magic + 4].copy_from_slice(b"LrdI");
            prop_assert!(read(&bytes).is_err());
        }
    }
}

#[test]
fn a_flipped_bit_in_a_summary_is_recognised() {
    let (_, _, mut bytes) = write(&small());
    read(&bytes).unwrap();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bytes).is_err(), "bit {bit} of the summary was not missed");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn a_summary_is_valid_in_its_own_segment_and_directory_only() {
    let (_, _, bytes) = write(&small());
    let later = number().further(1).unwrap();
    assert_eq!(Summary::read(&seal(), later, &bytes).unwrap_err(), SummaryFault::Earlier);
    let foreign = Seal::of(Uuid([9; 16]));
    assert_eq!(Summary::read(&foreign, number(), &bytes).unwrap_err(), SummaryFault::Broken);
    assert_eq!(read(&vec![0; PAGE]).unwrap_err(), SummaryFault::Absent);
}

#[test]
fn the_last_page_says_how_long_the_summary_is() {
    let (_, _, bytes) = write(&vec![Wanted::Flush; 250]);
    assert_eq!(bytes.len(), 3 * PAGE, "250 entries of 40 bytes, and the trailer");
    let longer = SummaryFault::Longer { bytes: 3 * PAGE };
    assert_eq!(read(&bytes[2 * PAGE..]).unwrap_err(), longer);
    assert_eq!(read(&bytes[1..]).unwrap_err(), longer);
    assert_eq!(read(&bytes[bytes.len() - 63..]).unwrap_err(), SummaryFault::Longer { bytes: PAGE });
    let segment = [vec![7; PAGE], bytes].concat();
    assert_eq!(read(&segment).unwrap().count(), 250, "bytes before the summary are not read");
}

#[test]
fn a_writer_knows_how_many_pages_the_summary_takes() {
    let summary = SummaryWriter::new(number());
    assert_eq!(summary.pages_with(0), 1, "only the trailer");
    let in_one_page = (PAGE - 64) / SUMMARY_ENTRY_BYTES;
    assert_eq!(summary.pages_with(in_one_page), 1);
    assert_eq!(summary.pages_with(in_one_page + 1), 2);
}

/// Entries 0 to 4 are an item at 4,144, a tombstone, a flush, a delayed flush and a lost item.
#[test]
fn an_entry_that_no_release_writes_is_named() {
    let change = |entry: usize, at: usize, with: &[u8]| {
        let (_, _, mut bytes) = write(&small());
        let at = entry * SUMMARY_ENTRY_BYTES + at;
        bytes[at..at + with.len()].copy_from_slice(with);
        reseal(&mut bytes);
        read(&bytes).map(|summary| summary.count())
    };
    assert_eq!(change(0, 16, &[1]), Ok(5), "another hash is an entry like any other");
    let cases: [(usize, usize, &[u8], &str); 14] = [
        (0, 32, &[1, 2, 0], "begins in the header of the unit"),
        (1, 32, &[6, 2, 0], "begins in the record before it"),
        (3, 32, &[0, 4, 0], "begins after the units"),
        (3, 32, &[255, 255, 255], "begins after the segment"),
        (1, 36, &[0, 16, 0, 0], "ends after the units"),
        (1, 36, &[248, 255, 255, 255], "ends after the segment"),
        (0, 36, &[36], "has a length that is not a multiple of 8"),
        (0, 36, &[24], "is shorter than a record"),
        (0, 35, &[0], "has no kind"),
        (0, 35, &[5], "is void"),
        (1, 24, &[1], "is a tombstone with a deadline"),
        (2, 0, &[1], "is a flush with a key"),
        (2, 24, &[1], "is a flush with a deadline"),
        (3, 0, &[1], "is a delayed flush with a key"),
    ];
    for (entry, at, with, what) in cases {
        let senseless = Err(SummaryFault::Senseless { entry });
        assert_eq!(change(entry, at, with), senseless, "entry {entry} {what}");
    }
}

#[test]
fn hostile_numbers_in_the_trailer_are_refused() {
    let cases: [(usize, u32, &str); 8] = [
        (12, u32::MAX, "more entries than a segment has bytes"),
        (12, 101, "more entries than the pages hold"),
        (16, 0, "the address of the segment's header"),
        (24, 0, "units that end in the segment's header"),
        (24, SEGMENT_PAGES as u32 - 1, "units that end in the summary"),
        (28, 0, "no pages"),
        (28, SEGMENT_PAGES as u32, "the pages of a whole segment"),
        (28, u32::MAX, "more pages than there are"),
    ];
    for (at, number, what) in cases {
        let (_, _, mut bytes) = write(&small());
        let trailer = bytes.len() - 64;
        bytes[trailer + at..trailer + at + 4].copy_from_slice(&number.to_le_bytes());
        reseal(&mut bytes);
        assert_eq!(read(&bytes).unwrap_err(), SummaryFault::Broken, "{what}");
    }
}

#[test]
fn a_page_that_ends_otherwise_is_no_summary() {
    for at in [4, 8] {
        let (_, _, mut bytes) = write(&small());
        let trailer = bytes.len() - 64;
        bytes[trailer + at] += 1;
        reseal(&mut bytes);
        assert_eq!(read(&bytes).unwrap_err(), SummaryFault::Absent, "another magic or version");
    }
}

#[test]
#[should_panic(expected = "no page for the void unit")]
fn a_summary_leaves_a_page_for_the_void_unit() {
    let mut page = vec![0; PAGE];
    SummaryWriter::new(number()).write(&seal(), SEGMENT_PAGES - 2, NOW, &mut page);
    SummaryWriter::new(number()).write(&seal(), SEGMENT_PAGES - 1, NOW, &mut page);
}

#[test]
fn a_reader_of_the_units_does_not_meet_the_summary() {
    let (unit, entries, summary) = write(&small());
    let mut segment = vec![0; SEGMENT_BYTES];
    segment[PAGE..2 * PAGE].copy_from_slice(unit.seal(None, NOW)[0].bytes());
    segment[2 * PAGE..3 * PAGE].copy_from_slice(Unit::void(&seal(), number(), 2, NOW).bytes());
    segment[SEGMENT_BYTES - summary.len()..].copy_from_slice(&summary);
    let unit = Unit::read(&seal(), number(), 1, &segment).unwrap();
    let scanned: Vec<_> = unit.records().map(Result::unwrap).collect();
    let scanned: Vec<_> = scanned.iter().filter_map(|(at, record)| expected(*at, record)).collect();
    assert_eq!(scanned, entries, "the summary and a scan differ");
    let summary = read(&segment).unwrap();
    let shut = Unit::read(&seal(), number(), summary.units_end, &segment).unwrap();
    assert!(shut.is_void && shut.pages == SEGMENT_PAGES - 2);
    let in_summary = Unit::read(&seal(), number(), summary.address.page(), &segment);
    assert_eq!(in_summary.unwrap_err(), UnitFault::Broken, "a summary is not a unit");
}

/// Test vectors of SipHash's authors for 128 bits: the first one, and the one for one byte.
#[test]
fn the_identity_of_a_key_is_siphash() {
    let key: [u8; 16] = std::array::from_fn(|at| at as u8);
    let hasher = KeyHasher::new(&key);
    let bytes = |identity: u128| format!("{:032x}", identity.swap_bytes());
    assert_eq!(bytes(hasher.identity(b"")), "a3817f04ba25a8e66df67214c7550293");
    assert_eq!(bytes(hasher.identity(&[0])), "da87c1d86b99af44347659119b22fc45");
}

/// A summary written by version 1: its entries, then its trailer. Every later release must read it.
#[test]
fn the_bytes_of_a_summary_are_these() {
    let (_, _, bytes) = write(&small()[..4]);
    let trailer = bytes.len() - 64;
    let content = [&bytes[..3 * SUMMARY_ENTRY_BYTES], &bytes[trailer..]].concat();
    let hex: String = content.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<&str> = include_str!("../format/summary.hex").lines().collect();
    assert_eq!(hex, lines.concat(), "the format has changed: give it a new version");
}
