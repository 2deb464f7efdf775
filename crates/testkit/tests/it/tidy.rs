//! The tree keeps the rules of CONTRIBUTING.md that a program can check: prose, names, sizes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::root;

const PROSE_COLUMNS_MAX: usize = 100;
const FILE_LINES_MAX: usize = 600;
const FOLDER_FILES_MAX: usize = 15;

/// Phrases that hide the actor of a sentence.
const BANNED: &[&str] = &[
    "nobody",
    "somebody",
    "anybody",
    "whoever",
    "is told",
    "are told",
    "so many",
    "in vain",
    "for want of",
];

/// Folders whose files are not written by hand, or not ours.
const SKIPPED: &[&str] = &["corpus", "artifacts", "decisions"];

/// Returns the paths of tracked files and of new files that git does not ignore, relative to the
/// root. Ignored files are not in a fresh clone, and a rule must have the same result there.
fn listed() -> Vec<PathBuf> {
    let of_git = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = Command::new("git").args(of_git).current_dir(root()).output().unwrap();
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let names = String::from_utf8(listed.stdout).unwrap();
    let paths = names.split_terminator('\0').map(PathBuf::from);
    let is_skipped = |path: &PathBuf| {
        path.iter().any(|part| SKIPPED.contains(&part.to_str().unwrap()))
            || root().join(path).is_symlink()
    };
    paths.filter(|path| !is_skipped(path)).collect()
}

/// Returns the names, relative to the root, and texts of all files with one of these extensions.
pub(crate) fn files(extensions: &[&str]) -> Vec<(String, String)> {
    let mut found = listed();
    found.sort();
    let has = |path: &PathBuf| {
        path.extension().is_some_and(|of| extensions.contains(&of.to_str().unwrap()))
    };
    let text = |path: PathBuf| {
        let name = path.to_str().unwrap().to_owned();
        fs::read_to_string(root().join(path)).ok().map(|text| (name, text))
    };
    found.into_iter().filter(has).filter_map(text).collect()
}

/// Returns the text of a comment line of a source file, and every line of a document; `None` for
/// code. Comments after code are not found.
pub(crate) fn comment<'a>(name: &str, line: &'a str) -> Option<&'a str> {
    let trimmed = line.trim_start();
    let marks: &[&str] = match name.rsplit('.').next() {
        Some("md") => return Some(line),
        Some(extension) if HASHED.contains(&extension) => &["# "],
        _ => &["//!", "///", "//", "* ", "/*"],
    };
    marks.iter().find_map(|mark| trimmed.strip_prefix(mark))
}

/// Returns the lines of a file that are prose, with their numbers: comments of source files, and
/// Markdown without code blocks, tables and diagrams.
fn prose(name: &str, text: &str) -> Vec<(usize, String)> {
    let is_markdown = name.ends_with(".md");
    let mut in_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let Some(comment) = comment(name, line).map(str::trim) else {
            in_code = false;
            continue;
        };
        if comment.starts_with("```") {
            in_code = !in_code;
            continue;
        }
        let is_table = comment.starts_with('|') || comment.starts_with("<!--");
        let is_diagram = comment.contains(|c| ('\u{2500}'..='\u{257F}').contains(&c));
        let has_link = comment.contains("](") || comment.contains("://");
        // The output of a Go example is compared literally.
        let is_output = name.ends_with("example_test.go");
        if !(in_code || is_table || is_diagram || is_output || (is_markdown && has_link)) {
            lines.push((index + 1, line.to_owned()));
        }
    }
    lines
}

const PROSE: &[&str] = &["rs", "go", "c", "h", "md"];

/// Extensions of files whose comments begin with `#`.
const HASHED: &[&str] = &["sh", "py", "mk"];

