//! A child whose changes of the region are observed one by one.

use std::ops::Range;
use std::path::Path;

use crate::copy::{Copy, PAGE_BYTES};
use crate::tracer::{Access, Next, Stop, Tracee};

/// Number of instructions without a change that are stepped before the child runs to its next
/// store. The cost is about the same as two stops at a protected page.
const STEPS_MAX: u32 = 40;

/// Number of pages into which the child may store while it is stepped.
const OPEN_MAX: usize = 4;

/// A child, stopped after an instruction that changed the region.
pub(crate) struct Watched {
    pub(crate) tracee: Tracee,
    pub(crate) copy: Copy,
    /// The pages into which the child may store. The child is stepped while there are such pages.
    open: Vec<usize>,
    /// Pages into which the child may store unobserved, because no process can reach their bytes.
    /// An observed change may change this.
    hidden: Vec<usize>,
    /// Number of instructions stepped since the last change.
    idle_steps: u32,
    /// Number of observed changes.
    pub(crate) changes: u64,
}

/// A change of the region by an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Change {
    /// True if other processes can find the changed bytes. An instruction that copies many bytes to
    /// unreachable memory counts as one change.
    pub(crate) is_reachable: bool,
}

impl Watched {
    /// Starts a child that uses the region in a file.
    pub(crate) fn start(name: &str, path: &Path, detail: &str) -> Self {
        let copy = Copy::of(path);
        let mut tracee = Tracee::start(name, path, detail);
        tracee.protect(0..copy.bytes.len(), Access::Read);
        let mut watched =
            Self { tracee, copy, open: Vec::new(), hidden: Vec::new(), idle_steps: 0, changes: 0 };
        // The child has changed the region before its operation.
        watched.copy.update(watched.copy.pages());
        watched
    }

    /// Executes instructions up to the next instruction that changes the region. Returns `None` at
    /// the end of the operation.
    pub(crate) fn next_change(&mut self) -> Option<Change> {
        loop {
            let stop = match self.open.is_empty() {
                true => self.tracee.run(),
                false => match self.tracee.next() {
                    Next::Call => {
                        self.protect_all_but(Vec::new());
                        continue;
                    }
                    Next::Copy(_) => Stop::Store,
                    Next::Other => self.tracee.step(),
                },
            };
            let changed = match stop {
                Stop::Over => return None,
                Stop::Called => continue,
                Stop::Mapped => {
                    self.protect_all_but(Vec::new());
                    continue;
                }
                Stop::Store => self.store(),
                Stop::Stepped => self.copy.update(self.open.iter().copied()),
            };
            if !changed.is_empty() {
                self.idle_steps = 0;
                self.changes += 1;
                return Some(Change { is_reachable: self.note(changed) });
            }
            self.idle_steps += 1;
            if self.idle_steps > STEPS_MAX {
                self.protect_all_but(Vec::new());
            }
        }
    }

    /// Executes instructions up to the change with this number. Returns false if the operation ends
    /// before.
    pub(crate) fn run_to(&mut self, change: u64) -> bool {
        while self.changes < change {
            if self.next_change().is_none() {
                return false;
            }
        }
        true
    }

    /// Lets the child execute its next store, and opens the pages that the store changes.
    fn store(&mut self) -> Vec<Range<usize>> {
        let region = 0..self.copy.bytes.len();
        self.tracee.protect(region, Access::Write);
        let stop = match self.tracee.next() {
            Next::Copy(target) if self.copy.is_unreachable(&target) => self.tracee.finish_copy(),
            _ => self.tracee.step(),
        };
        assert_eq!(stop, Stop::Stepped, "the victim crashed at {}", self.tracee.place());
        let changed = self.copy.update(self.copy.pages());
        let pages = changed.iter().map(|part| part.start / PAGE_BYTES);
        let (hidden, mut open): (Vec<usize>, Vec<usize>) =
            pages.partition(|page| self.copy.is_unreachable(&bytes_of(*page)));
        self.hidden.extend(hidden);
        self.hidden.sort_unstable();
        self.hidden.dedup();
        open.extend(&self.open);
        open.truncate(OPEN_MAX);
        self.protect_all_but(open);
        changed
    }

    /// Records a change. Returns true if other processes can find it.
    fn note(&mut self, mut changed: Vec<Range<usize>>) -> bool {
        if !self.hidden.is_empty() {
            changed.extend(self.copy.update(self.copy.pages()));
        }
        let is_reachable = self.copy.is_reachable(&changed);
        if is_reachable && !self.hidden.is_empty() {
            self.hidden.clear();
            let open = std::mem::take(&mut self.open);
            self.protect_all_but(open);
        }
        is_reachable
    }

    fn protect_all_but(&mut self, open: Vec<usize>) {
        self.tracee.protect(0..self.copy.bytes.len(), Access::Read);
        for page in open.iter().chain(&self.hidden) {
            self.tracee.protect(bytes_of(*page), Access::Write);
        }
        self.open = open;
        self.idle_steps = 0;
    }
}

fn bytes_of(page: usize) -> Range<usize> {
    page * PAGE_BYTES..(page + 1) * PAGE_BYTES
}
