//! The origin: its items, the table of interest, subscriptions, and the commands that it executes.

use super::rules::{Rule, Rules};
use super::scenario::Scenario;
use super::world::{Step, Successors, World};

/// The processes that serve the origin's items.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    /// Process 0 serves.
    First,
    /// Both processes serve.
    Both,
    /// Process 1 serves.
    Second,
}

impl Phase {
    pub(crate) fn processes(self) -> &'static [u8] {
        match self {
            Self::First => &[0],
            Self::Both => &[0, 1],
            Self::Second => &[1],
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Message {
    /// Something in this bucket changed.
    Bucket(u8),
    /// This key changed: a message that the protocol does not have.
    Key(u8),
    /// Everything may have changed.
    Everything,
    /// The answer to the `alive` that was sent at this time.
    Alive(u8),
}

/// A subscription, as both ends of its stream see it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Subscription {
    pub(crate) near: u8,
    pub(crate) token: u8,
    pub(crate) process: u8,
    pub(crate) slot: u8,
    /// Messages that the origin has not sent.
    ring: Vec<Message>,
    /// Messages that the near cache has not received.
    stream: Vec<Message>,
    /// The `alive` that the origin has not read: when it was sent.
    alive: Option<u8>,
    /// When the last `alive` was sent, or the request for the subscription.
    pub(crate) sent: u8,
    /// True until the origin ends it.
    pub(crate) at_origin: bool,
    /// True once the near cache has the token.
    pub(crate) begun: bool,
    /// True until the near cache has noticed its end.
    pub(crate) at_near: bool,
    /// True once the network has lost the connection.
    pub(crate) cut: bool,
}

impl Subscription {
    /// True if both ends have it, and no message is under way to the near cache.
    pub(crate) fn is_quiet(&self) -> bool {
        self.connected() && self.begun && self.ring.is_empty() && self.stream.is_empty()
    }

    /// True unless the origin or the network has ended it.
    pub(crate) fn connected_to_origin(&self) -> bool {
        self.at_origin && !self.cut
    }

    fn connected(&self) -> bool {
        self.at_origin && self.at_near && !self.cut
    }

    fn tell(&mut self, message: Message, scenario: &Scenario, rules: Rules) {
        if !self.connected() || self.ring == [Message::Everything] {
            return;
        }
        if self.ring.len() < scenario.ring {
            self.ring.push(message);
        } else if rules.keep(Rule::FullRingFlushes) {
            self.ring = vec![Message::Everything];
        }
    }

