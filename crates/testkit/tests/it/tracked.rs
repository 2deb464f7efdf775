//! The files that git tracks are of known kinds, and lists in documents agree with their sources.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use crate::root;

/// Kinds of files that people write, by the end of their names.
const EXTENSIONS: &[&str] = &[
    "3",
    "c",
    "cjs",
    "cfg",
    "conf",
    "cpp",
    "css",
    "dict",
    "go",
    "h",
    "hex",
    "html",
    "inc",
    "java",
    "js",
    "json",
    "lock",
    "lua",
    "m4",
    "md",
    "mjs",
    "mk",
    "mod",
    "mount",
    "phpt",
    "php",
    "proptest-regressions",
    "py",
    "pyi",
    "rb",
    "router",
    "rs",
    "s",
    "servers",
    "service",
    "sh",
    "socket",
    "sum",
    "supp",
    "svg",
    "toml",
    "tpl",
    "ts",
    "txt",
    "users",
    "yaml",
    "yml",
];

/// Files that are known by their complete path.
const PATHS: &[&str] = &[
    ".ci/check",
    ".ci/pages",
    ".ci/readme",
    ".ci/run",
    ".ci/stages",
    ".ci/unit",
    ".github/CODEOWNERS",
    "c/larder.pc.in",
    "docs/images/status-page.png",
    "packaging/debian/copyright",
    "packaging/debian/postinst",
    "packaging/debian/postrm",
    "packaging/debian/prerm",
    "python/larder_cache/py.typed",
];

/// Folders whose new files do not need an entry here: scripts of the repository's own machinery,
/// pictures.
const FOLDERS: &[&str] = &[".ci/", "docs/images/"];

/// Names that are known in every folder.
const NAMES: &[&str] = &[
    ".dockerignore",
    ".editorconfig",
    ".gitattributes",
    ".gitignore",
    ".helmignore",
    "Containerfile",
    "Containerfile.dockerignore",
    "LICENSE",
    "Makefile",
];

fn is_known(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap();
    let extension = name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, end)| end);
    let is_machinery = FOLDERS.iter().any(|folder| path.starts_with(folder));
    let known_end =
        extension.is_some_and(|end| EXTENSIONS.contains(&end) || (is_machinery && end == "png"));
    let is_script = path.starts_with(".ci/") && extension.is_none();
    // A hidden file is the configuration of a tool. Each one must be listed.
    let is_hidden = name.starts_with('.');
    PATHS.contains(&path) || NAMES.contains(&name) || (!is_hidden && (known_end || is_script))
}

#[test]
fn tracked_files_are_of_known_kinds() {
    if !root().join(".git").exists() {
        eprintln!("skipped: not a checkout of git");
        return;
    }
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    let listed = listed.expect("git is not installed: it lists the tracked files");
    let message = String::from_utf8_lossy(&listed.stderr);
    assert!(listed.status.success(), "git ls-files: {message}");
    let paths = String::from_utf8(listed.stdout).unwrap();
    let paths: Vec<&str> = paths.split_terminator('\0').collect();
    assert!(paths.contains(&"Cargo.toml"), "git lists {} files, without Cargo.toml", paths.len());
    let unknown: Vec<&str> = paths.into_iter().filter(|path| !is_known(path)).collect();
    assert!(
        unknown.is_empty(),
        "these files look like leftovers of a program; remove them, or add their kind to \
         crates/testkit/tests/it/tracked.rs:\n{}",
        unknown.join("\n")
    );
}

#[test]
fn leftovers_are_no_known_kind() {
    for path in [
        ".phpunit.result.cache",
        "go/k.2459113021.tmp",
        "core",
        "crates/engine/src/index.rs.orig",
        "crates/server/cache.out",
        ".ci/run.orig",
    ] {
        assert!(!is_known(path), "{path} passes for a known kind");
    }
}

