//! A model of a load with one leader among the callers of several processes, searched exhaustively.
//! `python/larder_cache/_load.py` implements it, and without notes
//! `crates/larder/src/api/load/tasks.rs`.
//!
//! Callers need the value of one key. The caller that takes the key's lease is the *leader*, and
//! calls its loader, which returns, fails, or is cancelled. The others look for the value, the
//! lease and a note about a failure again and again. A process can be killed at any step, which
//! ends its lease. Another program can delete the key. The promises:
//!
//! - No two loaders run at the same time, and none runs while the value of another load is stored.
//! - A caller that saw the lease of a load before that load failed raises an error, instead of
//!   calling its own loader.
//! - No caller raises the error of a load that had ended before the caller began.
//! - A cancelled load raises an error only in its own caller.
//! - A stored value is not older than the last change by another program.
//! - Every caller ends, unless its process is killed.
//!
//! Times are compared, never added, so a state contains only their order. Two reads of the clock
//! differ: between them the callers use shared memory, which takes longer than a nanosecond.

mod rules;
mod world;

use rules::{Rule, Rules};
use world::{CALLERS, World};

use crate::search::{Model, Outcome, search};

struct Play {
    rules: Rules,
    has_notes: bool,
}

impl Model for Play {
    type World = World;
    type Step = String;

    fn start(&self) -> World {
        World::start(self.has_notes)
    }

    fn successors(&self, world: &World) -> Vec<(String, World)> {
        world.successors(self.rules)
    }

    fn fault(&self, world: &World, is_last: bool) -> Option<String> {
        world.fault(is_last)
    }

    fn title(&self) -> String {
        format!("{CALLERS} callers of a key")
    }

    fn show(&self, world: &World) -> String {
        format!("{world:?}")
    }
}

#[test]
fn every_promise_holds_with_all_rules() {
    match search(&Play { rules: Rules::ALL, has_notes: true }) {
        Outcome::Holds(states) => println!("{states} states"),
        Outcome::Broken(trace) => panic!("all rules are kept, and yet\n{trace}"),
    }
}

#[test]
fn every_rule_is_needed() {
    for rule in Rule::ALL {
        let rules = Rules::without(std::slice::from_ref(rule));
        let outcome = search(&Play { rules, has_notes: true });
        assert!(matches!(outcome, Outcome::Broken(_)), "all promises hold without {rule}");
    }
}

/// Without notes, a caller of another process loads after a failure. All other promises hold, and
/// need the rules that do not concern notes.
#[test]
fn callers_without_notes_keep_the_other_promises() {
    match search(&Play { rules: Rules::ALL, has_notes: false }) {
        Outcome::Holds(states) => println!("{states} states"),
        Outcome::Broken(trace) => panic!("all rules are kept, and yet\n{trace}"),
    }
    for rule in &[Rule::LookAfterLease, Rule::BasisBeforeLoader] {
        let rules = Rules::without(std::slice::from_ref(rule));
        let outcome = search(&Play { rules, has_notes: false });
        assert!(matches!(outcome, Outcome::Broken(_)), "all promises hold without {rule}");
    }
}
