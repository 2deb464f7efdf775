//! The io_uring side of a connection. The ring delivers received bytes to it and sends its output.

use larder_item::Second;
use larder_stats::Counter;

use super::Connection;
use super::io::{COPIED_BYTES_MAX, Extent, UringIo};
use super::turn::{Begun, Broken, Input, TurnOutcome};
use crate::buffers::backlog::Backlog;
use crate::net::ring::event::Reception;
use crate::net::ring::{BUFFER_BYTES, DirectReceive};
use crate::net::scratch::Scratch;
use crate::session::Next;
use crate::session::execute::Executor;

/// How a connection has handled received bytes.
#[derive(Debug)]
pub(crate) enum ReceiveOutcome {
    /// The bytes are the input of a turn that begins.
    AsItIs,
    /// The bytes, together with the waiting bytes, are the input of a turn that begins.
    As(Input),
    /// The bytes were appended to the backlog.
    Kept,
}

impl Connection {
    /// True if a ring receives and sends for the connection.
    pub(crate) fn is_uring(&self) -> bool {
        self.io.uring().is_some()
    }

    /// True if the session can continue as soon as input arrives.
    fn awaits_input(&self) -> bool {
        self.turn.awaits_input() && !self.has_unsent()
    }

    /// True if the connection can buffer more input, and no receive is in progress.
    pub(crate) fn can_receive(&self, is_tight: bool) -> bool {
        let Some(uring) = self.io.uring() else { return false };
        let has_room =
            self.input.held_bytes() < uring.input_bytes_max(is_tight) || self.awaits_input();
        has_room && uring.can_receive()
    }

    /// Decides what the ring should receive for the connection, and marks the receive as started.
    pub(crate) fn begin_receiving(&mut self, is_tight: bool) -> Option<Extent> {
        if !self.can_receive(is_tight) {
            return None;
        }
        let awaits_input = self.awaits_input();
        let uring = self.io.uring_mut()?;
        if awaits_input
            && self.input.is_empty()
            && let Some((direct_buffer, value_bytes, is_last)) = self.session.direct_buffer()
        {
            uring.begin_direct();
            return Some(Extent::Value(DirectReceive::new(direct_buffer, value_bytes, is_last)));
        }
        Some(uring.begin_receive(is_tight))
    }

    /// Completes a direct receive of a part of a value. Returns true if the session has input to
    /// execute.
    pub(crate) fn take_direct(
        &mut self,
        executor: &Executor,
        direct: Box<DirectReceive>,
        bytes: usize,
        now: Second,
    ) -> bool {
        executor.counters().add(Counter::WireBytesRead, bytes as u64);
        self.note_active(now);
        if let Some(uring) = self.io.uring_mut() {
            uring.end_direct();
        }
        let (direct_buffer, value_bytes, behind) = direct.into_parts(bytes);
        self.session.complete_direct(direct_buffer, value_bytes);
        self.input.push(&behind);
        let has_input = !behind.is_empty();
        if has_input {
            self.turn.begin();
        }
        has_input
    }

    /// Accepts bytes that the ring has received.
    pub(crate) fn take_received(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
        bytes: &[u8],
    ) -> ReceiveOutcome {
        executor.counters().add(Counter::WireBytesRead, bytes.len() as u64);
        let can_go_on = self.awaits_input();
        let is_part = self.session.is_in_block();
        if let Some(uring) = self.io.uring_mut() {
            uring.set_patient(can_go_on && bytes.len() < BUFFER_BYTES && !is_part);
        }
        let waiting = self.input.waiting();
        let taken = if can_go_on && waiting.is_empty() {
            ReceiveOutcome::AsItIs
        } else if can_go_on && waiting.len() <= COPIED_BYTES_MAX {
            let (room, _) = scratch.input_room();
            let whole = waiting.len() + bytes.len();
            room[..waiting.len()].copy_from_slice(waiting);
            room[waiting.len()..whole].copy_from_slice(bytes);
            self.input = Backlog::default();
            ReceiveOutcome::As(Input::Scratch(scratch.take_input(whole)))
        } else {
            self.input.push(bytes);
            if can_go_on {
                ReceiveOutcome::As(Input::Backlog)
            } else {
                if let Some(uring) = self.io.uring_mut() {
                    uring.note_unseen();
                }
                self.report_holding(executor);
                ReceiveOutcome::Kept
            }
        };
        if can_go_on {
            self.turn.begin();
        }
        taken
    }

