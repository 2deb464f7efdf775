//! The tables of README.md with figures match docs/figures.json, which `make bench NAME=readme`
//! writes from measurements. So README.md cannot contain a figure that was not measured. The
//! command `LARDER_BLESS=1 cargo test -p larder-testkit --test it figures::` writes the tables.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::root;

const BEGIN: &str =
    "<!-- figures: written by `make bench NAME=readme` from docs/figures.json -->\n";
const END: &str = "<!-- end of figures -->\n";
/// The run whose rows have a column for each transport.
const SERVERS: &str = "servers";

fn path(name: &str) -> PathBuf {
    root().join(name)
}

fn word<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().unwrap_or_else(|| panic!("docs/figures.json: no text {name} in {of}"))
}

/// Returns the Markdown for all runs: the servers with a column for each transport, then a row for
/// each figure of the other runs.
fn tables(runs: &Value) -> String {
    let mut text = String::new();
    let servers = &runs[SERVERS];
    let made = format!(
        "{}; commit {}, {}, {}; `{}`, {}:",
        word(servers, "versions"),
        word(servers, "commit"),
        word(servers, "date"),
        word(servers, "machine"),
        word(servers, "command"),
        word(servers, "rounds"),
    );
    text += &wrapped(&made);
    text += "| memcached's processor time / larderd's | unix socket | TCP |\n|---|--:|--:|\n";
    for row in rows(servers) {
        let [measured, unix, tcp] = ["measured", "unix", "tcp"].map(|name| word(row, name));
        writeln!(text, "| {measured} | {unix} | {tcp} |").unwrap();
    }
    let others = runs.as_object().unwrap().iter().filter(|(name, _)| *name != SERVERS);
    if others.clone().next().is_none() {
        return text;
    }
    text += "\n| beside | measured | ratio | made by |\n|---|---|--:|---|\n";
    for (_, run) in others {
        let (command, date, commit) =
            (word(run, "command"), word(run, "date"), word(run, "commit"));
        for row in rows(run) {
            let [beside, measured, ratio] =
                ["beside", "measured", "ratio"].map(|name| word(row, name));
            writeln!(text, "| {beside} | {measured} | {ratio} | `{command}`, {date}, {commit} |")
                .unwrap();
        }
    }
    text
}

/// Returns a paragraph wrapped at a hundred columns.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let word_width = word.chars().count();
        let is_first = width == 0;
        let fits = width + 1 + word_width <= 100;
        lines += if is_first {
            ""
        } else if fits {
            " "
        } else {
            "\n"
        };
        width = if is_first || !fits { word_width } else { width + 1 + word_width };
        lines += word;
    }
    lines + "\n\n"
}

fn rows(run: &Value) -> &Vec<Value> {
    run["rows"].as_array().unwrap_or_else(|| panic!("docs/figures.json: no rows in {run}"))
}

/// Returns the parts of a document before, between and after the marks.
fn parts(document: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = document.split_once(BEGIN)?;
    let (between, after) = rest.split_once(END)?;
    Some((before, between, after))
}

#[test]
fn the_figures_of_the_readme_are_those_that_were_saved() {
    let runs: Value =
        serde_json::from_str(&fs::read_to_string(path("docs/figures.json")).unwrap()).unwrap();
    let expected = format!("\n{}\n", tables(&runs));
    let readme = fs::read_to_string(path("README.md")).unwrap();
    let (before, found, after) = parts(&readme).expect("README.md has both marks of its figures");
    if std::env::var_os("LARDER_BLESS").is_some() {
        fs::write(path("README.md"), [before, BEGIN, &expected, END, after].concat()).unwrap();
        return;
    }
    let differing = found.lines().zip(expected.lines()).find(|(found, expected)| found != expected);
    assert_eq!(
        found, expected,
        "README.md differs from docs/figures.json, first in {differing:?}: `make bench NAME=readme` \
         measures and writes both, LARDER_BLESS=1 writes README.md from the file"
    );
}

/// Only the tables of README.md may compare Larder with other products in numbers.
#[test]
fn no_ratio_stands_outside_of_the_tables() {
    let readme = fs::read_to_string(path("README.md")).unwrap();
    let (before, _, after) = parts(&readme).unwrap();
    let lines = before.lines().chain(after.lines());
    let found: Vec<&str> = lines.filter(|line| claims_a_ratio(line)).collect();
    assert!(found.is_empty(), "make these a run of crates/bench/figures.py: {found:#?}");
}

/// True if a line states a ratio ("times as fast") or a time with digits.
fn claims_a_ratio(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.windows(2).any(|pair| {
        let number = pair[0].trim_matches(|c: char| !c.is_ascii_digit());
        let is_number =
            !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
        let unit = pair[1].trim_matches(|c: char| !c.is_alphanumeric() && c != '×');
        is_number && ["×", "times", "ns", "ms", "µs", "us"].contains(&unit)
    })
}

#[test]
fn a_ratio_in_prose_is_found() {
    for line in ["gets are 7.39 times as fast", "served 4.8 ms after its start", "7.39 × memcached"]
    {
        assert!(claims_a_ratio(line), "{line}");
    }
    for line in ["values may be up to 1 GiB", "one minute to the first hit", "five times a day"] {
        assert!(!claims_a_ratio(line), "{line}");
    }
}
