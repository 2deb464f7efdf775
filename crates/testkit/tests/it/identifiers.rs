//! Identifiers that documents and comments name exist in the code.

use std::collections::BTreeSet;
use std::fs;

use crate::root;
use crate::tidy::{comment, documents, files, ticked};

/// Extensions of the files whose words count as code.
const SOURCES: &[&str] =
    &["rs", "go", "c", "h", "py", "sh", "toml", "txt", "json", "js", "mjs", "ts", "php", "mk"];

/// Extensions of the files whose comments are checked.
const COMMENTED: &[&str] = &["rs", "go", "c", "h"];

/// Identifiers of other systems that comments name.
const FOREIGN: &[&str] = &["SO_PEERCRED", "name_base64"];

/// Documents about other systems name their identifiers too.
const ABOUT_OTHERS: &[&str] = &["docs/start/", "docs/scale-out.md"];

/// True for names that only code has: `snake_case`, `CamelCase`, `path::to` and `call()`.
fn is_identifier(span: &str) -> bool {
    let is_name = |part: &str| {
        let mut chars = part.chars();
        chars.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
            && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let plain = span.strip_suffix("()").unwrap_or(span);
    let humps = plain.chars().filter(char::is_ascii_uppercase).count();
    let is_camel = humps >= 2 && plain.contains(|c: char| c.is_ascii_lowercase());
    plain.split("::").all(is_name)
        && (plain.contains('_') || plain.contains("::") || plain != span || is_camel)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
}

/// Returns the words of all sources; without those of comments if `of_code`.
fn known_words(of_code: bool) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    for (name, text) in files(SOURCES).into_iter().chain([("Makefile".to_owned(), makefile)]) {
        let has_comments = COMMENTED.iter().any(|of| name.ends_with(&format!(".{of}")));
        for line in text.lines() {
            if !(of_code && has_comments && comment(&name, line).is_some()) {
                known.extend(words(line).map(str::to_owned));
            }
        }
    }
    known
}

fn is_known(span: &str, known: &BTreeSet<String>) -> bool {
    let plain = span.strip_suffix("()").unwrap_or(span);
    FOREIGN.contains(&span) || plain.split("::").all(|part| known.contains(part))
}

#[test]
fn identifiers_in_documents_exist() {
    let (known, mut missing) = (known_words(false), Vec::new());
    for (name, text) in documents() {
        if ABOUT_OTHERS.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        for (number, span) in ticked(&text) {
            if is_identifier(&span) && !is_known(&span, &known) {
                missing.push(format!("{name}:{number}: no source has `{span}`"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn identifiers_in_comments_exist() {
    let (known, mut missing, mut checked) = (known_words(true), Vec::new(), 0);
    let of_this_file = "crates/testkit/tests/it/identifiers.rs";
    for (name, text) in files(COMMENTED).iter().filter(|(name, _)| name != of_this_file) {
        for (index, line) in text.lines().enumerate() {
            let text = comment(name, line).filter(|text| !text.contains("```"));
            for span in text.unwrap_or_default().split('`').skip(1).step_by(2) {
                checked += usize::from(is_identifier(span));
                if is_identifier(span) && !is_known(span, &known) {
                    missing.push(format!("{name}:{}: no code has `{span}`", index + 1));
                }
            }
        }
    }
    assert!(checked > 1000, "only {checked} identifiers are found in comments");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Returns the functions that a comment names as the other side of a memory ordering: those in
/// back-ticks in the sentence that begins with "Pairs with".
fn pairs(name: &str, text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| comment(name, line).map_or("", str::trim));
    let prose = lines.collect::<Vec<_>>().join(" ");
    let sentences = prose.split("Pairs with").skip(1);
    let named = sentences.flat_map(|sentence| {
        let sentence =
            sentence.split([';']).next().unwrap_or_default().split(": ").next().unwrap_or_default();
        let sentence = sentence.split(". ").next().unwrap_or_default();
        sentence.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
    });
    named.collect()
}

#[test]
fn the_other_side_of_an_ordering_is_a_function_of_the_crate() {
    let sources = files(&["rs"]);
    let (mut missing, mut checked) = (Vec::new(), 0);
    for (name, text) in &sources {
        let Some(crate_end) = name.find("/src/") else { continue };
        let of_crate = || sources.iter().filter(|(other, _)| other.starts_with(&name[..crate_end]));
        for pair in pairs(name, text) {
            let function = pair.rsplit("::").next().unwrap_or_default();
            let definition = format!("fn {function}");
            let defines = |text: &str| {
                text.match_indices(&definition)
                    .any(|(at, _)| text[at + definition.len()..].starts_with(['(', '<']))
            };
            checked += 1;
            if !of_crate().any(|(_, text)| defines(text)) {
                missing.push(format!("{name}: pairs with `{pair}`, which is not a function here"));
            }
        }
    }
    assert!(checked > 20, "only {checked} functions are named as pairs");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn pairs_are_found_in_wrapped_comments() {
    let text = "// Pairs with the acquire in\n// `Header::load`: see `other`.\nlet code = 1;";
    assert_eq!(pairs("a.rs", text), ["Header::load"]);
}
