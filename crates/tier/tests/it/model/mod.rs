//! A model of the disk tier's protocol, searched exhaustively within small budgets.
//!
//! The state of a search, the *world*, consists of a disk, a region (the memory of a process),
//! clients, the flusher and reclaim. Each of them advances in steps; other steps end and start
//! processes. The search visits every order of the steps. A *promise* is what clients may rely on,
//! for example that a crash loses no acknowledged change. Each rule of the protocol is a switch.
//! With all rules, every promise holds. Without any one of them a promise breaks, and the test
//! prints the shortest trace to it (`LARDER_TRACES=1`).
//!
//! docs/decisions/0028-the-log-is-modelled-first.md lists the errors that the model found, and the
//! parts of the tier that it omits.
//!
//! Files in reading order: `rules`, `spec` (the promises), `address`, `disk`, `region`, `client`,
//! `reclaimer`, `crash`, `recovery`, `world`, `scenario`, `scenarios`, `play`.

mod address;
mod client;
mod crash;
mod disk;
mod play;
mod reclaimer;
mod recovery;
mod region;
mod rules;
mod scenario;
mod scenarios;
mod spec;
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use larder_models::search::Outcome;
use play::search;
use rules::{Rule, Rules};
use scenarios::SCENARIOS;

#[test]
fn every_promise_holds_with_all_rules() {
    for scenario in SCENARIOS {
        match search(scenario, Rules::ALL) {
            Outcome::Holds(states) => println!("{}: {states} states", scenario.name),
            Outcome::Broken(trace) => panic!("all rules are kept, and yet\n{trace}"),
        }
    }
}

/// Searches only the scenario that names the rule. The other scenarios take a minute and add
/// nothing.
#[test]
fn every_rule_is_needed() {
    let traces = std::env::var_os("LARDER_TRACES").is_some();
    let mut idle = Vec::new();
    for rule in Rule::ALL {
        let Some(scenario) = SCENARIOS.iter().find(|each| each.breaks_without.contains(rule))
        else {
            idle.push(format!("{rule} (no scenario names it)"));
            continue;
        };
        match search(scenario, Rules::without(std::slice::from_ref(rule))) {
            Outcome::Broken(trace) if traces => println!("without {rule}\n{trace}"),
            Outcome::Broken(_) => println!("without {rule}\n  scenario: {}", scenario.name),
            Outcome::Holds(_) => idle.push(format!("{rule} (in: {})", scenario.name)),
        }
    }
    assert!(idle.is_empty(), "every promise holds without these rules:\n{}", idle.join("\n"));
}

/// The rules that the code enforces without a comment. This list may only become shorter.
const UNNAMED: &[Rule] = &[
    // `clear_if_due` and `promote` of the library's tier log a due flush before an operation. If
    // the log does not accept it, they treat reads that need the disk as failed.
    Rule::DueBeforeReads,
];

/// The folders whose rules are those of another model (crates/models).
const OF_NEAR_CACHES: [&str; 2] = ["larder/src/copies", "larder/src/client"];

/// Collects the names in `// Rule: name` comments of a folder's sources.
fn names_of_rules(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if OF_NEAR_CACHES.iter().any(|folder| path.ends_with(folder)) {
            continue;
        }
        if path.is_dir() {
            names_of_rules(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(path).unwrap();
            let names = text.lines().filter_map(|line| line.trim().strip_prefix("// Rule: "));
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn the_code_names_every_rule_where_it_keeps_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut named = BTreeSet::new();
    for folder in ["tier", "larder", "engine"] {
        names_of_rules(&crates.join(folder).join("src"), &mut named);
    }
    let rules = Rule::ALL.iter().filter(|rule| !UNNAMED.contains(rule));
    let rules: BTreeSet<String> = rules.map(|rule| format!("{rule:?}")).collect();
    assert_eq!(named, rules, "the rules in comments of the code, and those of the model");
}
