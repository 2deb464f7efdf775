//! A model of the near cache's protocol, searched exhaustively within small budgets.
//!
//! A near cache keeps copies of the items of an *origin*, which tells it of every change. The state
//! of a search, the *world*, consists of an origin (its items, its table of interest, its
//! subscriptions), near caches (copies, flights) and clients. Each of them advances in steps; other
//! steps cut streams, lose answers, move the clock and upgrade the origin. The search visits every
//! order of the steps. A *promise* is what clients may rely on. Each rule of the protocol is a
//! switch. With all rules, every promise holds. Without any one of them, except three, a promise
//! breaks, and the test prints the shortest trace to it (`LARDER_TRACES=1`).
//!
//! docs/decisions/0043-the-near-cache-is-modelled-first.md lists the rules, the errors that the
//! model found, and its limits.
//!
//! Files in reading order: `rules`, `spec` (the promises), `origin`, `cache`, `client`, `world`,
//! `scenario`, `scenarios`, `play`.

mod cache;
mod client;
mod origin;
mod play;
mod rules;
mod scenario;
mod scenarios;
mod spec;
mod world;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use play::search;
use rules::{Rule, Rules};
use scenario::Scenario;
use scenarios::SCENARIOS;

use crate::search::Outcome;

#[test]
fn every_promise_holds_with_all_rules() {
    let mut sum = 0;
    for scenario in SCENARIOS {
        match search(scenario, Rules::ALL) {
            Outcome::Holds(states) => {
                println!("{}: {states} states", scenario.name);
                sum += states;
            }
            Outcome::Broken(trace) => panic!("all rules are kept, and yet\n{trace}"),
        }
    }
    println!("{sum} states");
}

/// The rules that the promises do not need. [`Rule::OwnWritesAreTold`] makes the first one
/// unnecessary, and [`Rule::FreshBeforeLook`] the second. They are kept for the sake of readers:
/// those need not wait for the stream, and a reader that was stopped returns nothing old. The third
/// one saves copies that the end of the stream drops anyway.
const UNNEEDED: &[Rule] = &[Rule::LossInvalidates, Rule::ClockAfterCopy, Rule::TokenIsKnown];

/// Searches only the scenarios that name the rule.
#[test]
fn every_rule_is_needed() {
    let traces = std::env::var_os("LARDER_TRACES").is_some();
    let mut idle = Vec::new();
    for rule in Rule::ALL.iter().filter(|rule| !UNNEEDED.contains(rule)) {
        let mut named = false;
        for scenario in SCENARIOS.iter().filter(|each| each.breaks_without.contains(rule)) {
            named = true;
            match search(scenario, Rules::without(std::slice::from_ref(rule))) {
                Outcome::Broken(trace) if traces => println!("without {rule}\n{trace}"),
                Outcome::Broken(_) => println!("without {rule}\n  scenario: {}", scenario.name),
                Outcome::Holds(_) => idle.push(format!("{rule} (in: {})", scenario.name)),
            }
        }
        if !named {
            idle.push(format!("{rule} (no scenario names it)"));
        }
    }
    assert!(idle.is_empty(), "every promise holds without these rules:\n{}", idle.join("\n"));
}

#[test]
fn every_promise_holds_without_the_unneeded_rules() {
    for rule in UNNEEDED {
        // In the other scenarios the rule is never applied.
        let applies = |scenario: &&Scenario| match rule {
            Rule::LossInvalidates => scenario.budget.losses > 0,
            Rule::TokenIsKnown => scenario.budget.cuts + scenario.budget.upgrades > 0,
            _ => scenario.budget.ticks > 0,
        };
        for scenario in SCENARIOS.iter().filter(applies) {
            let rules = Rules::without(std::slice::from_ref(rule));
            if let Outcome::Broken(trace) = search(scenario, rules) {
                panic!("without {rule}\n{trace}");
            }
        }
    }
}

