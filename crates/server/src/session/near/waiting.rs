//! What a session keeps while the origin of a near cache, or the value of a store, is awaited.

use std::sync::Arc;

use larder::copies::Flight;
use larder_protocol::{OwnedCommand, OwnedFrame, Response};

use crate::near::Pass;

/// A command that waits for the origin.
#[derive(Debug)]
pub(in crate::session) enum WaitingForOrigin {
    /// A read waits for a fetch.
    Read { flight: Arc<Flight>, command: OwnedCommand, frame: OwnedFrame },
    /// A command waits for its answer.
    Pass { pass: Arc<Pass>, frame: OwnedFrame },
    /// A store is refused, and waits until its item is removed from the origin. Then its value is
    /// skipped, and the client receives the response.
    Removal { pass: Arc<Pass>, frame: OwnedFrame, payload_bytes: u64, response: Response },
}

/// A store whose value has not arrived completely.
#[derive(Debug)]
pub(in crate::session) struct ArrivingValue {
    /// The line of the store, and what has arrived of the value.
    pub(super) bytes: Vec<u8>,
    pub(super) left_bytes: usize,
    pub(super) store: StoreHead,
    pub(super) frame: OwnedFrame,
}

/// The parts of a store that are needed once its value has arrived.
#[derive(Debug)]
pub(super) struct StoreHead {
    pub(super) key: Box<[u8]>,
    pub(super) value_bytes: usize,
}

impl WaitingForOrigin {
    /// Returns the memory that the command owns, in bytes.
    pub(in crate::session) fn held_bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Read { command, .. } => command.key().len(),
                Self::Pass { pass, .. } | Self::Removal { pass, .. } => pass.held_bytes(),
            }
    }
}

impl ArrivingValue {
    /// Returns the memory that the store owns, in bytes.
    pub(in crate::session) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.bytes.capacity()
    }
}
