//! The memory budget for the buffers of all connections, and the limits of one connection while
//! memory is short.
//!
//! While memory is short, no connection is closed at first. Instead every connection renders less
//! before it waits for its socket, and receives less at a time. Once half of the budget is in use,
//! the [`Allotment`] shrinks from 64 KiB of output and of input towards the allowance of every
//! connection (`ALLOWANCE_BYTES`). So all connections together hold at most the budget plus the
//! allowance of each. Only values in one piece that are longer than the allowance can exceed that.
//! A worker then closes a connection.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use larder_stats::{Counter, Counters};

use crate::buffers::output::OUTPUT_BYTES_HIGH;

/// The memory that connections use beyond their allowance, and its limit.
#[derive(Debug)]
pub(crate) struct Budget {
    /// The bytes that all connections together hold beyond their allowances.
    held_bytes: AtomicU64,
    bytes_max: u64,
}

/// How many bytes a connection may currently buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allotment {
    /// Output length in bytes at which a session waits for the socket.
    pub(crate) output_bytes_max: usize,
    /// True if memory is short. The worker then receives input in small parts, starts an item only
    /// if the item fits into the rest of the output, and moves waiting output to memory of its
    /// exact length.
    pub(crate) is_tight: bool,
}

/// The bytes that one connection holds, as last reported to the budget and to the statistics. A
/// connection that waits for its next command holds nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionBytes {
    input_bytes: usize,
    output_bytes: usize,
    /// The bytes that the connection may hold without using the budget.
    allowance_bytes: usize,
}

impl Budget {
    /// Creates an unused budget.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { held_bytes: AtomicU64::new(0), bytes_max }
    }

    /// Returns how much a connection may buffer if `unreported_bytes` are in use that no
    /// [`ConnectionBytes`] has reported yet.
    #[inline]
    pub(crate) fn allotment(&self, unreported_bytes: u64) -> Allotment {
        let used_bytes = self.held_bytes.load(Relaxed).saturating_add(unreported_bytes);
        if used_bytes <= self.bytes_max / 2 {
            return Allotment { output_bytes_max: OUTPUT_BYTES_HIGH, is_tight: false };
        }
        self.tight_allotment(used_bytes)
    }

    /// The output limit shrinks from `OUTPUT_BYTES_HIGH` when half of the budget is in use to
    /// `OUTPUT_BYTES_LOW` when three quarters are. The last quarter is a reserve for output that is
    /// being rendered.
    #[cold]
    fn tight_allotment(&self, used_bytes: u64) -> Allotment {
        let (half, quarter) = (self.bytes_max / 2, (self.bytes_max / 4).max(1));
        let left = quarter.saturating_sub(used_bytes - half);
        let span = (OUTPUT_BYTES_HIGH - OUTPUT_BYTES_LOW) as u64;
        let above_low = (u128::from(span) * u128::from(left) / u128::from(quarter)) as usize;
        Allotment { output_bytes_max: OUTPUT_BYTES_LOW + above_low, is_tight: true }
    }

    /// True if so little is in use that memory will not soon be short again.
    pub(crate) fn is_relaxed(&self, unreported_bytes: u64) -> bool {
        self.held_bytes.load(Relaxed).saturating_add(unreported_bytes) <= self.bytes_max / 8 * 3
    }

    /// True if connections hold more than the budget, so that a connection must be closed.
    #[inline]
    pub(crate) fn is_exceeded(&self) -> bool {
        self.held_bytes.load(Relaxed) > self.bytes_max
    }

    /// Returns how much of the limit is in use, in bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Relaxed)
    }

    /// Returns the limit in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }
}

impl ConnectionBytes {
    /// Creates the holding of a new connection.
    pub(crate) fn new(is_encrypted: bool) -> Self {
        let record_bytes = if is_encrypted { RECORD_BYTES_MAX } else { 0 };
        let allowance_bytes = ALLOWANCE_BYTES + record_bytes;
        Self { input_bytes: 0, output_bytes: 0, allowance_bytes }
    }

    /// Reports how many bytes the connection now holds.
    #[inline]
    pub(crate) fn change(
        &mut self,
        budget: &Budget,
        counters: &Counters,
        input_bytes: usize,
        output_bytes: usize,
    ) {
        if (self.input_bytes, self.output_bytes) == (input_bytes, output_bytes) {
            return;
        }
        let changed = Self { input_bytes, output_bytes, ..*self };
        let (before, after) = (self.beyond_allowance(), changed.beyond_allowance());
        if before != after {
            budget.held_bytes.fetch_add(after.wrapping_sub(before), Relaxed);
        }
        let level = |count, bytes, from: usize, to: usize| {
            counters.add(count, u64::from(to > 0).wrapping_sub(u64::from(from > 0)));
            counters.add(bytes, (to as u64).wrapping_sub(from as u64));
        };
        let (count, bytes) = (Counter::ReadBufferCount, Counter::ReadBufferBytes);
        level(count, bytes, self.input_bytes, input_bytes);
        let (count, bytes) = (Counter::ResponseBufferCount, Counter::ResponseBufferBytes);
        level(count, bytes, self.output_bytes, output_bytes);
        *self = changed;
    }

