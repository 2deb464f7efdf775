//! How a connection receives and sends: on readiness of its socket, or through its worker's ring.

use rustix::event::epoll::EventFlags;

use crate::buffers::budget::TIGHT_INPUT_BYTES;
use crate::net::ring::event::Reception;
use crate::net::ring::{BUFFER_BYTES, DirectReceive};
use crate::net::scratch::RECEIVED_BYTES_MAX;
use crate::tls::Tls;

/// The I/O state of a connection. The variant never changes during its lifetime.
#[derive(Debug)]
pub(crate) enum Io {
    /// The connection itself receives and sends when the poller reports that its socket is ready.
    /// TLS connections of a worker with a ring work the same way; for them the ring only polls.
    Epoll(EpollIo),
    /// A ring receives and sends for the connection.
    Uring(UringIo),
}

/// The state of a connection that waits for its socket to become ready.
#[derive(Debug)]
pub(crate) struct EpollIo {
    /// The TLS layer between the socket and the session; `None` without TLS.
    pub(super) tls: Option<Box<Tls>>,
    /// True if the socket may have more input. False once a receive has returned less than the
    /// buffer could take.
    may_receive: bool,
    /// True if the peer has announced that it will send nothing more. The connection then receives
    /// until the end of the input.
    peer_is_done: bool,
    /// The events that the poller waits for on this socket.
    awaited: EventFlags,
}

/// The state of a connection whose bytes a ring receives and sends.
#[derive(Debug, Default)]
pub(crate) struct UringIo {
    receive: Receive,
    /// Why the ring receives nothing more; `None` before that.
    end: Option<End>,
    /// True if bytes have arrived that the session has not received.
    has_unseen: bool,
    /// True if the peer waits for responses before it sends more, so that nothing large arrives
    /// unrequested.
    is_patient: bool,
    /// True while the connection waits for a buffer of the ring.
    is_starved: bool,
    /// Memory of the output that is being sent, in bytes.
    sending_bytes: usize,
    /// True if the socket did not accept all of that output immediately.
    is_stuck: bool,
}

/// The receive that is in progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Receive {
    #[default]
    None,
    /// Continues until it is cancelled.
    Continuous,
    /// Ends by itself or has been cancelled. It may deliver more bytes than allowed while memory is
    /// short.
    Large,
    /// Ends by itself or has been cancelled. It delivers few bytes or exactly as many as requested.
    Small,
}

/// How a peer's input ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The peer has closed its side.
    Closed,
    /// The connection is broken.
    Broken,
}

/// How much the ring should receive.
#[derive(Debug)]
pub(crate) enum Extent {
    /// The next bytes, up to this length. Limits a client that sends without waiting for responses:
    /// many such clients together could otherwise exceed the memory of all connections.
    Once(usize),
    /// Any number of bytes, until cancelled.
    Any,
    /// A part of a value, received directly into its final place.
    Value(Box<DirectReceive>),
}

impl Io {
    /// Creates the I/O state of a new connection. With TLS or without a ring, the connection waits
    /// for readiness.
    pub(crate) fn new(tls: Option<Box<Tls>>, has_ring: bool) -> Self {
        match tls {
            None if has_ring => Self::Uring(UringIo::default()),
            tls => Self::Epoll(EpollIo {
                tls,
                may_receive: false,
                peer_is_done: false,
                awaited: EventFlags::empty(),
            }),
        }
    }

    /// True if a TLS layer is between the socket and the session.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Epoll(EpollIo { tls: Some(_), .. }))
    }

    /// Returns the state under io_uring.
    pub(super) fn uring(&self) -> Option<&UringIo> {
        match self {
            Self::Epoll(_) => None,
            Self::Uring(uring) => Some(uring),
        }
    }

    /// Same as [`Self::uring`], but mutable.
    pub(super) fn uring_mut(&mut self) -> Option<&mut UringIo> {
        match self {
            Self::Epoll(_) => None,
            Self::Uring(uring) => Some(uring),
        }
    }

    /// Returns the TLS layer, if the connection has one.
    pub(super) fn tls_mut(&mut self) -> Option<&mut Tls> {
        match self {
            Self::Epoll(epoll) => epoll.tls.as_deref_mut(),
            Self::Uring(_) => None,
        }
    }

    /// Handles a readiness event of the socket.
    pub(super) fn note_event(&mut self, event: EventFlags) {
        match self {
            Self::Epoll(epoll) => epoll.note_event(event),
            Self::Uring(uring) => uring.has_unseen = true,
        }
    }

    /// True if there may be input that the session has not received.
    #[inline]
    pub(super) fn may_have_input(&self) -> bool {
        match self {
            Self::Epoll(epoll) => epoll.may_receive,
            Self::Uring(uring) => uring.has_unseen,
        }
    }

    /// True if the ring has reported the end of the input.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        match self {
            Self::Epoll(_) => false,
            Self::Uring(uring) => uring.is_over(),
        }
    }

    /// True if the ring has reported an error that ended the connection.
    pub(super) fn is_broken(&self) -> bool {
        self.uring().is_some_and(|uring| uring.end == Some(End::Broken))
    }

    /// True if the I/O layer holds output that the socket has not accepted, in addition to the
    /// connection's own.
    #[inline]
    pub(super) fn has_unsent(&self) -> bool {
        match self {
            Self::Epoll(epoll) => epoll.tls.as_ref().is_some_and(|tls| tls.has_unsent()),
            Self::Uring(uring) => uring.sending_bytes > 0,
        }
    }

    /// Returns how many bytes of input and of output count against the budget.
    #[inline]
    pub(super) fn held_bytes(&self) -> (usize, usize) {
        match self {
            Self::Epoll(EpollIo { tls: None, .. }) => (0, 0),
            Self::Epoll(EpollIo { tls: Some(tls), .. }) => {
                (tls.incoming_bytes(), tls.outgoing_bytes())
            }
            Self::Uring(uring) => (0, uring.stuck_bytes()),
        }
    }
}

