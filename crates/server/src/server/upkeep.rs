//! The work that a server does on its items in the background.

use std::sync::Arc;

use crate::observe::census::Censuses;
use crate::observe::crawler::Crawler;
use crate::observe::prefix_removal::PrefixRemovals;

/// Walks over all items, in steps between the requests of clients.
#[derive(Debug)]
pub(crate) struct Upkeep {
    pub(crate) crawler: Arc<Crawler>,
    pub(crate) prefix_removals: Arc<PrefixRemovals>,
    /// Items counted by size class, for statistics.
    pub(crate) censuses: Censuses,
}
