//! Breadth-first search. The first fault that it finds has a shortest trace.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

use super::rules::Rules;
use super::scenario::Scenario;
use super::world::World;

/// The maximum number of states of a scenario.
const STATES_MAX: usize = 4_000_000;

/// The result of a search.
pub(crate) enum Outcome {
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
/// If a scenario has more than [`STATES_MAX`] states.
pub(crate) fn search(scenario: &Scenario, rules: Rules) -> Outcome {
    let mut frontier = VecDeque::from([World::new(scenario)]);
    let mut reached = vec![Reached { parent: 0, choice: 0 }];
    let mut seen = HashSet::from([digest(&frontier[0])]);
    let mut at = 0;
    while let Some(state) = frontier.pop_front() {
        let successors = state.successors(scenario, rules);
        if successors.is_empty() && !state.has_ended(scenario) {
            reached.truncate(at + 1);
            return Outcome::Broken(trace(scenario, rules, &reached));
        }
        for (choice, (_, next)) in successors.into_iter().enumerate() {
            let broken = next.fault.is_some();
            if broken || seen.insert(digest(&next)) {
                reached.push(Reached { parent: at, choice });
                frontier.push_back(next);
            }
            if broken {
                return Outcome::Broken(trace(scenario, rules, &reached));
            }
        }
        assert!(reached.len() < STATES_MAX, "the scenario {:?} is too large", scenario.name);
        at += 1;
    }
    Outcome::Holds(reached.len())
}

/// Two sums of 64 bits over the bytes of a state, made in one pass.
#[derive(Default)]
struct Digest {
    sums: [u64; 2],
}

impl Digest {
    /// The lanes multiply by different odd constants, so they do not collide together.
    const FACTORS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93];

    fn add(&mut self, word: u64) {
        for (sum, factor) in self.sums.iter_mut().zip(Self::FACTORS) {
            let product = u128::from(*sum ^ word ^ factor) * u128::from(factor);
            *sum = (product as u64).rotate_left(23) ^ (product >> 64) as u64;
        }
    }
}

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.add(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.add(u64::from(byte));
    }

    fn finish(&self) -> u64 {
        self.sums[0] ^ self.sums[1]
    }
}

/// 128 bits identify a state. Among 10⁷ states, a collision has a probability of 10⁻²⁵.
fn digest(world: &World) -> u128 {
    let mut digest = Digest::default();
    world.hash(&mut digest);
    let [low, high] = digest.sums;
    u128::from(high) << 64 | u128::from(low)
}

/// Repeats the path to the last state and records its steps.
fn trace(scenario: &Scenario, rules: Rules, reached: &[Reached]) -> String {
    let mut choices = Vec::new();
    let mut at = reached.len() - 1;
    while at != 0 {
        choices.push(reached[at].choice);
        at = reached[at].parent;
    }
    let mut world = World::new(scenario);
    let mut text = format!("scenario: {}\n", scenario.name);
    for (which, program) in scenario.programs.iter().enumerate() {
        let _ = writeln!(text, "client {which} runs {program:?}");
    }
    for choice in choices.into_iter().rev() {
        let (step, next) = world.successors(scenario, rules).swap_remove(choice);
        world = next;
        let _ = writeln!(text, "  {step}");
        let keys = usize::from(scenario.keys);
        let _ = write!(text, "      now {}, items {:?}", world.now, &world.origin.items[..keys]);
        for near in &world.nears {
            let copies = &near.copies[..keys];
            let _ = write!(text, ", copies {copies:?} until {:?}", near.fresh_until);
        }
        text.push('\n');
    }
    let fault = world.fault.unwrap_or("someone waits forever");
    let _ = writeln!(text, "  fault: {fault}");
    text
}