    /// Releases everything that the connection held.
    pub(crate) fn end(&mut self, budget: &Budget, counters: &Counters) {
        self.change(budget, counters, 0, 0);
    }

    /// Returns how many bytes of the budget the connection uses.
    pub(crate) fn beyond_allowance(self) -> u64 {
        (self.input_bytes + self.output_bytes).saturating_sub(self.allowance_bytes) as u64
    }

    /// True if the connection holds more output than input.
    pub(crate) fn is_mostly_output(self) -> bool {
        self.output_bytes >= self.input_bytes
    }
}

/// Bytes that every connection may hold, regardless of other connections.
const ALLOWANCE_BYTES: usize = 16 * 1024;

/// Additional bytes for an encrypted connection, which may hold an incomplete record.
const RECORD_BYTES_MAX: usize = 18 * 1024;

/// Output length at which a session waits for its socket while memory is short. Together with twice
/// [`TIGHT_INPUT_BYTES`] (the input being executed and the input that follows it) it stays within
/// the allowance.
const OUTPUT_BYTES_LOW: usize = 8 * 1024;

/// Bytes of input that a connection receives at a time while memory is short.
pub(crate) const TIGHT_INPUT_BYTES: usize = 4 * 1024;

const _: () = assert!(OUTPUT_BYTES_LOW + 2 * TIGHT_INPUT_BYTES <= ALLOWANCE_BYTES);

/// The default budget of a server.
pub(crate) const BUDGET_BYTES: u64 = larder_options::BUFFER_BYTES_DEFAULT;

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = ALLOWANCE_BYTES + 100;

    #[test]
    fn bytes_within_the_allowance_do_not_count_against_the_budget() {
        let (budget, counters) = (Budget::new(100), Counters::default());
        let [mut small, mut large] = [ConnectionBytes::new(false); 2];
        large.change(&budget, &counters, FULL, 0);
        small.change(&budget, &counters, 0, ALLOWANCE_BYTES);
        assert!(!budget.is_exceeded());
        small.change(&budget, &counters, 1, ALLOWANCE_BYTES);
        assert!(budget.is_exceeded());
        assert_eq!((large.beyond_allowance(), small.beyond_allowance()), (100, 1));
        let mut encrypted = ConnectionBytes::new(true);
        encrypted.change(&budget, &counters, RECORD_BYTES_MAX, ALLOWANCE_BYTES);
        assert_eq!(encrypted.beyond_allowance(), 0);
        large.end(&budget, &counters);
        small.end(&budget, &counters);
        encrypted.end(&budget, &counters);
        assert_eq!(budget.held_bytes.load(Relaxed), 0);
    }

    #[test]
    fn the_allotment_shrinks_as_connections_hold_more() {
        let (budget, counters) = (Budget::new(64 << 20), Counters::default());
        let mut holding = ConnectionBytes::new(false);
        let mut allotment = |held: usize, unreported_bytes| {
            holding.change(&budget, &counters, held + ALLOWANCE_BYTES, 0);
            let Allotment { output_bytes_max, is_tight } = budget.allotment(unreported_bytes);
            (output_bytes_max >> 10, is_tight)
        };
        assert_eq!(allotment(0, 0), (64, false));
        assert_eq!(allotment(32 << 20, 0), (64, false));
        assert_eq!(allotment(40 << 20, 0), (36, true));
        assert_eq!(allotment(32 << 20, 8 << 20), (36, true));
        assert_eq!(allotment(48 << 20, 0), (8, true));
        assert_eq!(allotment(200 << 20, u64::MAX), (8, true));
    }

    #[test]
    fn the_statistics_show_the_bytes_held_now() {
        let (budget, counters) = (Budget::new(1000), Counters::default());
        let mut holding = ConnectionBytes::new(false);
        let shown = || {
            [
                counters.read(Counter::ReadBufferCount),
                counters.read(Counter::ReadBufferBytes),
                counters.read(Counter::ResponseBufferCount),
                counters.read(Counter::ResponseBufferBytes),
            ]
        };
        holding.change(&budget, &counters, 10, 20);
        assert_eq!(shown(), [1, 10, 1, 20]);
        holding.change(&budget, &counters, 0, 30);
        assert_eq!(shown(), [0, 0, 1, 30]);
        holding.end(&budget, &counters);
        assert_eq!(shown(), [0; 4]);
    }
}
