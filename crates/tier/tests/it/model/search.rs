//! Breadth-first search. The first fault that it finds has a shortest trace.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::rules::Rules;
use super::scenario::Scenario;
use super::world::World;

/// The maximum number of states of a scenario.
const STATES_MAX: usize = 20_000_000;

/// The result of a search.
pub(crate) enum Outcome {
    /// Every state within the budget was visited: their number.
    Holds(usize),
    /// The shortest trace to a broken promise.
    Broken(String),
}

/// How a state was reached: its predecessor, and the index of the step.
struct Origin {
    parent: usize,
    choice: usize,
}

/// Searches all states of a scenario.
///
/// # Panics
///
/// If a scenario has more than [`STATES_MAX`] states.
pub(crate) fn search(scenario: &Scenario, rules: Rules) -> Outcome {
    let mut frontier = VecDeque::from([World::new(scenario, rules)]);
    let mut origins = vec![Origin { parent: 0, choice: 0 }];
    let mut seen = HashSet::from([digest(&frontier[0])]);
    let mut at = 0;
    while let Some(state) = frontier.pop_front() {
        for (choice, (_, next)) in state.successors(scenario, rules).into_iter().enumerate() {
            let broken = next.fault.is_some();
            if broken || seen.insert(digest(&next)) {
                origins.push(Origin { parent: at, choice });
                frontier.push_back(next);
            }
            if broken {
                return Outcome::Broken(trace(scenario, rules, &origins));
            }
        }
        assert!(origins.len() < STATES_MAX, "the scenario {:?} is too large", scenario.name);
        at += 1;
    }
    Outcome::Holds(origins.len())
}

/// 128 bits identify a state. Among 10⁷ states, a collision has a probability of 10⁻²⁵.
fn digest(world: &World) -> u128 {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        world.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Repeats the path to the last state and records its steps.
fn trace(scenario: &Scenario, rules: Rules, origins: &[Origin]) -> String {
    let mut choices = Vec::new();
    let mut at = origins.len() - 1;
    while at != 0 {
        choices.push(origins[at].choice);
        at = origins[at].parent;
    }
    let mut world = World::new(scenario, rules);
    let mut text = format!("scenario: {}\n", scenario.name);
    for (which, program) in scenario.programs.iter().enumerate() {
        let _ = writeln!(text, "client {which} runs {program:?}");
    }
    for choice in choices.into_iter().rev() {
        let (step, next) = world.successors(scenario, rules).swap_remove(choice);
        world = next;
        let _ = writeln!(text, "  {step}");
        if let Some(region) = &world.region {
            let slots = &region.slots[..usize::from(scenario.keys)];
            let _ = write!(text, "      slots {slots:?}, synced {:?}", region.synced);
            let _ = writeln!(text, ", flush {:?}, delay {:?}", region.flush, region.delay);
        }
    }
    let fault = world.fault.unwrap_or_default();
    let _ = writeln!(text, "  fault: {fault}");
    text
}
