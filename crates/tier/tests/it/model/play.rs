//! The scenarios as the search plays them.

use larder_models::search::{self, Model, Outcome, title};

use super::rules::Rules;
use super::scenario::Scenario;
use super::world::{Step, Successors, World};

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
        World::new(self.scenario, self.rules)
    }

    fn successors(&self, world: &World) -> Successors {
        world.successors(self.scenario, self.rules)
    }

    fn fault(&self, world: &World, _: bool) -> Option<String> {
        world.fault.clone()
    }

    fn title(&self) -> String {
        title(self.scenario.name, self.scenario.programs)
    }

    fn show(&self, world: &World) -> String {
        world.region.as_ref().map_or_else(String::new, |region| {
            let slots = &region.slots[..usize::from(self.scenario.keys)];
            format!(
                "slots {slots:?}, synced {:?}, flush {:?}, delay {:?}",
                region.synced, region.flush, region.delay
            )
        })
    }
}
