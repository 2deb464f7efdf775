//! The imports between crates match ARCHITECTURE.md, and `unsafe` stays where it is allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::root;

/// The folder of a crate, and the folders of the crates that it may import.
const ARROWS: &[(&str, &[&str])] = &[
    ("item", &[]),
    ("models", &[]),
    ("stats", &[]),
    ("region", &[]),
    ("tier", &["item"]),
    ("dump", &["item"]),
    ("ring", &[]),
    ("options", &["item"]),
    ("protocol", &["item"]),
    ("engine", &["item", "stats", "region"]),
    ("larder", &["item", "stats", "options", "region", "engine", "protocol", "tier"]),
    ("server", &["item", "dump", "stats", "options", "ring", "protocol", "larder"]),
    ("loadgen", &["protocol", "options"]),
    ("cli", &["item", "larder", "loadgen", "dump", "protocol", "options", "ring"]),
    ("capi", &["larder", "item", "region"]),
];

/// The crates whose modules are in layers. The top modules of such a crate (*rooms* in this file)
/// are the folders and files of `src`. A table in its lib.rs lists them from the highest to the
/// lowest.
const LAYERED: &[&str] = &["engine", "larder", "loadgen", "options", "server", "tier"];

/// The source files with thread-locals, and their contents. The outcome of an operation must not
/// depend on a thread-local: it would be a parameter that the signature does not show.
const THREAD_LOCALS: &[(&str, &str)] = &[
    ("larder/src/api/get.rs", "a buffer"),
    (
        "larder/src/client/view.rs",
        "the lock that the thread takes, and its dice for the reads to report",
    ),
    ("larder/src/process/registered.rs", "the slots that the thread has registered"),
    ("larder/src/process/slots.rs", "where the thread begins to look for a slot"),
    ("region/src/turns.rs", "the turns of a model"),
    ("server/src/observe/watch/rings.rs", "the number of the thread, for its ring"),
    ("tier/src/compression/codec.rs", "the contexts of zstd, and a buffer"),
];

/// The source files that may contain `unsafe`, by folder of the crate, and its purpose. The list in
/// SECURITY.md is generated from this one.
const UNSAFE: &[(&str, &str, &[&str])] = &[
    (
        "region",
        "the mapping, copies of bytes that other threads may be changing, and calls of the operating system",
        &[
            "fork.rs",
            "memory.rs",
            "platform/emulated.rs",
            "platform/linux/fork.rs",
            "platform/linux/groups.rs",
            "platform/linux/locks.rs",
            "platform/linux/memory.rs",
            "platform/mmap.rs",
            "platform/unix.rs",
            "platform/unsupported.rs",
            "platform/windows.rs",
            "raw/mod.rs",
            "raw/opaque.rs",
            "raw/relaxed.rs",
            "raw/words.rs",
            "sink.rs",
        ],
    ),
    ("engine", "reading the bytes of a pinned piece in place", &["ops/large/pinned.rs"]),
    (
        "server",
        "io_uring, whose buffers the kernel reads and writes, and closing the sockets when a stop takes too long",
        &[
            "net/ring/mod.rs",
            "net/ring/direct.rs",
            "net/ring/buffers.rs",
            "net/ring/sending.rs",
            "process/overdue.rs",
        ],
    ),
    (
        "capi",
        "pointers from C, and the functions that C calls",
        &[
            "count.rs",
            "entry.rs",
            "get.rs",
            "lib.rs",
            "load.rs",
            "open.rs",
            "raw.rs",
            "removals.rs",
            "set.rs",
            "stats.rs",
            "status.rs",
            "tier.rs",
            "walk.rs",
        ],
    ),
    ("testkit", "forking processes in tests; not part of the product", &["process/children.rs"]),
];

fn crates() -> PathBuf {
    root().join("crates")
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

#[test]
fn the_architecture_lists_the_arrows() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (folder, allowed) in ARROWS {
        let allowed = if allowed.is_empty() { "nothing".to_owned() } else { allowed.join(", ") };
        let row = format!("| {} | `crates/{folder}` | {allowed} |", package_name(folder));
        assert!(text.contains(&row), "ARCHITECTURE.md lacks the row {row}");
    }
}

/// Returns the row of each module in the table of lib.rs, counted from the top.
fn rows_of_rooms(lib: &str) -> BTreeMap<&str, usize> {
    let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | `"));
    rows.enumerate()
        .flat_map(|(row, line)| {
            let names = line.split(" | ").next().unwrap_or_default().split(", ");
            names.map(move |name| (name.trim_matches('`'), row))
        })
        .collect()
}

/// Returns the top modules that a source text imports. Ignores its unit tests, which may import all
/// modules.
fn named_rooms(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\n").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let name = |rest: &str| -> String {
        rest.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    lines.flat_map(|line| line.split("crate::").skip(1).map(name).collect::<Vec<_>>()).collect()
}

fn is_test(path: &Path) -> bool {
    let is_test =
        |name: &str| ["tests", "tests.rs", "fixtures.rs", "interleavings"].contains(&name);
    path.iter().any(|name| is_test(name.to_str().unwrap()))
}

