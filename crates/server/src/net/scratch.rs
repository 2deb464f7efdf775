//! The buffers of a worker, which its connections use in turn.

use std::ops::Range;

use crate::net::output::Output;
use crate::tls::Records;

/// Input and output of the turns that are under way.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) input: Box<[u8]>,
    /// Of one datagram at a time.
    pub(crate) output: Output,
    /// Empty ones, for the outputs of turns.
    outputs: Vec<Vec<u8>>,
    /// What TLS makes of both.
    pub(crate) records: Records,
    input_used_bytes: usize,
}

impl Scratch {
    /// Buffers for a worker.
    pub(crate) fn new(records: Records) -> Self {
        Self {
            input: vec![0; INPUT_BYTES].into(),
            output: Output::default(),
            outputs: Vec::new(),
            records,
            input_used_bytes: 0,
        }
    }

    /// Is there less room for input than a turn should have?
    pub(crate) fn is_full(&self) -> bool {
        INPUT_BYTES - self.input_used_bytes < RECEIVED_BYTES_MAX
    }

    /// The room for the input of a turn, and the buffers for its records.
    pub(crate) fn input_room(&mut self) -> (&mut [u8], &mut Records) {
        let room = &mut self.input[self.input_used_bytes..];
        let bytes = room.len().min(RECEIVED_BYTES_MAX);
        (&mut room[..bytes], &mut self.records)
    }

    /// Takes the first `bytes` of the room.
    pub(crate) fn take_input(&mut self, bytes: usize) -> Range<usize> {
        let start = self.input_used_bytes;
        self.input_used_bytes += bytes;
        start..self.input_used_bytes
    }

    /// The input of all turns has been executed.
    pub(crate) fn clear_input(&mut self) {
        self.input_used_bytes = 0;
    }

    /// The output of a datagram has been sent.
    pub(crate) fn clear_output(&mut self) {
        self.output.clear();
        self.output.bytes.shrink_to(OUTPUT_KEPT_BYTES_MAX);
    }

    /// An empty output for a turn.
    #[inline]
    pub(crate) fn take_output(&mut self) -> Output {
        self.outputs.pop().unwrap_or_else(|| Vec::with_capacity(OUTPUT_BYTES_MIN)).into()
    }

    /// It has been sent, or given away, which leaves nothing to keep. The one used last is the next to be used.
    #[inline]
    pub(crate) fn give_output(&mut self, output: Output) {
        let mut bytes = output.into_vec();
        let is_worth_it = (OUTPUT_BYTES_MIN..=OUTPUT_BYTES_MAX).contains(&bytes.capacity());
        if is_worth_it && self.outputs.len() < OUTPUTS_MAX {
            bytes.clear();
            self.outputs.push(bytes);
        }
    }
}

/// So much is received and executed in one turn.
pub(crate) const RECEIVED_BYTES_MAX: usize = 64 * 1024;

/// Input of all turns that are under way at the same time.
const INPUT_BYTES: usize = 2 * RECEIVED_BYTES_MAX;

/// An output begins with so much room.
const OUTPUT_BYTES_MIN: usize = 4 * 1024;

/// A larger one is not kept: small answers that a peer does not take count with all of their vectors, which are little
/// more than what every connection may hold, then.
const OUTPUT_BYTES_MAX: usize = 32 * 1024;

/// So many empty outputs are kept.
const OUTPUTS_MAX: usize = 64;

/// The memory for the output of datagrams that is kept between turns.
const OUTPUT_KEPT_BYTES_MAX: usize = 512 * 1024;
