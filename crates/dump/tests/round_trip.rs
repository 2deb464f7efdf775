//! A dump returns the items that were written, and a reader detects every change of its bytes.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::io::Read;

use larder_dump::{
    BLOCK_BYTES_MAX, Entry, Piece, ReadError, Reader, VALUE_BYTES_MAX, WriteError, Writer,
};
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
struct Item {
    key: Vec<u8>,
    flags: u32,
    deadline_unix_secs: Option<u64>,
    value: Vec<u8>,
}

impl Item {
    fn entry(&self) -> Entry<'_> {
        let &Self { ref key, flags, deadline_unix_secs, ref value } = self;
        Entry { key, flags, deadline_unix_secs, value_bytes: value.len() as u32 }
    }
}

fn items() -> impl Strategy<Value = Vec<Item>> {
    let value = prop_oneof![
        4 => vec(any::<u8>(), 0..100),
        1 => (any::<u8>(), 0..3 * BLOCK_BYTES_MAX).prop_map(|(byte, bytes)| vec![byte; bytes]),
    ];
    let item = (vec(any::<u8>(), 1..251), any::<u32>(), proptest::option::of(1..u64::MAX), value)
        .prop_map(|(key, flags, deadline_unix_secs, value)| Item {
            key,
            flags,
            deadline_unix_secs,
            value,
        });
    vec(item, 0..20)
}

fn written(items: &[Item]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), 7).unwrap();
    items.iter().for_each(|item| writer.item(&item.entry(), &item.value).unwrap());
    assert_eq!(writer.items(), items.len() as u64);
    writer.finish().unwrap()
}

/// Reads a dump to its end. Leaves out items whose value does not end.
fn read(input: impl Read) -> Result<Vec<Item>, ReadError> {
    let mut reader = Reader::new(input)?;
    let mut items = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        let mut value = Vec::new();
        let is_whole = loop {
            match reader.next_piece()? {
                Piece::Bytes(bytes) => value.extend_from_slice(bytes),
                Piece::End => break true,
                Piece::Void => break false,
            }
        };
        if is_whole {
            let (flags, deadline_unix_secs) = (entry.flags, entry.deadline_unix_secs);
            items.push(Item { key: entry.key().to_vec(), flags, deadline_unix_secs, value });
        }
    }
    assert_eq!(reader.items(), items.len() as u64);
    Ok(items)
}

/// A pipe that returns a few bytes at a time.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.1.min(out.len());
        self.0.read(&mut out[..bytes])
    }
}

proptest! {
    #[test]
    fn a_dump_gives_back_what_was_written(items in items(), drop_bytes in 1..100_000_usize) {
        let dump = written(&items);
        prop_assert_eq!(read(Drops(&dump, drop_bytes)).unwrap(), items);
    }

    #[test]
    fn a_dump_that_is_cut_off_anywhere_is_recognised(items in items(), part in 0.0..1.0_f64) {
        let dump = written(&items);
        let cut = (dump.len() as f64 * part) as usize;
        let outcome = read(&dump[..cut]);
        let is_recognised = match &outcome {
            Err(ReadError::Truncated { offset, .. }) => *offset == cut as u64,
            Err(ReadError::NotADump { .. }) => cut == 0,
            _ => false,
        };
        prop_assert!(is_recognised, "{cut} of {} bytes: {outcome:?}", dump.len());
    }

    #[test]
    fn a_changed_bit_anywhere_is_recognised(
        items in items(),
        part in 0.0..1.0_f64,
        bit in 0..8,
    ) {
        let mut dump = written(&items);
        let at = (dump.len() as f64 * part) as usize;
        dump[at] ^= 1_u8 << bit;
        let outcome = read(&dump[..]);
        prop_assert!(outcome.is_err(), "byte {at}, bit {bit} of {} bytes", dump.len());
    }

    #[test]
    fn other_bytes_are_no_dump(bytes in vec(any::<u8>(), 0..100)) {
        let outcome = read(&bytes[..]);
        let is_refused = match &outcome {
            Err(ReadError::NotADump { .. }) => true,
            Err(ReadError::Truncated { .. }) => b"\x89LARDER\n".starts_with(&bytes),
            _ => false,
        };
        prop_assert!(is_refused, "{bytes:?}: {outcome:?}");
    }
}