/// The compiler may miscompile a function that has a page on its stack: see
/// `larder_tier::disk::Page`.
#[test]
fn the_tier_keeps_its_pages_on_the_heap() {
    let made = ["Page::new(", "[Page;", "Page::new_zeroed()", "Page::ZERO"];
    let mut found = Vec::new();
    for (name, text) in files(&["rs"]) {
        let lines = text.lines().enumerate();
        let is_code = |line: &str| !line.trim_start().starts_with("//");
        let on_stack =
            lines.filter(|(_, line)| is_code(line) && made.iter().any(|made| line.contains(made)));
        if name.starts_with("crates/tier/src/") {
            found.extend(on_stack.map(|(at, line)| format!("{name}:{}: {}", at + 1, line.trim())));
        }
    }
    assert!(found.is_empty(), "use zeroed_page() here:\n{}", found.join("\n"));
}

#[test]
fn prose_is_at_most_a_hundred_columns_wide() {
    let mut wide = Vec::new();
    for (name, text) in files(&[PROSE, HASHED].concat()) {
        for (number, line) in prose(&name, &text) {
            if line.chars().count() > PROSE_COLUMNS_MAX {
                wide.push(format!("{name}:{number}: {} columns", line.chars().count()));
            }
        }
    }
    assert!(wide.is_empty(), "wrap these lines:\n{}", wide.join("\n"));
}

/// True if a line of prose has cells of a table: a program that wraps prose has joined its rows.
fn has_cells(line: &str) -> bool {
    line.matches(" | ").count() >= 2 || line.trim().contains("   ")
}

#[test]
fn no_table_is_wrapped_into_prose() {
    let mut found = Vec::new();
    for (name, text) in files(&["md"]) {
        for (number, line) in prose(&name, &text) {
            if has_cells(&line) {
                found.push(format!("{name}:{number}: {line}"));
            }
        }
    }
    assert!(found.is_empty(), "put each row on a line of its own:\n{}", found.join("\n"));
}

#[test]
fn cells_in_prose_are_found() {
    let wrapped = ["a get | 1.43 | 1.46 | a set", "943.5    1.000     1.00   0.99 set, evicting"];
    for line in wrapped {
        let text = format!("# Title\n\n{line}\n");
        let lines = prose("some.md", &text);
        assert!(lines.iter().any(|(_, line)| has_cells(line)), "{line}");
    }
    let kept = "| a | 1.43 | 1.46 |\n\nIt took 1.43 and 1.46 (1.50; 1.60) ms.\n\n```\n1.0 2.0 3.0 4.0\n```\n";
    assert!(!prose("some.md", kept).iter().any(|(_, line)| has_cells(line)));
}

#[test]
fn prose_names_its_actors() {
    let mut found = Vec::new();
    for (name, text) in files(PROSE) {
        if name.ends_with("tests/it/tidy.rs") {
            continue;
        }
        for (number, line) in prose(&name, &text) {
            let lower = line.to_lowercase();
            let is_word = |at: usize, phrase: &str| {
                let letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
                !letter(lower[..at].chars().next_back())
                    && !letter(lower[at + phrase.len()..].chars().next())
            };
            for phrase in BANNED {
                if lower.match_indices(phrase).any(|(at, _)| is_word(at, phrase)) {
                    found.push(format!(
                        "{name}:{number}: {phrase:?} hides the actor: {}",
                        line.trim()
                    ));
                }
            }
        }
    }
    assert!(found.is_empty(), "say who does it:\n{}", found.join("\n"));
}

#[test]
fn files_and_folders_stay_small() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    let mut large = Vec::new();
    for (name, text) in files(&["rs", "go"]) {
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            large.push(format!("{name} has {lines} lines, at most {FILE_LINES_MAX} are readable"));
        }
        if name.contains("/src/") {
            *folders.entry(name.rsplit_once('/').unwrap().0.to_owned()).or_default() += 1;
        }
    }
    for (folder, files) in folders {
        if files > FOLDER_FILES_MAX {
            large
                .push(format!("{folder} has {files} files, at most {FOLDER_FILES_MAX} are a room"));
        }
    }
    assert!(large.is_empty(), "{}", large.join("\n"));
}

