//! The io_uring side of a connection: the ring delivers received bytes to it and sends its output.

use larder_item::Second;
use larder_stats::Counter;

use super::{Begun, Broken, COPIED_BYTES_MAX, Connection, Input, Outcome};
use crate::buffers::backlog::Backlog;
use crate::buffers::budget::TIGHT_INPUT_BYTES;
use crate::net::ring::event::Reception;
use crate::net::ring::{Arrival, BUFFER_BYTES};
use crate::net::scratch::{RECEIVED_BYTES_MAX, Scratch};
use crate::session::Next;
use crate::session::execute::Executor;

/// The io_uring state of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UringIo {
    /// True while a receive is in progress.
    pub(super) is_receiving: bool,
    /// True if the receive has been cancelled, or ends by itself.
    pub(super) is_stopping: bool,
    /// True if the receive may bring more at once than is allowed while memory is short.
    pub(super) receives_much: bool,
    /// True if the peer waits for responses before it sends more, so that nothing large arrives
    /// unrequested.
    pub(super) is_patient: bool,
    /// True if nothing more will be received.
    pub(super) is_over: bool,
    /// True if the connection is over because of an error.
    pub(super) is_broken: bool,
    /// Memory of the output that is being sent, in bytes.
    pub(super) sending_bytes: usize,
    /// The same, if the socket did not accept all of it at once.
    pub(super) stuck_bytes: usize,
}

/// How much the ring shall receive.
#[derive(Debug)]
pub(crate) enum Extent {
    /// The next bytes, up to this length. This limits a client that sends without waiting for
    /// responses: otherwise many of them together would exceed the memory of all connections.
    Once(usize),
    /// Any number of bytes, until cancelled.
    Any,
    /// A part of a value, received directly to its place.
    Value(Box<Arrival>),
}

/// What happens with received bytes.
#[derive(Debug)]
pub(crate) enum Taken {
    /// They are the input of a turn that begins.
    AsItIs,
    /// Together with the waiting bytes they are the input of a turn that begins.
    As(Input),
    /// They were appended to the backlog.
    Kept,
}

impl Connection {
    /// True if a ring receives and sends for the connection.
    pub(crate) fn is_uring(&self) -> bool {
        self.uring.is_some()
    }

    /// True if the session can continue as soon as input arrives.
    fn awaits_input(&self) -> bool {
        matches!(self.next, Next::Input | Next::Lines)
            && !self.has_turn
            && !self.is_ready
            && !self.has_unsent()
    }

    /// True if there is room for more input, and no receive is in progress.
    pub(crate) fn can_receive(&self, is_tight: bool) -> bool {
        let Some(uring) = &self.uring else { return false };
        let held_bytes_max = match (is_tight, uring.is_patient) {
            (true, _) => TIGHT_INPUT_BYTES,
            (false, true) => RECEIVED_BYTES_MAX,
            (false, false) => BUFFER_BYTES,
        };
        let has_room = self.input.held_bytes() < held_bytes_max || self.awaits_input();
        has_room && !uring.is_receiving && !uring.is_over
    }

    /// Decides what the ring shall receive for the connection, and marks the receive as started.
    /// Only a session that waits for input may receive any number of bytes, and not while memory is
    /// short (`is_tight`).
    pub(crate) fn begin_receiving(&mut self, is_tight: bool) -> Option<Extent> {
        if !self.can_receive(is_tight) {
            return None;
        }
        let awaits_input = self.awaits_input();
        let uring = self.uring.as_mut()?;
        uring.is_receiving = true;
        uring.is_stopping = true;
        if awaits_input
            && self.input.is_empty()
            && let Some((direct_buffer, value_bytes, is_last)) = self.session.direct_buffer()
        {
            uring.receives_much = false;
            return Some(Extent::Value(Arrival::new(direct_buffer, value_bytes, is_last)));
        }
        let is_any = uring.is_patient && !is_tight;
        uring.is_stopping = !is_any;
        uring.receives_much = !is_tight;
        let bytes_max = if is_tight { TIGHT_INPUT_BYTES } else { BUFFER_BYTES };
        Some(if is_any { Extent::Any } else { Extent::Once(bytes_max) })
    }

    /// Completes a direct receive of a part of a value. Returns true if the session has input to
    /// execute.
    pub(crate) fn take_direct(
        &mut self,
        executor: &Executor,
        arrival: Box<Arrival>,
        bytes: usize,
        now: Second,
    ) -> bool {
        executor.counters().add(Counter::WireBytesRead, bytes as u64);
        self.note_active(now);
        if let Some(uring) = &mut self.uring {
            (uring.is_receiving, uring.is_stopping) = (false, false);
        }
        let (direct_buffer, value_bytes, behind) = arrival.into_parts(bytes);
        self.session.complete_direct(direct_buffer, value_bytes);
        self.input.push(&behind);
        self.has_turn |= !behind.is_empty();
        !behind.is_empty()
    }

