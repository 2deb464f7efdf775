//! The table of environment variables in CONTRIBUTING.md contains exactly the variables that tests,
//! proofs and measurements read.
#![allow(clippy::unwrap_used, reason = "an unwrap in a test is an assertion")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Variables of the system and of other programs, and variables of Larder's programs, which docs/
/// describes.
const DESCRIBED_ELSEWHERE: &[&str] = &[
    "CACHE_SOCKET",
    "CARGO",
    "CARGO_CFG_TARGET_ARCH",
    "CARGO_CFG_TARGET_OS",
    "CARGO_HOME",
    "CC",
    "CURDIR",
    "DEBEMAIL",
    "DEBFULLNAME",
    "DESTDIR",
    "DJANGO_SETTINGS_MODULE",
    "DPKG_ROOT",
    "HELM_REGISTRY_CONFIG",
    "JOURNAL_STREAM",
    "LARDERD_DETACHED",
    "LARDERD_SUCCEEDS",
    "LARDER_",
    "LARDER_ADMIN",
    "LARDER_COMMIT",
    "LARDER_DATE",
    "LARDER_PASSWORD",
    "LARDER_TOKEN",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "MAKE",
    "MAKEFILE_LIST",
    "MEMCACHED_PORT_FILENAME",
    "MEMCACHED_SASL_PWDB",
    "NOTIFY_SOCKET",
    "PATH",
    "PREFIX",
    "PYTHONPATH",
    "REGISTRY_AUTH_FILE",
    "RUSTUP_HOME",
    "SOURCE_DATE_EPOCH",
    "TWINE_USERNAME",
    "USE_ZEND_ALLOC",
    "XDG_RUNTIME_DIR",
];

/// Variables that a test or a script sets for a program that it starts.
const SET_FOR_A_CHILD: &[&str] = &[
    "CACHESERVER",
    "CONTRADICTIONS",
    "COUNTER",
    "FOLDER",
    "LARDERD_STEPS",
    "LARDERTEST_SOCKET",
    "LARDER_PORT",
    "LARDER_SITE",
    "LARDER_SO",
    "LARDER_STORM_PLACE",
    "LARDER_STORM_PROCESS",
    "LARDER_STUBS",
    "LARDER_TEST_OWN_NETWORK",
    "LARDER_TEST_RESTRICTED",
    "LARDER_VICTIM",
    "LARDER_VICTIM_DETAIL",
    "LARDER_VICTIM_PATH",
    "LD_LIBRARY_PATH",
    "NEAR_CACHE_OF",
    "RELEASE",
    "SHOP_BROKER",
    "SHOP_CACHE",
    "SKIPPED_TESTS",
    "SOCKET",
    "STORE",
    "TRACE_AGREE",
];

/// Text before the name of a variable that a program reads, by the extension of the file. The
/// functions `setting`, `binary` and `number` of tests and benches read the environment.
const READS: &[(&[&str], &[&str])] = &[
    (
        &["rs"],
        &["env::var(\"", "env::var_os(\"", "setting(\"", "binary(\"", "number(\"", "&str = \""],
    ),
    (&["go"], &["Getenv(\"", "LookupEnv(\""]),
    (&["php", "phpt", "inc"], &["getenv('", "getenv(\""]),
    (&["js"], &["process.env."]),
    (&["py", ""], &["environ.get(\"", "environ[\"", "environ['", "environ.setdefault(\""]),
    (&["sh", ""], &["${"]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_path_buf()
}

/// Returns the paths and texts of the files that git tracks.
fn tracked() -> Vec<(String, String)> {
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output().unwrap();
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let paths = String::from_utf8(listed.stdout).unwrap();
    let texts = paths.split_terminator('\0').filter(|path| !path.ends_with("tests/variables.rs"));
    texts
        .filter_map(|path| Some((path.to_owned(), fs::read_to_string(root().join(path)).ok()?)))
        .collect()
}

/// Returns the name of a variable at the beginning of a text, and the rest; `None` without a name.
fn name_at(text: &str) -> Option<(&str, &str)> {
    let is_of_name = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let length = text.bytes().position(|byte| !is_of_name(byte)).unwrap_or(text.len());
    let (name, rest) = text.split_at(length);
    (length > 1 && name.as_bytes()[0].is_ascii_uppercase()).then_some((name, rest))
}

/// Returns the names that follow a mark in a text.
fn names_after<'a>(text: &'a str, mark: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(mark).skip(1).filter_map(name_at).filter_map(move |(name, rest)| {
        let is_read = match mark {
            // `${NAME:-default}` and similar forms. A variable of the script itself never has a
            // default.
            "${" => rest.trim_start_matches(':').starts_with(['-', '?', '+', '=']),
            "process.env." => true,
            "&str = \"" => name.starts_with("LARDER") && rest.starts_with('"'),
            _ => rest.starts_with(['"', '\'']),
        };
        is_read.then_some(name)
    })
}