/// Functions that still have a tuple pattern among their parameters, by crate. The test fails for a
/// listed function that no longer has one, so that the list only becomes shorter.
const TUPLE_PARAMETERS: &[(&str, &[&str])] = &[
    // A framework calls these functions with pairs.
    ("server", &["as_json", "serve"]),
];

/// Returns the bracketed text at the start of `code`, without its brackets.
fn bracketed(code: &str) -> &str {
    let mut depth = 0;
    let mut before = ' ';
    for (at, letter) in code.char_indices() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &code[1..at];
        }
        before = letter;
    }
    panic!("a bracket stays open: {}", code.lines().next().unwrap_or_default());
}

/// Returns the parameters in a list, each with its pattern and its type.
fn parameters(list: &str) -> Vec<&str> {
    let (mut depth, mut start, mut before) = (0, 0, ' ');
    let mut found = Vec::new();
    for (at, letter) in list.char_indices() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' => depth -= 1,
            ',' if depth == 0 => {
                found.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        before = letter;
    }
    found.push(list[start..].trim());
    found
}

/// Returns the names of the functions of a source text that have a tuple pattern among their
/// parameters, without its unit tests.
fn functions_with_tuple_parameters(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let name_and_rest = &code[at + "fn ".len()..];
        let end = name_and_rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(0);
        let (name, mut rest) = name_and_rest.split_at(end);
        if name.is_empty() || !is_word || !rest.starts_with(['(', '<']) {
            continue;
        }
        if rest.starts_with('<') {
            rest = &rest[bracketed(rest).len() + 2..];
        }
        if rest.starts_with('(')
            && parameters(bracketed(rest)).iter().any(|parameter| parameter.starts_with('('))
        {
            found.push(name);
        }
    }
    found
}

/// A tuple of parameters evades the limit of clippy.toml on their number, and hides how they belong
/// together.
#[test]
fn parameters_are_not_tuples() {
    let is_test = |name: &str| {
        name.split('/').any(|part| ["tests", "tests.rs", "interleavings"].contains(&part))
    };
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, text) in files(&["rs"]) {
        let mut path = name.split('/');
        let (Some("crates"), Some(folder), Some("src")) = (path.next(), path.next(), path.next())
        else {
            continue;
        };
        if !is_test(&name) {
            for function in functions_with_tuple_parameters(&text) {
                found.entry(folder.to_owned()).or_default().insert(function.to_owned());
            }
        }
    }
    let listed = TUPLE_PARAMETERS.iter().map(|(folder, functions)| {
        let functions = functions.iter().map(|function| (*function).to_owned());
        ((*folder).to_owned(), functions.collect())
    });
    assert_eq!(found, listed.collect(), "make a struct of them, or several parameters");
}

#[test]
fn tuple_parameters_are_found() {
    let text = "fn a<T: Fn(u8) -> u8>(&self, (x, y): (T, u8)) {}\nfn b(x: (u8, u8), f: fn(u8)) {}\n\
        fn c(\n    x: Vec<(u8, u8)>,\n    (y, mut z): (u8, u8),\n) -> u8 {}\nfn d(&(x, y): &(u8, u8)) {}\n\
        #[cfg(test)]\nmod tests {\nfn e((x, y): (u8, u8)) {}\n}";
    assert_eq!(functions_with_tuple_parameters(text), ["a", "c"]);
}

/// Returns the documents whose statements are checked. Generated ones are right by construction.
pub(crate) fn documents() -> Vec<(String, String)> {
    let is_checked = |name: &str| {
        let is_generated = ["docs/options.md", "docs/stats.md", "docs/protocol.md"].contains(&name);
        (!name.contains('/') || name.starts_with("docs/"))
            && name != "CHANGELOG.md"
            && !is_generated
    };
    files(&["md"]).into_iter().filter(|(name, _)| is_checked(name)).collect()
}

/// Returns the spans in back-ticks of a document, outside of code blocks, with their lines.
pub(crate) fn ticked(text: &str) -> Vec<(usize, String)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.map(|span| (index + 1, span.to_owned())));
        }
    }
    found
}

