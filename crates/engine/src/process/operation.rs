//! The parameters that all operations of the engine have in common.

use std::fmt;

use larder_item::Second;

use crate::journal::Journal;
use crate::process::thread_slot::ThreadSlot;

/// The calling thread, the time and the journal of an operation.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    /// The slot of the calling thread.
    pub thread: &'a ThreadSlot,
    /// The current second.
    pub now: Second,
    /// The journal that records the changes of this operation in place of the engine's journal. Its
    /// [`Journal::records_stores`] must return the same value as the engine's.
    pub journal: Option<&'a dyn Journal>,
}

impl<'a> Operation<'a> {
    /// Returns an operation whose changes the engine's journal records, if the engine has one.
    #[inline]
    pub fn new(thread: &'a ThreadSlot, now: Second) -> Self {
        Self { thread, now, journal: None }
    }

    /// Returns the same operation with another journal that records its changes.
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
