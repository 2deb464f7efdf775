//! Comments and documents are written in plain language: constructions that slow a reader down stay
//! rare.
//!
//! The unit is the index: occurrences in 10,000 words. By the same count redb, memchr, ripgrep,
//! pelikan and rustls have 8 to 17. A construction is not wrong by itself; a text full of them is
//! hard to read. Rewrite the sentence: the actor first, one idea, the reason after it. Replacing
//! the counted word alone does not help the reader.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{fs, str};

use regex_lite::Regex;

use crate::root;
use crate::tidy::comment;

/// A construction: its pattern, the replacement that CONTRIBUTING.md recommends, and continuations
/// that make it usual English.
struct Construction {
    pattern: &'static str,
    instead: &'static str,
    usual_before: &'static [&'static str],
}

const fn construction(pattern: &'static str, instead: &'static str) -> Construction {
    Construction { pattern, instead, usual_before: &[] }
}

/// The constructions that are counted. The patterns are matched with texts in which X replaces code
/// in back-ticks.
const CONSTRUCTIONS: &[Construction] = &[
    construction(r"(?:[.!?:|] |\n)What [a-z][^.?\n]*[.\n]", "the noun itself"),
    construction(
        r"\b(?:of|by|from|to|with|and|for|is|in|than|as) what (?:is|are|was|were|has|have|it|the|a|they|this|another|memory|larderd|memcached|others|needs|lies|follows|stands)\b",
        "the noun: of its contents, according to the header",
    ),
    construction(
        r"\b(?:is|are|has|have|holds?|finds?|knows?|takes?|gets?) none\b",
        "does not exist, returns X",
    ),
    Construction {
        pattern: r"\b(?:is|are|was|were|be) no [a-z]+",
        instead: "is not a, unknown",
        usual_before: &["longer", "more", "such", "need"],
    },
    construction(r"\b[Bb]eside\b", "next to, and"),
    construction(r"\bbut for\b", "except for"),
    construction(r"\bby (?:now|then)\b", "already"),
    construction(r"\b[Mm]eanwhile\b", "while …"),
    construction(r"\bat once\b", "immediately, together"),
    construction(r"\b(?:go|goes|going|went) on\b", "continues"),
    construction(
        r"\b(?:lies|lie|lay|lying) (?:in|at|behind|on|before|beside|between|below|above|there|where|now)\b",
        "is in",
    ),
    construction(r"\bbehind\b", "after"),
    construction(r", too\b", "also"),
    construction(r"\b(?:the|its) present [a-z]+", "current"),
    construction(r"\b(?:gives?|gave|given) (?:back|up|way)\b", "returns, stops"),
    construction(r"\bsays?\b", "contains, reports"),
    construction(r"\bknows?\b", "stores, has"),
    construction(r"\bsees\b", "reads, finds"),
    construction(r"\bgets\b", "receives"),
    construction(r"\b(?:for ever|for long|lately|mostly|hardly)\b", "forever, usually, rarely"),
    construction(r"\bof (?:its|their|our) own\b", "its own, a separate"),
    construction(r"\b(?:the|its|in|these|two|memcached.s) words\b", "message, text"),
    construction(r"\b(?:anybody|somebody|nobody|whoever)\b", "users, a client"),
    construction(r"\b[Nn]or (?:must|may|does|do|can|is|are|has|have)\b", "a second sentence"),
    construction(r"\b\w+ alone\b", "only"),
    construction(r"\bat (?:last|the latest|the earliest)\b", "finally, within"),
    construction(r"(?:\n|\. )As (?:`|X|\[|in|of|for|above|below|before)", "Same as X, but …"),
];

/// Upper bound of the index of every folder.
const INDEX_MAX: f64 = 20.0;

/// Documents that are generated from tables.
const GENERATED: &[&str] = &["docs/options.md", "docs/stats.md"];

const EXTENSIONS: &[&str] = &["rs", "go", "c", "h", "js", "md", "sh", "py"];

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).current_dir(root()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the comments of a source file, or a document without code blocks, with X in place of
/// code in back-ticks.
fn prose(path: &str, text: &str) -> String {
    let (mut in_code, mut found) = (false, String::from("\n"));
    for line in text.lines().filter_map(|line| comment(path, line)).map(str::trim) {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            for (part, piece) in line.split('`').enumerate() {
                found.push_str(if part % 2 == 0 { piece } else { "X" });
            }
            found.push('\n');
        }
    }
    found
}

/// The constructions in a text, and its words.
#[derive(Default)]
struct Count {
    words: usize,
    found: Vec<String>,
}

