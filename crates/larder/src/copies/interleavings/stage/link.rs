//! A connection to the origin for the fetches of a key.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::copies::sync::{Mutex, lock};
use crate::copies::{Flight, FlightResult};

/// Rule: FetchesInOrder. The origin executes the fetches in the order in which they were sent, and
/// their answers arrive and are processed in this order.
#[derive(Debug, Default)]
pub(super) struct Link {
    sent: Mutex<VecDeque<Arc<Flight>>>,
    /// Its lock is never held during a step of another thread, so it needs no step of its own.
    arrived: std::sync::Mutex<VecDeque<(Arc<Flight>, FlightResult)>>,
    /// Held by the thread that processes answers.
    receiving: Mutex<()>,
}

impl Link {
    pub(super) fn send(&self, flight: &Arc<Flight>) {
        lock(&self.sent).push_back(Arc::clone(flight));
    }

    /// Answers the first fetch. Returns false if there was none.
    pub(super) fn answer(&self, answer: impl FnOnce(&Flight) -> FlightResult) -> bool {
        let mut sent = lock(&self.sent);
        let Some(flight) = sent.pop_front() else { return false };
        let result = answer(&flight);
        self.arrived.lock().unwrap().push_back((flight, result));
        true
    }

    /// Passes the answers that have arrived to `land`. Returns how often it returned true.
    pub(super) fn receive(&self, land: impl Fn(&Arc<Flight>, FlightResult) -> bool) -> usize {
        let _receiving = lock(&self.receiving);
        let next = || self.receive_first(&land);
        std::iter::from_fn(next).filter(|is_kept| *is_kept).count()
    }

    /// Passes the first answer to `land`. In the scene no other thread processes answers.
    pub(super) fn receive_first(
        &self,
        land: impl Fn(&Arc<Flight>, FlightResult) -> bool,
    ) -> Option<bool> {
        let (flight, result) = self.arrived.lock().unwrap().pop_front()?;
        Some(land(&flight, result))
    }
}
