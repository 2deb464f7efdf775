//! The durability of an answer, and the status of a disk tier.

use larder_tier::disk::real::Caution;
use larder_tier::format::Address;
use larder_tier::store::{Durable, Started, Statistics};

use super::TierMode;

/// A place in the log of a disk tier that an answer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurabilityTicket(pub(crate) Address);

/// Whether what an answer waits for is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// It is.
    Durable,
    /// Not yet.
    Pending,
    /// The log has failed: it may be durable or not.
    Unknown,
}

/// How a disk tier does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierStatus {
    /// What the directory promises.
    pub mode: TierMode,
    /// What the start has found.
    pub started: Started,
    /// Its statistics.
    pub statistics: Statistics,
    /// Items that the disk did not return, or that were damaged.
    pub unreadable: u64,
    /// Why it does not work as it should; `None` if it does.
    pub trouble: Option<String>,
    /// What its file system does not promise; `None`: nothing is known.
    pub caution: Option<Caution>,
}

impl From<Durable> for TicketState {
    fn from(durable: Durable) -> Self {
        match durable {
            Durable::Yes => Self::Durable,
            Durable::NotYet => Self::Pending,
            Durable::Failed => Self::Unknown,
        }
    }
}