    /// Takes the next message that has arrived. Without an `alive` to wait for,
    /// they need no step to arrive.
    pub(crate) fn receive(&mut self, scenario: &Scenario) -> Option<Message> {
        if scenario.budget.alives == 0 && self.connected() {
            self.stream.append(&mut self.ring);
        }
        (!self.stream.is_empty()).then(|| self.stream.remove(0))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Stage {
    Queued,
    /// One of two steps is done: the change, or the look at the interest.
    Half,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Kind {
    Change,
    /// A step of the walk of a removal by prefix.
    Walk,
    Flush,
}

/// A command that changes one key, or flushes all of them.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Command {
    pub(crate) key: u8,
    pub(crate) process: u8,
    /// The near cache that it passes through.
    pub(crate) near: Option<u8>,
    /// The client that waits for the answer.
    pub(crate) client: Option<u8>,
    pub(crate) kind: Kind,
    pub(crate) stage: Stage,
    /// The versions that it gave the keys.
    pub(crate) versions: [u8; 2],
}

impl Command {
    pub(crate) fn new(kind: Kind, key: u8, process: u8) -> Self {
        let (stage, versions) = (Stage::Queued, [0; 2]);
        Self { key, process, near: None, client: None, kind, stage, versions }
    }

    /// Returns the keys that it changes, and the versions that it gave them.
    pub(crate) fn changes(&self, scenario: &Scenario) -> Vec<(u8, u8)> {
        let keys = if self.kind == Kind::Flush { 0..scenario.keys } else { self.key..self.key + 1 };
        keys.map(|key| (key, self.versions[usize::from(key)])).collect()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Origin {
    pub(crate) phase: Phase,
    /// The version of each item.
    pub(crate) items: [u8; 2],
    /// For each process and bucket, a bit for each slot.
    interest: [[u8; 2]; 2],
    pub(crate) subscriptions: Vec<Subscription>,
    pub(crate) commands: Vec<Command>,
    tokens: u8,
}

impl Origin {
    /// An origin to which all near caches have subscribed.
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let mut origin = Self {
            phase: Phase::First,
            items: [0; 2],
            interest: [[0; 2]; 2],
            subscriptions: Vec::new(),
            commands: Vec::new(),
            tokens: 0,
        };
        for near in 0..scenario.nears {
            origin.subscribe(near, 0, scenario, Rules::ALL);
            origin.subscriptions[usize::from(near)].begun = true;
        }
        origin
    }

    /// Begins a subscription.
    pub(crate) fn subscribe(&mut self, near: u8, now: u8, scenario: &Scenario, rules: Rules) {
        self.subscriptions.retain(|each| each.at_origin || each.at_near);
        let taken =
            |slot: &u8| self.subscriptions.iter().any(|each| each.at_origin && each.slot == *slot);
        let free = (0..scenario.slots).find(|slot| !taken(slot));
        let slot = free.unwrap_or(self.tokens % scenario.slots);
        let token = if rules.keep(Rule::TokensAreNew) { self.tokens } else { slot };
        self.tokens += 1;
        self.subscriptions.push(Subscription {
            near,
            token,
            process: self.phase.processes()[self.phase.processes().len() - 1],
            slot,
            ring: Vec::new(),
            stream: Vec::new(),
            alive: None,
            sent: now,
            begun: false,
            at_origin: true,
            at_near: true,
            cut: false,
        });
    }

    pub(crate) fn of_near(&mut self, near: u8) -> Option<&mut Subscription> {
        self.subscriptions.iter_mut().find(|each| each.at_near && each.near == near)
    }

    /// The first thing that a fetch does: notes its interest. True if the subscription was known.
    pub(crate) fn note(&mut self, token: u8, process: u8, bucket: u8) -> bool {
        let mut known = self.subscriptions.iter();
        let known =
            known.find(|each| each.at_origin && each.token == token && each.process == process);
        if let Some(subscription) = known {
            self.interest[usize::from(process)][usize::from(bucket)] |= 1 << subscription.slot;
        }
        known.is_some()
    }

    /// Forgets the interest in a bucket, and tells those who had it.
    fn tell(&mut self, command: &Command, message: Message, scenario: &Scenario, rules: Rules) {
        let word = &mut self.interest[usize::from(command.process)]
            [usize::from(scenario.bucket(command.key))];
        let word = std::mem::take(word);
        for each in &mut self.subscriptions {
            let own = command.near == Some(each.near);
            if each.process == command.process
                && word & 1 << each.slot != 0
                && (!own || rules.keep(Rule::OwnWritesAreTold))
            {
                each.tell(message, scenario, rules);
                if !rules.keep(Rule::SlotTellsAll) {
                    break;
                }
            }
        }
    }
}

/// Begins a removal by prefix. Its walk removes the items later.
pub(crate) fn remove_prefix(world: &mut World, process: u8, scenario: &Scenario, rules: Rules) {
    for key in 0..scenario.keys {
        let command = Command::new(Kind::Walk, key, process);
        if !rules.keep(Rule::RemovalTellsEach) {
            let message = Message::Bucket(scenario.bucket(key));
            world.origin.tell(&command, message, scenario, rules);
        }
        world.origin.commands.push(command);
    }
}

fn publish(world: &mut World, which: usize, scenario: &Scenario) {
    let command = &mut world.origin.commands[which];
    for (key, _) in command.changes(scenario) {
        let item = &mut world.origin.items[usize::from(key)];
        *item += 1;
        command.versions[usize::from(key)] = *item;
    }
}

fn tell(world: &mut World, which: usize, scenario: &Scenario, rules: Rules) {
    let command = world.origin.commands[which].clone();
    if command.kind == Kind::Walk && !rules.keep(Rule::RemovalTellsEach) {
        return;
    }
    if command.kind == Kind::Flush {
        let subscriptions = world.origin.subscriptions.iter_mut();
        for each in subscriptions.filter(|each| each.process == command.process) {
            if rules.keep(Rule::FlushTellsAll) {
                each.tell(Message::Everything, scenario, rules);
            }
        }
        return;
    }
    let message = if rules.keep(Rule::InvalidateBucket) {
        Message::Bucket(scenario.bucket(command.key))
    } else {
        Message::Key(command.key)
    };
    world.origin.tell(&command, message, scenario, rules);
}

/// Adds the steps of commands.
fn commands(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    for (which, command) in world.origin.commands.iter().enumerate() {
        let first = match command.stage {
            Stage::Queued => true,
            Stage::Half => false,
            Stage::Done => continue,
        };
        let mut then = world.clone();
        let publishes = first == rules.keep(Rule::PublishBeforeLook);
        if publishes {
            publish(&mut then, which, scenario);
        } else {
            tell(&mut then, which, scenario, rules);
        }
        if first {
            then.origin.commands[which].stage = Stage::Half;
        } else {
            finish(&mut then, which, scenario);
        }
        let what = if publishes { "publishes a change" } else { "looks at the interest" };
        next.push((Step::of("origin", command.key, what), then));
    }
}

/// Sends the answer of a command, if someone waits for it.
fn finish(world: &mut World, which: usize, scenario: &Scenario) {
    let command = world.origin.commands[which].clone();
    if command.client.is_some() && command.near.is_some() {
        // The answer is under way to the near cache.
        world.origin.commands[which].stage = Stage::Done;
        return;
    }
    if command.client.is_some() || command.kind == Kind::Walk {
        for (key, version) in command.changes(scenario) {
            world.spec.acknowledge(key, version, world.now);
        }
    }
    if let Some(client) = command.client {
        world.clients[usize::from(client)].advance();
    }
    world.origin.commands.remove(which);
}

/// Adds the steps of subscriptions.
fn streams(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    for (which, each) in world.origin.subscriptions.iter().enumerate() {
        let mut add = |what, change: &dyn Fn(&mut Subscription)| {
            let mut then = world.clone();
            change(&mut then.origin.subscriptions[which]);
            next.push((Step::of("stream", each.token, what), then));
        };
        if each.at_origin && (each.cut || !each.at_near) {
            add("the origin ends the subscription", &|each| {
                each.at_origin = false;
                each.ring.clear();
                each.alive = None;
            });
        }
        if !each.connected() || scenario.budget.alives == 0 {
            continue;
        }
        if !each.ring.is_empty() {
            add("the origin sends what the ring contains", &|each| {
                each.stream.append(&mut each.ring);
            });
        }
        if let Some(sent) = each.alive {
            add("the origin answers `alive`", &|each| {
                if rules.keep(Rule::SignalAfterRings) {
                    each.stream.append(&mut each.ring);
                }
                each.stream.push(Message::Alive(sent));
                each.alive = None;
            });
        }
        if each.begun && each.alive.is_none() && each.sent < world.now && world.budget.alives > 0 {
            let mut then = world.clone();
            then.budget.alives -= 1;
            let subscription = &mut then.origin.subscriptions[which];
            subscription.alive = Some(world.now);
            subscription.sent = world.now;
            next.push((Step::of("stream", each.token, "the near cache sends `alive`"), then));
        }
    }
}

/// Adds the steps of an upgrade.
fn upgrade(world: &World, rules: Rules, next: &mut Successors) {
    let origin = &world.origin;
    if origin.phase == Phase::First && world.budget.upgrades > 0 {
        let mut then = world.clone();
        then.budget.upgrades -= 1;
        then.origin.phase = Phase::Both;
        if rules.keep(Rule::OneProcessTells) {
            then.origin.end_all();
        }
        next.push((Step::of("origin", 1, "the successor serves"), then));
    }
    let busy = origin.commands.iter().any(|each| each.process == 0)
        || world.nears.iter().flat_map(|near| &near.flights).any(|each| each.is_at_origin(0));
    if origin.phase == Phase::Both && !busy {
        let mut then = world.clone();
        then.origin.phase = Phase::Second;
        then.origin.end_all();
        next.push((Step::of("origin", 0, "the predecessor ends"), then));
    }
}

impl Origin {
    /// Ends the subscriptions of process 0.
    fn end_all(&mut self) {
        for each in self.subscriptions.iter_mut().filter(|each| each.process == 0) {
            each.at_origin = false;
            each.ring.clear();
            each.alive = None;
        }
    }
}

pub(crate) fn successors(world: &World, scenario: &Scenario, rules: Rules, next: &mut Successors) {
    commands(world, scenario, rules, next);
    streams(world, scenario, rules, next);
    upgrade(world, rules, next);
}