/// Where a command is executed only before its connection is lost, either of two rules suffices.
#[test]
fn a_lost_answer_needs_one_of_two_rules() {
    const OWN: Rule = Rule::OwnWritesAreTold;
    const LOSS: Rule = Rule::LossInvalidates;
    let mut scenarios = SCENARIOS.iter();
    let scenario = scenarios.find(|each| each.name == "a write whose answer is lost").unwrap();
    assert!(matches!(search(scenario, Rules::without(&[OWN])), Outcome::Holds(_)));
    assert!(matches!(search(scenario, Rules::without(&[LOSS])), Outcome::Holds(_)));
    assert!(matches!(search(scenario, Rules::without(&[OWN, LOSS])), Outcome::Broken(_)));
}

/// The rules that the origin keeps.
const RULES_OF_ORIGIN: &[Rule] = &[
    Rule::InterestBeforeRead,
    Rule::PublishBeforeLook,
    Rule::OwnWritesAreTold,
    Rule::RemovalTellsEach,
    Rule::FlushTellsAll,
    Rule::SlotTellsAll,
    Rule::FullRingFlushes,
    Rule::OneProcessTells,
    Rule::SignalAfterRings,
    Rule::TokensAreNew,
];

/// The rules that the near cache keeps. `TokenIsKnown` and `ClockAfterCopy`, which no scenario
/// needs, are kept by the origin, which marks such items, and by readers in memory.
const RULES_OF_NEAR_CACHE: &[Rule] = &[
    Rule::KeepUnlessInvalidated,
    Rule::KeepIsOneStep,
    Rule::CountBeforeDrop,
    Rule::InvalidateBucket,
    Rule::TokenIsCurrent,
    Rule::AnswerInvalidates,
    Rule::FlushInvalidates,
    Rule::FetchesInOrder,
    Rule::LateIsIgnored,
    Rule::UnkeptDrops,
    Rule::LostStreamEmpties,
    Rule::FreshFromSending,
    Rule::FreshBeforeLook,
    Rule::JoinWhileYoung,
    Rule::LossInvalidates,
];

/// Collects the names in `// Rule: name` comments of the sources in a folder, without those of its
/// folders.
fn names_of_rules(folder: &Path) -> BTreeSet<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.is_file());
    let texts = files.map(|path| fs::read_to_string(path).unwrap());
    let names = |text: String| -> Vec<String> {
        let names = text.lines().filter_map(|line| line.trim().strip_prefix("// Rule: "));
        names.map(str::to_owned).collect()
    };
    texts.flat_map(names).collect()
}

#[test]
fn the_code_of_the_origin_names_every_rule_where_it_keeps_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let named = names_of_rules(&crates.join("server/src/followers"));
    assert_rules(&named, RULES_OF_ORIGIN);
}

#[test]
fn the_code_of_the_near_cache_names_every_rule_where_it_keeps_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut named = names_of_rules(&crates.join("larder/src/copies"));
    named.extend(names_of_rules(&crates.join("server/src/near")));
    named.extend(names_of_rules(&crates.join("server/src/near/links")));
    // The model has upgrades of origins only. A near cache keeps the same rule.
    assert!(named.remove(&format!("{:?}", Rule::OneProcessTells)), "upgrades of near caches");
    assert_rules(&named, RULES_OF_NEAR_CACHE);
}

#[test]
fn the_code_of_readers_of_the_memory_names_every_rule_where_it_keeps_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let named = names_of_rules(&crates.join("larder/src/client"));
    assert_rules(&named, &[Rule::FreshBeforeLook, Rule::ClockAfterCopy]);
}

#[track_caller]
fn assert_rules(named: &BTreeSet<String>, rules: &[Rule]) {
    let rules: BTreeSet<String> = rules.iter().map(|rule| format!("{rule:?}")).collect();
    assert_eq!(*named, rules, "the rules in comments of the code, and those of the model");
}
