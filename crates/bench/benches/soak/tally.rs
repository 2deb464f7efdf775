//! The times of operations by the size of the value.

use std::time::Duration;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Hit,
    Miss,
    Set,
    Append,
    Delete,
    Increment,
}

impl Operation {
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::Hit, "hit"),
        (Self::Miss, "miss"),
        (Self::Set, "set"),
        (Self::Append, "append"),
        (Self::Delete, "delete"),
        (Self::Increment, "incr"),
    ];
}

/// Counts and times by operation and by size class, which is the size's binary logarithm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    cells: [[Cell; CLASSES]; Operation::ALL.len()],
    /// Batches of operations, and batches whose times count.
    batches: u64,
    batches_timed: u64,
    /// Hits whose value was not stored for the key, or was past its deadline.
    pub(crate) wrong_values: u64,
    /// Stores refused for lack of memory.
    pub(crate) refused: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    count: u64,
    ns: u64,
}

impl Tally {
    /// Counts an operation. `bytes` is 0 if the size of the value does not matter.
    pub(crate) fn count(&mut self, operation: Operation, bytes: usize, took: Duration) {
        let class = (bytes.max(1).ilog2() as usize).min(CLASSES - 1);
        let cell = &mut self.cells[operation as usize][class];
        cell.count += 1;
        cell.ns += took.as_nanos() as u64;
    }

    /// Ends a batch of operations that took `took`, of which the thread waited `waited` for a
    /// processor. Drops the times of a batch that waited long, but keeps its wrong values and
    /// refusals.
    pub(crate) fn end_batch(&mut self, took: Duration, waited: Duration) {
        self.batches = 1;
        match waited <= took.mul_f64(WAITED_MAX) {
            true => self.batches_timed = 1,
            false => self.cells = Default::default(),
        }
    }

    /// Returns the share of the batches whose times count.
    pub(crate) fn timed_share(&self) -> f64 {
        self.batches_timed as f64 / self.batches as f64
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.each_cell(other, |cell, other| Cell {
            count: cell.count + other.count,
            ns: cell.ns + other.ns,
        });
        self.batches += other.batches;
        self.batches_timed += other.batches_timed;
        self.wrong_values += other.wrong_values;
        self.refused += other.refused;
    }

    /// Returns the difference from an earlier tally.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.each_cell(earlier, |cell, earlier| Cell {
            count: cell.count - earlier.count,
            ns: cell.ns - earlier.ns,
        });
        since.batches -= earlier.batches;
        since.batches_timed -= earlier.batches_timed;
        since.wrong_values -= earlier.wrong_values;
        since.refused -= earlier.refused;
        since
    }

    fn each_cell(&mut self, other: &Self, of: impl Fn(Cell, Cell) -> Cell) {
        for (cells, others) in self.cells.iter_mut().zip(&other.cells) {
            for (cell, other) in cells.iter_mut().zip(others) {
                *cell = of(*cell, *other);
            }
        }
    }

    /// Returns the mean nanoseconds of an operation over all sizes.
    pub(crate) fn ns(&self, operation: Operation) -> f64 {
        let cells = &self.cells[operation as usize];
        let count = cells.iter().map(|cell| cell.count).sum::<u64>();
        cells.iter().map(|cell| cell.ns).sum::<u64>() as f64 / count as f64
    }

    /// Returns the throughput of these operations divided by the throughput of the same operations
    /// on values of the same sizes in `reference`: 1 if nothing has changed, less if the operations
    /// became slower. Sizes with few operations in either do not count.
    pub(crate) fn speed(&self, operations: &[Operation], reference: &Self) -> Option<f64> {
        let (mut ns, mut reference_ns) = (0.0, 0.0);
        for operation in operations {
            let at = *operation as usize;
            for (cell, known) in self.cells[at].iter().zip(&reference.cells[at]) {
                if cell.count.min(known.count) >= COUNT_MIN {
                    ns += cell.ns as f64;
                    reference_ns += cell.count as f64 * known.ns as f64 / known.count as f64;
                }
            }
        }
        (ns > 0.0).then(|| reference_ns / ns)
    }
}

/// Number of size classes, up to 2 MiB.
const CLASSES: usize = 22;
const COUNT_MIN: u64 = 20;
/// The largest share of a batch's time in which its thread may wait for a processor.
const WAITED_MAX: f64 = 0.1;
