//! Breadth-first search. The first fault that it finds has a shortest trace.

use std::collections::{HashSet, VecDeque};
use std::fmt::{Debug, Display, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A scenario of a model, played with some rules.
pub trait Model {
    /// A state of the search.
    type World: Hash;
    /// The name of a step.
    type Step: Display;

    /// Returns the state that the search begins with.
    fn start(&self) -> Self::World;

    /// Returns the steps that are possible in a state, and the states after them.
    fn successors(&self, world: &Self::World) -> Vec<(Self::Step, Self::World)>;

    /// Returns the promise that a state breaks. `is_last`: no step is possible.
    fn fault(&self, world: &Self::World, is_last: bool) -> Option<String>;

    /// Returns the name of the scenario, and what its clients do, for a trace.
    fn title(&self) -> String;

    /// Returns the parts of a state that a trace shows.
    fn show(&self, world: &Self::World) -> String;
}

/// Returns a [`Model::title`]: the name of a scenario, and the program of each client.
pub fn title(name: &str, programs: &[impl Debug]) -> String {
    let mut title = name.to_owned();
    for (which, program) in programs.iter().enumerate() {
        let _ = write!(title, "\nclient {which} runs {program:?}");
    }
    title
}

/// The maximum number of states of a scenario.
const STATES_MAX: usize = 20_000_000;

/// The result of a search.
pub enum Outcome {
    /// Every state within the budget was visited: their number.
    Holds(usize),
    /// The shortest trace to a broken promise.
    Broken(String),
}

/// How a state was reached: its predecessor, and the index of the step.
struct Reached {
    parent: usize,
    choice: usize,
}

/// Searches all states of a scenario.
///
/// # Panics
///
/// If a scenario has more than 20 million states.
pub fn search(model: &impl Model) -> Outcome {
    let mut frontier = VecDeque::from([model.start()]);
    let mut reached = vec![Reached { parent: 0, choice: 0 }];
    let mut seen = HashSet::from([digest(&frontier[0])]);
    let mut at = 0;
    while let Some(state) = frontier.pop_front() {
        let successors = model.successors(&state);
        if successors.is_empty() && model.fault(&state, true).is_some() {
            reached.truncate(at + 1);
            return Outcome::Broken(trace(model, &reached));
        }
        for (choice, (_, next)) in successors.into_iter().enumerate() {
            let broken = model.fault(&next, false).is_some();
            if broken || seen.insert(digest(&next)) {
                reached.push(Reached { parent: at, choice });
                frontier.push_back(next);
            }
            if broken {
                return Outcome::Broken(trace(model, &reached));
            }
        }
        assert!(reached.len() < STATES_MAX, "the scenario is too large: {}", model.title());
        at += 1;
    }
    Outcome::Holds(reached.len())
}

/// 128 bits identify a state. Among 10⁷ states, a collision has a probability of 10⁻²⁵.
fn digest(world: &impl Hash) -> u128 {
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        seed.hash(&mut hasher);
        world.hash(&mut hasher);
        u128::from(hasher.finish())
    };
    half(0) << 64 | half(1)
}

/// Repeats the path to the last state and records its steps.
fn trace<M: Model>(model: &M, reached: &[Reached]) -> String {
    let mut choices = Vec::new();
    let mut at = reached.len() - 1;
    while at != 0 {
        choices.push(reached[at].choice);
        at = reached[at].parent;
    }
    let mut world = model.start();
    let mut text = format!("scenario: {}\n", model.title());
    for choice in choices.into_iter().rev() {
        let (step, next) = model.successors(&world).swap_remove(choice);
        world = next;
        let _ = writeln!(text, "  {step}\n      {}", model.show(&world));
    }
    let fault = model.fault(&world, true).unwrap_or_default();
    let _ = writeln!(text, "  fault: {fault}");
    text
}
