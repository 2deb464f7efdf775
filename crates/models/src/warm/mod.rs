//! A model of `larder warm`, searched exhaustively within small budgets.
//!
//! The tool copies items from a *source* to a *target*, which will own their keys. Clients with the
//! old list of servers change items of the source meanwhile; clients with the new list change items
//! of the target. The tool follows the source's change stream. The promises:
//!
//! - No copied item is older than a change that the target has acknowledged.
//! - Once the copy has ended, or is undone, no copied item is older than a change that the source
//!   acknowledged before the end.
//!
//! The removal of a copy that failed may also remove an item that a client has stored since in the
//! place of a copied one, which costs a miss.
//!
//! docs/decisions/0047-a-copy-between-servers-is-a-session-of-the-target.md describes the protocol.

mod rules;
mod scenario;
mod world;

use rules::{Rule, Rules};
use scenario::{SCENARIOS, Scenario};
use world::World;

use crate::search::{Model, Outcome, search, title};

/// A scenario, played with some rules.
struct Play<'a> {
    scenario: &'a Scenario,
    rules: Rules,
}

impl Model for Play<'_> {
    type World = World;
    type Step = String;

    fn start(&self) -> World {
        World::start()
    }

    fn successors(&self, world: &World) -> Vec<(String, World)> {
        world.successors(self.scenario, self.rules)
    }

    fn fault(&self, world: &World, _is_last: bool) -> Option<String> {
        world.fault()
    }

    fn title(&self) -> String {
        title(self.scenario.name, &[self.scenario.old, self.scenario.new])
    }

    fn show(&self, world: &World) -> String {
        format!("{world:?}")
    }
}

#[test]
fn every_promise_holds_with_all_rules() {
    for scenario in SCENARIOS {
        match search(&Play { scenario, rules: Rules::ALL }) {
            Outcome::Holds(states) => println!("{}: {states} states", scenario.name),
            Outcome::Broken(trace) => panic!("all rules are kept, and yet\n{trace}"),
        }
    }
}

#[test]
fn every_rule_is_needed() {
    for rule in Rule::ALL {
        let named = SCENARIOS.iter().filter(|each| each.breaks_without.contains(rule));
        let mut scenarios = 0;
        for scenario in named {
            scenarios += 1;
            let rules = Rules::without(std::slice::from_ref(rule));
            let outcome = search(&Play { scenario, rules });
            let name = scenario.name;
            assert!(matches!(outcome, Outcome::Broken(_)), "{name} holds without {rule}");
        }
        assert!(scenarios > 0, "no scenario names {rule}");
    }
}
