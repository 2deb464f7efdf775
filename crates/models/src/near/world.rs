//! The complete state of the model, and all steps that are possible next.

use std::fmt;

use super::cache::Near;
use super::client::{At, Client};
use super::origin::Origin;
use super::rules::Rules;
use super::scenario::{Budget, Scenario};
use super::spec::{Floor, Spec};
use super::{cache, client, origin};

/// A step: its actor and its action.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    actor: &'static str,
    number: u8,
    what: &'static str,
}

impl Step {
    pub(crate) fn of(actor: &'static str, number: u8, what: &'static str) -> Self {
        Self { actor, number, what }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.actor, self.number, self.what)
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) now: u8,
    pub(crate) origin: Origin,
    pub(crate) nears: Vec<Near>,
    pub(crate) clients: Vec<Client>,
    pub(crate) budget: Budget,
    pub(crate) spec: Spec,
    pub(crate) fault: Option<&'static str>,
}

/// Returns the steps that are possible next.
pub(crate) type Successors = Vec<(Step, World)>;

impl World {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        Self {
            now: 0,
            origin: Origin::new(scenario),
            nears: (0..scenario.nears).map(Near::new).collect(),
            clients: vec![Client::default(); scenario.programs.len()],
            budget: scenario.budget,
            spec: Spec::default(),
            fault: None,
        }
    }

    pub(crate) fn judge(&mut self, near: u8, key: u8, floor: Floor, version: u8) {
        self.fault = self.fault.or(self.spec.judge(near, key, floor, version));
    }

    /// Judges the copies of near caches that are at rest.
    fn rest(&mut self, scenario: &Scenario) {
        let busy = |client: &Client| !matches!(client.at, At::Ready | At::Copies { .. });
        if !self.origin.commands.is_empty() || self.clients.iter().any(busy) {
            return;
        }
        for which in 0..scenario.nears {
            let near = &self.nears[usize::from(which)];
            let idle = near.is_idle();
            let quiet = self.origin.of_near(which).is_some_and(|each| each.is_quiet());
            let current = near.copies.iter().zip(self.origin.items);
            let current =
                current.into_iter().all(|(copy, item)| copy.is_none_or(|copy| copy == item));
            if idle && quiet && !current {
                self.fault = Some("a copy at rest is not current");
            }
        }
    }

    /// True if no client, flight or command waits for anything.
    pub(crate) fn has_ended(&self, scenario: &Scenario) -> bool {
        let mut clients = self.clients.iter().zip(scenario.programs);
        clients.all(|(client, program)| client.has_ended(program))
            && self.origin.commands.is_empty()
            && self.nears.iter().all(Near::is_idle)
    }

    pub(crate) fn successors(&self, scenario: &Scenario, rules: Rules) -> Successors {
        let mut next = Vec::new();
        client::successors(self, scenario, rules, &mut next);
        cache::successors(self, scenario, rules, &mut next);
        origin::successors(self, scenario, rules, &mut next);
        if self.budget.ticks > 0 {
            let mut then = self.clone();
            then.budget.ticks -= 1;
            then.now += 1;
            next.push((Step::of("clock", then.now, "moves on"), then));
        }
        for (which, each) in self.origin.subscriptions.iter().enumerate() {
            if self.budget.cuts > 0 && each.at_origin && each.at_near && !each.cut {
                let mut then = self.clone();
                then.budget.cuts -= 1;
                then.origin.subscriptions[which].cut = true;
                next.push((Step::of("stream", each.token, "is cut"), then));
            }
        }
        for (_, then) in &mut next {
            then.rest(scenario);
        }
        next
    }
}
