//! io_uring: receiving, sending and waiting by one system call a loop turn. The one module of this crate with
//! unsafe code.
//!
//! Whatever the kernel works on belongs to the [`Ring`] until the kernel says that it is done: the buffers that it
//! receives into are lent out as [`Lent`] and come back, those that it sends from are given to [`Ring::send`] and
//! returned with [`Event::Sent`], the room for what a cache is to get is given as an [`Arrival`] and returned with
//! [`Event::DirectDone`]. Whoever holds none of them can free none of them.
//!
//! An entry of the submission queue names a descriptor by its number, until the kernel takes the entry and holds the
//! file itself. So a socket with entries is closed by [`Ring::hang_up`] alone, which owns it until the kernel has taken
//! every entry that may name it: no entry can name the next holder of the number.
//!
//! Source: io_uring(7), io_uring_enter(2), io_uring_register_buf_ring(3).
#![allow(unsafe_code)]

mod arrival;
mod buffers;
mod places;
mod sending;

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use nix::libc;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::net::connections::Token;
use crate::net::hangup::HangUp;
use crate::net::output::Output;
use crate::net::poller::Event;
pub(crate) use arrival::Arrival;
use buffers::Buffers;
pub(crate) use buffers::{BUFFER_BYTES, BUFFERS, Lent};
use places::Places;
use sending::Sending;

/// One thread's io_uring.
pub(crate) struct Ring {
    io: IoUring,
    buffers: Buffers,
    sends: Places<Sending>,
    arrivals: Places<(Token, Box<Arrival>)>,
    /// Sockets that are closed once the kernel has taken all entries before the one with their number here.
    hang_ups: Places<HangUp>,
    /// Operations of which the last completion has not come.
    under_way: usize,
}

/// Why receiving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reception {
    /// It was stopped, or the kernel wants to be asked again.
    Paused,
    /// All buffers were lent.
    Starved,
    /// The peer sends no more.
    Over,
    /// The connection is broken.
    Broken,
}

impl Ring {
    /// A ring for the thread that calls [`Self::enable`].
    ///
    /// # Errors
    /// The kernel is too old, or does not allow it.
    pub(crate) fn new() -> io::Result<Self> {
        let io = IoUring::builder()
            .setup_cqsize(COMPLETIONS)
            .setup_r_disabled()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .build(SUBMISSIONS)?;
        if !(io.params().is_feature_nodrop() && io.params().is_feature_ext_arg()) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let buffers = Buffers::new();
        // SAFETY: the entries are page-aligned, as many as is said, and live as long as the ring: `drop` lets them
        // go only after the kernel is done with all receives, or never.
        unsafe {
            let entries = buffers.entries.as_ptr() as u64;
            io.submitter().register_buf_ring_with_flags(entries, BUFFERS, GROUP, 0)?;
        }
        let (sends, arrivals, hang_ups) = Default::default();
        Ok(Self { io, buffers, sends, arrivals, hang_ups, under_way: 0 })
    }

