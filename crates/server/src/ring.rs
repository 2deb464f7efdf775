//! io_uring: receiving, sending and waiting by one system call a loop turn. The one file of this crate with
//! unsafe code.
//!
//! Whatever the kernel works on belongs to the [`Ring`] until the kernel says that it is done: the buffers that it
//! receives into are lent out as [`Lent`] and come back, those that it sends from are given to [`Ring::send`] and
//! returned with [`Event::Sent`], the room for what a cache is to get is given as an [`Arrival`] and returned with
//! [`Event::Landed`]. Whoever holds none of them can free none of them.
//!
//! Source: io_uring(7), io_uring_enter(2), io_uring_register_buf_ring(3).
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::cell::UnsafeCell;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU16, Ordering::Release};
use std::time::Duration;

use io_uring::types::{BufRingEntry, CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, cqueue, opcode, squeue};
use larder::Landing;
use nix::libc;
use rustix::event::epoll::EventFlags;
use rustix::io::Errno;

use crate::connections::Token;
use crate::output::Output;
use crate::poller::Event;

/// One thread's io_uring.
pub(crate) struct Ring {
    io: IoUring,
    buffers: Buffers,
    sends: Places<Sending>,
    arrivals: Places<(Token, Box<Arrival>)>,
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

/// A buffer with what was received in it. Must be given back.
#[derive(Debug)]
pub(crate) struct Lent {
    number: u16,
    bytes: usize,
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
        let (sends, arrivals) = (Places::default(), Places::default());
        Ok(Self { io, buffers, sends, arrivals, under_way: 0 })
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

    /// Receives what comes next, one buffer at most; then it ends.
    pub(crate) fn receive_once(&mut self, socket: BorrowedFd<'_>, token: Token) {
        let socket = Fd(socket.as_raw_fd());
        let receive = opcode::Recv::new(socket, ptr::null_mut(), BUFFER_BYTES as u32)
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
        // What is in a vector, a box or a cache stays where it is when its owner is moved; `sends` keeps it unchanged.
        let (socket, flags) = (Fd(socket.as_raw_fd()), libc::MSG_NOSIGNAL);
        let (send, message) = if output.is_whole() {
            let rest = output.rest();
            let length = u32::try_from(rest.len()).unwrap_or(u32::MAX);
            (opcode::Send::new(socket, rest.as_ptr(), length).flags(flags).build(), None)
        } else {
            let message = Message::of(&output);
            let send = opcode::SendMsg::new(socket, &raw const message.header);
            (send.flags(flags as u32).build(), Some(message))
        };
        let number = self.sends.keep(Sending { token, output, _message: message });
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

    /// Begins everything that was asked for. Before a descriptor is closed on which something was asked for, since its
    /// number may be another's soon.
    ///
    /// # Errors
    /// The system's.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.io.submit().map(drop)
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
        let Self { io, sends, arrivals, under_way, .. } = self;
        for entry in io.completion() {
            if !cqueue::more(entry.flags()) {
                *under_way -= 1;
            }
            complete(&entry, sends, arrivals, events);
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
        for _ in 0..CANCEL_ATTEMPTS_MAX {
            if self.under_way == 0 {
                return true;
            }
            let second = Timespec::from(Duration::from_secs(1));
            let submitter = self.io.submitter();
            // It tells where there was nothing to cancel; what counts is what completes.
            let _ = submitter.submit();
            let _ = submitter.register_sync_cancel(Some(second), CancelBuilder::any());
            if self.wait(Some(Duration::from_millis(10)), &mut events).is_err() {
                return false;
            }
            events.clear();
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
        events.push(Event::Landed(token, arrival, done));
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

/// A part of a value that is received to where it stays, and what comes behind the value.
pub(crate) struct Arrival {
    landing: Landing,
    value_bytes: usize,
    /// The kernel writes to it.
    behind: UnsafeCell<[u8; BEHIND_BYTES]>,
    has_behind: bool,
    /// Made when the kernel is told.
    header: libc::msghdr,
    parts: [libc::iovec; 2],
}

// SAFETY: what it points to belongs to no thread. `behind` is lent only to who has all of it.
unsafe impl Send for Arrival {}

impl Arrival {
    /// For the first `value_bytes` of the landing's room; with room for what comes behind where the value ends there.
    pub(crate) fn new(landing: Landing, value_bytes: usize, has_behind: bool) -> Box<Self> {
        let nowhere = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };
        Box::new(Self {
            landing,
            value_bytes,
            behind: UnsafeCell::new([0; BEHIND_BYTES]),
            has_behind,
            // SAFETY: a header of zeros is one without address, parts and control data.
            header: unsafe { mem::zeroed() },
            parts: [nowhere; 2],
        })
    }

    /// The room, how many of the `bytes` received are in it, and those that came behind.
    pub(crate) fn into_parts(self: Box<Self>, bytes: usize) -> (Landing, usize, Vec<u8>) {
        let value_bytes = bytes.min(self.value_bytes);
        let Self { landing, behind, .. } = *self;
        let behind = behind.into_inner();
        let behind = behind.get(..bytes - value_bytes).unwrap_or_default();
        (landing, value_bytes, behind.to_vec())
    }

    /// What the kernel is to be told. All of it stays where it is while the box does.
    fn header(&mut self) -> *mut libc::msghdr {
        if let Some((at, room_bytes)) = self.landing.room() {
            let iov_len = self.value_bytes.min(room_bytes);
            self.parts[0] = libc::iovec { iov_base: at.as_ptr().cast(), iov_len };
        }
        let iov_len = if self.has_behind { BEHIND_BYTES } else { 0 };
        self.parts[1] = libc::iovec { iov_base: self.behind.get().cast(), iov_len };
        (self.header.msg_iov, self.header.msg_iovlen) = (self.parts.as_mut_ptr(), 2);
        &raw mut self.header
    }
}

impl fmt::Debug for Arrival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("landing", &self.landing).finish_non_exhaustive()
    }
}

/// Room for what comes behind a value: the line end, and the beginning of what is sent with it.
const BEHIND_BYTES: usize = 64;

/// What the kernel works on, by number.
#[derive(Debug)]
struct Places<T> {
    places: Vec<Option<T>>,
    free: Vec<usize>,
}

/// What is being sent.
#[derive(Debug)]
struct Sending {
    token: Token,
    output: Output,
    /// What the kernel reads of it where it has several parts.
    _message: Option<Box<Message>>,
}

/// Where the parts of an output are, as the kernel wants to be told.
struct Message {
    header: libc::msghdr,
    /// What the header points to.
    _parts: Vec<libc::iovec>,
}

// SAFETY: what it points to belongs to no thread; it is only ever read, by the kernel.
unsafe impl Send for Message {}

impl Message {
    /// Of what is left of an output.
    fn of(output: &Output) -> Box<Self> {
        let part = |part: &[u8]| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        };
        let mut parts: Vec<libc::iovec> = output.parts().map(part).collect();
        // SAFETY: a header of zeros is one without address, parts and control data.
        let mut header: libc::msghdr = unsafe { mem::zeroed() };
        (header.msg_iov, header.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        Box::new(Self { header, _parts: parts })
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("parts", &self.header.msg_iovlen).finish_non_exhaustive()
    }
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }
}

impl<T> Places<T> {
    fn keep(&mut self, kept: T) -> u64 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        self.places[number] = Some(kept);
        number as u64
    }

