//! How long operations took, apart for each size of value.

use std::time::Duration;

/// What is done.
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

/// Counts and times by operation and by size class: the size's binary logarithm.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    cells: [[Cell; CLASSES]; Operation::ALL.len()],
    /// Batches of operations, and those whose times count.
    batches: u64,
    batches_timed: u64,
    /// Hits whose value was not one stored for its key, or was past its deadline.
    pub(crate) wrong_values: u64,
    /// Stores for which no memory could be had.
    pub(crate) refused: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    count: u64,
    ns: u64,
}

impl Tally {
    /// `bytes` is 0 where the size of the value makes no difference.
    pub(crate) fn count(&mut self, operation: Operation, bytes: usize, took: Duration) {
        let class = (bytes.max(1).ilog2() as usize).min(CLASSES - 1);
        let cell = &mut self.cells[operation as usize][class];
        cell.count += 1;
        cell.ns += took.as_nanos() as u64;
    }

    /// Ends a batch of operations that took so long in all, of which the thread waited so long for a
    /// processor. Where that is much the times say nothing, and are forgotten; what went wrong is not.
    pub(crate) fn end_batch(&mut self, took: Duration, waited: Duration) {
        self.batches = 1;
        match waited <= took.mul_f64(WAITED_MAX) {
            true => self.batches_timed = 1,
            false => self.cells = Default::default(),
        }
    }

    /// The share of the batches whose times count.
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

    /// What has been counted since an earlier time.
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

    /// Mean nanoseconds of an operation, whatever the sizes were.
    pub(crate) fn ns(&self, operation: Operation) -> f64 {
        let cells = &self.cells[operation as usize];
        let count = cells.iter().map(|cell| cell.count).sum::<u64>();
        cells.iter().map(|cell| cell.ns).sum::<u64>() as f64 / count as f64
    }

    /// Throughput of these operations / that of the same operations on values of the same sizes in
    /// `reference`: 1 where nothing has changed, less where it became slower. Sizes that either has hardly
    /// seen do not count.
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

/// Sizes up to 2 MiB.
const CLASSES: usize = 22;
const COUNT_MIN: u64 = 20;
/// The most of a batch's time that its thread may have waited for a processor.
const WAITED_MAX: f64 = 0.1;
