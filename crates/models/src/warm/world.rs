//! The state of a search, and its steps.
//!
//! Both keys are in one bucket. Every change has a version, which increases over the source and the
//! target.

use std::collections::VecDeque;

use super::rules::{Rule, Rules};
use super::scenario::{Change, Scenario};

pub(crate) const KEYS: usize = 2;

/// A message of the source's change stream.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Message {
    Changed,
    Heard,
}

/// A request on the tool's connection to the target.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Request {
    Store { key: usize, version: u8 },
    Drop { key: usize },
    End,
}

/// A fetch of a key.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
enum Fetch {
    #[default]
    Idle,
    /// Sent when the tool had received this number of change messages.
    Sent { messages: u8 },
    /// The response is in transit.
    Answered { messages: u8, item: Option<u8> },
}

/// The phase of the copy, as the target sees it.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
enum Session {
    #[default]
    Open,
    /// The target removes the copied items, beginning with this key.
    Undoing {
        next: usize,
    },
    Undone,
    Ended,
}

/// An item of the target.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
struct Item {
    version: u8,
    is_copied: bool,
}

/// The position of a client in its current change.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
enum Stage {
    #[default]
    Begin,
    Recorded,
    Made {
        version: u8,
    },
}

/// A client: the number of finished changes, and the stage of the current one.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Client {
    done: usize,
    stage: Stage,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct World {
    version: u8,
    // The source.
    source: [Option<u8>; KEYS],
    acked_at_source: [u8; KEYS],
    has_interest: bool,
    stream: VecDeque<Message>,
    // The tool.
    fetches: [Fetch; KEYS],
    fetched: [u8; KEYS],
    copied: [bool; KEYS],
    messages: u8,
    is_ending: bool,
    is_dead: bool,
    requests: VecDeque<Request>,
    /// Drops, without [`Rule::OneConnection`].
    drops: VecDeque<Request>,
    // The target.
    target: [Option<Item>; KEYS],
    acked_at_target: [u8; KEYS],
    session: Session,
    changed: [bool; KEYS],
    stored: [bool; KEYS],
    /// A store that is checked but not made, without [`Rule::CheckAndStoreTogether`].
    checked: Option<(usize, u8)>,
    // Clients of the old and of the new list of servers.
    old: Client,
    new: Client,
}

type Steps = Vec<(String, World)>;

impl World {
    pub(crate) fn start() -> Self {
        Self { version: 1, source: [Some(1); KEYS], acked_at_source: [1; KEYS], ..Self::default() }
    }

    pub(crate) fn successors(&self, scenario: &Scenario, rules: Rules) -> Steps {
        let mut steps = Steps::new();
        self.steps_of_old_client(scenario, &mut steps);
        self.steps_of_new_client(scenario, rules, &mut steps);
        if !self.is_dead {
            self.steps_of_tool(scenario, rules, &mut steps);
        }
        self.steps_of_target(rules, &mut steps);
        steps
    }

    /// Adds a step that `change` makes.
    fn step(&self, steps: &mut Steps, name: String, change: impl FnOnce(&mut Self)) {
        let mut next = self.clone();
        change(&mut next);
        steps.push((name, next));
    }

    /// A client of the old list changes an item of the source. The change and its report are one
    /// step: the model of the near cache covers their order.
    fn steps_of_old_client(&self, scenario: &Scenario, steps: &mut Steps) {
        let Some(change) = scenario.old.get(self.old.done) else { return };
        let Stage::Made { version } = self.old.stage else {
            return self.step(steps, format!("old client: {change:?} at the source"), |world| {
                world.version += 1;
                let version = world.version;
                if let (Change::Set(key), item) = (change, Some(version)) {
                    world.source[*key] = item;
                } else if let Change::Delete(key) = change {
                    world.source[*key] = None;
                }
                if std::mem::take(&mut world.has_interest) {
                    world.stream.push_back(Message::Changed);
                }
                world.old.stage = Stage::Made { version };
            });
        };
        self.step(steps, format!("old client: {change:?} is acknowledged"), |world| {
            if let Change::Set(key) | Change::Delete(key) = change {
                world.acked_at_source[*key] = version;
            }
            world.old = Client { done: world.old.done + 1, stage: Stage::Begin };
        });
    }

