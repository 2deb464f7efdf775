//! The buffers of a worker, which its connections use in turn.

use std::ops::Range;

use crate::buffers::output::Output;
use crate::tls::Records;

/// Input and output of the turns in progress.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) input: Box<[u8]>,
    /// The output for one datagram at a time.
    pub(crate) output: Output,
    /// Empty vectors for the outputs of turns.
    outputs: Vec<Vec<u8>>,
    /// Buffers for TLS records.
    pub(crate) records: Records,
    input_used_bytes: usize,
}

impl Scratch {
    /// Allocates the buffers of a worker.
    pub(crate) fn new(records: Records) -> Self {
        Self {
            input: vec![0; INPUT_BYTES].into(),
            output: Output::default(),
            outputs: Vec::new(),
            records,
            input_used_bytes: 0,
        }
    }

    /// True if the remaining space is too small for the input of a turn.
    pub(crate) fn is_full(&self) -> bool {
        INPUT_BYTES - self.input_used_bytes < RECEIVED_BYTES_MAX
    }

    /// Returns the free space for the input of a turn, and the buffers for its records.
    pub(crate) fn input_room(&mut self) -> (&mut [u8], &mut Records) {
        let room = &mut self.input[self.input_used_bytes..];
        let bytes = room.len().min(RECEIVED_BYTES_MAX);
        (&mut room[..bytes], &mut self.records)
    }

    /// Allocates the first `bytes` bytes of the free space.
    pub(crate) fn take_input(&mut self, bytes: usize) -> Range<usize> {
        let start = self.input_used_bytes;
        self.input_used_bytes += bytes;
        start..self.input_used_bytes
    }

    /// Frees the space for input, because the input of all turns has been executed.
    pub(crate) fn clear_input(&mut self) {
        self.input_used_bytes = 0;
    }

    /// Empties the output after a datagram's response has been sent.
    pub(crate) fn clear_output(&mut self) {
        self.output.clear();
        self.output.bytes.shrink_to(OUTPUT_KEPT_BYTES_MAX);
    }

    /// Returns an empty output for a turn.
    #[inline]
    pub(crate) fn take_output(&mut self) -> Output {
        self.outputs.pop().unwrap_or_else(|| Vec::with_capacity(OUTPUT_BYTES_MIN)).into()
    }

    /// Takes back the memory of an output that has been sent or given away. The next turn reuses
    /// the one that was returned last.
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

/// Maximum input received and executed in one turn, in bytes.
pub(crate) const RECEIVED_BYTES_MAX: usize = 64 * 1024;

/// Space for the input of all turns that are in progress at the same time.
const INPUT_BYTES: usize = 2 * RECEIVED_BYTES_MAX;

/// Initial capacity of an output.
const OUTPUT_BYTES_MIN: usize = 4 * 1024;

/// The memory of a larger output is freed. The memory budget counts the capacity of a vector, not
/// the length of the response in it. This must therefore stay close to the allowance that each
/// connection has outside the budget; otherwise small responses that a peer does not receive would
/// use up the budget.
const OUTPUT_BYTES_MAX: usize = 32 * 1024;

/// How many empty outputs are kept.
const OUTPUTS_MAX: usize = 64;

/// How much memory for the output of datagrams is kept between turns.
const OUTPUT_KEPT_BYTES_MAX: usize = 512 * 1024;
