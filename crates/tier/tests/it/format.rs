//! The format of the files: written data is read back, and damaged data is detected.

use std::{env, fs};

use larder_tier::disk::PAGE_BYTES;
use larder_tier::format::{
    Address, CompressedItem, Delay, DictionaryFault, DictionaryFile, HeaderFault, Item, Manifest,
    ManifestError, Mode, RECORD_HEADER_BYTES, Record, RecordFault, SEGMENT_BYTES, SEGMENT_PAGES,
    Seal, SegmentHeader, SegmentNumber, Unit, UnitFault, UnitWriter, Uuid, VALUE_BYTES_MAX,
};
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::IntoBytes;

const UUID: Uuid = Uuid(*b"0123456789abcdef");

fn seal() -> Seal {
    Seal::of(UUID)
}

fn number() -> SegmentNumber {
    SegmentNumber::from_stored(0x30_0000).unwrap()
}

fn item<'a>(key: &'a [u8], value: &'a [u8]) -> Item<'a> {
    Item {
        key,
        value,
        flags: 7,
        version: 99,
        deadline_unix_secs: Some(1_800_000_000),
        stale: true,
        token_sent: false,
        number: false,
    }
}

fn manifest() -> Manifest {
    Manifest {
        uuid: UUID,
        mode: Mode::Store,
        extents: 2560,
        epoch: 3,
        lease: SegmentNumber::from_stored(0x40_0000),
        durable: Some(Address::new(number(), 8192)),
        clean: false,
        index_seed: 0x0102_0304_0506_0708,
        hash_key: *b"a key for a hash",
        made_unix_secs: 1_790_000_000,
        ahead_secs: 0,
        dictionaries: None,
    }
}

fn compressed_manifest() -> Manifest {
    Manifest { dictionaries: Some(3), ..manifest() }
}

fn dictionary() -> DictionaryFile {
    DictionaryFile { uuid: UUID, number: 3, dictionary: b"not a dictionary of zstd".repeat(3) }
}

/// Returns a segment with a header, and one unit with these records on page 1.
fn segment(records: &[Record<'_>]) -> Vec<u8> {
    let header = SegmentHeader { number: number(), previous: None, delay: None };
    let mut unit = UnitWriter::new(&seal(), number(), 1, SEGMENT_PAGES);
    for record in records {
        unit.push(record).unwrap();
    }
    let mut bytes = header.page(&seal(), 0).bytes().to_vec();
    bytes.extend_from_slice(unit.seal(None, 1_790_000_000).as_bytes());
    bytes
}

fn read(segment: &[u8]) -> Result<Vec<Record<'_>>, UnitFault> {
    let unit = Unit::read(&seal(), number(), 1, segment)?;
    Ok(unit.records().map(|record| record.unwrap().1).collect())
}

/// Flips each bit of `bytes` individually, and calls `check` with the result.
fn with_each_bit_flipped(bytes: &[u8], check: impl Fn(usize, &[u8])) {
    let mut bytes = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        check(bit, &bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
}

#[test]
fn addresses_order_as_the_log_does() {
    let first = number();
    let later = first.further(1).unwrap();
    let ends = Address::new(first, SEGMENT_BYTES - 8);
    assert!(Address::new(first, 0) < ends && ends < Address::new(later, 0));
    assert_eq!((ends.number(), ends.offset()), (first, SEGMENT_BYTES - 8));
    assert_eq!(Address::from_stored(ends.stored()), Some(ends));
    assert_eq!(Address::from_stored(0x1234), None, "segment 0 does not exist");
}

#[test]
fn numbers_end_where_addresses_do() {
    let last = SegmentNumber::from_stored((1 << 45) - 1).unwrap();
    assert_eq!(Address::new(last, SEGMENT_BYTES - 8).stored(), u64::MAX);
    assert_eq!((last.further(1), SegmentNumber::from_stored(1 << 45)), (None, None));
    assert_eq!(last.further(u64::MAX), None, "a count that is too large does not wrap");
}

fn compressed(dictionary: u8) -> Record<'static> {
    Record::Compressed(CompressedItem { item: item(b"key", b"a frame"), dictionary })
}

