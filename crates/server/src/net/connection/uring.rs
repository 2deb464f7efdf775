//! A connection for which a ring receives and sends: what has come is brought to it, what it answers is taken from it.

use larder_item::Second;
use larder_stats::Counter;

use super::{Begun, Broken, COPIED_BYTES_MAX, Connection, Input, Outcome};
use crate::net::backlog::Backlog;
use crate::net::budget::TIGHT_INPUT_BYTES;
use crate::net::ring::{Arrival, BUFFER_BYTES, Reception};
use crate::net::scratch::{RECEIVED_BYTES_MAX, Scratch};
use crate::session::Next;
use crate::session::execute::Executor;

/// What a ring does for a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UringIo {
    /// Does it receive?
    pub(super) is_receiving: bool,
    /// Has it been told to stop, or does that by itself?
    pub(super) is_stopping: bool,
    /// True if it may receive more at once than while memory is short.
    pub(super) receives_much: bool,
    /// Does the peer wait for answers before it sends on? So nothing large comes unasked.
    pub(super) is_patient: bool,
    /// Will there never be anything more to receive?
    pub(super) is_over: bool,
    /// Is that so because the connection broke?
    pub(super) is_broken: bool,
    /// The memory of what is being sent, in bytes.
    pub(super) sending_bytes: usize,
    /// The same, where the socket did not take all of it at once.
    pub(super) stuck_bytes: usize,
}

/// How much a ring is to receive.
#[derive(Debug)]
pub(crate) enum Extent {
    /// What comes next, up to this length. A client that sends without waiting for answers is held to what
    /// may wait by that: else many of them at once bring more than all connections may hold.
    Once(usize),
    /// Whatever comes.
    Any,
    /// What belongs to a value, at its place.
    Value(Box<Arrival>),
}

/// What became of received bytes.
#[derive(Debug)]
pub(crate) enum Taken {
    /// They are the input of a turn that begins.
    AsItIs,
    /// With what waited before they are.
    As(Input),
    /// They wait.
    Kept,
}

impl Connection {
    /// Do its bytes come and go without its doing?
    pub(crate) fn is_uring(&self) -> bool {
        self.uring.is_some()
    }

    /// Can its session go on as soon as something comes?
    fn awaits_input(&self) -> bool {
        matches!(self.next, Next::Input | Next::Lines)
            && !self.has_turn
            && !self.is_ready
            && !self.has_unsent()
    }

    /// Is there room for more input, and is none received already?
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

    /// Shall the ring be asked to receive for it? It is taken to be. Only what the session waits for may be any amount,
    /// and not while memory is short (`is_tight`).
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

    /// Takes what a ring has received of a value to its place. True where there is something for the session to do.
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

    /// Takes what a ring has received for it.
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

    /// Does something come, as whatever comes, that had better come to its place?
    pub(crate) fn receives_too_little(&self) -> bool {
        self.session.awaits_much() && self.awaits_input()
    }

    /// Is it better not to receive more, after something that has to wait or before what comes by itself?
    pub(crate) fn stops_receiving(&mut self) -> bool {
        self.uring.as_mut().is_some_and(|uring| {
            let stops = uring.is_receiving && !uring.is_stopping;
            uring.is_stopping |= stops;
            stops
        })
    }

    /// True if the ring is to be asked again, for less: memory is short, and it may receive much.
    pub(crate) fn receives_less(&mut self) -> bool {
        self.uring.as_mut().is_some_and(|uring| {
            let stops = uring.is_receiving && uring.receives_much;
            uring.receives_much &= !stops;
            uring.is_stopping |= stops;
            stops
        })
    }

    /// A ring receives nothing more for it. True where there is nothing more to do, either.
    pub(crate) fn note_reception(&mut self, reception: Reception) -> bool {
        let is_busy = self.has_unsent() || self.is_ready || self.may_receive;
        let Some(uring) = &mut self.uring else { return false };
        uring.is_receiving = false;
        uring.is_stopping = false;
        match reception {
            Reception::Paused | Reception::Starved => false,
            // What has come before is executed first, also where nobody waits for the answer any more.
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

    /// Everything that had come has been executed, and there is no more.
    pub(super) fn note_left(&mut self) {
        self.has_left |= !self.uring.is_some_and(|uring| uring.is_broken);
    }

    /// A ring sends for it, from so much memory.
    pub(crate) fn note_sending(&mut self, bytes: usize) {
        if let Some(uring) = &mut self.uring {
            uring.sending_bytes = bytes;
        }
    }

    /// A ring has sent so much for it.
    pub(crate) fn note_progress(&mut self, executor: &Executor, bytes: usize, now: Second) {
        executor.counters().add(Counter::WireBytesWritten, bytes as u64);
        self.note_active(now);
    }

    /// What a ring sends for it is at the peer's, or on its way there.
    pub(crate) fn note_sent(&mut self, executor: &Executor) {
        let Some(uring) = &mut self.uring else { return };
        let was_stuck = uring.stuck_bytes > 0;
        (uring.sending_bytes, uring.stuck_bytes) = (0, 0);
        if was_stuck {
            // There may be no turn that would report it for a long time.
            self.report_holding(executor);
            self.note_stage();
        }
    }

    /// If what a ring sends for it was not taken at once: counts that as output that waits.
    pub(crate) fn note_stuck(&mut self, executor: &Executor) {
        let Some(uring) = &mut self.uring else { return };
        if uring.sending_bytes > 0 && uring.stuck_bytes == 0 {
            uring.stuck_bytes = uring.sending_bytes;
            self.note_stage();
            self.report_holding(executor);
        }
    }

    /// Has a ring seen the end of what comes?
    pub(super) fn is_over(&self) -> bool {
        self.uring.is_some_and(|uring| uring.is_over)
    }

    /// Where a ring sends and receives there is nothing to do but to look at what has come.
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
