//! An operation, as a caller of the engine describes it.

use std::fmt;

use larder_item::Second;

use crate::journal::Journal;
use crate::process::thread_slot::ThreadSlot;

/// An operation of a caller.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    /// The slot of the calling thread.
    pub thread: &'a ThreadSlot,
    /// The second at which it takes place.
    pub now: Second,
    /// Records its changes in place of the engine's journal. Its [`Journal::records_stores`] is
    /// that of the engine's.
    pub journal: Option<&'a dyn Journal>,
}

impl<'a> Operation<'a> {
    /// Returns an operation whose changes the engine's journal records, if it has one.
    #[inline]
    pub fn new(thread: &'a ThreadSlot, now: Second) -> Self {
        Self { thread, now, journal: None }
    }

    /// Returns the same operation, whose changes another journal records.
    #[inline]
    pub fn journaled(self, journal: &'a dyn Journal) -> Self {
        Self { journal: Some(journal), ..self }
    }
}

impl fmt::Debug for Operation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operation").field("now", &self.now).finish_non_exhaustive()
    }
}

const _: () = assert!(size_of::<Operation<'_>>() <= 64);
