//! A walk over the items for an answer that is longer than a turn. It does not wait for the disk:
//! its session stops, and its worker reads what the walk needs.

use larder::{Cache, DiskPages, DiskRead, Dumped, Wait, Walk, WalkStep};

/// A list of items in progress.
#[derive(Debug)]
pub(crate) struct Listing {
    walk: Walk,
    found: Vec<Dumped>,
    /// What the walk needs of the disk.
    reads: Vec<DiskRead>,
    /// What was read for it.
    read: Vec<DiskPages>,
}

/// What a step of a list has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listed {
    /// Some items, or none.
    Found,
    /// Some items, or none. It goes on when [`Listing::take_reads`] were read.
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

    /// Goes on to the next items.
    pub(crate) fn step(&mut self, wait: Wait<'_>) -> Listed {
        self.found.clear();
        if !self.reads.is_empty() {
            return Listed::NeedsDisk;
        }
        match self.walk.step(std::mem::take(&mut self.read), wait, &mut self.found) {
            WalkStep::Reads(reads) => {
                self.reads = reads;
                Listed::NeedsDisk
            }
            WalkStep::GoesOn => Listed::Found,
            WalkStep::Over => Listed::Over,
        }
    }

    /// The items of the last step.
    pub(crate) fn found(&self) -> &[Dumped] {
        &self.found
    }

    /// How many items the disk did not return.
    pub(crate) fn unreadable(&self) -> u64 {
        self.walk.unreadable()
    }

    /// Takes the reads of the disk that the list waits for.
    pub(crate) fn take_reads(&mut self) -> Vec<DiskRead> {
        std::mem::take(&mut self.reads)
    }

    /// Gives the list what its reads have returned.
    pub(crate) fn give_read(&mut self, read: Vec<DiskPages>) {
        self.read = read;
    }

    /// Returns the memory it owns beyond its own size, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.walk.held_bytes()
            + self.found.capacity() * size_of::<Dumped>()
            + self.found.iter().map(|item| item.key.capacity()).sum::<usize>()
    }
}
