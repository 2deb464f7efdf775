//! Reads a dump of arbitrary bytes, with and without valid checksums. The reader must not panic and
//! must not hold more than a block. Every item that it accepts must be the same after it is written
//! and read again.
#![no_main]

use arbitrary::Arbitrary;
use larder_dump::{BLOCK_BYTES_MAX, Entry, Piece, ReadError, Reader, Writer};
use libfuzzer_sys::fuzz_target;

/// A block whose header is correct except for the change by `lie`. Random bytes almost never have a
/// valid checksum.
#[derive(Debug, Arbitrary)]
struct Block {
    kind: u8,
    lie: u8,
    content: Content,
}

#[derive(Debug, Arbitrary)]
enum Content {
    Bytes(Vec<u8>),
    Item { key: Vec<u8>, key_bytes: u8, deadline: u64, value_bytes: u32, value: Vec<u8> },
    Count(u64),
}

fuzz_target!(|input: (bool, Vec<u8>, Vec<Block>)| {
    let (is_raw, bytes, blocks) = input;
    let dump = if is_raw { bytes } else { dump_of(&blocks) };
    let Ok(items) = read(&dump) else { return };
    let mut writer = Writer::new(Vec::new(), 0).expect("a Vec takes all bytes");
    for (key, flags, deadline_unix_secs, value) in &items {
        let (flags, deadline_unix_secs) = (*flags, *deadline_unix_secs);
        let value_bytes = u32::try_from(value.len()).expect("a value of a dump");
        let entry = Entry { key, flags, deadline_unix_secs, value_bytes };
        writer.item(&entry, value).expect("an item of a dump");
    }
    let again = writer.finish().expect("all values are complete");
    assert_eq!(read(&again).expect("a dump"), items);
});

type Item = (Vec<u8>, u32, Option<u64>, Vec<u8>);

fn read(dump: &[u8]) -> Result<Vec<Item>, ReadError> {
    let mut reader = Reader::new(dump)?;
    let mut items = Vec::new();
    while let Some(entry) = reader.next_entry()? {
        assert!((1..=250).contains(&entry.key().len()));
        let mut value = Vec::new();
        loop {
            match reader.next_piece()? {
                Piece::Bytes(bytes) => {
                    assert!((1..=BLOCK_BYTES_MAX).contains(&bytes.len()));
                    value.extend_from_slice(bytes);
                }
                Piece::Void => {
                    assert!(value.len() < entry.value_bytes as usize);
                    break;
                }
                Piece::End => {
                    assert_eq!(value.len(), entry.value_bytes as usize);
                    items.push((
                        entry.key().to_vec(),
                        entry.flags,
                        entry.deadline_unix_secs,
                        value,
                    ));
                    break;
                }
            }
        }
    }
    assert_eq!(reader.items(), items.len() as u64);
    Ok(items)
}

fn dump_of(blocks: &[Block]) -> Vec<u8> {
    let empty = Writer::new(Vec::new(), 0).and_then(Writer::finish).expect("a dump");
    let mut dump = empty[..24].to_vec();
    for (number, block) in (0_u32..).zip(blocks) {
        let mut payload = Vec::new();
        match &block.content {
            Content::Bytes(bytes) => payload.extend_from_slice(bytes),
            Content::Item { key, key_bytes, deadline, value_bytes, value } => {
                let is_honest = block.lie != 1;
                let key = &key[..key.len().min(250)];
                let key_bytes = if is_honest { key.len() as u8 } else { *key_bytes };
                let value_bytes = if is_honest { value.len() as u32 } else { *value_bytes };
                payload.extend_from_slice(&deadline.to_le_bytes());
                payload.extend_from_slice(&7_u32.to_le_bytes());
                payload.extend_from_slice(&value_bytes.to_le_bytes());
                payload.push(key_bytes);
                payload.extend_from_slice(key);
                payload.extend_from_slice(value);
            }
            Content::Count(count) => payload.extend_from_slice(&count.to_le_bytes()),
        }
        let kind = [*b"data", *b"data", *b"void", *b"end."][usize::from(block.kind % 4)];
        let payload_bytes = if block.lie == 2 { u32::MAX } else { payload.len() as u32 };
        let mut sealed = kind.to_vec();
        sealed.extend_from_slice(&(number ^ u32::from(block.lie == 3)).to_le_bytes());
        sealed.extend_from_slice(&payload_bytes.to_le_bytes());
        let checksum = crc32fast::hash(&[&sealed[..], &payload].concat());
        dump.extend_from_slice(&sealed);
        dump.extend_from_slice(&(checksum ^ u32::from(block.lie == 4)).to_le_bytes());
        dump.extend_from_slice(&payload);
    }
    dump
}