#[test]
fn an_abandoned_item_is_left_out() {
    for pushed in [0, 5, BLOCK_BYTES_MAX, 3 * BLOCK_BYTES_MAX] {
        let mut writer = Writer::new(Vec::new(), 7).unwrap();
        let of = |key| Entry { key, flags: 0, deadline_unix_secs: None, value_bytes: 1 << 20 };
        let whole = |key| Entry { value_bytes: 2, ..of(key) };
        writer.item(&whole(b"before"), b"ab").unwrap();
        writer.begin(&of(b"void")).unwrap();
        writer.push(&vec![7; pushed]).unwrap();
        writer.abandon().unwrap();
        writer.item(&whole(b"behind"), b"cd").unwrap();
        writer.abandon().unwrap();
        let keys: Vec<_> = read(&writer.finish().unwrap()[..])
            .unwrap()
            .into_iter()
            .map(|item| String::from_utf8(item.key).unwrap())
            .collect();
        assert_eq!(keys, ["before", "behind"], "{pushed} bytes of the value");
    }
}

#[test]
fn values_are_skipped_with_their_items() {
    let value = vec![1; 2 * BLOCK_BYTES_MAX];
    let keys = [&b"a"[..], b"b"];
    let items = keys.map(|key| Item {
        key: key.to_vec(),
        flags: 0,
        deadline_unix_secs: None,
        value: value.clone(),
    });
    let dump = written(&items);
    let mut reader = Reader::new(&dump[..]).unwrap();
    for key in keys {
        assert_eq!(reader.next_entry().unwrap().unwrap().key(), key);
    }
    assert_eq!(reader.next_entry().unwrap(), None);
    assert_eq!((reader.items(), reader.offset()), (2, dump.len() as u64));
}

#[test]
fn the_writer_refuses_what_no_cache_holds() {
    let mut writer = Writer::new(Vec::new(), 7).unwrap();
    let entry = Entry { key: b"k", flags: 0, deadline_unix_secs: None, value_bytes: 3 };
    let long = [b'k'; 251];
    assert!(matches!(writer.begin(&Entry { key: b"", ..entry }), Err(WriteError::Key(_))));
    assert!(matches!(writer.begin(&Entry { key: &long, ..entry }), Err(WriteError::Key(_))));
    let value_bytes = VALUE_BYTES_MAX + 1;
    let refused = writer.begin(&Entry { value_bytes, ..entry });
    assert!(matches!(refused, Err(WriteError::TooLarge(_))));
    writer.begin(&entry).unwrap();
    assert!(matches!(writer.push(b"four"), Err(WriteError::Length { missing: 3, pushed: 4 })));
    assert!(matches!(writer.begin(&entry), Err(WriteError::Length { missing: 3, .. })));
    writer.push(b"abc").unwrap();
    let items = read(&writer.finish().unwrap()[..]).unwrap();
    assert_eq!((items.len(), &items[0].value[..]), (1, &b"abc"[..]));
}

#[test]
fn a_block_that_is_lost_repeated_or_moved_is_recognised() {
    let item = |byte| Item {
        key: vec![byte],
        flags: 0,
        deadline_unix_secs: None,
        value: vec![byte; BLOCK_BYTES_MAX - 18],
    };
    // Each item fills a block of 64 KiB.
    let dump = written(&[item(1), item(2), item(3)]);
    let (header, rest) = dump.split_at(24);
    let blocks: Vec<&[u8]> = rest.chunks(16 + BLOCK_BYTES_MAX).collect();
    assert_eq!((blocks.len(), blocks[3].len()), (4, 24));
    for order in [&[0, 2, 3][..], &[0, 1, 1, 2, 3], &[1, 0, 2, 3], &[0, 1, 2, 3, 3]] {
        let parts = order.iter().flat_map(|block| blocks[*block]);
        let changed: Vec<u8> = header.iter().chain(parts).copied().collect();
        let outcome = read(&changed[..]);
        assert!(matches!(outcome, Err(ReadError::Damaged { .. })), "{order:?}: {outcome:?}");
    }
}

#[test]
fn errors_name_the_place_the_expectation_and_the_remedy() {
    let dump = written(&[]);
    let said = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    let mut other = dump.clone();
    other[8] = 2;
    for (bytes, parts) in [
        (&b"(\xb5/\xfd zstd"[..], ["it begins with \"(\\xb5/", "decompress it first"]),
        (&other, ["the dump has version 2, expected 1", "export again"]),
        (&dump[..30], ["the dump ends at byte 30 without its last block", "export again"]),
        (&[&dump[..], b"x"].concat(), ["at byte 48: the end is followed by more bytes", "export"]),
    ] {
        let said = said(bytes);
        for part in parts {
            assert!(said.contains(part), "{part:?} is missing in {said:?}");
        }
    }
}