    /// True if the ring receives into buffers although a direct receive would be better.
    pub(crate) fn receives_too_little(&self) -> bool {
        self.session.awaits_much() && self.awaits_input()
    }

    /// True if the receive in progress must be cancelled, either because its input would have to
    /// wait or because a direct receive is better. Marks the receive as stopping.
    pub(crate) fn stops_receiving(&mut self) -> bool {
        self.io.uring_mut().is_some_and(UringIo::stop_receive)
    }

    /// True if a smaller receive must replace the one in progress because memory is short. Marks
    /// the receive as stopping.
    pub(crate) fn receives_less(&mut self) -> bool {
        self.io.uring_mut().is_some_and(UringIo::stop_large_receive)
    }

    /// Makes the connection wait for a buffer of the ring. Returns false if it already does.
    pub(crate) fn starve(&mut self) -> bool {
        self.io.uring_mut().is_some_and(UringIo::starve)
    }

    /// Records that the connection no longer waits for a buffer of the ring.
    pub(crate) fn end_starving(&mut self) {
        if let Some(uring) = self.io.uring_mut() {
            uring.end_starving();
        }
    }

    /// Records that the receive has ended. Returns true if the connection has nothing more to do.
    pub(crate) fn note_reception(&mut self, reception: Reception) -> bool {
        // Earlier input is executed first, even if the peer no longer waits for the response.
        let is_busy = self.has_unsent()
            || self.turn.is_queued()
            || self.turn.has_begun()
            || self.turn.awaits_result()
            || self.io.may_have_input();
        let Some(uring) = self.io.uring_mut() else { return false };
        let is_over = uring.end_receive(reception) && !is_busy;
        if is_over {
            self.note_left();
        }
        is_over
    }

    /// Records that all input has been executed and the peer has closed its side.
    pub(super) fn note_left(&mut self) {
        self.has_left |= !self.io.is_broken();
    }

    /// Records that the ring sends an output that occupies this many bytes of memory.
    pub(crate) fn note_sending(&mut self, bytes: usize) {
        if let Some(uring) = self.io.uring_mut() {
            uring.begin_send(bytes);
        }
    }

    /// Records that the ring has sent `bytes` bytes.
    pub(crate) fn note_progress(&mut self, executor: &Executor, bytes: usize, now: Second) {
        executor.counters().add(Counter::WireBytesWritten, bytes as u64);
        self.note_active(now);
    }

    /// Records that the ring's send is complete.
    pub(crate) fn note_sent(&mut self, executor: &Executor) {
        if self.io.uring_mut().is_some_and(UringIo::end_send) {
            // The next turn also reports how much memory the connection holds, but it may begin
            // much later.
            self.report_holding(executor);
            self.note_stage();
        }
    }

    /// If the send in progress was not accepted immediately, counts it as waiting output.
    pub(crate) fn note_stuck(&mut self, executor: &Executor) {
        if self.io.uring_mut().is_some_and(UringIo::note_stuck) {
            self.note_stage();
            self.report_holding(executor);
        }
    }

    /// Begins a turn under io_uring, where the input has already been received.
    pub(super) fn try_begin_uring(&mut self, executor: &Executor) -> Result<Begun, Broken> {
        if self.has_unsent() {
            return Ok(Begun::Over(TurnOutcome::AwaitOutput));
        }
        self.pass_region_if_due(executor)?;
        let has_more = self.io.uring_mut().is_some_and(UringIo::take_unseen);
        match self.turn.next() {
            Next::Close => return Err(Broken),
            Next::Drain
            | Next::Region
            | Next::Disk
            | Next::Turn
            | Next::GiveWay
            | Next::Wake
            | Next::Origin => {}
            Next::Input | Next::Lines | Next::Changes if has_more => {}
            Next::Input | Next::Lines | Next::Changes if self.io.is_over() => {
                self.note_left();
                return Err(Broken);
            }
            Next::Input => return Ok(Begun::Over(TurnOutcome::AwaitInput)),
            Next::Lines | Next::Changes => {}
        }
        Ok(Begun::Ready(Input::Backlog))
    }
}
