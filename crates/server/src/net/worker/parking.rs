//! Turns whose output waits until the disk contains the changes that it confirms.
//!
//! ```text
//! executed ── depends on what is not durable ──▶ parked ── the log is synced ──▶ sent
//!                                                   └──── the log has failed ──▶ closed
//! ```
//!
//! A parked connection stays in its turn, and reads again only when that is over. Other connections
//! of the worker continue. Each sync wakes the workers that have parked turns. Without this wait, a
//! client could receive the confirmation of a change that a power failure then undoes.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

use larder::{DurabilityTicket, TicketState};
use larder_protocol::text::watched::CloseReason;

use super::{PendingTurn, Worker};
use crate::net::connection::turn::Input;

impl Worker {
    /// Makes each sync of the disk wake this worker, if turns wait for one.
    pub(super) fn watch_syncs(&self) {
        let inbox = Arc::clone(&self.inbox);
        self.executor.cache().on_sync(move || {
            // Pairs with the fence in `durability`: either the worker observes the sync, or this
            // thread observes that the worker parks.
            fence(SeqCst);
            if inbox.take_parking() {
                inbox.waker().wake();
            }
        });
    }

    /// Parks a turn that waits for the disk, or closes its connection if the log has failed.
    /// Returns false if the turn may be sent.
    #[cold]
    pub(super) fn holds_back(&mut self, turn: &mut PendingTurn) -> bool {
        let Some(awaited) = turn.awaited else { return false };
        // A turn without output confirms nothing that a crash could undo.
        if turn.output.is_empty() {
            return false;
        }
        match self.durability(awaited) {
            TicketState::Durable => false,
            TicketState::Unknown => {
                self.close(turn.token, CloseReason::Error);
                true
            }
            TicketState::Pending => {
                if let Some(connection) = self.connections.of_mut(turn.token) {
                    connection.park();
                    let input = Input::Backlog;
                    let rest = PendingTurn::new(turn.token, input);
                    self.parked.push(std::mem::replace(turn, rest));
                }
                true
            }
        }
    }

    /// Returns whether the changes of the ticket are durable. If not, the next sync wakes this
    /// worker.
    fn durability(&self, awaited: DurabilityTicket) -> TicketState {
        let cache = self.executor.cache();
        match cache.durability(awaited) {
            TicketState::Pending => {
                self.inbox.note_parking();
                fence(SeqCst);
                cache.durability(awaited)
            }
            settled => settled,
        }
    }

    /// Sends the parked turns whose wait is over.
    pub(super) fn send_parked(&mut self) {
        for mut turn in std::mem::take(&mut self.parked) {
            if let Some(connection) = self.connections.of_mut(turn.token) {
                connection.unpark();
                self.send(slice::from_mut(&mut turn));
            }
        }
    }
}
