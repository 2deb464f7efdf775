//! The epoll side of a connection: receives and sends when its socket is ready.

use std::os::fd::OwnedFd;

use larder_item::Second;
use larder_stats::{Counter, Counters};
use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::Connection;
use super::io::{COPIED_BYTES_MAX, EpollIo, Io};
use super::turn::{Begun, Broken, Input, TurnOutcome};
use crate::buffers::backlog::Backlog;
use crate::buffers::budget::TIGHT_INPUT_BYTES;
use crate::net::scratch::{RECEIVED_BYTES_MAX, Scratch};
use crate::session::Next;
use crate::session::execute::Executor;
use crate::tls::{INCOMING_BYTES_MAX, ReceiveResult};

impl Connection {
    /// Begins a turn under epoll: sends the waiting output, then receives once.
    pub(super) fn try_begin_epoll(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
        now: Second,
    ) -> Result<Begun, Broken> {
        if self.has_unsent() {
            self.note_active(now);
            self.send_rest(executor, &mut scratch.records)?;
            if self.has_unsent() {
                return Ok(Begun::Over(TurnOutcome::AwaitOutput));
            }
            // The next turn also reports how much memory the connection holds, but it may begin
            // much later.
            self.report_holding(executor);
            self.note_stage();
        }
        self.pass_region_if_due(executor)?;
        match self.turn.next() {
            Next::Input => {
                if self.io.may_have_input()
                    && let Some(input) = self.receive(executor, scratch)?
                {
                    return Ok(Begun::Ready(input));
                }
                if self.io.tls_mut().is_some() {
                    self.report_holding(executor);
                }
                Ok(Begun::Over(if self.has_unsent() {
                    TurnOutcome::AwaitOutput
                } else if self.io.may_have_input() {
                    // A peer may send TLS records without data forever, so other connections take
                    // their turns first.
                    TurnOutcome::Again
                } else {
                    TurnOutcome::AwaitInput
                }))
            }
            // A watching connection ignores its input, except for the end of it.
            // A change stream reads its input.
            Next::Lines | Next::Changes if self.io.may_have_input() => {
                let input = self.receive(executor, scratch)?;
                Ok(Begun::Ready(input.unwrap_or(Input::Backlog)))
            }
            Next::Lines
            | Next::Changes
            | Next::Wake
            | Next::Origin
            | Next::Drain
            | Next::Region
            | Next::Disk
            | Next::Turn
            | Next::GiveWay => Ok(Begun::Ready(Input::Backlog)),
            Next::Close => Err(Broken),
        }
    }

    /// Receives input up to a limit; returns `None` if there was none.
    ///
    /// Input is received into the scratch, the worker's buffer that its connections share. If the
    /// backlog contains the short beginning of a line, it is copied there, in front of the received
    /// bytes. If the beginning is long, copying it for each receive would cost too much: then the
    /// bytes are received into the backlog, after it.
    fn receive(
        &mut self,
        executor: &Executor,
        scratch: &mut Scratch,
    ) -> Result<Option<Input>, Broken> {
        let Io::Epoll(epoll) = &mut self.io else { return Ok(None) };
        let is_tight = executor.server().connections.budget.allotment(0).is_tight;
        let bytes_max = if is_tight { TIGHT_INPUT_BYTES } else { RECEIVED_BYTES_MAX };
        let (socket, counters, input) = (&self.socket, executor.counters(), &mut self.input);
        let (received, input) = if input.waiting().len() <= COPIED_BYTES_MAX {
            epoll.receive_to_scratch(socket, counters, scratch, input, bytes_max)
        } else {
            let received = epoll.receive_to_backlog(socket, counters, scratch, input, bytes_max);
            (received, Input::Backlog)
        };
        match received {
            Ok(ReceiveResult { is_end: true, .. }) => {
                self.has_left = true;
                Err(Broken)
            }
            Ok(ReceiveResult { bytes, may_be_more, .. }) => {
                epoll.note_received(may_be_more);
                executor.counters().add(Counter::WireBytesRead, bytes as u64);
                Ok((bytes > 0).then_some(input))
            }
            Err(Errno::INTR) => Ok(None),
            Err(Errno::AGAIN) => {
                epoll.note_empty();
                Ok(None)
            }
            Err(_) => Err(Broken),
        }
    }
}

impl EpollIo {
    /// Receives up to `bytes_max` bytes into the scratch, after the beginning of a line that waits
    /// in `input`.
    fn receive_to_scratch(
        &mut self,
        socket: &OwnedFd,
        counters: &Counters,
        scratch: &mut Scratch,
        input: &mut Backlog,
        bytes_max: usize,
    ) -> (Result<ReceiveResult, Errno>, Input) {
        let waiting = input.waiting();
        let (room, records) = scratch.input_room();
        let (front, room) = room.split_at_mut(waiting.len());
        // Nothing of a record can be decrypted before it is complete, so the rest of an incomplete
        // record is received in addition to `bytes_max`.
        let part_bytes = self.tls.as_ref().map_or(0, |tls| tls.incoming_bytes());
        let room_bytes = room.len().min(bytes_max + part_bytes);
        let room = &mut room[..room_bytes];
        let received = match &mut self.tls {
            None => recv(socket, &mut *room, RecvFlags::empty())
                .map(|(bytes, _)| ReceiveResult::plain(bytes, room.len())),
            Some(tls) => {
                let (room_bytes, mut filled) = (room.len(), 0);
                let deliver = |plain: &[u8]| {
                    room[filled..][..plain.len()].copy_from_slice(plain);
                    filled += plain.len();
                };
                tls.receive(socket, counters, records, room_bytes, deliver)
            }
        };
        let mut bytes = 0;
        if let Ok(ReceiveResult { bytes: received_bytes @ 1.., .. }) = received {
            front.copy_from_slice(waiting);
            bytes = waiting.len() + received_bytes;
            *input = Backlog::default();
        }
        (received, Input::Scratch(scratch.take_input(bytes)))
    }

    /// Receives up to `bytes_max` bytes after the beginning of a long line in `input`.
    fn receive_to_backlog(
        &mut self,
        socket: &OwnedFd,
        counters: &Counters,
        scratch: &mut Scratch,
        input: &mut Backlog,
        bytes_max: usize,
    ) -> Result<ReceiveResult, Errno> {
        match &mut self.tls {
            None => {
                let backlog = input.with_room(bytes_max.min(RECEIVED_BYTES_MIN));
                let room_bytes = backlog.capacity() - backlog.len();
                recv(socket, spare_capacity(backlog), RecvFlags::empty())
                    .map(|(bytes, _)| ReceiveResult::plain(bytes, room_bytes))
            }
            Some(tls) => {
                let (room_bytes, records) = (RECORDS_BYTES_MIN, &mut scratch.records);
                let backlog = input.with_room(room_bytes);
                let deliver = |plain: &[u8]| backlog.extend_from_slice(plain);
                tls.receive(socket, counters, records, room_bytes, deliver)
            }
        }
    }
}

/// Minimum space for input after the beginning of a longer line.
const RECEIVED_BYTES_MIN: usize = 16 * 1024;

/// The same with TLS, where received bytes are appended to an incomplete record.
const RECORDS_BYTES_MIN: usize = INCOMING_BYTES_MAX + RECEIVED_BYTES_MIN;
