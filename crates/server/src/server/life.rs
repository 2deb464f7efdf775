//! The lifetime of a server's process: its start, its clock, and its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use larder_item::Second;

use crate::clock::Warp;
use crate::server::drain::Drain;
use crate::server::heartbeats::Heartbeats;
use crate::stop::Stop;

/// The state of the process between its start and its end.
#[derive(Debug)]
pub(crate) struct Life {
    /// The second in which this process began to serve. An inherited cache is older.
    pub(crate) started: Second,
    /// Lets clients move the clock (`debugtime`); `None` unless enabled.
    pub(crate) warp: Option<Arc<Warp>>,
    /// Whether the workers still run their loops, for the admin listener.
    pub(crate) heartbeats: Heartbeats,
    /// The drain, which closes connections so that the server can be ended.
    pub(crate) drain: Drain,
    pub(crate) stop: Arc<Stop>,
    /// True once another process accepts connections and datagrams in place of this one.
    handed_over: AtomicBool,
}

impl Life {
    /// Creates the state of a process that begins to serve at `started`.
    pub(super) fn new(
        started: Second,
        warp: Option<Arc<Warp>>,
        worker_count: usize,
        stop: Arc<Stop>,
    ) -> Self {
        Self {
            started,
            warp,
            heartbeats: Heartbeats::new(worker_count),
            drain: Drain::default(),
            stop,
            handed_over: AtomicBool::new(false),
        }
    }

    /// Records that another process accepts connections and datagrams in place of this one.
    pub(crate) fn hand_over(&self) {
        self.handed_over.store(true, Relaxed);
    }

    /// True once another process accepts connections and datagrams in place of this one.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.handed_over.load(Relaxed)
    }
}