impl EpollIo {
    fn note_event(&mut self, event: EventFlags) {
        self.may_receive = true;
        self.peer_is_done |=
            event.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
    }

    /// Records a receive. The socket may have more input if `may_be_more`.
    pub(super) fn note_received(&mut self, may_be_more: bool) {
        self.may_receive = may_be_more || self.peer_is_done;
    }

    /// Records that the socket has no input.
    pub(super) fn note_empty(&mut self) {
        self.may_receive = false;
    }

    /// Records that the poller no longer waits for the socket.
    pub(super) fn note_poll_over(&mut self) {
        self.awaited = EventFlags::empty();
    }

    /// Makes the poller wait for `event` from now on. Returns what it waited for before; `None` if
    /// nothing changes.
    pub(super) fn change_awaited(&mut self, event: EventFlags) -> Option<EventFlags> {
        let before = std::mem::replace(&mut self.awaited, event);
        (before != event).then_some(before)
    }
}

impl UringIo {
    /// True if no receive is in progress, and another one may bring input.
    pub(super) fn can_receive(&self) -> bool {
        self.receive == Receive::None && self.end.is_none()
    }

    /// True if nothing more will be received.
    pub(super) fn is_over(&self) -> bool {
        self.end.is_some()
    }

    /// Returns how much unconsumed input may accumulate before the connection stops receiving.
    pub(super) fn input_bytes_max(&self, is_tight: bool) -> usize {
        match (is_tight, self.is_patient) {
            (true, _) => TIGHT_INPUT_BYTES,
            (false, true) => RECEIVED_BYTES_MAX,
            (false, false) => BUFFER_BYTES,
        }
    }

    /// Starts a direct receive.
    pub(super) fn begin_direct(&mut self) {
        self.receive = Receive::Small;
    }

    /// Starts a receive into buffers of the ring. Only a patient peer may send any number of bytes,
    /// and only while memory is not short (`is_tight`).
    pub(super) fn begin_receive(&mut self, is_tight: bool) -> Extent {
        let (receive, extent) = match (is_tight, self.is_patient) {
            (false, true) => (Receive::Continuous, Extent::Any),
            (false, false) => (Receive::Large, Extent::Once(BUFFER_BYTES)),
            (true, _) => (Receive::Small, Extent::Once(TIGHT_INPUT_BYTES)),
        };
        self.receive = receive;
        extent
    }

    /// Cancels the receive in progress if it would continue. Returns true if it must be cancelled.
    pub(super) fn stop_receive(&mut self) -> bool {
        let stops = self.receive == Receive::Continuous;
        if stops {
            self.receive = Receive::Large;
        }
        stops
    }

    /// Cancels the receive in progress if it may deliver many bytes. Returns true if it must be
    /// cancelled.
    pub(super) fn stop_large_receive(&mut self) -> bool {
        let stops = matches!(self.receive, Receive::Continuous | Receive::Large);
        if stops {
            self.receive = Receive::Small;
        }
        stops
    }

    /// Records that the receive has ended. Returns true if the input has also ended.
    pub(super) fn end_receive(&mut self, reception: Reception) -> bool {
        self.receive = Receive::None;
        let end = match reception {
            Reception::Paused | Reception::Starved => return false,
            Reception::Over => End::Closed,
            Reception::Broken => End::Broken,
        };
        self.end = Some(end);
        true
    }

    /// Records that a direct receive has ended.
    pub(super) fn end_direct(&mut self) {
        self.receive = Receive::None;
    }

    /// Records whether the peer waits for responses before it sends more.
    pub(super) fn set_patient(&mut self, is_patient: bool) {
        self.is_patient = is_patient;
    }

    /// Records that bytes have arrived that the session has not received.
    pub(super) fn note_unseen(&mut self) {
        self.has_unseen = true;
    }

    /// Returns whether bytes have arrived since the last call.
    pub(super) fn take_unseen(&mut self) -> bool {
        std::mem::take(&mut self.has_unseen)
    }

    /// Makes the connection wait for a buffer. Returns false if it already does.
    pub(super) fn starve(&mut self) -> bool {
        !std::mem::replace(&mut self.is_starved, true)
    }

    /// Records that the connection no longer waits for a buffer.
    pub(super) fn end_starving(&mut self) {
        self.is_starved = false;
    }

    /// Records that the ring sends an output that occupies this many bytes of memory.
    pub(super) fn begin_send(&mut self, bytes: usize) {
        self.sending_bytes = bytes;
    }

    /// Records that the socket did not accept all of the output immediately. Returns false if no
    /// output is being sent, or if this was already recorded.
    pub(super) fn note_stuck(&mut self) -> bool {
        let is_new = self.sending_bytes > 0 && !self.is_stuck;
        self.is_stuck |= is_new;
        is_new
    }

    /// Records that the output has been sent. Returns true if it was not accepted immediately.
    pub(super) fn end_send(&mut self) -> bool {
        self.sending_bytes = 0;
        std::mem::take(&mut self.is_stuck)
    }

    /// Returns the memory of an output that was not accepted immediately, in bytes.
    pub(super) fn stuck_bytes(&self) -> usize {
        if self.is_stuck { self.sending_bytes } else { 0 }
    }
}

/// The beginning of a line up to this length is copied in front of the input that follows it.
pub(super) const COPIED_BYTES_MAX: usize = 4 * 1024;
