//! Clients: programs that read and change items, each one command after another.

use super::cache::Scope;
use super::origin::{Command, Stage};
use super::rules::{Rule, Rules};
use super::scenario::{Op, Scenario};
use super::spec::Floor;
use super::world::{Step, Successors, World};
use super::{cache, origin};

/// The keys that a command changed, and their versions.
type Executed = [Option<(u8, u8)>; 2];

/// The state of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) enum At {
    /// Before its next command, or after the last.
    #[default]
    Ready,
    /// It waits for a flight.
    Reads { near: u8, flight: u8 },
    /// It has found a copy, and copies it. It has loaded until when the near cache is fresh.
    Copies { version: u8, until: Option<u8> },
    /// It waits for the origin.
    Waits,
    /// A worker of the near cache invalidates the key before it answers: a change, or an error.
    Invalidates { executed: Option<Executed>, first: bool },
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct Client {
    /// The index of its command.
    op: u8,
    pub(crate) at: At,
    /// The oldest versions that its read may return.
    pub(crate) floor: Floor,
}

impl Client {
    /// True after its last command.
    pub(crate) fn has_ended(&self, program: &[Op]) -> bool {
        usize::from(self.op) == program.len()
    }

    pub(crate) fn advance(&mut self) {
        *self = Self { op: self.op + 1, ..Self::default() };
    }
}

/// Begins a command.
fn begin(world: &World, which: usize, op: Op, scenario: &Scenario, rules: Rules) -> Successors {
    let mut next = Vec::new();
    let number = u8::try_from(which).unwrap_or_default();
    match op {
        Op::Read { near, key } | Op::Look { near, key } => {
            let mut then = world.clone();
            then.clients[which].floor = world.spec.floor(near, key, world.now);
            let cache = &world.nears[usize::from(near)];
            let fresh = cache.is_fresh(world.now);
            let until = cache.fresh_until;
            let version = cache.copies[usize::from(key)];
            let version =
                version.filter(|_| fresh || rules.keep(Rule::ClockAfterCopy) && in_memory(op));
            if let Some(version) = version {
                then.clients[which].at = At::Copies { version, until };
                next.push((Step::of("client", number, "finds a copy"), then.clone()));
            }
            if in_memory(op) {
                // A miss: it asks by the socket, which is another command.
                then.clients[which].advance();
                next.push((Step::of("client", number, "does not look"), then));
            } else if version.is_none() {
                fetch(&then, which, near, key, rules, &mut next);
            }
        }
        Op::Write { .. } | Op::Change { .. } | Op::Flush { .. } => {
            for process in world.origin.phase.processes() {
                let mut then = world.clone();
                then.clients[which].at = At::Waits;
                then.origin.commands.push(Command {
                    near: op.near(),
                    client: Some(number),
                    ..Command::new(op.kind(), op.key(), *process)
                });
                next.push((Step::of("client", number, "sends a change"), then));
            }
        }
        Op::RemovePrefix => {
            for process in world.origin.phase.processes() {
                let mut then = world.clone();
                origin::remove_prefix(&mut then, *process, scenario, rules);
                then.clients[which].advance();
                next.push((Step::of("client", number, "removes a prefix"), then));
            }
        }
    }
    next
}

/// True for a read in a near cache's memory.
fn in_memory(op: Op) -> bool {
    matches!(op, Op::Look { .. })
}

/// Joins or begins a flight, for a read by the socket.
fn fetch(world: &World, which: usize, near: u8, key: u8, rules: Rules, next: &mut Successors) {
    let number = u8::try_from(which).unwrap_or_default();
    let cache = &world.nears[usize::from(near)];
    if let Some(flight) = cache.joinable(key, world.now, rules) {
        let mut then = world.clone();
        then.clients[which].at = At::Reads { near, flight };
        next.push((Step::of("client", number, "joins a flight"), then));
        return;
    }
    for process in world.origin.phase.processes() {
        let mut then = world.clone();
        cache::reach(&mut then, near, *process, rules);
        let flight = then.nears[usize::from(near)].fetch(key, *process, world.now);
        then.clients[which].at = At::Reads { near, flight };
        next.push((Step::of("client", number, "begins a flight"), then));
    }
}