#[test]
fn paths_in_documents_exist() {
    let mut missing = Vec::new();
    for (name, text) in documents() {
        for (number, span) in ticked(&text) {
            let is_path = ["c/", "conformance/", "crates/", "docs/", "fuzz/", "go/", "php/"]
                .iter()
                .any(|start| span.starts_with(start))
                && span.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
            if is_path && !root().join(&span).exists() {
                missing.push(format!("{name}:{number}: there is no {span}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the candidates for commands in a document: spans in back-ticks, and code lines.
pub(crate) fn commands(text: &str) -> Vec<(usize, String)> {
    let mut in_code = false;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if in_code {
            found.push((index + 1, line.trim().trim_start_matches("$ ").to_owned()));
        } else {
            let spans = line.split('`').skip(1).step_by(2);
            found.extend(spans.map(|span| (index + 1, span.to_owned())));
        }
    }
    found
}

/// Returns the targets of a makefile.
fn targets(makefile: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(makefile)).unwrap();
    text.lines()
        .filter(|line| !line.starts_with(['\t', '#', ' ']))
        .filter_map(|line| line.split_once(':'))
        .flat_map(|(targets, _)| targets.split_whitespace().map(str::to_owned))
        .collect()
}

/// Splits the value of a variable that a command of make sets: `NAME="engine scale"`.
fn words_of<'a>(command: &'a str, variable: &str) -> Vec<&'a str> {
    let value = command.split_once(variable).map_or("", |(_, value)| value);
    let value = match value.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => value.split(' ').next(),
    };
    value.unwrap_or_default().split_whitespace().filter(|word| *word != "…").collect()
}

#[test]
fn verbs_of_make_in_documents_exist() {
    let verbs = targets("Makefile");
    let [mut stages, benches] = [".ci/verify.mk", ".ci/bench.mk"].map(targets);
    stages.extend(verbs.iter().cloned());
    stages.insert("list".to_owned());
    let is_known = |verb: &str, command: &str| match verb {
        "bench" => {
            words_of(command, "NAME=").iter().all(|name| benches.contains(&format!("bench-{name}")))
        }
        "verify" => words_of(command, "ONLY=").iter().all(|stage| stages.contains(*stage)),
        _ => verbs.contains(verb) || verb.ends_with('…') || verb == "#",
    };
    let mut missing = Vec::new();
    for (name, text) in documents() {
        for (number, command) in commands(&text) {
            let mut words = command.split_whitespace().skip_while(|word| word.contains('='));
            if words.next() != Some("make") || command.contains(" -C ") {
                continue;
            }
            let verb = words.find(|word| !word.contains('=') && !word.starts_with('-'));
            if verb.is_some_and(|verb| !is_known(verb, &command)) {
                missing.push(format!("{name}:{number}: the Makefile has no verb for `{command}`"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn cargo_commands_in_documents_name_targets_that_exist() {
    let mut missing = Vec::new();
    for (name, text) in documents() {
        for (number, command) in commands(&text) {
            let words: Vec<&str> = command.split_whitespace().collect();
            if !words.contains(&"cargo") {
                continue;
            }
            for pair in words.windows(2) {
                let exists = match pair[0] {
                    "-p" => files(&["toml"])
                        .iter()
                        .any(|(_, text)| text.contains(&format!("name = \"{}\"", pair[1]))),
                    "--test" => target_exists("tests", pair[1]),
                    "--example" => target_exists("examples", pair[1]),
                    "--bench" => target_exists("benches", pair[1]),
                    _ => true,
                };
                if !exists {
                    missing.push(format!("{name}:{number}: `{command}`: there is no {}", pair[1]));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn target_exists(folder: &str, target: &str) -> bool {
    let crates = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    crates.map(|path| path.join(folder)).any(|folder| {
        folder.join(format!("{target}.rs")).exists() || folder.join(target).join("main.rs").exists()
    })
}