    fn take(&mut self, number: u64) -> Option<T> {
        let number = usize::try_from(number).ok()?;
        let kept = self.places.get_mut(number)?.take()?;
        self.free.push(number);
        Some(kept)
    }
}

/// The buffers that the kernel receives into, in the order in which they were provided.
struct Buffers {
    /// The list of those that the kernel may take, which it reads; the tail is in the first entry.
    entries: NonNull<BufRingEntry>,
    bytes: NonNull<u8>,
    tail: u16,
    is_leaked: bool,
}

// SAFETY: it owns its memory, which nothing else points to but the kernel.
unsafe impl Send for Buffers {}

impl Buffers {
    fn new() -> Self {
        let mut buffers = Self {
            entries: zeroed(ENTRIES_LAYOUT).cast(),
            bytes: zeroed(BYTES_LAYOUT),
            tail: 0,
            is_leaked: false,
        };
        (0..BUFFERS).for_each(|number| buffers.provide(number));
        buffers
    }

    /// Where a buffer begins.
    fn at(&self, number: u16) -> NonNull<u8> {
        let offset = usize::from(number % BUFFERS) * BUFFER_STRIDE;
        // SAFETY: the memory is `BUFFERS` strides long.
        unsafe { self.bytes.add(offset) }
    }

    fn bytes(&self, lent: &Lent) -> &[u8] {
        // SAFETY: the buffer has `BUFFER_BYTES` bytes, initialised from the start. Until the `Lent`, of which there is
        // one for each time that the kernel has handed the buffer out, is given back the kernel does not write to it.
        unsafe { std::slice::from_raw_parts(self.at(lent.number).as_ptr(), lent.bytes) }
    }

    /// Puts a buffer at the end of the list.
    fn provide(&mut self, number: u16) {
        let at = usize::from(self.tail % BUFFERS);
        // SAFETY: the list has `BUFFERS` entries. The kernel reads this one after the tail has passed it, below; the
        // entry's last two bytes, which are the tail in the first one, are not touched.
        unsafe {
            let entry = &mut *self.entries.as_ptr().add(at);
            entry.set_addr(self.at(number).as_ptr() as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(number);
        }
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the tail is a half word of the list, aligned, that the kernel only reads.
        let tail = unsafe {
            let tail = BufRingEntry::tail(self.entries.as_ptr()).cast_mut();
            AtomicU16::from_ptr(tail)
        };
        // The kernel, which sees the tail, sees the entry.
        tail.store(self.tail, Release);
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: they were allocated with these layouts. The ring is dropped before them, or is done with all of
            // its receives: nobody uses them any more.
            unsafe {
                dealloc(self.entries.as_ptr().cast(), ENTRIES_LAYOUT);
                dealloc(self.bytes.as_ptr(), BYTES_LAYOUT);
            }
        }
    }
}

fn zeroed(layout: Layout) -> NonNull<u8> {
    // SAFETY: neither layout is empty.
    NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

const PAGE_BYTES: usize = 4096;
const ENTRIES_LAYOUT: Layout = layout(BUFFERS as usize * size_of::<BufRingEntry>());
const BYTES_LAYOUT: Layout = layout(BUFFERS as usize * BUFFER_STRIDE);

const fn layout(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, PAGE_BYTES) {
        Ok(layout) => layout,
        Err(_) => panic!("a few pages"),
    }
}

/// The one group of buffers.
const GROUP: u16 = 0;

/// How many there are: a power of two. Touched in turn, so that few stay in the processor's caches.
const BUFFERS: u16 = 128;

/// So much is received at once.
pub(crate) const BUFFER_BYTES: usize = 16 * 1024;

/// A line more than a buffer: that the beginnings of all of them, which is what small requests use, do not compete
/// for the same places in the caches.
const BUFFER_STRIDE: usize = BUFFER_BYTES + 64;

/// So much is asked for between two waits without a system call of its own.
const SUBMISSIONS: u32 = 1024;

const COMPLETIONS: u32 = 4096;

const CANCEL_ATTEMPTS_MAX: usize = 10;

#[cfg(test)]
mod tests;
