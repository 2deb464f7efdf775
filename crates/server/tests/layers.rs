//! The modules of the server import only modules below them, in the order of the table in lib.rs.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Returns the row of each module in the table, counted from the top.
fn rows() -> BTreeMap<String, usize> {
    let text = fs::read_to_string(src().join("lib.rs")).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("//! | `"));
    let mut ranks = BTreeMap::new();
    for (row, line) in rows.enumerate() {
        let names = line.split(" | ").next().unwrap();
        for name in names.split(", ") {
            ranks.insert(name.trim_matches('`').to_owned(), row);
        }
    }
    let modules = text.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    assert!(modules.eq(ranks.keys()), "the table lists all modules: {ranks:?}");
    ranks
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if !path.ends_with("lib.rs") && !path.ends_with("main.rs") {
            found.push(path);
        }
    }
}

/// Returns the code of a file without its unit tests, which may use the whole server.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn imports_point_down() {
    let rows = rows();
    let mut files = Vec::new();
    sources(&src(), &mut files);
    let is_test = |path: &Path| path.ends_with("tests.rs") || path.iter().any(|of| of == "tests");
    for path in files.iter().map(|path| path.strip_prefix(src()).unwrap()) {
        if is_test(path) {
            continue;
        }
        let own = Path::new(path.iter().next().unwrap()).file_stem().unwrap().to_str().unwrap();
        for part in code(&src().join(path)).split("crate::").skip(1) {
            let name: String =
                part.chars().take_while(|of| of.is_alphanumeric() || *of == '_').collect();
            let Some(row) = rows.get(&name) else {
                panic!("{}: crate::{name} is no module of the table in lib.rs", path.display());
            };
            let points_down = name == own || *row > rows[own];
            // The modules of the last row import each other without a circle.
            let is_ground = *row == rows[own] && *row == *rows.values().max().unwrap();
            assert!(points_down || is_ground, "{}: imports {name} above it", path.display());
        }
    }
}
