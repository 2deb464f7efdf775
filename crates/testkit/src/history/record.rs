//! The record of the commands of clients.

use std::fmt;

/// Identifies the value that a write stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Version {
    /// The unique number of the write that stored the value, or began the counter.
    pub write: u64,
    /// The number of increments since.
    pub count: u64,
}

impl Version {
    /// Creates the version that a write stores.
    pub fn of(write: u64) -> Self {
        Self { write, count: 0 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => write!(f, "v{}", self.write),
            count => write!(f, "v{}+{count}", self.write),
        }
    }
}

/// An item in an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The value.
    pub version: Version,
    /// The cas token, if the answer contained it.
    pub cas: Option<u64>,
}

/// The effect of a command on one key, according to its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Did {
    /// The answer shows the item, or its absence.
    Read(Option<Shown>),
    /// The answer confirms that this item was stored.
    Wrote(Shown),
    /// Without an answer, or with an error: the version may be stored at any time, or never.
    MayHaveWritten(Version),
    /// Without an answer, or with an error: the counter may have been incremented.
    MayHaveCounted,
    /// The answer confirms that the item was removed.
    Removed,
    /// Without an answer, or with an error: the item may be removed at any time until
    /// [`Event::answered`], or never.
    MayHaveRemoved,
}

/// A command of a client, and its answer, for one key. Times are nanoseconds since the beginning of
/// the history, greater than 0.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The number of the client.
    pub client: usize,
    /// The index of the place that the client is connected to.
    pub place: usize,
    /// The index of the key.
    pub key: usize,
    /// The name of the command.
    pub name: &'static str,
    /// A moment before the command was sent.
    pub begun: u64,
    /// A moment after the complete answer was received.
    pub answered: u64,
    /// The effect of the command.
    pub did: Did,
}

/// A server that clients are connected to.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its name in explanations.
    pub name: String,
    /// How long after a change was acknowledged a read may still begin and return what was before,
    /// in nanoseconds.
    pub max_stale: u64,
}

/// The item of a key at a place and at the origin, read while nothing else happened.
#[derive(Clone, Copy, Debug)]
pub struct Resting {
    /// The index of the place.
    pub place: usize,
    /// The index of the key.
    pub key: usize,
    /// The answer of the place.
    pub there: Option<Shown>,
    /// The answer of the origin.
    pub origin: Option<Shown>,
}

/// The commands of all clients, in any order.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The places, which [`Event::place`] indexes.
    pub places: Vec<Place>,
    /// The names of the keys, which [`Event::key`] indexes.
    pub keys: Vec<String>,
    /// The commands.
    pub events: Vec<Event>,
    /// The items at the end.
    pub resting: Vec<Resting>,
}
