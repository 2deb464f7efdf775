//! The book of docs/ is complete, and links between documents have a target.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::root;

/// Returns the Markdown files below a folder of the repository, by their paths from its root.
fn documents_below(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.path().is_dir() {
            if !folder.is_empty() {
                found.extend(documents_below(&path));
            }
        } else if path.ends_with(".md") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the lines of a document outside of code blocks, with their numbers.
fn text_lines(text: &str) -> Vec<(usize, &str)> {
    let mut in_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            lines.push((index + 1, line));
        }
    }
    lines
}

/// Returns the targets of the links in a line, except links to other sites.
fn links(line: &str) -> Vec<&str> {
    let behind = line.split("](").skip(1);
    let targets = behind.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://")).collect()
}

/// Returns the anchors of a document's headings, as mdBook and GitHub derive them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in text_lines(text) {
        let Some(heading) = line.trim_start_matches('#').strip_prefix(' ') else { continue };
        if !line.starts_with('#') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let times = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *times == 0 { anchor } else { format!("{anchor}-{times}") });
        *times += 1;
    }
    anchors
}

/// Returns the target of a link in a document as a path from the root.
fn resolve(document: &str, target: &str) -> PathBuf {
    let mut path = Path::new(document).parent().unwrap().to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir => {
                assert!(path.pop(), "{document}: {target} leads out of the repository");
            }
            part => path.push(part),
        }
    }
    path
}

#[test]
fn the_book_has_every_document_of_docs_once() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: Vec<String> = text_lines(&summary)
        .iter()
        .flat_map(|(_, line)| links(line))
        .filter(|target| !target.is_empty())
        .map(|target| format!("docs/{target}"))
        .collect();
    let documents = documents_below("docs");
    for document in documents.iter().filter(|document| *document != "docs/SUMMARY.md") {
        let times = listed.iter().filter(|listed| *listed == document).count();
        assert!(
            times == 1,
            "docs/SUMMARY.md lists {document} {times} times: every document of docs/ has one line \
             there, which puts it into the book"
        );
    }
    for listed in &listed {
        assert!(documents.contains(listed), "docs/SUMMARY.md lists {listed}, which does not exist");
    }
}

#[test]
fn links_between_documents_lead_to_files_and_headings() {
    let mut dead = Vec::new();
    let documents = [documents_below(""), documents_below("docs")].concat();
    for document in &documents {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for (number, target) in
            text_lines(&text).iter().flat_map(|(n, line)| links(line).into_iter().map(|l| (*n, l)))
        {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.into() } else { resolve(document, file) };
            let place = format!("{document}:{number}: ({target})");
            if file.is_empty() && anchor.is_empty() {
                // A chapter of docs/SUMMARY.md without a page.
                continue;
            }
            if !root().join(&path).exists() {
                dead.push(format!("{place}: there is no {}", path.display()));
            } else if document.starts_with("docs/") && !path.starts_with("docs") {
                dead.push(format!("{place}: the book has only docs/; name the file in back-ticks"));
            } else if !anchor.is_empty() {
                let text = fs::read_to_string(root().join(&path)).unwrap();
                if !anchors(&text).contains(anchor) {
                    dead.push(format!("{place}: {} has no such heading", path.display()));
                }
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
}