/// Returns the metadata of the workspace without its dependencies.
pub(crate) fn metadata() -> serde_json::Value {
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline", "--locked"])
        .current_dir(root())
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&metadata.stderr);
    assert!(metadata.status.success(), "cargo metadata: {message}");
    serde_json::from_slice(&metadata.stdout).unwrap()
}

/// Returns the crates of the workspace that can be published, which are those without `publish`.
fn published() -> BTreeSet<String> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let can_publish = packages.filter(|package| package["publish"].is_null());
    can_publish.map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns the names in back-ticks of a row of docs/releases.md that begins with `mark`.
fn names_in(document: &str, mark: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(document)).unwrap();
    let after = text.split(mark).nth(1).unwrap_or_else(|| panic!("{document} has no {mark:?}"));
    let paragraph = after.split("\n\n").next().unwrap();
    paragraph.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_documents_name_each_published_crate() {
    let published = published();
    assert!(published.contains("larder"), "cargo metadata finds only {published:?}");
    assert_eq!(
        names_in("docs/releases.md", "These crates are published: "),
        published,
        "docs/releases.md (left) against cargo metadata (right)"
    );
    let script = fs::read_to_string(root().join("packaging/crates-test.sh")).unwrap();
    let listed = script.lines().find_map(|line| line.strip_prefix("crates=\"")).unwrap();
    let listed = listed.trim_end_matches('"').split(' ').map(str::to_owned);
    assert_eq!(
        listed.collect::<BTreeSet<_>>(),
        published,
        "packaging/crates-test.sh (left) against cargo metadata (right)"
    );
}

/// A registry shows these fields, and refuses a package without the first two.
#[test]
fn each_published_crate_has_the_fields_of_a_registry() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    for package in packages.filter(|package| package["publish"].is_null()) {
        let name = package["name"].as_str().unwrap();
        let text = |field: &str| {
            let value = package[field].as_str().filter(|value| !value.is_empty());
            value.unwrap_or_else(|| panic!("{name} has no {field}")).to_owned()
        };
        assert_eq!(text("license"), "Apache-2.0", "{name}");
        assert!(text("description").len() < 200, "{name}: the description is too long");
        assert_eq!(
            text("description").starts_with("Part of the crate larder: "),
            name != "larder",
            "{name}: only `larder` is for users, and the descriptions of its parts say so"
        );
        for field in ["readme", "rust_version", "edition"] {
            text(field);
        }
        for (field, most) in [("keywords", 5), ("categories", 5)] {
            let count = package[field].as_array().unwrap().len();
            assert!((1..=most).contains(&count), "{name} has {count} {field}");
        }
        assert!(package["metadata"]["docs"]["rs"].is_object(), "{name} has nothing for docs.rs");
        assert_exact_parts(name, package);
    }
}

/// The parts of `larder` promise nothing, so each version of a crate needs its own version of them.
fn assert_exact_parts(name: &str, package: &serde_json::Value) {
    for dependency in package["dependencies"].as_array().unwrap() {
        let (part, requirement) = (dependency["name"].as_str(), dependency["req"].as_str());
        let is_ours = part.unwrap().starts_with("larder-") && dependency["kind"].is_null();
        assert!(
            !is_ours || requirement.unwrap().starts_with('='),
            "{name} requires {part:?} {requirement:?}, expected one version"
        );
    }
}

#[test]
fn dependency_updates_cover_each_go_module() {
    let text = fs::read_to_string(root().join(".github/dependabot.yml")).unwrap();
    let listed: BTreeSet<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("- /")).collect();
    let mut found = BTreeSet::new();
    let mut folders = ["c", "deploy", "go", "php"].map(|folder| root().join(folder)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.ends_with("go.mod") {
                let folder = path.parent().unwrap().strip_prefix(root()).unwrap();
                found.insert(folder.to_str().unwrap().to_owned());
            }
        }
    }
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(listed, found, ".github/dependabot.yml (left) against the go.mod files (right)");
}
