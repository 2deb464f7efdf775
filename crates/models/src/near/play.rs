//! The scenarios as the search plays them.

use std::fmt::Write as _;

use super::rules::Rules;
use super::scenario::Scenario;
use super::world::{Step, Successors, World};
use crate::search::{self, Model, Outcome, title};

struct Play<'a> {
    scenario: &'a Scenario,
    rules: Rules,
}

/// Searches all states of a scenario.
pub(crate) fn search(scenario: &Scenario, rules: Rules) -> Outcome {
    search::search(&Play { scenario, rules })
}

impl Model for Play<'_> {
    type World = World;
    type Step = Step;

    fn start(&self) -> World {
        World::new(self.scenario)
    }

    fn successors(&self, world: &World) -> Successors {
        world.successors(self.scenario, self.rules)
    }

    fn fault(&self, world: &World, is_last: bool) -> Option<String> {
        let waits = is_last && !world.has_ended(self.scenario);
        world.fault.or(waits.then_some("someone waits forever")).map(str::to_owned)
    }

    fn title(&self) -> String {
        title(self.scenario.name, self.scenario.programs)
    }

    fn show(&self, world: &World) -> String {
        let keys = usize::from(self.scenario.keys);
        let mut text = format!("now {}, items {:?}", world.now, &world.origin.items[..keys]);
        for near in &world.nears {
            let copies = &near.copies[..keys];
            let _ = write!(text, ", copies {copies:?} until {:?}", near.fresh_until);
        }
        text
    }
}
