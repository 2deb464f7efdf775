//! A directory with a compressed value, as the first release with compression wrote it. Every later
//! release must read it, also with a later zstd.
//!
//! `LARDER_BLESS=1` writes the files of the fixture. A change of the format needs a new fixture,
//! and keeps this one.

use std::{env, fs};

use larder_tier::Tier;
use larder_tier::disk::simulated::SimulatedDisk;
use larder_tier::disk::{Directory, File, PAGE_BYTES, zeroed_pages};
use larder_tier::store::inspect;
use zerocopy::IntoBytes;

use super::{EXTENTS, NOW, STOP, fill, json, key, put, start};

const ITEM: u32 = 5000;
const SEGMENT: u64 = 4 << 20;
/// The pages of the segment: its header, a unit and a void unit.
const PAGES: [&str; 3] = ["header", "unit", "void"];

fn path(name: &str) -> String {
    format!("{}/tests/format/directory_{name}.hex", env!("CARGO_MANIFEST_DIR"))
}

/// Writes bytes without the zeros at their end.
fn write(name: &str, bytes: &[u8]) {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let lines: Vec<String> = bytes[..used].chunks(32).map(line).collect();
    fs::write(path(name), lines.join("\n") + "\n").unwrap();
}

fn read(name: &str) -> Vec<u8> {
    let text = fs::read_to_string(path(name)).unwrap().replace('\n', "");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn bless() {
    let disk = SimulatedDisk::new(1);
    let store = start(&disk);
    fill(&store);
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    let store = start(&disk);
    put(&store, &key(ITEM), &json(ITEM));
    assert_eq!(store.stop(STOP), 0);
    drop(store);
    let directory = disk.open();
    write("manifest", &directory.read_small("MANIFEST").unwrap().unwrap());
    write("dictionary", &directory.read_small("DICTIONARY.1").unwrap().unwrap());
    let mut pages = zeroed_pages(PAGES.len());
    let log = directory.open("log").unwrap().unwrap();
    log.read_pages(SEGMENT / PAGE_BYTES as u64, &mut pages).unwrap();
    PAGES.iter().zip(&pages).for_each(|(name, page)| write(name, page.as_bytes()));
}

#[test]
fn a_directory_of_version_2_is_read() {
    if env::var_os("LARDER_BLESS").is_some() {
        bless();
    }
    let disk = SimulatedDisk::new(1);
    let directory = disk.open();
    directory.replace_small("MANIFEST", &read("manifest")).unwrap();
    directory.replace_small("DICTIONARY.1", &read("dictionary")).unwrap();
    let log = directory.create("log").unwrap();
    log.set_len(EXTENTS * SEGMENT).unwrap();
    let mut pages = zeroed_pages(PAGES.len());
    for (name, page) in PAGES.iter().zip(&mut pages) {
        let bytes = read(name);
        page.as_mut_bytes()[..bytes.len()].copy_from_slice(&bytes);
    }
    log.write_pages(SEGMENT / PAGE_BYTES as u64, &pages).unwrap();
    drop(directory);
    let tier = Tier::open_existing(disk.open()).unwrap();
    let mut items = Vec::new();
    let findings = inspect(&tier, NOW, &mut |_, _| (), &mut |item| {
        items.push((item.key.to_vec(), item.value.to_vec()));
        true
    });
    assert_eq!(findings.unwrap().items, 1);
    assert_eq!(items, [(key(ITEM), json(ITEM))]);
}
