//! The scenarios of the model.

use super::rules::Rule;
use super::world::KEYS;

/// A change that a client makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Set(usize),
    Delete(usize),
    Flush,
}

impl Change {
    /// Returns the keys that the change concerns.
    pub(crate) fn keys(self) -> std::ops::Range<usize> {
        match self {
            Self::Set(key) | Self::Delete(key) => key..key + 1,
            Self::Flush => 0..KEYS,
        }
    }
}

/// A scenario: the changes of two clients, and the limits of the tool.
#[derive(Debug)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The changes of a client with the old list of servers, at the source.
    pub(crate) old: &'static [Change],
    /// The changes of a client with the new list, at the target.
    pub(crate) new: &'static [Change],
    /// How often the tool fetches each key.
    pub(crate) fetches_max: u8,
    /// True if the tool may die at any moment.
    pub(crate) dies: bool,
    /// The rules without which a promise breaks here.
    pub(crate) breaks_without: &'static [Rule],
}

use Change::{Delete, Flush, Set};

pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "changes at the source",
        old: &[Set(0), Delete(1), Set(1)],
        new: &[],
        fetches_max: 2,
        dies: false,
        breaks_without: &[
            Rule::DropBucket,
            Rule::SkipOverlapped,
            Rule::OneConnection,
            Rule::HeardBeforeEnd,
        ],
    },
    Scenario {
        name: "changes at the target",
        old: &[],
        new: &[Delete(0), Set(1), Delete(1)],
        fetches_max: 2,
        dies: false,
        breaks_without: &[Rule::RecordBeforeChange, Rule::CheckAndStoreTogether],
    },
    Scenario {
        name: "changes at both",
        old: &[Set(0), Set(1)],
        new: &[Delete(0), Set(1)],
        fetches_max: 2,
        dies: false,
        breaks_without: &[Rule::DropBucket, Rule::HeardBeforeEnd],
    },
    Scenario {
        name: "the tool dies",
        old: &[Set(0), Set(1)],
        new: &[Set(0)],
        fetches_max: 1,
        dies: true,
        breaks_without: &[Rule::LossUndoes],
    },
    Scenario {
        name: "a flush at the target",
        old: &[Set(0)],
        new: &[Flush, Set(1)],
        fetches_max: 2,
        dies: false,
        breaks_without: &[Rule::FlushEnds],
    },
];