#[test]
fn rooms_import_from_lower_rooms_only() {
    for folder in LAYERED {
        let source = crates().join(folder).join("src");
        let lib = fs::read_to_string(source.join("lib.rs")).unwrap();
        let rows = rows_of_rooms(&lib);
        let ground = rows.values().max().unwrap();
        let mut files = Vec::new();
        sources(&source, &mut files);
        for file in files {
            let path = file.strip_prefix(&source).unwrap();
            let room = path.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
            if is_test(path) || ["lib", "main"].contains(&room) {
                continue;
            }
            let name = path.display();
            let row = rows.get(room).unwrap_or_else(|| {
                panic!("{folder}: the table in lib.rs lacks the room {room} of {name}")
            });
            for named in named_rooms(&fs::read_to_string(&file).unwrap()) {
                let Some(named_row) = rows.get(named.as_str()) else {
                    panic!("{folder}: {name} imports {named}, which is no room: name its module");
                };
                // The modules of the last row may import each other.
                let is_lower = named == room || named_row > row || named_row == ground;
                assert!(is_lower, "{folder}: {name} imports from {named}, which is not below it");
            }
        }
    }
}

#[test]
fn thread_locals_hold_no_parameter_of_an_operation() {
    let mut files = Vec::new();
    for folder in fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().path()) {
        if folder.join("src").is_dir() {
            sources(&folder.join("src"), &mut files);
        }
    }
    let has_one = |file: &PathBuf| {
        let text = fs::read_to_string(file).unwrap();
        text.lines().any(|line| line.trim_start().starts_with("thread_local!"))
    };
    let name = |file: PathBuf| file.strip_prefix(crates()).unwrap().display().to_string();
    let found: BTreeSet<_> = files.into_iter().filter(has_one).map(name).collect();
    let listed: BTreeSet<_> = THREAD_LOCALS.iter().map(|(file, _)| (*file).to_owned()).collect();
    assert_eq!(
        found, listed,
        "a thread-local is a parameter that no signature shows: pass it, or list the file in \
         THREAD_LOCALS with what it holds"
    );
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

/// True if a source text uses `unsafe`, or allows its use.
fn holds_unsafe(text: &str) -> bool {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    code.into_iter().any(|line| {
        ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "#[unsafe("]
            .iter()
            .chain(&["allow(unsafe_code", "expect(unsafe_code"])
            .any(|word| line.contains(word))
            || line.trim_end().ends_with("unsafe")
    })
}

#[test]
fn unsafe_is_where_the_list_says_and_nowhere_else() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for folder in fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().file_name()) {
        let folder = folder.to_str().unwrap();
        let source = crates().join(folder).join("src");
        let mut files = Vec::new();
        if source.is_dir() {
            sources(&source, &mut files);
        }
        for file in files {
            if holds_unsafe(&fs::read_to_string(&file).unwrap()) {
                let name = file.strip_prefix(&source).unwrap().to_str().unwrap().to_owned();
                found.entry(folder.to_owned()).or_default().insert(name);
            }
        }
    }
    let listed = UNSAFE.iter().map(|(folder, _, files)| {
        ((*folder).to_owned(), files.iter().map(|file| (*file).to_owned()).collect())
    });
    assert_eq!(found, listed.collect());
}

#[test]
fn every_other_crate_forbids_unsafe() {
    for folder in fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().file_name()) {
        let folder = folder.to_str().unwrap();
        let may = UNSAFE.iter().any(|(of, _, _)| *of == folder);
        // These two crates call the system, or are called by C, and need `unsafe` in most files.
        if ["region", "capi"].contains(&folder) {
            continue;
        }
        let source = crates().join(folder).join("src");
        let roots = ["lib.rs", "main.rs"].map(|root| source.join(root));
        for root in roots.iter().filter(|root| root.exists()) {
            let text = fs::read_to_string(root).unwrap();
            let denies = may && text.contains("#![deny(unsafe_code)]");
            let forbids = text.contains("#![forbid(unsafe_code)]");
            assert!(denies || forbids, "{} allows unsafe", root.display());
        }
    }
}

#[test]
fn security_lists_what_may_hold_unsafe() {
    const BEGIN: &str = "<!-- Generated from crates/testkit/tests/it/arrows.rs";
    const END: &str = "<!-- End of the generated text. -->";
    let path = root().join("SECURITY.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (first_line, rest) = rest.split_once('\n').unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let mut rows = String::from("\n| crate | files of `src` | used for |\n|---|---|---|\n");
    for (folder, why, files) in UNSAFE {
        let files: Vec<_> = files.iter().map(|file| format!("`{file}`")).collect();
        rows += &format!("| `crates/{folder}` | {} | {why} |\n", files.join(", "));
    }
    let expected = format!("{before}{BEGIN}{first_line}\n{rows}\n{END}{after}");
    if env::var_os("LARDER_BLESS").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap() == expected,
        "SECURITY.md is not what the list says: run LARDER_BLESS=1 cargo test -p larder-testkit --test it arrows::"
    );
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
