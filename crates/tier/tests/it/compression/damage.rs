//! After one bit of a store with compressed values is flipped, a start finds every value or
//! refuses.

use std::env;

use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::disk::{Directory, File, PAGE_BYTES, zeroed_pages};
use larder_tier::format::Mode;
use larder_tier::store::{Durable, Store, Unreadable};
use zerocopy::IntoBytes;

use super::{EXTENTS, ITEMS, STOP, churn, fill, json, key, open, put, settings, start, value};

/// The items of the last segment, which are compressed.
const LAST: [u32; 2] = [5000, 5001];
/// The bits of these files are flipped. `tests/it/store/bits.rs` does the same with INDEX.
const FLIPPED: [&str; 4] = ["MANIFEST", "DICTIONARY.1", "DICTIONARY.1.copy", "log"];
const FILES: [&str; 5] = ["MANIFEST", "INDEX", "DICTIONARY.1", "DICTIONARY.1.copy", "log"];

/// The files of a stopped store. Its last segment has only compressed items.
struct Stopped {
    files: Vec<(&'static str, Vec<u8>)>,
    /// The offset of the last segment in the log.
    last: usize,
}

fn stopped() -> Stopped {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    let store = start(&disk);
    LAST.iter().for_each(|number| put(&store, &key(*number), &json(*number)));
    assert_eq!((store.sync(), store.statistics().compressed_items), (Durable::Yes, 2));
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    let files = FILES.map(|name| {
        let file = disk.open().open(name).unwrap().unwrap();
        let len = file.len().unwrap() as usize;
        let mut pages = zeroed_pages(len.min(3 * (4 << 20)).div_ceil(PAGE_BYTES));
        file.read_pages(0, &mut pages).unwrap();
        let mut bytes = pages.as_bytes().to_vec();
        bytes.truncate(len);
        (name, bytes)
    });
    Stopped { files: files.to_vec(), last: 4 << 20 }
}

impl Stopped {
    /// Returns a disk with these files, one of whose bits is flipped.
    fn with_flipped(&self, name: &str, bit: usize) -> SimulatedDisk {
        let disk = SimulatedDisk::new(1);
        let directory = disk.open();
        for (file_name, bytes) in &self.files {
            let mut pages = zeroed_pages(bytes.len().div_ceil(PAGE_BYTES));
            pages.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
            if *file_name == name {
                pages.as_mut_bytes()[bit / 8] ^= 1 << (bit % 8);
            }
            let file = directory.create(file_name).unwrap();
            for (at, page) in pages.iter().enumerate() {
                if page.as_bytes().iter().any(|byte| *byte != 0) {
                    file.write_pages(at as u64, std::slice::from_ref(page)).unwrap();
                }
            }
            let len = if *file_name == "log" { EXTENTS << 22 } else { bytes.len() as u64 };
            file.set_len(len).unwrap();
            file.sync_data().unwrap();
        }
        directory.sync().unwrap();
        drop(directory);
        disk
    }

    /// Returns the bits of a file to flip: all bits of words that are not zero, and in the log only
    /// those of the last segment.
    fn bits(&self, name: &str) -> Vec<usize> {
        let bytes = &self.files.iter().find(|(file, _)| *file == name).unwrap().1;
        let from = if name == "log" { self.last } else { 0 };
        let words = bytes[from..].chunks(8).enumerate();
        let used = words.filter(|(_, word)| word.iter().any(|byte| *byte != 0));
        used.flat_map(|(at, word)| (0..word.len() * 8).map(move |bit| from * 8 + at * 64 + bit))
            .collect()
    }
}

/// Starts a store and reads some items. Returns false if the start was refused.
fn is_started(disk: &SimulatedDisk, what: &str) -> bool {
    let Ok(tier) = open(disk, Mode::Store) else { return false };
    let Ok((store, _)) = Store::start(tier, settings(None), &mut |_, _| ()) else { return false };
    for number in LAST.into_iter().chain([0, 599]) {
        match store.find(&key(number)) {
            Ok((_, Some(found))) => assert_eq!(found.value, json(number), "{what}: {number}"),
            Ok((_, None)) => panic!("{what}: item {number} is a silent miss"),
            Err(error) => assert!(matches!(error.cause, Unreadable::Damaged { .. }), "{error}"),
        }
    }
    true
}

#[test]
fn no_flipped_bit_is_a_silent_miss_or_a_wrong_value() {
    // Testing all bits takes minutes: `make verify ONLY=tier`.
    let step = if env::var_os("LARDER_SEEDS").is_some() { 1 } else { 97 };
    let stopped = stopped();
    for name in FLIPPED {
        let bits = stopped.bits(name);
        assert!(bits.len() > 400, "{} bits of {name}", bits.len());
        let (mut starts, mut flips) = (0, 0);
        for bit in bits.iter().step_by(step) {
            flips += 1;
            let disk = stopped.with_flipped(name, *bit);
            starts += u32::from(is_started(&disk, &format!("bit {bit} of {name}")));
        }
        let expected = if name == "log" { 1..=flips } else { flips..=flips };
        assert!(expected.contains(&starts), "{starts} of {flips} starts with a damaged {name}");
    }
}

#[test]
fn reclaim_copies_the_neighbours_of_a_damaged_value() {
    const DAMAGED: u32 = 500;
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    assert_eq!(store.sync(), Durable::Yes);
    let log = disk.platter("log").unwrap();
    let name = key(DAMAGED);
    let at = log.windows(name.len()).position(|window| window == name).unwrap();
    assert_eq!(log[at - 32 + 4], 7, "the value is compressed");
    assert!(disk.flip_bit("log", (at + name.len() + 9) as u64 * 8));
    churn(&store, EXTENTS);
    assert_eq!(store.statistics().lost_items, 1);
    for number in (0..ITEMS).filter(|number| *number != DAMAGED) {
        assert_eq!(value(&store, &key(number)), Some(json(number)), "item {number}");
    }
    let error = store.find(&key(DAMAGED)).unwrap_err();
    assert!(matches!(error.cause, Unreadable::Lost), "{error}");
}