/// Ends a read of a copy: the client has the value, or the read goes to the origin.
fn compare(world: &World, which: usize, op: Op, rules: Rules, next: &mut Successors) {
    let client = &world.clients[which];
    let (At::Copies { version, until }, Some(near)) = (client.at, op.near()) else {
        return;
    };
    let before = rules.keep(Rule::FreshBeforeLook);
    let until = if before { until } else { world.nears[usize::from(near)].fresh_until };
    let fresh = !rules.keep(Rule::ClockAfterCopy) || until >= Some(world.now);
    if !fresh && !in_memory(op) {
        fetch(world, which, near, op.key(), rules, next);
        return;
    }
    let mut then = world.clone();
    if fresh {
        then.judge(near, op.key(), client.floor, version);
    }
    then.clients[which].advance();
    let number = u8::try_from(which).unwrap_or_default();
    let what = if fresh { "has copied a fresh value" } else { "has copied a value in vain" };
    next.push((Step::of("client", number, what), then));
}

/// Answers a command that passes through a near cache, and that was executed or lost.
fn answer(world: &mut World, which: usize, near: u8, command: Option<Executed>) -> &'static str {
    let what = if command.is_some() { "receives the answer" } else { "receives an error" };
    for (key, version) in command.into_iter().flatten().flatten() {
        world.spec.see(near, key, version);
        world.spec.acknowledge(key, version, world.now);
    }
    world.clients[which].advance();
    what
}

/// Adds the steps of a command that passes through a near cache.
fn pass(world: &World, which: usize, op: Op, scenario: &Scenario, rules: Rules) -> Successors {
    let mut next = Vec::new();
    let Some(near) = op.near() else {
        return next;
    };
    let (scope, rule) = match op {
        Op::Flush { .. } => (Scope::Everything, Rule::FlushInvalidates),
        _ => (Scope::Key(op.key()), Rule::AnswerInvalidates),
    };
    let number = u8::try_from(which).unwrap_or_default();
    let mut add = |what, then| next.push((Step::of("client", number, what), then));
    if let At::Invalidates { executed, first } = world.clients[which].at {
        let mut then = world.clone();
        let cache = &mut then.nears[usize::from(near)];
        if cache.invalidate(scope, first, scenario, rules) {
            if first {
                then.clients[which].at = At::Invalidates { executed, first: false };
                add("waits for the invalidation", then);
            } else {
                let what = answer(&mut then, which, near, executed);
                add(what, then);
            }
        }
        return next;
    }
    let mut commands = world.origin.commands.iter();
    let Some(at) = commands.position(|command| command.client == Some(number)) else {
        return next;
    };
    let command = &world.origin.commands[at];
    let done = command.stage == Stage::Done;
    let mut ends = |executed: Option<Executed>, rule, what| {
        let mut then = world.clone();
        if done {
            then.origin.commands.remove(at);
        } else {
            then.origin.commands[at].client = None;
        }
        if executed.is_none() {
            then.budget.losses -= 1;
        }
        if rules.keep(rule) {
            then.clients[which].at = At::Invalidates { executed, first: true };
        } else {
            answer(&mut then, which, near, executed);
        }
        add(what, then);
    };
    if done {
        let mut changes = command.changes(scenario).into_iter();
        let executed = [changes.next(), changes.next()];
        ends(Some(executed), rule, "an answer arrives at the near cache");
    }
    if world.budget.losses > 0 && (done || scenario.late) {
        ends(None, Rule::LossInvalidates, "the connection is lost");
    }
    next
}

pub(crate) fn successors(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    for (which, client) in world.clients.iter().enumerate() {
        let Some(op) = scenario.programs[which].get(usize::from(client.op)) else {
            continue;
        };
        match (client.at, *op) {
            (At::Ready, op) => next.extend(begin(world, which, op, scenario, rules)),
            (At::Copies { .. }, op) => compare(world, which, op, rules, next),
            (At::Waits | At::Invalidates { .. }, op) => {
                next.extend(pass(world, which, op, scenario, rules));
            }
            (At::Reads { .. }, _) => {}
        }
    }
}
