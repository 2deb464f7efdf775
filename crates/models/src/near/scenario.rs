//! The input of a search: the programs of the clients, and a budget of events.

use super::origin::Kind;
use super::rules::Rule;

/// A command of a client. Near caches and keys have numbers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Op {
    /// A read by a near cache's socket.
    Read { near: u8, key: u8 },
    /// A read in a near cache's memory.
    Look { near: u8, key: u8 },
    /// A change that passes through a near cache.
    Write { near: u8, key: u8 },
    /// A change at the origin.
    Change { key: u8 },
    /// A removal of all keys by prefix, at the origin. It answers before its walk begins.
    RemovePrefix,
    /// A flush of all keys, at the origin or through a near cache.
    Flush { near: Option<u8> },
}

impl Op {
    /// Returns the near cache that it passes through.
    pub(crate) fn near(self) -> Option<u8> {
        match self {
            Self::Read { near, .. } | Self::Look { near, .. } | Self::Write { near, .. } => {
                Some(near)
            }
            Self::Flush { near } => near,
            Self::Change { .. } | Self::RemovePrefix => None,
        }
    }

    /// Returns its key, or 0 if it concerns all of them.
    pub(crate) fn key(self) -> u8 {
        match self {
            Self::Read { key, .. }
            | Self::Look { key, .. }
            | Self::Write { key, .. }
            | Self::Change { key } => key,
            Self::RemovePrefix | Self::Flush { .. } => 0,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        if let Self::Flush { .. } = self { Kind::Flush } else { Kind::Change }
    }
}

/// How often each event may happen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Budget {
    /// The clock moves on.
    pub(crate) ticks: u8,
    /// A near cache sends `alive`.
    pub(crate) alives: u8,
    /// A near cache gives a flight up, and answers its readers with an error.
    pub(crate) timeouts: u8,
    /// A stream is cut.
    pub(crate) cuts: u8,
    /// The connection of a command is lost.
    pub(crate) losses: u8,
    /// The origin is upgraded.
    pub(crate) upgrades: u8,
}

impl Budget {
    pub(crate) const NONE: Self =
        Self { ticks: 0, alives: 0, timeouts: 0, cuts: 0, losses: 0, upgrades: 0 };
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) programs: &'static [&'static [Op]],
    pub(crate) nears: u8,
    pub(crate) keys: u8,
    /// The bucket of each key.
    pub(crate) buckets: [u8; 2],
    /// The number of messages that fit into a ring.
    pub(crate) ring: usize,
    /// The number of slots of the table of interest.
    pub(crate) slots: u8,
    /// True if a command may be executed after its connection was lost.
    pub(crate) late: bool,
    pub(crate) budget: Budget,
    /// Rules without which a promise breaks in this scenario.
    pub(crate) breaks_without: &'static [Rule],
}

impl Scenario {
    /// One near cache, one key, and no events.
    pub(crate) const BASE: Self = Self {
        name: "",
        programs: &[],
        nears: 1,
        keys: 1,
        buckets: [0, 0],
        ring: 2,
        slots: 2,
        late: false,
        budget: Budget::NONE,
        breaks_without: &[],
    };

    pub(crate) fn bucket(&self, key: u8) -> u8 {
        self.buckets[usize::from(key)]
    }
}
