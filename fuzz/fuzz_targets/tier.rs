//! Reads arbitrary bytes as the files of a tier's directory, with and without valid checksums.
//! Readers must not panic, and each record that they accept must be the same after it is written
//! and read again.
#![no_main]

use larder_tier::disk::PAGE_BYTES;
use larder_tier::format::{
    Address, Manifest, Record, SEGMENT_PAGES, Seal, SegmentHeader, SegmentNumber, Unit, UnitWriter,
    Uuid,
};
use libfuzzer_sys::fuzz_target;

const UUID: Uuid = Uuid(*b"0123456789abcdef");

fuzz_target!(|input: (bool, Vec<u8>)| {
    let (is_sealed, mut bytes) = input;
    let seal = Seal::of(UUID);
    let number = SegmentNumber::FIRST;
    let _ = Manifest::decode(&bytes);
    let _ = SegmentHeader::read(&seal, 0, &bytes);
    let _ = Record::read(&seal, Address::new(number, PAGE_BYTES), &bytes);
    if is_sealed {
        seal_unit(&mut bytes, Address::new(number, PAGE_BYTES));
    }
    let mut segment = vec![0; PAGE_BYTES];
    segment.append(&mut bytes);
    let Ok(unit) = Unit::read(&seal, number, 1, &segment) else { return };
    let records: Vec<_> = unit.records().map_while(Result::ok).collect();
    let mut writer = UnitWriter::new(&seal, number, 1, SEGMENT_PAGES);
    for (at, record) in &records {
        assert_eq!(writer.push(record), Some(*at), "{record:?}");
    }
    let pages = writer.seal(None, 0);
    let mut again = vec![0; PAGE_BYTES];
    pages.iter().for_each(|page| again.extend_from_slice(page.bytes()));
    let unit = Unit::read(&seal, number, 1, &again).expect("a unit that was written");
    assert_eq!(unit.records().collect::<Result<Vec<_>, _>>().expect("records"), records);
});

/// Sets the fixed fields of a unit to valid values, because random bytes almost never have a valid
/// checksum.
fn seal_unit(bytes: &mut Vec<u8>, at: Address) {
    if bytes.len() < 48 {
        bytes.resize(48, 0);
    }
    let record_bytes = bytes.len() - 48;
    let pages = bytes.len().div_ceil(PAGE_BYTES) as u32;
    bytes[4..8].copy_from_slice(b"LrdU");
    bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
    bytes[12..16].copy_from_slice(&pages.to_le_bytes());
    bytes[16..24].copy_from_slice(&at.stored().to_le_bytes());
    bytes[40..44].copy_from_slice(&(record_bytes as u32).to_le_bytes());
    let place = at.stored().to_le_bytes();
    let checksum = crc32fast::hash(&[&UUID.0[..], &place, &bytes[4..]].concat());
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
}
