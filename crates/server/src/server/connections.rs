//! The connections of a server, and the limits on their number and memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use larder_options::Options;

use crate::buffers::budget::{BUDGET_BYTES, Budget};
use crate::observe::conn_table::ConnTable;

/// All open connections, and their limits.
#[derive(Debug)]
pub(crate) struct Connections {
    /// `-c`, or less if the process has too few file descriptors.
    pub(crate) count_max: usize,
    /// The limit on the memory that all connections hold together.
    pub(crate) budget: Budget,
    /// Open sockets, for `stats conns`.
    pub(crate) table: ConnTable,
    /// False while new connections wait because the connection limit is reached.
    accepting: AtomicBool,
}

impl Connections {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            count_max: options.connection_count_max,
            budget: Budget::new(match options.buffer_bytes_max {
                0 => BUDGET_BYTES,
                bytes => bytes,
            }),
            table: ConnTable::default(),
            accepting: AtomicBool::new(true),
        }
    }

    /// Records whether new connections are accepted.
    pub(crate) fn set_accepting(&self, accepting: bool) {
        self.accepting.store(accepting, Relaxed);
    }

    /// True unless new connections wait because the connection limit is reached.
    pub(crate) fn is_accepting(&self) -> bool {
        self.accepting.load(Relaxed)
    }
}
