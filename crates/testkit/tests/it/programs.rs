//! The workspace has few programs of integration tests, since linking one takes longer than most of
//! its tests. Commands select the tests of a file by the name of its module.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::root;
use crate::tidy::{commands, documents};
use crate::tracked::metadata;

/// Largest number of programs of integration tests in the workspace.
const PROGRAMS_MAX: usize = 25;

/// The programs in addition to the single program of a package, and the reason why their tests need
/// a separate process.
const SEPARATE: &[(&str, &str, &str)] = &[
    ("larder", "alone", "its tests measure the memory and the threads of their process"),
    ("larder", "forking", "a forked child inherits the files and the memory of other tests"),
    (
        "larder",
        "killed",
        "it traces a child instruction by instruction, and has its own main function",
    ),
    ("larder", "private", "it also runs on systems for which the other tests do not compile"),
    ("larder", "storm", "it starts itself again as the processes that it kills"),
    ("larder-server", "crowds", "its tests raise the limit of open files"),
    ("larder-server", "latency", "its tests judge milliseconds"),
    ("larder-server", "local_readers", "its tests fork, and start it again as clients"),
    (
        "larder-server",
        "transcripts",
        "each file of conformance/wire is a test, which its main function adds",
    ),
];

/// Returns the programs of integration tests by package, according to cargo.
fn programs() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let name = |of: &serde_json::Value| of["name"].as_str().unwrap().to_owned();
    packages
        .map(|package| {
            let targets = package["targets"].as_array().unwrap().iter();
            let tests = targets.filter(|target| target["kind"][0] == "test");
            (name(package), tests.map(name).collect())
        })
        .collect()
}

#[test]
fn each_package_has_one_program_and_those_with_a_reason() {
    let programs = programs();
    let mut wrong = Vec::new();
    for (package, found) in &programs {
        let has_reason = |program: &&String| {
            SEPARATE.iter().any(|(of, name, _)| of == package && name == program)
        };
        let others: Vec<_> = found.iter().filter(|program| !has_reason(program)).collect();
        if others.len() > 1 {
            wrong.push(format!("{package} has the programs {others:?}"));
        }
    }
    for (package, program, _) in SEPARATE {
        if !programs.get(*package).is_some_and(|found| found.contains(*program)) {
            wrong.push(format!("{package} has no program {program}"));
        }
    }
    let count: usize = programs.values().map(BTreeSet::len).sum();
    if count > PROGRAMS_MAX {
        wrong.push(format!("there are {count} programs, at most {PROGRAMS_MAX} are allowed"));
    }
    assert!(
        wrong.is_empty(),
        "make these files modules of the one program of their package, or add the reason for \
         another program to crates/testkit/tests/it/programs.rs:\n{}",
        wrong.join("\n")
    );
}

/// Returns the commands in documents and makefiles that run tests, with their locations. A line of
/// a makefile may continue the line before.
fn test_commands() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in ["Makefile", ".ci/verify.mk", ".ci/bench.mk"] {
        let text = fs::read_to_string(root().join(name)).unwrap().replace("\\\n", " ");
        found.extend(text.lines().map(|line| (name.to_owned(), line.to_owned())));
    }
    for (name, text) in documents() {
        let lines = commands(&text).into_iter();
        found.extend(lines.map(|(line, command)| (format!("{name}:{line}"), command)));
    }
    found.retain(|(_, command)| command.contains("cargo test ") && command.contains(" --test "));
    found
}

/// Returns the word after an option.
fn value<'a>(words: &[&'a str], option: &str) -> Option<&'a str> {
    let at = words.iter().position(|word| *word == option)?;
    words.get(at + 1).copied()
}

#[test]
fn commands_name_modules_that_exist() {
    let commands = test_commands();
    assert!(commands.len() > 10, "the commands were not found: {commands:?}");
    let manifests = fs::read_dir(root().join("crates")).unwrap().map(|entry| {
        let folder = entry.unwrap().path();
        (fs::read_to_string(folder.join("Cargo.toml")).unwrap(), folder)
    });
    let manifests: Vec<_> = manifests.collect();
    let mut missing = Vec::new();
    for (place, command) in commands {
        let words: Vec<&str> = command.split([' ', '\t', ';', '`']).collect();
        let (Some(package), Some(program)) = (value(&words, "-p"), value(&words, "--test")) else {
            missing.push(format!("{place}: {command}: name a package and a program"));
            continue;
        };
        let has_name = format!("\nname = \"{package}\"\n");
        let Some((_, folder)) = manifests.iter().find(|(text, _)| text.contains(&has_name)) else {
            missing.push(format!("{place}: there is no package {package}"));
            continue;
        };
        let modules = words.iter().filter_map(|word| word.strip_suffix("::"));
        for module in modules {
            let at = folder.join("tests").join(program);
            if !at.join(format!("{module}.rs")).exists() && !at.join(module).is_dir() {
                missing.push(format!("{place}: {package} has no module {module} in {program}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