#[test]
fn records_of_every_kind_are_read_as_they_were_written() {
    let records = [
        Record::Item(item(b"k", b"value")),
        compressed(3),
        compressed(0),
        Record::Item(Item { deadline_unix_secs: None, number: true, ..item(&[0, 255], b"") }),
        Record::Tombstone { key: &[b'k'; 250] },
        Record::Void { bytes: RECORD_HEADER_BYTES + 64 },
        Record::Flush,
        Record::Delay { due_unix_secs: 1_800_000_000 },
        Record::Lost { place: 0x1_2345_6789, key: b"k" },
        Record::Lost { place: 1, key: b"" },
    ];
    assert_eq!(read(&segment(&records)).unwrap(), records);
}

#[test]
fn a_record_alone_is_read_by_its_address() {
    let bytes = segment(&[Record::Item(item(b"a", b"1")), Record::Item(item(b"b", b"2"))]);
    let unit = Unit::read(&seal(), number(), 1, &bytes).unwrap();
    let (at, record) = unit.records().nth(1).unwrap().unwrap();
    assert_eq!(Record::read(&seal(), at, &bytes[at.offset()..]), Ok(record));
    let elsewhere = Address::new(number(), at.offset() + 8);
    let moved = Record::read(&seal(), elsewhere, &bytes[at.offset()..]);
    assert_eq!(moved, Err(RecordFault::Checksum), "a record is valid in its own place only");
    let foreign = Record::read(&Seal::of(Uuid([9; 16])), at, &bytes[at.offset()..]);
    assert_eq!(foreign, Err(RecordFault::Checksum), "a record is valid in its own directory only");
}

#[test]
fn the_longest_record_fills_a_segment() {
    let value = vec![1; VALUE_BYTES_MAX];
    let mut unit = UnitWriter::new(&seal(), number(), 1, SEGMENT_PAGES);
    assert!(unit.push(&Record::Item(item(&[b'k'; 250], &value))).is_some());
    assert_eq!(unit.push(&Record::Flush), None, "nothing fits after it");
    assert_eq!(unit.seal(None, 0).len(), SEGMENT_PAGES - 1);
}

#[test]
fn a_flipped_bit_in_a_unit_is_recognised() {
    let records = [Record::Item(item(b"key", b"value")), Record::Tombstone { key: b"key" }];
    let bytes = segment(&records);
    let used: usize = records.iter().map(Record::bytes).sum::<usize>() + 48;
    let unit = &bytes[PAGE_BYTES..PAGE_BYTES + used];
    with_each_bit_flipped(unit, |bit, damaged| {
        let mut segment = bytes.clone();
        segment[PAGE_BYTES..PAGE_BYTES + used].copy_from_slice(damaged);
        assert!(read(&segment).is_err(), "bit {bit} of the unit");
    });
}

#[test]
fn a_flipped_bit_in_a_record_is_recognised() {
    let bytes = segment(&[Record::Item(item(b"key", b"value"))]);
    let at = Address::new(number(), PAGE_BYTES + 48);
    let record = &bytes[at.offset()..at.offset() + 40];
    Record::read(&seal(), at, record).unwrap();
    with_each_bit_flipped(record, |bit, damaged| {
        assert!(Record::read(&seal(), at, damaged).is_err(), "bit {bit} of the record");
    });
}