    fn steps_of_new_client(&self, scenario: &Scenario, rules: Rules, steps: &mut Steps) {
        let Some(&change) = scenario.new.get(self.new.done) else { return };
        let is_flush = change == Change::Flush;
        let records = !is_flush || rules.keep(Rule::FlushEnds);
        let is_early = is_flush || rules.keep(Rule::RecordBeforeChange);
        match self.new.stage {
            Stage::Begin if records && is_early => {
                self.step(steps, format!("new client: {change:?} is recorded"), |world| {
                    world.record(change);
                    world.new.stage = Stage::Recorded;
                });
            }
            Stage::Begin | Stage::Recorded => {
                self.step(steps, format!("new client: {change:?} at the target"), |world| {
                    world.version += 1;
                    let version = world.version;
                    world.make(change, version);
                    world.new.stage = Stage::Made { version };
                });
            }
            Stage::Made { version } => {
                self.step(steps, format!("new client: {change:?} is acknowledged"), |world| {
                    if !is_early {
                        world.record(change);
                    }
                    for key in change.keys() {
                        world.acked_at_target[key] = version;
                    }
                    world.new = Client { done: world.new.done + 1, stage: Stage::Begin };
                });
            }
        }
    }

    fn record(&mut self, change: Change) {
        match change {
            Change::Set(key) | Change::Delete(key) => self.changed[key] = true,
            Change::Flush if self.session == Session::Open => {
                self.session = Session::Undoing { next: 0 };
            }
            Change::Flush => {}
        }
    }

    fn make(&mut self, change: Change, version: u8) {
        match change {
            Change::Set(key) => self.target[key] = Some(Item { version, is_copied: false }),
            Change::Delete(key) => self.target[key] = None,
            Change::Flush => self.target = [None; KEYS],
        }
    }

    fn steps_of_tool(&self, scenario: &Scenario, rules: Rules, steps: &mut Steps) {
        for key in 0..KEYS {
            self.steps_of_fetch(key, scenario, rules, steps);
        }
        if let Some(&message) = self.stream.front() {
            self.step(steps, format!("tool: reads {message:?}"), |world| {
                world.stream.pop_front();
                match message {
                    Message::Changed => world.drop_copied(rules),
                    Message::Heard => world.requests.push_back(Request::End),
                }
            });
        }
        // The operator ends the copy once all clients use the new list.
        let is_idle = self.fetches == [Fetch::Idle; KEYS];
        if !self.is_ending && is_idle && self.old.done == scenario.old.len() {
            self.step(steps, "tool: begins to end the copy".to_owned(), |world| {
                world.is_ending = true;
                match rules.keep(Rule::HeardBeforeEnd) {
                    true => world.stream.push_back(Message::Heard),
                    false => world.requests.push_back(Request::End),
                }
            });
        }
        if scenario.dies {
            self.step(steps, "tool: dies".to_owned(), |world| world.is_dead = true);
        }
    }

