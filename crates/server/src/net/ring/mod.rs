//! io_uring: receives, sends and waits with one system call per turn of the loop. Except for one
//! call in `process::overdue`, this is the only module of this crate with unsafe code.
//!
//! The [`Ring`] owns everything that the kernel works on, until the kernel reports completion.
//! Receive buffers are lent out as [`LentBuffer`] and returned. Outputs are moved into
//! [`Ring::send`] and returned with [`Event::Sent`]. A [`DirectReceive`] is moved in with its
//! buffer and returned with [`Event::DirectDone`]. A [`DiskRead`] owns its memory and keeps its
//! file open; it is moved into [`Ring::read`] and returned with [`Event::Read`]. Code that holds
//! none of these cannot free memory that the kernel uses.
//!
//! A submission queue entry refers to a descriptor by its number, until the kernel takes the entry
//! and holds the file itself. So only [`Ring::hang_up`] closes a socket that has entries. It owns
//! the socket until the kernel has taken every entry that may refer to it. No entry can therefore
//! refer to the next file with the same descriptor number.
//!
//! Source: io_uring(7), io_uring_enter(2), io_uring_register_buf_ring(3).
#![allow(unsafe_code)]

mod buffers;
mod direct;
pub(crate) mod event;
mod sending;

use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use larder::DiskRead;
use nix::libc;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;
use slab::Slab;

use crate::buffers::output::Output;
use crate::net::disk_reads::DiskQuery;
use crate::net::hangup::HangUp;
use crate::net::token::Token;
use buffers::Buffers;
pub(crate) use buffers::{BUFFER_BYTES, BUFFERS, LentBuffer};
pub(crate) use direct::DirectReceive;
use event::{Event, Reception};
use sending::SendInProgress;

/// One thread's io_uring.
pub(crate) struct Ring {
    io: IoUring,
    buffers: Buffers,
    sends: Slab<SendInProgress>,
    direct_receives: Slab<(Token, Box<DirectReceive>)>,
    reads: Slab<DiskQuery<DiskRead>>,
    /// Sockets to close once the kernel has taken all entries that were queued before the entry
    /// with the socket's number.
    hang_ups: Slab<HangUp>,
    /// The number of operations whose last completion has not arrived.
    under_way: usize,
}

