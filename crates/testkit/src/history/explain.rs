//! Violations, with the events that contradict each other.

use std::fmt;

use super::record::{Did, Event, History, Resting, Shown};
use super::versions::Versions;

/// A promise that a history breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promise {
    /// An answer shows only values that a client has written to this key.
    Written,
    /// A write is executed at most once.
    Once,
    /// At rest a copy is current.
    AtRest,
    /// Reads at a place never go back.
    NeverBack,
    /// Staleness is bounded.
    Bounded,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Written => "an answer shows a value that no client has written to this key",
            Self::Once => "a write was executed twice: its value has two cas tokens",
            Self::AtRest => "promise 1 is broken: at rest, a copy is not current",
            Self::NeverBack => {
                "promise 2 is broken: a read returned something older than its place had answered"
            }
            Self::Bounded => {
                "promise 3 is broken: a read returned something that was stale for too long"
            }
        })
    }
}

/// A contradiction between a history and the promises.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The broken promise.
    pub promise: Promise,
    /// The name of the place.
    pub place: String,
    /// The name of the key.
    pub key: String,
    /// The events that contradict each other, in the order of an argument.
    pub argument: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { promise, place, key, argument } = self;
        writeln!(f, "{promise}")?;
        writeln!(f, "  key {key}, {place}")?;
        argument.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Explains the contradictions of one key.
pub(super) struct Teller<'a> {
    pub(super) history: &'a History,
    pub(super) key: usize,
    pub(super) events: &'a [Event],
}

fn item(shown: Option<Shown>) -> String {
    match shown {
        None => "no item".to_owned(),
        Some(Shown { version, cas: None }) => version.to_string(),
        Some(Shown { version, cas: Some(cas) }) => format!("{version} (token {cas})"),
    }
}

fn millis(time: u64) -> String {
    format!("{}.{:06}", time / 1_000_000, time % 1_000_000)
}

impl Teller<'_> {
    fn violation(&self, promise: Promise, place: usize, argument: Vec<String>) -> Violation {
        let place = self.history.places[place].name.clone();
        Violation { promise, place, key: self.history.keys[self.key].clone(), argument }
    }

    fn event(&self, at: usize) -> String {
        let Event { client, place, name, begun, answered, did, .. } = self.events[at];
        let place = &self.history.places[place].name;
        let did = match did {
            Did::Read(shown) => format!("answered {}", item(shown)),
            Did::Wrote(shown) => format!("stored {}", item(Some(shown))),
            Did::MayHaveWritten(version) => format!("has no answer, may have stored {version}"),
            Did::MayHaveCounted => "has no answer, may have incremented".to_owned(),
            Did::Removed => "removed the item".to_owned(),
            Did::MayHaveRemoved => "has no answer, may have removed the item".to_owned(),
        };
        let times = format!("{} to {} ms", millis(begun), millis(answered));
        format!("{times}: client {client} at {place}: {name} {did}")
    }

    pub(super) fn unwritten(&self, at: usize) -> Violation {
        self.violation(Promise::Written, self.events[at].place, vec![self.event(at)])
    }

    pub(super) fn two_tokens(&self, first: usize, second: usize) -> Violation {
        let argument = vec![self.event(first), self.event(second)];
        self.violation(Promise::Once, self.events[second].place, argument)
    }

    pub(super) fn not_current(&self, resting: &Resting) -> Violation {
        let argument = vec![
            format!("the origin has {}", item(resting.origin)),
            format!("the answer is {}", item(resting.there)),
        ];
        self.violation(Promise::AtRest, resting.place, argument)
    }

    /// Explains a read that found nothing though nothing removed the item.
    pub(super) fn absent(&self, promise: Promise, read: usize, floor: usize) -> Violation {
        let is_removal = |event: &Event| matches!(event.did, Did::Removed | Did::MayHaveRemoved);
        let until = self.events.partition_point(|of| of.begun < self.events[read].answered);
        let last = (0..until).rev().find(|at| is_removal(&self.events[*at]));
        let mut argument = vec![
            format!("earlier  {}", self.event(floor)),
            format!("the read {}", self.event(read)),
            "no command can have removed the item since then and before the answer".to_owned(),
        ];
        argument.extend(last.map(|at| format!("the last removal is {}", self.event(at))));
        self.violation(promise, self.events[read].place, argument)
    }

    /// Explains a read of a version that is older than another.
    pub(super) fn older(
        &self,
        promise: Promise,
        read: usize,
        floor: usize,
        versions: &Versions,
    ) -> Violation {
        let life_at = |at: usize| match self.events[at].did {
            Did::Read(Some(shown)) | Did::Wrote(shown) => {
                versions.find(shown.version).map(|life| &versions.lives[life])
            }
            _ => None,
        };
        let mut argument = vec![
            format!("earlier  {}", self.event(floor)),
            format!("the read {}", self.event(read)),
        ];
        let (old, new) = (life_at(read), life_at(floor));
        for (name, life) in [("the older", old), ("the newer", new)] {
            let Some(life) = life else { continue };
            for (how, at) in [("written", life.written), ("first shown", life.shown)] {
                argument.extend(at.map(|at| format!("{name} was {how} {}", self.event(at))));
            }
        }
        let tokens = old.zip(new).filter(|(old, new)| old.until >= new.from);
        argument.push(match tokens {
            Some((old, new)) if old.version.write == new.version.write => {
                "a lower count is older".to_owned()
            }
            Some((old, new)) => format!(
                "token {} is older than {}: nothing can have removed the item between them",
                old.cas.unwrap_or_default(),
                new.cas.unwrap_or_default()
            ),
            None => format!(
                "the older item was stored before {} ms, and the other change happened after that",
                millis(old.map_or(0, |old| old.until))
            ),
        });
        self.violation(promise, self.events[read].place, argument)
    }
}