impl Count {
    fn of(path: &str, text: &str, patterns: &[Regex]) -> Self {
        let prose = prose(path, text);
        let is_letter = |c: char| c.is_ascii_alphabetic() || c == '\'';
        let words = prose.split(|c| !is_letter(c)).filter(|word| !word.is_empty()).count();
        let mut found = Vec::new();
        for (pattern, construction) in patterns.iter().zip(CONSTRUCTIONS) {
            for place in pattern.find_iter(&prose) {
                let last = place.as_str().rsplit(' ').next().unwrap_or_default();
                if construction.usual_before.contains(&last) {
                    continue;
                }
                let line = prose[..place.start() + 1].rsplit('\n').next().unwrap_or_default();
                let rest = prose[place.start() + 1..].lines().next().unwrap_or_default();
                found.push(format!("{path}: {line}{rest}\n    instead: {}", construction.instead));
            }
        }
        Self { words, found }
    }

    /// Returns the occurrences in 10,000 words.
    fn index(&self) -> f64 {
        self.found.len() as f64 * 1e4 / self.words.max(1) as f64
    }

    fn add(&mut self, other: Self) {
        self.words += other.words;
        self.found.extend(other.found);
    }
}

fn patterns() -> Vec<Regex> {
    CONSTRUCTIONS.iter().map(|of| Regex::new(of.pattern).expect(of.pattern)).collect()
}

/// Returns the counted files that git tracks, with their texts.
fn texts() -> Vec<(String, String)> {
    let Some(paths) = git(&["ls-files"]) else {
        eprintln!("skipped: not a checkout of git");
        return Vec::new();
    };
    let is_counted = |path: &&str| {
        let extension = Path::new(path).extension().and_then(|of| of.to_str());
        extension.is_some_and(|of| EXTENSIONS.contains(&of)) && !GENERATED.contains(path)
    };
    let text = |path: &str| Some((path.to_owned(), fs::read_to_string(root().join(path)).ok()?));
    paths.lines().filter(is_counted).filter_map(text).collect()
}

/// Returns the folder that a file is counted with: a crate, the documents, or a folder of the root.
fn folder(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["docs", "decisions", ..] => "docs/decisions".to_owned(),
        [.., name] if name.ends_with(".md") => "documents".to_owned(),
        ["crates", name, ..] => format!("crates/{name}"),
        [first, _, ..] => first.to_owned(),
        _ => "the root".to_owned(),
    }
}

#[test]
fn no_folder_is_hard_to_read() {
    let (patterns, mut counts) = (patterns(), BTreeMap::<_, Count>::new());
    for (path, text) in texts() {
        counts.entry(folder(&path)).or_default().add(Count::of(&path, &text, &patterns));
    }
    let mut failures = String::new();
    for (name, count) in &counts {
        println!("{name:24} {:6} words, index {:3.0}", count.words, count.index());
        if count.index() > INDEX_MAX {
            let _ = writeln!(failures, "{name}: index {:.1}, at most {INDEX_MAX}", count.index());
            failures.push_str(&count.found.join("\n"));
        }
    }
    assert!(failures.is_empty(), "rewrite some of these sentences:\n{failures}");
}

/// Compares with the commit where the branch begins, and on the main branch with the last commit.
#[test]
fn no_changed_file_gets_harder_to_read() {
    let Some(head) = git(&["rev-parse", "HEAD"]) else { return };
    let base = git(&["merge-base", "HEAD", "main"]).unwrap_or(head);
    let base = base.trim();
    let changed = git(&["diff", "--name-only", base]).unwrap_or_default();
    let (patterns, mut failures) = (patterns(), Vec::new());
    for (path, text) in texts() {
        if !changed.lines().any(|of| of == path) {
            continue;
        }
        let Some(before) = git(&["show", &format!("{base}:{path}")]) else { continue };
        let before = Count::of(&path, &before, &patterns);
        let after = Count::of(&path, &text, &patterns);
        let grows = after.found.len() > before.found.len() && after.index() > before.index();
        if grows {
            failures.extend(after.found.into_iter().filter(|line| !before.found.contains(line)));
        }
    }
    assert!(failures.is_empty(), "these sentences are new; rewrite them:\n{}", failures.join("\n"));
}

#[test]
fn constructions_are_found_in_comments_only() {
    let count = |path: &str, text: &str| Count::of(path, text, &patterns()).found.len();
    let sentence = "The worker goes on meanwhile.";
    assert_eq!(count("a.rs", &format!("/// {sentence}")), 2);
    assert_eq!(count("a.rs", &format!("let text = \"{sentence}\";")), 0);
    assert_eq!(count("a.md", sentence), 2);
    assert_eq!(count("a.md", &format!("```text\n{sentence}\n```\nA `meanwhile` in code.")), 0);
    assert_eq!(count("a.sh", &format!("# {sentence}")), 2);
    assert_eq!(count("a.md", "It is no longer there. It is no cache."), 1);
    assert_eq!(count("a.md", "What remains is kept.\n\nWhat is kept?"), 1);
}