    fn steps_of_fetch(&self, key: usize, scenario: &Scenario, rules: Rules, steps: &mut Steps) {
        match self.fetches[key] {
            Fetch::Idle if self.is_ending || self.fetched[key] == scenario.fetches_max => {}
            Fetch::Idle => self.step(steps, format!("tool: fetches {key}"), |world| {
                world.fetched[key] += 1;
                world.fetches[key] = Fetch::Sent { messages: world.messages };
            }),
            Fetch::Sent { messages } => {
                self.step(steps, format!("source: answers the fetch of {key}"), |world| {
                    world.has_interest = true;
                    world.fetches[key] = Fetch::Answered { messages, item: world.source[key] };
                });
            }
            Fetch::Answered { messages, item } => {
                self.step(steps, format!("tool: reads the answer for {key}"), |world| {
                    world.fetches[key] = Fetch::Idle;
                    let is_overlapped = messages != world.messages;
                    if let Some(version) = item
                        && !(is_overlapped && rules.keep(Rule::SkipOverlapped))
                    {
                        world.copied[key] = true;
                        world.requests.push_back(Request::Store { key, version });
                    }
                });
            }
        }
    }

    fn drop_copied(&mut self, rules: Rules) {
        self.messages += 1;
        for key in 0..KEYS {
            if std::mem::take(&mut self.copied[key]) {
                match rules.keep(Rule::OneConnection) {
                    true => self.requests.push_back(Request::Drop { key }),
                    false => self.drops.push_back(Request::Drop { key }),
                }
                if !rules.keep(Rule::DropBucket) {
                    return;
                }
            }
        }
    }

    fn steps_of_target(&self, rules: Rules, steps: &mut Steps) {
        if let Some((key, version)) = self.checked {
            return self.step(steps, format!("target: stores {key}"), |world| {
                world.checked = None;
                world.store(key, version);
            });
        }
        if let Session::Undoing { next } = self.session {
            self.step(steps, format!("target: undoes {next}"), |world| world.undo(next));
        }
        let is_open = self.session == Session::Open;
        if let Some(&request) = self.drops.front() {
            self.step(steps, format!("target: executes {request:?}"), |world| {
                world.drops.pop_front();
                world.execute(request, rules);
            });
        }
        match self.requests.front() {
            Some(&request) => self.step(steps, format!("target: executes {request:?}"), |world| {
                world.requests.pop_front();
                world.execute(request, rules);
            }),
            None if self.is_dead && is_open => {
                self.step(steps, "target: notices the loss".to_owned(), |world| {
                    world.session = match rules.keep(Rule::LossUndoes) {
                        true => Session::Undoing { next: 0 },
                        false => Session::Undone,
                    };
                });
            }
            None => {}
        }
    }

    fn execute(&mut self, request: Request, rules: Rules) {
        if self.session != Session::Open {
            return;
        }
        match request {
            Request::Store { key, .. } if self.changed[key] || self.target[key].is_some() => {}
            Request::Store { key, version } if rules.keep(Rule::CheckAndStoreTogether) => {
                self.store(key, version);
            }
            Request::Store { key, version } => self.checked = Some((key, version)),
            Request::Drop { key } => {
                self.target[key] = None;
                self.stored[key] = false;
            }
            Request::End => self.session = Session::Ended,
        }
    }

    fn store(&mut self, key: usize, version: u8) {
        if self.target[key].is_none() {
            self.target[key] = Some(Item { version, is_copied: true });
            self.stored[key] = true;
        }
    }

    /// Removes the item of a key if the copy has stored one, even if a client has recorded a change
    /// since: that change may not be made yet, or change nothing.
    fn undo(&mut self, key: usize) {
        if self.stored[key] {
            self.target[key] = None;
        }
        self.session = match key + 1 < KEYS {
            true => Session::Undoing { next: key + 1 },
            false => Session::Undone,
        };
    }

    /// Returns the promise that the state breaks.
    pub(crate) fn fault(&self) -> Option<String> {
        let is_over = matches!(self.session, Session::Ended | Session::Undone);
        for (key, item) in self.target.iter().enumerate() {
            let Some(Item { version, is_copied: true }) = item else { continue };
            if *version < self.acked_at_target[key] {
                return Some(format!("{key} is older than an acknowledged change at the target"));
            }
            if is_over && *version < self.acked_at_source[key] {
                return Some(format!("{key} is older than an acknowledged change at the source"));
            }
        }
        None
    }
}