    /// Takes bytes that the ring has received.
    pub(crate) fn take_received(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
        bytes: &[u8],
    ) -> Taken {
        executor.counters().add(Counter::WireBytesRead, bytes.len() as u64);
        let can_go_on = self.awaits_input();
        let is_part = self.session.is_in_block();
        if let Some(uring) = &mut self.uring {
            uring.is_patient = can_go_on && bytes.len() < BUFFER_BYTES && !is_part;
        }
        let waiting = self.input.waiting();
        let taken = if can_go_on && waiting.is_empty() {
            Taken::AsItIs
        } else if can_go_on && waiting.len() <= COPIED_BYTES_MAX {
            let (room, _) = scratch.input_room();
            let whole = waiting.len() + bytes.len();
            room[..waiting.len()].copy_from_slice(waiting);
            room[waiting.len()..whole].copy_from_slice(bytes);
            self.input = Backlog::default();
            Taken::As(Input::Scratch(scratch.take_input(whole)))
        } else {
            self.input.push(bytes);
            if can_go_on {
                Taken::As(Input::Backlog)
            } else {
                self.may_receive = true;
                self.report_holding(executor);
                Taken::Kept
            }
        };
        if can_go_on {
            self.has_turn = true;
        }
        taken
    }

    /// True if the ring receives into buffers although a direct receive would be better.
    pub(crate) fn receives_too_little(&self) -> bool {
        self.session.awaits_much() && self.awaits_input()
    }

    /// Returns true if the receive in progress must be cancelled, because its input would have to
    /// wait or because a direct receive is better; marks it as stopping.
    pub(crate) fn stops_receiving(&mut self) -> bool {
        self.uring.as_mut().is_some_and(|uring| {
            let stops = uring.is_receiving && !uring.is_stopping;
            uring.is_stopping |= stops;
            stops
        })
    }

    /// Returns true if the receive in progress must be replaced by a smaller one because memory is
    /// short; marks it as stopping.
    pub(crate) fn receives_less(&mut self) -> bool {
        self.uring.as_mut().is_some_and(|uring| {
            let stops = uring.is_receiving && uring.receives_much;
            uring.receives_much &= !stops;
            uring.is_stopping |= stops;
            stops
        })
    }

    /// Records that the receive has ended. Returns true if the connection has nothing more to do.
    pub(crate) fn note_reception(&mut self, reception: Reception) -> bool {
        let is_busy = self.has_unsent() || self.is_ready || self.may_receive;
        let Some(uring) = &mut self.uring else { return false };
        uring.is_receiving = false;
        uring.is_stopping = false;
        match reception {
            Reception::Paused | Reception::Starved => false,
            // Input that arrived before is executed first, even if the peer no longer waits for the
            // response.
            Reception::Over | Reception::Broken => {
                uring.is_over = true;
                uring.is_broken = reception == Reception::Broken;
                let is_busy = is_busy || self.has_turn;
                if !is_busy {
                    self.note_left();
                }
                !is_busy
            }
        }
    }

    /// Records that all input has been executed and the peer has closed its side.
    pub(super) fn note_left(&mut self) {
        self.has_left |= !self.uring.is_some_and(|uring| uring.is_broken);
    }

    /// Records that the ring sends an output of this memory size.
    pub(crate) fn note_sending(&mut self, bytes: usize) {
        if let Some(uring) = &mut self.uring {
            uring.sending_bytes = bytes;
        }
    }

    /// Records that the ring has sent `bytes`.
    pub(crate) fn note_progress(&mut self, executor: &Executor, bytes: usize, now: Second) {
        executor.counters().add(Counter::WireBytesWritten, bytes as u64);
        self.note_active(now);
    }

    /// Records that the ring's send is complete.
    pub(crate) fn note_sent(&mut self, executor: &Executor) {
        let Some(uring) = &mut self.uring else { return };
        let was_stuck = uring.stuck_bytes > 0;
        (uring.sending_bytes, uring.stuck_bytes) = (0, 0);
        if was_stuck {
            // The next turn, which would report it, may be far off.
            self.report_holding(executor);
            self.note_stage();
        }
    }

    /// If the send in progress was not accepted at once, counts it as waiting output.
    pub(crate) fn note_stuck(&mut self, executor: &Executor) {
        let Some(uring) = &mut self.uring else { return };
        if uring.sending_bytes > 0 && uring.stuck_bytes == 0 {
            uring.stuck_bytes = uring.sending_bytes;
            self.note_stage();
            self.report_holding(executor);
        }
    }

    /// True if the ring has seen the end of the input.
    pub(super) fn is_over(&self) -> bool {
        self.uring.is_some_and(|uring| uring.is_over)
    }

    /// Begins a turn under io_uring, where the input has already been received.
    pub(super) fn try_begin_uring(&mut self, executor: &Executor) -> Result<Begun, Broken> {
        if self.has_unsent() {
            return Ok(Begun::Over(Outcome::AwaitOutput));
        }
        self.pass_region_if_due(executor)?;
        let has_more = std::mem::take(&mut self.may_receive);
        match self.next {
            Next::Close => return Err(Broken),
            Next::Drain | Next::Region | Next::Turn | Next::GiveWay => {}
            Next::Input | Next::Lines if has_more => {}
            Next::Input | Next::Lines if self.is_over() => {
                self.note_left();
                return Err(Broken);
            }
            Next::Input => return Ok(Begun::Over(Outcome::AwaitInput)),
            Next::Lines => {}
        }
        Ok(Begun::Ready(Input::Backlog))
    }
}
