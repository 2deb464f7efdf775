//! `/api/v1/history`: the last hour of the server, with one point every ten seconds.
//!
//! A task on the listener's thread records the points from the rows of `stats`, even while no
//! client requests them. The memory is bounded, and cache requests do none of the work.

mod points;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use larder_protocol::StatsSection;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval, sleep};

use super::metrics::answer;
use super::{AdminContext, Shared};
use crate::clock::monotonic_us;
use crate::server::Server;
use points::{Points, Sample};

/// The points of this process. A successor or a restarted server begins with an empty list.
#[derive(Debug, Default)]
pub(super) struct History(Mutex<Points>);

impl History {
    /// Returns the document.
    pub(super) fn document(&self) -> Value {
        let points = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        points.document(monotonic_us())
    }

    fn add(&self, sample: Sample) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(sample);
    }
}

/// Records points from the time at which the server serves until the listener ends.
pub(super) async fn record(shared: Arc<Shared>) {
    let server = loop {
        match shared.serving.get() {
            Some(AdminContext { server, .. }) => break server,
            None => sleep(OPENING_PAUSE).await,
        }
    };
    let mut ticks = interval(Duration::from_secs(points::INTERVAL_SECS));
    // If the thread stalls, the missed points stay gaps. They are not recorded later.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        shared.history.add(sample(server).await);
    }
}

/// Returns the current counters.
async fn sample(server: &Arc<Server>) -> Sample {
    // The cache's clock may be up to a second old here: only workers advance it at each request.
    // This call advances it.
    server.clock();
    let rows = answer(server, StatsSection::General).await;
    let numbers = rows.into_iter().filter_map(|(name, text)| Some((name, text.parse().ok()?)));
    Sample { taken_us: monotonic_us(), rows: numbers.collect() }
}

/// How often the task checks whether the cache is open.
const OPENING_PAUSE: Duration = Duration::from_millis(200);