impl Ring {
    /// Creates a ring for the thread that will call [`Self::enable`].
    ///
    /// # Errors
    /// Fails if the kernel is too old, or does not permit io_uring.
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
        // SAFETY: the entries are page-aligned, `BUFFERS` in number, and outlive the ring: `drop`
        // frees them only after the kernel has completed all receives, or never.
        unsafe {
            let entries = buffers.entries.as_ptr() as u64;
            io.submitter().register_buf_ring_with_flags(entries, BUFFERS, GROUP, 0)?;
        }
        let (sends, direct_receives, reads, hang_ups) = Default::default();
        Ok(Self { io, buffers, sends, direct_receives, reads, hang_ups, under_way: 0 })
    }

    /// Makes the calling thread the only user of the ring.
    ///
    /// # Errors
    /// Returns the error of the system call.
    pub(crate) fn enable(&mut self) -> io::Result<()> {
        self.io.submitter().register_enable_rings()
    }

    /// Waits once for `events`; the completion carries `key`. A key has at most 60 bits.
    pub(crate) fn poll(&mut self, descriptor: BorrowedFd<'_>, key: u64, events: EventFlags) {
        let poll = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events.bits());
        self.push(poll.build(), Kind::Poll, key);
    }

    /// Same as [`Self::poll`], but reports each new event until it is stopped.
    pub(crate) fn poll_on(&mut self, descriptor: BorrowedFd<'_>, key: u64, events: EventFlags) {
        let poll = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events.bits()).multi(true);
        self.push(poll.build(), Kind::Poll, key);
    }

    /// Cancels a [`Self::poll`] or [`Self::poll_on`]. If it has not completed yet, it never will.
    pub(crate) fn stop_polling(&mut self, key: u64) {
        let cancel = opcode::AsyncCancel::new(Kind::Poll.tag(key));
        self.push(cancel.build(), Kind::Cancel, 0);
    }

    /// Receives into the buffers until the receive ends.
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, token: Token) {
        let receive = opcode::RecvMulti::new(Fd(socket.as_raw_fd()), GROUP);
        self.push(receive.build(), Kind::Receive, token.into());
    }

    /// Receives once, at most `bytes_max` bytes and at most one buffer.
    pub(crate) fn receive_once(&mut self, socket: BorrowedFd<'_>, token: Token, bytes_max: usize) {
        let socket = Fd(socket.as_raw_fd());
        let bytes_max = bytes_max.min(BUFFER_BYTES) as u32;
        let receive = opcode::Recv::new(socket, ptr::null_mut(), bytes_max)
            .buf_group(GROUP)
            .build()
            .flags(squeue::Flags::BUFFER_SELECT);
        self.push(receive, Kind::Receive, token.into());
    }

    /// Receives once, into the memory of the direct receive.
    pub(crate) fn receive_at(
        &mut self,
        socket: BorrowedFd<'_>,
        token: Token,
        mut direct: Box<DirectReceive>,
    ) {
        let header = direct.header();
        let number = self.direct_receives.insert((token, direct)) as u64;
        let receive = opcode::RecvMsg::new(Fd(socket.as_raw_fd()), header);
        self.push(receive.build(), Kind::DirectReceive, number);
    }

    /// Cancels the receive of a connection. Input that has already arrived is still delivered.
    pub(crate) fn stop_receiving(&mut self, token: Token) {
        let cancel = opcode::AsyncCancel::new(Kind::Receive.tag(token.into()));
        self.push(cancel.build(), Kind::Cancel, 0);
    }

    /// Sends the unsent rest of an output, or its first part. [`Event::Sent`] reports the progress.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, token: Token, output: Output) {
        let sending = SendInProgress::new(token, output);
        let send = sending.operation(socket);
        let number = self.sends.insert(sending) as u64;
        self.push(send, Kind::Send, number);
    }

    /// Reads from the disk. [`Event::Read`] reports the completion.
    pub(crate) fn read(&mut self, mut asked: DiskQuery<DiskRead>) {
        let (file, offset) = (Fd(asked.of.descriptor().as_raw_fd()), asked.of.offset());
        let room = asked.of.room();
        let (start, bytes) = (room.as_mut_ptr(), u32::try_from(room.len()).unwrap_or(0));
        let flags = match asked.of.is_prompt() {
            true => squeue::Flags::empty(),
            // Makes a thread of the kernel wait for the read instead of this one.
            false => squeue::Flags::ASYNC,
        };
        let number = self.reads.insert(asked) as u64;
        let read = opcode::Read::new(file, start, bytes).offset(offset).build().flags(flags);
        self.push(read, Kind::Read, number);
    }

    /// Returns the received bytes.
    pub(crate) fn bytes(&self, lent: &LentBuffer) -> &[u8] {
        self.buffers.bytes(lent)
    }

    /// Returns a buffer to the kernel.
    pub(crate) fn give_back(&mut self, lent: LentBuffer) {
        self.buffers.provide(lent.number);
    }

    /// Cancels all operations on the socket of a connection, and closes it. [`Event::Closed`]
    /// reports that. Outputs in the submission queue are still sent, as far as the socket accepts
    /// them immediately.
    ///
    /// The kernel takes the queue's entries in order. When the last entry queued here completes, no
    /// entry refers to the descriptor any longer. Only then is its number freed.
    pub(crate) fn hang_up(&mut self, hang_up: HangUp, token: Token) {
        // A multi-shot poll would keep the socket alive in the kernel forever, because it reports a
        // shutdown as an event and continues. For a moment there may be two polls; this cancels all
        // of them.
        let polls = CancelBuilder::user_data(Kind::Poll.tag(token.into())).all();
        self.push(opcode::AsyncCancel2::new(polls).build(), Kind::Cancel, 0);
        let number = self.hang_ups.insert(hang_up) as u64;
        let cancel = opcode::AsyncCancel::new(Kind::Receive.tag(token.into()));
        self.push(cancel.build(), Kind::HangUp, number);
    }

    /// Returns the number of operations whose last completion has not arrived.
    #[cfg(test)]
    pub(crate) fn under_way(&self) -> usize {
        self.under_way
    }

    /// Submits all operations, and waits for a completion or the timeout. Appends the events to
    /// `events`.
    ///
    /// # Errors
    /// Returns the error of the system call.
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
            // The timeout passed, a signal arrived, or the events must be handled first.
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
        let Self { io, sends, direct_receives, reads, hang_ups, under_way, .. } = self;
        for entry in io.completion() {
            if !cqueue::more(entry.flags()) {
                *under_way -= 1;
            }
            let (kind, key) = (entry.user_data() >> KEY_BITS, entry.user_data() & KEY_MAX);
            if kind == Kind::HangUp as u64 {
                // This is the completion of the cancellation. Whether there was a receive to cancel
                // does not matter: the socket can be closed now.
                if let Some(hang_up) = hang_ups.try_remove(key as usize) {
                    events.push(Event::Closed(hang_up.as_fd().as_raw_fd()));
                    hang_up.finish();
                }
            } else if kind == Kind::Read as u64 {
                let bytes = usize::try_from(entry.result()).unwrap_or(0);
                let read = reads
                    .try_remove(key as usize)
                    .map(|asked| Box::new(asked.map(|read| (read, bytes))));
                events.extend(read.map(Event::Read));
            } else {
                complete(&entry, sends, direct_receives, events);
            }
        }
        Ok(())
    }

    fn push(&mut self, entry: squeue::Entry, kind: Kind, key: u64) {
        let entry = entry.user_data(kind.tag(key));
        // SAFETY: memory that the entry points to is kept in `sends`, `direct_receives` or `reads`
        // until its completion; other entries contain no pointers.
        while unsafe { self.io.submission().push(&entry) }.is_err() {
            // The queue is full. Entries that cannot be submitted now are submitted later.
            let _ = self.io.submit();
        }
        self.under_way += 1;
    }

    /// Cancels all operations. Returns false if the kernel does not complete some of them.
    fn cancel_all(&mut self) -> bool {
        let mut events = Vec::new();
        let mut attempts_in_vain = 0;
        while self.under_way > 0 && attempts_in_vain < CANCEL_ATTEMPTS_MAX {
            let before = self.under_way;
            let second = Timespec::from(Duration::from_secs(1));
            let submitter = self.io.submitter();
            // The result is not needed: whether anything was cancelled shows in the completions.
            let _ = submitter.submit();
            let _ = submitter.register_sync_cancel(Some(second), CancelBuilder::any());
            // The kernel reports a few completions at a time.
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
            // The kernel may still read or write the memory that these own, so it must never be
            // reused.
            mem::forget((mem::take(&mut self.sends), mem::take(&mut self.direct_receives)));
            mem::forget(mem::take(&mut self.reads));
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

/// Turns a completion into events.
fn complete(
    entry: &cqueue::Entry,
    sends: &mut Slab<SendInProgress>,
    direct_receives: &mut Slab<(Token, Box<DirectReceive>)>,
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
            // A cancelled poll reports nothing.
            Err(Errno::CANCELED) => {}
            // Only the waiter itself can poll again, so the ring reports the error as an event.
            Err(_) => events.push(Event::Ready(key, EventFlags::ERR, true)),
        }
    } else if kind == Kind::Receive as u64 {
        let token = Token::from(key);
        if let Some(number) = cqueue::buffer_select(entry.flags()) {
            let bytes = done.unwrap_or(0).min(BUFFER_BYTES);
            events.push(Event::Received(token, LentBuffer { number, bytes }));
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
        && let Some(SendInProgress { token, mut output, .. }) = sends.try_remove(key as usize)
    {
        output.note_sent(done.unwrap_or(0));
        events.push(Event::Sent(token, output, done));
    } else if kind == Kind::DirectReceive as u64
        && let Some((token, direct)) = direct_receives.try_remove(key as usize)
    {
        events.push(Event::DirectDone(token, direct, done));
    }
}

/// The kind of an operation, stored next to its key in the completion's user data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Poll,
    Receive,
    Send,
    DirectReceive,
    Read,
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

/// The id of the only buffer group.
const GROUP: u16 = 0;

/// Number of entries that can be queued between two waits without an extra system call.
const SUBMISSIONS: u32 = 1024;

const COMPLETIONS: u32 = 4096;

const CANCEL_ATTEMPTS_MAX: usize = 10;

#[cfg(test)]
mod tests;
