//! The layout of a region is defined in three places: the region crate, docs/region-format.md, and
//! the reader in Go. They must be changed together.

use std::collections::BTreeSet;
use std::fs;

use crate::root;

const LAYOUT: &str = "crates/region/src/layout.rs";
const BOOK: &str = "docs/region-format.md";
const GO: &str = "go/reader/layout.go";

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}

/// Returns the number between two texts. The first text must occur exactly once.
fn number(file: &str, before: &str, after: &str) -> u32 {
    let text = read(file);
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("{file} has no {before:?}"));
    let (number, _) = rest.split_once(after).unwrap();
    number.trim().parse().unwrap_or_else(|_| panic!("{file}: {before:?} is before {number:?}"))
}

#[test]
fn the_format_has_one_number() {
    let layout = number(LAYOUT, "pub const FORMAT: u32 =", ";");
    assert_eq!(number(BOOK, "| 8 | u32 | format, ", " |"), layout, "{BOOK}, as {LAYOUT} says");
    assert_eq!(number(GO, "\nconst Format =", "\n"), layout, "{GO}, as {LAYOUT} says");
}

#[test]
fn the_document_has_each_field_of_the_superblock() {
    let layout = read(LAYOUT);
    let (_, rest) = layout.split_once("pub mod superblock {").unwrap();
    let (superblock, _) = rest.split_once("\n}\n").unwrap();
    let in_layout: BTreeSet<u32> = superblock
        .lines()
        .filter_map(|line| line.split_once(": usize = "))
        .map(|(_, offset)| offset.trim_end_matches(';').parse().unwrap())
        .collect();
    let book = read(BOOK);
    let (_, rest) = book.split_once("\n## Superblock\n").unwrap();
    let (table, _) = rest.split_once("\n\nA process").unwrap();
    let in_book: BTreeSet<u32> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .filter_map(|(offset, _)| offset.parse().ok())
        .collect();
    assert!(!in_book.is_empty(), "{BOOK} has a table of offsets below Superblock");
    assert_eq!(in_book, in_layout, "the offsets of {BOOK}, and those of {LAYOUT}");
}
