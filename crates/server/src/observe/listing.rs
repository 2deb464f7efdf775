//! A walk over the items for a response that takes more than one turn of its connection, such as a
//! dump. It does not wait for the disk: its session stops, and the worker that serves the
//! connection performs the reads that the walk needs.

use larder::{Cache, DiskPages, DiskRead, Dumped, Wait, Walk, WalkStep};

/// A list of items in progress.
#[derive(Debug)]
pub(crate) struct Listing {
    walk: Walk,
    found: Vec<Dumped>,
    /// The disk reads that the walk needs.
    reads: Vec<DiskRead>,
    /// The results of these reads.
    read: Vec<DiskPages>,
}

/// The outcome of one step of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListStep {
    /// The step found some items, possibly none.
    Found,
    /// The step found some items, possibly none. The list continues after the reads of
    /// [`Listing::take_reads`].
    NeedsDisk,
    /// All items were listed.
    Over,
}

impl Listing {
    /// Begins a list of all items.
    pub(crate) fn begin(cache: &Cache) -> Self {
        let (found, reads, read) = Default::default();
        Self { walk: cache.walk(""), found, reads, read }
    }

    /// Continues with the next items.
    pub(crate) fn step(&mut self, wait: Wait<'_>) -> ListStep {
        self.found.clear();
        if !self.reads.is_empty() {
            return ListStep::NeedsDisk;
        }
        match self.walk.step(std::mem::take(&mut self.read), wait, &mut self.found) {
            WalkStep::Reads(reads) => {
                self.reads = reads;
                ListStep::NeedsDisk
            }
            WalkStep::GoesOn => ListStep::Found,
            WalkStep::Over => ListStep::Over,
        }
    }

    /// Returns the items of the last step.
    pub(crate) fn found(&self) -> &[Dumped] {
        &self.found
    }

    /// Returns how many items the disk did not return.
    pub(crate) fn unreadable(&self) -> u64 {
        self.walk.unreadable()
    }

    /// Takes the disk reads that the list waits for.
    pub(crate) fn take_reads(&mut self) -> Vec<DiskRead> {
        std::mem::take(&mut self.reads)
    }

    /// Passes the results of its reads to the list.
    pub(crate) fn give_read(&mut self, read: Vec<DiskPages>) {
        self.read = read;
    }

    /// Returns the memory that the list owns beyond its own size, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.walk.held_bytes()
            + self.found.capacity() * size_of::<Dumped>()
            + self.found.iter().map(|item| item.key.capacity()).sum::<usize>()
    }
}
