//! Features that are off by default, and the packages that they add.

use std::collections::BTreeSet;
use std::process::Command;

/// Returns the packages that a program with the library is built from.
fn packages(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "larder", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}", "--offline", "--locked"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree: {message}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    lines.lines().map(name).filter(|name| !name.is_empty()).collect()
}

/// What a program without features is built from. A new package here is a cost for all users.
const PACKAGES: &[&str] = &[
    "base64",
    "bitflags",
    "cfg-if",
    "crc32fast",
    "getrandom",
    "itoa",
    "larder",
    "larder-engine",
    "larder-item",
    "larder-protocol",
    "larder-region",
    "larder-stats",
    "larder-tier",
    "libc",
    "linux-raw-sys",
    "memchr",
    "proc-macro2",
    "quote",
    "rapidhash",
    "rustix",
    "rustversion",
    "siphasher",
    "syn",
    "thiserror",
    "thiserror-impl",
    "unicode-ident",
    "zerocopy",
    "zerocopy-derive",
];

#[test]
fn a_program_without_features_is_built_from_these_packages() {
    let packages = packages(&[]);
    let listed = PACKAGES.iter().map(|name| (*name).to_owned()).collect();
    assert_eq!(packages, listed, "cargo tree (left) against the list in this file (right)");
}

#[test]
fn each_feature_adds_its_packages_only() {
    let without = packages(&[]);
    let added = |feature| {
        let with = packages(&["--features", feature]);
        with.difference(&without).cloned().collect::<Vec<_>>()
    };
    assert_eq!(added("serde"), ["cobs", "postcard", "serde", "serde_core"]);
    assert_eq!(added("tokio"), ["pin-project-lite", "tokio"]);
    assert_eq!(added("tracing"), ["once_cell", "pin-project-lite", "tracing", "tracing-core"]);
    assert_eq!(added("metrics"), ["metrics"]);
    assert_eq!(added("zstd"), ["zstd", "zstd-safe", "zstd-sys"]);
}
