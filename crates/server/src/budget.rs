//! How much memory all connections together may hold.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use larder_stats::{Counter, Counters};

/// The memory of connections beyond what each may hold anyway, and its limit.
#[derive(Debug)]
pub(crate) struct Budget {
    held_bytes: AtomicU64,
    bytes_max: u64,
}

/// The connections together hold all they may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OverBudget;

/// What one connection holds, as it was last told to the budget and to the statistics.
///
/// A connection that waits for its next command holds nothing. One that holds more than it was told is
/// over the budget by one turn at most: a turn's input and output are bounded.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Holding {
    input_bytes: usize,
    output_bytes: usize,
}

impl Budget {
    /// A budget of which nothing is used.
    pub(crate) fn new(bytes_max: u64) -> Self {
        Self { held_bytes: AtomicU64::new(0), bytes_max }
    }

    /// Takes `bytes` more, unless that would be too much.
    fn take(&self, bytes: u64) -> Result<(), OverBudget> {
        let held_bytes = self.held_bytes.fetch_add(bytes, Relaxed);
        if held_bytes + bytes <= self.bytes_max {
            return Ok(());
        }
        self.give_back(bytes);
        Err(OverBudget)
    }

    fn give_back(&self, bytes: u64) {
        self.held_bytes.fetch_sub(bytes, Relaxed);
    }
}

impl Holding {
    /// Tells what the connection holds now. Where that is too much, nothing is changed: the connection is
    /// to be closed.
    #[inline]
    pub(crate) fn change(
        &mut self,
        budget: &Budget,
        counters: &Counters,
        input_bytes: usize,
        output_bytes: usize,
    ) -> Result<(), OverBudget> {
        if (self.input_bytes, self.output_bytes) == (input_bytes, output_bytes) {
            return Ok(());
        }
        let changed = Self { input_bytes, output_bytes };
        let (before, after) = (self.beyond_allowance(), changed.beyond_allowance());
        if after > before {
            budget.take(after - before)?;
        } else {
            budget.give_back(before - after);
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
        Ok(())
    }

    /// The connection is gone, and with it what it held.
    pub(crate) fn end(&mut self, budget: &Budget, counters: &Counters) {
        self.change(budget, counters, 0, 0).expect("holding less is never too much");
    }

    fn beyond_allowance(self) -> u64 {
        (self.input_bytes + self.output_bytes).saturating_sub(ALLOWANCE_BYTES) as u64
    }
}

/// What every connection may hold, whatever the others do: any line but a long list of keys.
const ALLOWANCE_BYTES: usize = 16 * 1024;

/// The budget of a server.
pub(crate) const BUDGET_BYTES: u64 = 64 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: usize = ALLOWANCE_BYTES + 100;

    #[test]
    fn what_is_within_the_allowance_costs_nothing_and_what_is_beyond_is_given_back() {
        let (budget, counters) = (Budget::new(100), Counters::default());
        let [mut small, mut large] = [Holding::default(); 2];
        assert_eq!(large.change(&budget, &counters, FULL, 0), Ok(()));
        assert_eq!(small.change(&budget, &counters, 0, ALLOWANCE_BYTES), Ok(()));
        assert_eq!(small.change(&budget, &counters, 1, ALLOWANCE_BYTES), Err(OverBudget));
        large.end(&budget, &counters);
        assert_eq!(small.change(&budget, &counters, 100, ALLOWANCE_BYTES), Ok(()));
    }

    #[test]
    fn the_statistics_say_what_is_held_now() {
        let (budget, counters) = (Budget::new(1000), Counters::default());
        let mut holding = Holding::default();
        let shown = || {
            [
                counters.read(Counter::ReadBufferCount),
                counters.read(Counter::ReadBufferBytes),
                counters.read(Counter::ResponseBufferCount),
                counters.read(Counter::ResponseBufferBytes),
            ]
        };
        holding.change(&budget, &counters, 10, 20).unwrap();
        assert_eq!(shown(), [1, 10, 1, 20]);
        holding.change(&budget, &counters, 0, 30).unwrap();
        assert_eq!(shown(), [0, 0, 1, 30]);
        holding.change(&budget, &counters, FULL + 1000, 0).unwrap_err();
        assert_eq!(shown(), [0, 0, 1, 30]);
        holding.end(&budget, &counters);
        assert_eq!(shown(), [0; 4]);
    }
}
