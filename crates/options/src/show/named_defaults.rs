//! Checks the defaults of options that the documents and the help of the tool quote.
//!
//! A quoted default follows its option in parentheses: `--drain-grace` (5), `--upgrade-drain`
//! seconds (60). This test finds all of them, and compares each one with the table.

use std::fs;
use std::path::{Path, PathBuf};

use crate::table::Id;

/// Returns the options that a text names with a default: the option and the default.
fn named(text: &str) -> Vec<(&str, &str)> {
    text.match_indices("--").filter_map(|(at, _)| default_behind(&text[at..])).collect()
}

fn default_behind(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !(c.is_ascii_lowercase() || c == '-'))?;
    let behind = text[end..].trim_start_matches('`').trim_start();
    let behind = behind.strip_prefix("seconds").unwrap_or(behind).trim_start();
    let (default, _) = behind.strip_prefix('(')?.split_once(')')?;
    default.starts_with(|c: char| c.is_ascii_digit()).then_some((&text[..end], default))
}

/// Returns a message for each quoted default that differs from the table.
fn stale(text: &str) -> Vec<String> {
    let is = |option: &str| {
        let row =
            Id::ALL.iter().map(|id| id.row()).find(|row| row.long().as_deref() == Some(option));
        row.and_then(|row| row.default)
    };
    named(text)
        .into_iter()
        .filter_map(|(option, default)| match is(option.trim_start_matches('-')) {
            Some(true_default) if true_default != default => {
                Some(format!("{option} ({default}): the default is {true_default}"))
            }
            _ => None,
        })
        .collect()
}

/// Adds the files of a folder with this extension.
fn walk(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, extension, found);
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
}

#[test]
fn a_default_is_read_behind_its_option() {
    let text = "For `--drain-grace` (5) or --upgrade-drain seconds\n(60), `--tls` (on a port).";
    assert_eq!(named(text), [("--drain-grace", "5"), ("--upgrade-drain", "60")]);
    assert_eq!(stale("`--drain-grace` (5)"), [""; 0]);
    assert_eq!(stale("`--drain-grace`\nseconds (6)"), ["--drain-grace (6): the default is 5"]);
}

#[test]
fn documents_name_the_defaults_of_the_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut files = vec![root.join("README.md")];
    for (folder, extension) in [("docs", "md"), ("deploy", "md"), ("crates/cli/src", "rs")] {
        walk(&root.join(folder), extension, &mut files);
    }
    let mut wrong = Vec::new();
    let mut count = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        count += named(&text).len();
        wrong.extend(stale(&text).into_iter().map(|stale| format!("{}: {stale}", file.display())));
    }
    assert!(count >= 4, "only {count} defaults are found: the documents write them in another way");
    assert!(wrong.is_empty(), "correct these:\n{}", wrong.join("\n"));
}
