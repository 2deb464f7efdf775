//! The library depends on the operating system only in the folders `platform`.

use crate::tidy::files;

/// The crates that a program links, on every system. The server and the tools need Linux.
const PORTABLE: &[&str] = &[
    "crates/item/src/",
    "crates/stats/src/",
    "crates/region/src/",
    "crates/engine/src/",
    "crates/protocol/src/",
    "crates/tier/src/",
    "crates/larder/src/",
    "crates/ring/src/",
    "crates/binding/src/",
    "crates/capi/src/",
    "python/src/",
    "node/src/",
];

/// What only some systems have.
const OF_SOME: &[&str] = &[
    "target_os",
    "cfg(unix",
    "cfg(windows",
    "cfg(not(unix",
    "cfg(not(windows",
    "std::os::",
    "rustix::",
    "libc::",
    "windows_sys::",
    "nix::",
];

/// The simulated disk returns the errors of Linux. It is built for tests only.
const FOR_TESTS: &str = "crates/tier/src/disk/simulated/";

/// Returns the lines with a part of the system's interface, each with its file.
fn uses(is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let sources = files(&["rs"]).into_iter().filter(|(name, _)| {
        PORTABLE.iter().any(|folder| name.starts_with(folder)) && is_wanted(name)
    });
    let mut found = Vec::new();
    for (name, text) in sources {
        for (index, line) in text.lines().enumerate() {
            let code = line.trim_start();
            let is_use = OF_SOME.iter().any(|part| code.contains(part));
            if is_use && !code.starts_with("//") {
                found.push(format!("{name}:{}: {code}", index + 1));
            }
        }
    }
    found
}

fn is_platform(name: &str) -> bool {
    name.contains("/platform/")
}

#[test]
fn only_the_platform_folders_depend_on_the_system() {
    let elsewhere = uses(|name| !is_platform(name) && !name.starts_with(FOR_TESTS));
    assert!(
        elsewhere.is_empty(),
        "these lines belong in crates/region/src/platform, or need one of its functions:\n{}",
        elsewhere.join("\n")
    );
}

#[test]
fn the_rule_finds_what_depends_on_the_system() {
    let inside = uses(is_platform);
    assert!(inside.len() > 50, "only {} lines in the platform folders", inside.len());
}