#[test]
fn a_flipped_bit_in_a_segments_header_is_recognised() {
    let delay = Delay { at: Address::new(number(), 4144), due_unix_secs: 1_800_000_000 };
    let header = SegmentHeader { number: number(), previous: Some(number()), delay: Some(delay) };
    let page = header.page(&seal(), 5);
    let page = page.bytes();
    assert_eq!(SegmentHeader::read(&seal(), 5, page), Ok(Some(header)));
    assert_eq!(
        SegmentHeader::read(&seal(), 6, page),
        Err(HeaderFault::Broken),
        "another extent's header"
    );
    assert_eq!(SegmentHeader::read(&seal(), 5, header.page_of_freed(&seal(), 5).bytes()), Ok(None));
    let other = Seal::of(Uuid([9; 16]));
    assert_eq!(
        SegmentHeader::read(&other, 5, page),
        Err(HeaderFault::Foreign(UUID)),
        "another directory's header"
    );
    with_each_bit_flipped(page, |bit, damaged| {
        assert_eq!(
            SegmentHeader::read(&seal(), 5, damaged).unwrap_err(),
            HeaderFault::Broken,
            "bit {bit} of the header"
        );
    });
}

#[test]
fn a_flipped_bit_in_a_manifest_is_recognised() {
    let bytes = manifest().encode();
    assert_eq!(Manifest::decode(&bytes), Ok(manifest()));
    for ahead_secs in [-1, 1, i32::MIN, i32::MAX] {
        let ahead = Manifest { ahead_secs, ..manifest() };
        assert_eq!(Manifest::decode(&ahead.encode()), Ok(ahead));
    }
    for manifest in [manifest(), compressed_manifest()] {
        with_each_bit_flipped(&manifest.encode(), |bit, damaged| {
            assert!(Manifest::decode(damaged).is_err(), "bit {bit} of the manifest");
            assert_eq!(Manifest::decode_flipped(damaged).as_ref(), Some(&manifest), "bit {bit}");
        });
    }
    for dictionaries in [None, Some(0), Some(255)] {
        let counted = Manifest { dictionaries, ..manifest() };
        assert_eq!(Manifest::decode(&counted.encode()), Ok(counted));
    }
}

#[test]
fn a_manifest_that_does_not_fit_says_why() {
    let mut newer = manifest().encode();
    newer[8] = 3;
    assert_eq!(Manifest::decode(&newer), Err(ManifestError::Newer { found: 3 }));
    let mut longer = manifest().encode();
    longer[8] = 2;
    let checksum = crc32fast::hash(&longer[..104]);
    longer[104..].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(Manifest::decode(&longer), Err(ManifestError::Senseless(_))), "version 2");
    let mut none = manifest().encode();
    none[8] = 0;
    let checksum = crc32fast::hash(&none[..104]);
    none[104..].copy_from_slice(&checksum.to_le_bytes());
    assert!(matches!(Manifest::decode(&none), Err(ManifestError::Senseless(_))), "version 0");
    assert_eq!(Manifest::decode(b"#!/bin/sh"), Err(ManifestError::Foreign));
    assert_eq!(Manifest::decode(&[]), Err(ManifestError::Foreign));
    let cut = &manifest().encode()[..50];
    assert_eq!(Manifest::decode(cut), Err(ManifestError::Damaged));
}

#[test]
fn an_extents_earlier_units_are_not_taken_for_this_segments() {
    let bytes = segment(&[Record::Flush]);
    let later = number().further(1).unwrap();
    assert_eq!(Unit::read(&seal(), later, 1, &bytes).unwrap_err(), UnitFault::Earlier);
    assert_eq!(Unit::read(&seal(), number(), 2, &bytes).unwrap_err(), UnitFault::Blank);
    assert_eq!(Unit::read(&seal(), number(), SEGMENT_PAGES, &bytes).unwrap_err(), UnitFault::Blank);
    let cut = &bytes[..PAGE_BYTES + 60];
    assert_eq!(Unit::read(&seal(), number(), 1, cut).unwrap_err(), UnitFault::Broken);
}

