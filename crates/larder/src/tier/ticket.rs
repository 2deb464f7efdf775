//! The durability of a response, and the status of a disk tier.

use larder_tier::disk::platform::Caution;
use larder_tier::format::Address;
use larder_tier::store::{Durable, StartReport, Statistics};

use super::TierMode;

/// A position in the log of a disk tier that must be durable before a response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DurabilityTicket(pub(crate) Address);

/// Whether the position of a ticket is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    /// The position is durable.
    Durable,
    /// The position is not durable yet.
    Pending,
    /// The log has failed: the changes up to the position may or may not be durable.
    Unknown,
}

/// The status of a disk tier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TierStatus {
    /// Store or cache.
    pub mode: TierMode,
    /// The results of the start.
    pub started: StartReport,
    /// The statistics.
    pub statistics: Statistics,
    /// The number of items that the disk failed to return, or that were damaged.
    pub unreadable: u64,
    /// The reason why the tier does not work correctly; `None` if it works.
    pub trouble: Option<String>,
    /// The limitations of the tier's file system; `None` if none are known.
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