fn is_makefile(path: &str) -> bool {
    path.ends_with("Makefile") || path.ends_with(".mk")
}

/// Returns the variables that a makefile sets in every case, with `=` or `:=`.
fn assigned(text: &str) -> BTreeSet<&str> {
    let names = text.lines().filter_map(|line| {
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, rest) = name_at(line)?;
        rest.trim_start().starts_with(['=', ':']).then_some(name)
    });
    names.collect()
}

/// Returns the variables that a makefile takes from its caller. It sets them with `?=`, or it uses
/// them and no makefile in the same folder sets them.
fn taken<'a>(text: &'a str, assigned: &BTreeSet<&str>) -> Vec<&'a str> {
    let used = text
        .split("$(")
        .skip(1)
        .filter_map(name_at)
        .filter(|(name, rest)| rest.starts_with([')', ':']) && !assigned.contains(name));
    let set = text
        .match_indices(" ?=")
        .filter_map(|(at, _)| name_at(text[..at].rsplit([' ', '\n']).next().unwrap_or_default()));
    used.chain(set).map(|(name, _)| name).collect()
}

/// Returns the variables that the tree reads, each with the first file that reads it.
fn read() -> BTreeMap<String, String> {
    let files = tracked();
    assert!(files.len() > 1000, "git lists {} files", files.len());
    let mut found = BTreeMap::new();
    let mut note = |name: &str, path: &str| {
        found.entry(name.to_owned()).or_insert_with(|| path.to_owned());
    };
    // The makefiles in the root include each other.
    let is_of_root =
        |path: &str| is_makefile(path) && (!path.contains('/') || path.starts_with(".ci/"));
    let of_root: BTreeSet<&str> = files
        .iter()
        .filter(|(path, _)| is_of_root(path))
        .flat_map(|(_, text)| assigned(text))
        .collect();
    for (path, text) in &files {
        if is_makefile(path) {
            let own = assigned(text);
            let assigned = if is_of_root(path) { &of_root } else { &own };
            taken(text, assigned).into_iter().for_each(|name| note(name, path));
            continue;
        }
        let file = path.rsplit('/').next().unwrap();
        let extension = file.rsplit_once('.').map_or("", |(_, extension)| extension);
        let marks = READS.iter().filter(|(extensions, _)| extensions.contains(&extension));
        for mark in marks.flat_map(|(_, marks)| *marks) {
            names_after(text, mark).for_each(|name| note(name, path));
        }
    }
    let is_ours =
        |name: &str| !DESCRIBED_ELSEWHERE.contains(&name) && !SET_FOR_A_CHILD.contains(&name);
    found.into_iter().filter(|(name, _)| is_ours(name)).collect()
}

/// Returns the variables of the table in CONTRIBUTING.md.
fn listed() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let section = text.split("\n## Environment variables\n").nth(1).expect("CONTRIBUTING.md");
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.flat_map(|row| row.split(" | ").next().unwrap().split(", "))
        .map(|name| name.trim_matches('`').to_owned())
        .collect()
}

#[test]
fn contributing_lists_the_variables_that_the_tree_reads() {
    if !root().join(".git").exists() {
        eprintln!("skipped: not a checkout of git");
        return;
    }
    let (read, listed) = (read(), listed());
    let missing = read.iter().filter(|(name, _)| !listed.contains(*name));
    let missing: Vec<String> = missing.map(|(name, path)| format!("{name} in {path}")).collect();
    assert!(
        missing.is_empty(),
        "add these variables to the table \"Environment variables\" of CONTRIBUTING.md, or to a \
         list of crates/testkit/tests/variables.rs:\n{}",
        missing.join("\n")
    );
    let unread: Vec<&String> = listed.iter().filter(|name| !read.contains_key(*name)).collect();
    assert!(
        unread.is_empty(),
        "nothing reads these variables: remove them from the table \"Environment variables\" of \
         CONTRIBUTING.md: {unread:?}"
    );
}