    /// Makes the calling thread the one that uses it.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn enable(&mut self) -> io::Result<()> {
        self.io.submitter().register_enable_rings()
    }

    /// Waits once for what is in `events`; `key` comes with the completion. A key has at most 60 bits.
    pub(crate) fn poll(&mut self, descriptor: BorrowedFd<'_>, key: u64, events: EventFlags) {
        let poll = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events.bits());
        self.push(poll.build(), Kind::Poll, key);
    }

    /// As [`Self::poll`], again and again: each time that something more has come.
    pub(crate) fn poll_on(&mut self, descriptor: BorrowedFd<'_>, key: u64, events: EventFlags) {
        let poll = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events.bits()).multi(true);
        self.push(poll.build(), Kind::Poll, key);
    }

    /// Gives up a [`Self::poll`] or [`Self::poll_on`]: if it has not completed, it never will.
    pub(crate) fn stop_polling(&mut self, key: u64) {
        let cancel = opcode::AsyncCancel::new(Kind::Poll.tag(key));
        self.push(cancel.build(), Kind::Cancel, 0);
    }

    /// Receives whatever comes, until that ends.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, token: Token) {
        let receive = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP);
        self.push(receive.build(), Kind::Receive, token.into());
    }

    /// Receives what comes next, at most `bytes_max` and one buffer; then it ends.
    pub(crate) fn receive_once(&mut self, socket: BorrowedFd<'_>, token: Token, bytes_max: usize) {
        let socket = Fd(socket.as_raw_fd());
        let bytes_max = bytes_max.min(BUFFER_BYTES) as u32;
        let receive = opcode::Recv::new(socket, ptr::null_mut(), bytes_max)
            .buf_group(GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.push(receive, Kind::Receive, token.into());
    }

    /// Receives what comes next to where it belongs; then it ends.
    pub(crate) fn receive_at(
        &mut self,
        socket: BorrowedFd<'_>,
        token: Token,
        mut arrival: Box<Arrival>,
    ) {
        let header = arrival.header();
        let number = self.arrivals.keep((token, arrival));
        let receive = opcode::RecvMsg::new(Fd(socket.as_raw_fd()), header);
        self.push(receive.build(), Kind::Arrival, number);
    }

    /// Receives no more than what has come by now.
    pub(crate) fn stop_receiving(&mut self, token: Token) {
        let cancel = opcode::AsyncCancel::new(Kind::Receive.tag(token.into()));
        self.push(cancel.build(), Kind::Cancel, 0);
    }

    /// Sends of an output what is left, or a part of it: so much that it is known how it gets on.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, token: Token, output: Output) {
        let sending = Sending::new(token, output);
        let send = sending.operation(socket);
        let number = self.sends.keep(sending);
        self.push(send, Kind::Send, number);
    }

    /// What was received.
    pub(crate) fn bytes(&self, lent: &Lent) -> &[u8] {
        self.buffers.bytes(lent)
    }

    /// Lets the kernel have a buffer again.
    pub(crate) fn give_back(&mut self, lent: Lent) {
        self.buffers.provide(lent.number);
    }

    /// Ends all operations on the socket of a connection, and closes it; [`Event::Closed`] says when. Answers that are
    /// in the submission queue are still sent, as far as the socket takes them at once.
    ///
    /// The kernel takes the entries of the queue in their order. When the last entry that is queued here completes, no
    /// entry is left that names the descriptor: only then the number becomes free.
    pub(crate) fn hang_up(&mut self, hang_up: HangUp, token: Token) {
        // A poll for many times would hold the socket in the kernel for ever: a shutdown is an event to it, not its end.
        // There may be two for a moment: all of them end.
        let polls = CancelBuilder::user_data(Kind::Poll.tag(token.into())).all();
        self.push(opcode::AsyncCancel2::new(polls).build(), Kind::Cancel, 0);
        let number = self.hang_ups.keep(hang_up);
        let cancel = opcode::AsyncCancel::new(Kind::Receive.tag(token.into()));
        self.push(cancel.build(), Kind::HangUp, number);
    }

    /// Operations of which the last completion has not come.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Begins everything that was asked for, and waits until something is done, at most for so long. Appends what is
    /// done to `events`.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn wait(
        &mut self,
        timeout: Option<Duration>,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        let waited = match timeout {
            None => self.io.submit_and_wait(1),
            Some(timeout) => {
                let timeout = Timespec::from(timeout);
                self.io.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timeout))
            }
        };
        match waited {
            Ok(_) => {}
            // Time is up, a signal came, or there are events to be taken first.
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let Self { io, sends, arrivals, hang_ups, under_way, .. } = self;
        for entry in io.completion() {
            if !cqueue::more(entry.flags()) {
                *under_way -= 1;
            }
            let (kind, key) = (entry.user_data() >> KEY_BITS, entry.user_data() & KEY_MAX);
            if kind == Kind::HangUp as u64 {
                // Whether there was a receive to be cancelled does not matter.
                if let Some(hang_up) = hang_ups.take(key) {
                    events.push(Event::Closed(hang_up.as_fd().as_raw_fd()));
                    hang_up.finish();
                }
            } else {
                complete(&entry, sends, arrivals, events);
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: squeue::Entry, kind: Kind, key: u64) {
        let entry = entry.user_data(kind.tag(key));
        // SAFETY: what the entry points to is kept in `sends` or `arrivals` until its completion; the others point to
        // nothing.
        while unsafe { self.io.submission().push(&entry) }.is_err() {
            // The queue is full. What cannot be submitted now is submitted by and by.
            let _ = self.io.submit();
        }
        self.under_way += 1;
    }

    /// Ends everything that is under way; false where the kernel does not let go of something.
    fn cancel_all(&mut self) -> bool {
        let mut events = Vec::new();
        let mut attempts_in_vain = 0;
        while self.under_way > 0 && attempts_in_vain < CANCEL_ATTEMPTS_MAX {
            let before = self.under_way;
            let second = Timespec::from(Duration::from_secs(1));
            let submitter = self.io.submitter();
            // It tells where there was nothing to cancel; what counts is what completes.
            let _ = submitter.submit();
            let _ = submitter.register_sync_cancel(Some(second), CancelBuilder::any());
            // The kernel tells a few at a time.
            if self.wait(Some(Duration::from_millis(10)), &mut events).is_err() {
                return false;
            }
            events.clear();
            attempts_in_vain = if self.under_way < before { 0 } else { attempts_in_vain + 1 };
        }
        self.under_way == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if !self.cancel_all() {
            // The kernel may still read or write what these own: it must never become other memory.
            mem::forget((mem::take(&mut self.sends), mem::take(&mut self.arrivals)));
            self.buffers.is_leaked = true;
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("under_way", &self.under_way).finish_non_exhaustive()
    }
}

fn is_passing(error: &io::Error) -> bool {
    let passing = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN];
    error.raw_os_error().is_some_and(|number| passing.contains(&number))
}

/// What a completion says.
fn complete(
    entry: &cqueue::Entry,
    sends: &mut Places<Sending>,
    arrivals: &mut Places<(Token, Box<Arrival>)>,
    events: &mut Vec<Event>,
) {
    let (tag, result) = (entry.user_data(), entry.result());
    let (kind, key) = (tag >> KEY_BITS, tag & KEY_MAX);
    let done = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
    if kind == Kind::Poll as u64 {
        match done {
            Ok(flags) => {
                let (flags, is_over) = (flags as u32, !cqueue::more(entry.flags()));
                events.push(Event::Ready(key, EventFlags::from_bits_retain(flags), is_over));
            }
            // One that was given up has nothing to say.
            Err(Errno::CANCELED) => {}
            // Nobody else would ask again.
            Err(_) => events.push(Event::Ready(key, EventFlags::ERR, true)),
        }
    } else if kind == Kind::Receive as u64 {
        let token = Token::from(key);
        if let Some(number) = cqueue::buffer_select(entry.flags()) {
            let bytes = done.unwrap_or(0).min(BUFFER_BYTES);
            events.push(Event::Received(token, Lent { number, bytes }));
        }
        if !cqueue::more(entry.flags()) {
            let reception = match done {
                Ok(0) => Reception::Over,
                Ok(_) | Err(Errno::CANCELED) => Reception::Paused,
                Err(Errno::NOBUFS) => Reception::Starved,
                Err(_) => Reception::Broken,
            };
            events.push(Event::Ended(token, reception));
        }
    } else if kind == Kind::Send as u64
        && let Some(Sending { token, mut output, .. }) = sends.take(key)
    {
        output.note_sent(done.unwrap_or(0));
        events.push(Event::Sent(token, output, done));
    } else if kind == Kind::Arrival as u64
        && let Some((token, arrival)) = arrivals.take(key)
    {
        events.push(Event::DirectDone(token, arrival, done));
    }
}

/// What an operation is for, beside the key in what the kernel hands back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Poll,
    Receive,
    Send,
    Arrival,
    Cancel,
    HangUp,
}

impl Kind {
    fn tag(self, key: u64) -> u64 {
        debug_assert!(key <= KEY_MAX);
        (self as u64) << KEY_BITS | key
    }
}

const KEY_BITS: u32 = 60;
/// The highest key.
pub(crate) const KEY_MAX: u64 = (1 << KEY_BITS) - 1;

/// The one group of buffers.
const GROUP: u16 = 0;

/// So much is asked for between two waits without a system call of its own.
const SUBMISSIONS: u32 = 1024;

const COMPLETIONS: u32 = 4096;

const CANCEL_ATTEMPTS_MAX: usize = 10;

#[cfg(test)]
mod tests;
