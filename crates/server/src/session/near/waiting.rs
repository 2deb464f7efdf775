//! What a session keeps while the origin of a near cache, or the value of a store, is awaited.

use std::sync::Arc;

use larder::copies::Flight;
use larder_protocol::{OwnedCommand, OwnedFrame, Response};

use crate::near::{Everywhere, Pass};

/// A command that waits for the origin.
#[derive(Debug)]
pub(in crate::session) enum WaitingForOrigin {
    /// A read waits for a fetch.
    Read { flight: Arc<Flight>, command: OwnedCommand, frame: OwnedFrame },
    /// A command waits for its answer.
    Pass {
        pass: Arc<Pass>,
        frame: OwnedFrame,
        /// True if the client has a part of the answer.
        is_shown: bool,
        /// The key of the item that is copied afterwards.
        copied: Option<Box<[u8]>>,
    },
    /// A command waits for the answers of all origins.
    Everywhere { everywhere: Everywhere, frame: OwnedFrame },
    /// A store is refused, and waits until its item is removed from the origin. Then its value is
    /// skipped, and the client receives the response.
    Removal { pass: Arc<Pass>, frame: OwnedFrame, payload_bytes: u64, response: Response },
}

/// A store whose value has not arrived completely.
#[derive(Debug)]
pub(in crate::session) struct ArrivingValue {
    /// The line of the store, and what has arrived of the value.
    parts: Vec<Vec<u8>>,
    left_bytes: usize,
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
                Self::Everywhere { everywhere, .. } => everywhere.held_bytes(),
            }
    }
}

impl ArrivingValue {
    /// Begins with the line of a store, which `left_bytes` follow.
    pub(super) fn new(
        line: Vec<u8>,
        left_bytes: usize,
        store: StoreHead,
        frame: OwnedFrame,
    ) -> Self {
        Self { parts: vec![line], left_bytes, store, frame }
    }

    /// Takes what `input` contains of the value. Returns how many bytes that is.
    pub(super) fn receive(&mut self, input: &[u8]) -> usize {
        let taken = input.get(..self.left_bytes).unwrap_or(input);
        self.left_bytes -= taken.len();
        match self.parts.last_mut() {
            // The end of the last line must not be divided.
            Some(last)
                if last.len() < PART_BYTES || self.left_bytes + taken.len() <= TAIL_BYTES =>
            {
                last.extend_from_slice(taken);
            }
            _ => {
                let mut part = Vec::with_capacity(PART_BYTES + input.len());
                part.extend_from_slice(taken);
                self.parts.push(part);
            }
        }
        taken.len()
    }

    /// True if the value has arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.left_bytes == 0
    }

    /// Returns the bytes of the store, or `None` if they do not end like a value.
    pub(super) fn into_parts(self) -> Option<Vec<Vec<u8>>> {
        let end = self.frame.frame_with(&self.store.key).value_end();
        let last = self.parts.last().map_or(&[][..], Vec::as_slice);
        last.ends_with(end).then_some(self.parts)
    }

    /// Returns the memory that the store owns, in bytes.
    pub(in crate::session) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.parts.iter().map(Vec::capacity).sum::<usize>()
    }
}

/// A part of this length is not extended.
const PART_BYTES: usize = 256 * 1024;

/// At least the length of what ends a value.
const TAIL_BYTES: usize = 2;