#[test]
fn a_void_unit_covers_the_rest_of_its_segment() {
    let mut bytes = segment(&[Record::Flush]);
    bytes.extend_from_slice(Unit::void(&seal(), number(), 2, 1_790_000_000).bytes());
    let void = Unit::read(&seal(), number(), 2, &bytes).unwrap();
    assert_eq!((void.is_void, void.pages), (true, SEGMENT_PAGES - 2));
    assert_eq!(void.records().count(), 0);
}

/// A change of these bytes is a change of the format. It needs a new version, and this release must
/// still read the old one. `LARDER_BLESS=1` writes the files.
#[test]
fn the_bytes_of_version_1_are_these() {
    let bytes = segment(&[Record::Item(item(b"key", b"value")), Record::Tombstone { key: b"key" }]);
    is_as_before("segment_header", &bytes[..64]);
    is_as_before("unit", &bytes[PAGE_BYTES..PAGE_BYTES + 128]);
    is_as_before("manifest", &manifest().encode());
}

/// Same as above, for the bytes of version 2 that version 1 does not have.
#[test]
fn the_bytes_of_version_2_are_these() {
    let bytes = segment(&[compressed(3)]);
    is_as_before("compressed_unit", &bytes[PAGE_BYTES..PAGE_BYTES + 128]);
    is_as_before("compressed_manifest", &compressed_manifest().encode());
    is_as_before("dictionary", &dictionary().encode());
}

#[test]
fn a_flipped_bit_in_a_dictionary_is_recognised() {
    let bytes = dictionary().encode();
    assert_eq!(DictionaryFile::decode(UUID, 3, &bytes), Ok(dictionary()));
    assert_eq!(DictionaryFile::decode(UUID, 4, &bytes), Err(DictionaryFault::Foreign));
    assert_eq!(DictionaryFile::decode(Uuid([9; 16]), 3, &bytes), Err(DictionaryFault::Foreign));
    with_each_bit_flipped(&bytes, |bit, damaged| {
        let decoded = DictionaryFile::decode(UUID, 3, damaged);
        assert_eq!(decoded, Err(DictionaryFault::Damaged), "bit {bit}");
        let mended = DictionaryFile::decode_flipped(UUID, 3, damaged);
        assert_eq!(mended, Some(dictionary()), "bit {bit}");
    });
    for len in 0..bytes.len() {
        let cut = DictionaryFile::decode(UUID, 3, &bytes[..len]);
        assert_eq!(cut, Err(DictionaryFault::Damaged), "{len} bytes");
    }
}

fn is_as_before(name: &str, bytes: &[u8]) {
    let path = format!("{}/tests/format/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    if env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, hex(bytes) + "\n").unwrap();
    }
    let before = fs::read_to_string(&path).unwrap();
    assert_eq!(hex(bytes), before.trim(), "the bytes of a {name} have changed");
}

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    bytes.chunks(32).map(line).collect::<Vec<_>>().join("\n")
}

proptest! {
    #[test]
    fn any_items_are_read_as_they_were_written(
        items in vec((vec(any::<u8>(), 1..=250), vec(any::<u8>(), 0..300), any::<u32>(), any::<u64>()), 1..20)
    ) {
        let records: Vec<Record<'_>> = items
            .iter()
            .map(|(key, value, flags, version)| {
                Record::Item(Item { flags: *flags, version: *version, ..item(key, value) })
            })
            .collect();
        let segment = segment(&records);
        prop_assert_eq!(read(&segment).unwrap(), records);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in vec(any::<u8>(), 0..600), valid_head in any::<bool>()) {
        let mut segment = segment(&[Record::Item(item(b"key", b"value"))]);
        let from = if valid_head { PAGE_BYTES + 48 } else { PAGE_BYTES };
        segment.truncate(from);
        segment.extend_from_slice(&bytes);
        let _ = read(&segment);
        let _ = Record::read(&seal(), Address::new(number(), 4144), &bytes);
        let _ = SegmentHeader::read(&seal(), 0, &bytes);
        let _ = Manifest::decode(&bytes);
    }
}
