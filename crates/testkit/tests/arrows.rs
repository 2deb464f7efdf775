//! The crates import each other as ARCHITECTURE.md says, and `unsafe` stays where it is allowed.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Folder of a crate, and the folders of those it may import.
const ARROWS: &[(&str, &[&str])] = &[
    ("item", &[]),
    ("stats", &[]),
    ("region", &[]),
    ("options", &["item"]),
    ("protocol", &["item"]),
    ("engine", &["item", "stats", "region"]),
    ("cache", &["item", "stats", "options", "region", "engine", "protocol"]),
    ("server", &["item", "stats", "options", "protocol", "cache"]),
    ("cli", &["cache", "protocol", "options"]),
    ("capi", &["cache", "item"]),
];

/// The folders whose source may hold `unsafe`.
const UNSAFE_ALLOWED: &[&str] = &["region", "capi"];
/// The crates of which one file may.
const UNSAFE_FILES: &[(&str, &str)] = &[("engine", "pinned.rs"), ("server", "ring.rs")];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn manifest(folder: &str) -> toml::Table {
    let path = crates().join(folder).join("Cargo.toml");
    fs::read_to_string(path).unwrap().parse().unwrap()
}

fn package_name(folder: &str) -> String {
    manifest(folder)["package"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn arrows_run_as_the_architecture_says() {
    let folder_of: BTreeMap<String, &str> =
        ARROWS.iter().map(|(folder, _)| (package_name(folder), *folder)).collect();
    for (folder, allowed) in ARROWS {
        let manifest = manifest(folder);
        let imported: BTreeSet<&str> = manifest
            .get("dependencies")
            .and_then(toml::Value::as_table)
            .into_iter()
            .flat_map(toml::Table::keys)
            .filter_map(|name| folder_of.get(name).copied())
            .collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        let forbidden: Vec<_> = imported.difference(&allowed).collect();
        assert!(forbidden.is_empty(), "crates/{folder} may not import {forbidden:?}");
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_other_crate_forbids_unsafe() {
    for folder in fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().file_name()) {
        let folder = folder.to_str().unwrap();
        let has_a_file = UNSAFE_FILES.iter().any(|(of, _)| *of == folder);
        if UNSAFE_ALLOWED.contains(&folder) || has_a_file {
            continue;
        }
        let source = crates().join(folder).join("src");
        let roots = ["lib.rs", "main.rs"].map(|root| source.join(root));
        for root in roots.iter().filter(|root| root.exists()) {
            let text = fs::read_to_string(root).unwrap();
            assert!(text.contains("#![forbid(unsafe_code)]"), "{} allows unsafe", root.display());
        }
    }
}

#[test]
fn where_one_file_may_hold_unsafe_no_other_does() {
    for (folder, allowed) in UNSAFE_FILES {
        let source = crates().join(folder).join("src");
        let root = fs::read_to_string(source.join("lib.rs")).unwrap();
        assert!(root.contains("#![deny(unsafe_code)]"), "{folder}");
        let mut files = Vec::new();
        sources(&source, &mut files);
        for file in files.iter().filter(|file| file.file_name().unwrap() != *allowed) {
            let text = fs::read_to_string(file).unwrap();
            assert!(!text.contains("allow(unsafe_code"), "{} allows unsafe", file.display());
        }
    }
}

#[test]
fn every_source_file_says_what_it_is_and_stays_readable() {
    let mut files = Vec::new();
    for folder in fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path()) {
        if folder.join("src").is_dir() {
            sources(&folder.join("src"), &mut files);
        }
    }
    assert!(files.len() > 30, "the sources were not found");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let is_test = file.file_name().unwrap() == "tests.rs";
        assert!(
            is_test || text.starts_with("//!"),
            "{} has no module documentation",
            file.display()
        );
        let lines = text.lines().count();
        assert!(lines <= 1000, "{} has {lines} lines", file.display());
        for word in ["utils", "common", "helpers", "misc", "manager", "base"] {
            let name = file.file_stem().unwrap().to_str().unwrap();
            assert_ne!(name, word, "{} has a name that says nothing", file.display());
        }
    }
}
