//! The turns of a connection: their states, their limits and their results. A turn is the work that
//! the worker does for one connection before it serves the next one.
//!
//! ```text
//! waiting ── there is input ──▶ begun ── it is executed ──▶ waiting
//! waiting ── there is more to do ──▶ queued ── the worker comes to it ──▶ waiting
//! ```
//!
//! Only [`TurnState`] changes the state. The worker, the session and the I/O of epoll and of
//! io_uring report to it.

use std::ops::Range;

use larder::{Second, Wait};

use crate::buffers::budget::Allotment;
use crate::net::ring::LentBuffer;
use crate::session::Next;

/// The state of a connection between the turns that its worker runs.
#[derive(Debug, Default)]
pub(super) struct TurnState {
    phase: Phase,
    /// The event that the session waits for.
    next: Next,
    /// True once the session has executed input.
    has_run: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// The connection waits for an event.
    #[default]
    Waiting,
    /// The connection waits for another turn instead of an event.
    Queued,
    /// A turn with input has begun. A second turn must not begin before it ends, because that turn
    /// would execute later input first.
    Begun,
}

impl TurnState {
    /// Returns what the session waits for.
    #[inline]
    pub(super) fn next(&self) -> Next {
        self.next
    }

    /// True if the session can continue as soon as input arrives.
    pub(super) fn awaits_input(&self) -> bool {
        self.phase == Phase::Waiting
            && matches!(self.next, Next::Input | Next::Lines | Next::Changes)
    }

    /// True if the session waits for the result of a command that it has read.
    pub(super) fn awaits_result(&self) -> bool {
        matches!(self.next, Next::Wake | Next::Origin)
    }

    /// True if the connection waits for another turn.
    pub(super) fn is_queued(&self) -> bool {
        self.phase == Phase::Queued
    }

    /// True if a turn with input has begun.
    pub(super) fn has_begun(&self) -> bool {
        self.phase == Phase::Begun
    }

    /// Queues the connection for another turn.
    pub(super) fn queue(&mut self) {
        self.phase = Phase::Queued;
    }

    /// Takes the connection out of the queue. Returns false if a turn with input has already begun.
    pub(super) fn leave_queue(&mut self) -> bool {
        if self.phase == Phase::Queued {
            self.phase = Phase::Waiting;
        }
        self.phase == Phase::Waiting
    }

    /// Begins a turn with input.
    pub(super) fn begin(&mut self) {
        self.phase = Phase::Begun;
    }

    /// Keeps the turn open until the disk contains the changes that its output confirms.
    pub(super) fn park(&mut self) {
        self.phase = Phase::Begun;
    }

    /// Records that the input of the turn is being executed.
    pub(super) fn execute(&mut self) {
        self.phase = Phase::Waiting;
    }

    /// Records what the session waits for after it has executed input.
    pub(super) fn progress(&mut self, next: Next) {
        self.next = next;
        self.has_run = true;
    }

    /// True once the session has executed input.
    pub(super) fn has_run(&self) -> bool {
        self.has_run
    }

    /// Records that the cache's memory was sent to the peer, so that the session can continue.
    pub(super) fn pass_region(&mut self) {
        self.next = Next::Turn;
    }
}

/// The start of a turn.
#[derive(Debug)]
pub(crate) enum Begun {
    /// There is input to execute.
    Ready(Input),
    /// The turn is already over.
    Over(TurnOutcome),
    /// An earlier turn has begun and is not over.
    Earlier,
}

/// The location of a turn's input.
#[derive(Debug)]
pub(crate) enum Input {
    /// In this range of the scratch.
    Scratch(Range<usize>),
    /// In a buffer that the ring lent.
    Lent(LentBuffer),
    /// In the connection's backlog.
    Backlog,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnOutcome {
    /// Wait for input.
    AwaitInput,
    /// Wait until the peer receives its output.
    AwaitOutput,
    /// Wait until the worker is woken: for watch lines to send, or for the verification of a
    /// password.
    AwaitWake,
    /// Wait until the inbox of the worker contains the connection.
    AwaitOrigin,
    /// Wait for input, or until this connection is woken because there are changes to report.
    AwaitChanges,
    /// Continue without waiting, after the turns of the other connections.
    Again,
    /// Close the connection.
    Close,
}

/// The conditions under which a turn is executed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnTerms<'a> {
    /// How the operations of the turn wait for the disk.
    pub(crate) wait: Wait<'a>,
    /// The current second.
    pub(crate) now: Second,
    /// True if other connections wait for their turn.
    pub(crate) contended: bool,
    /// How many keys of lists the turn may look up.
    pub(crate) keys_max: usize,
    pub(crate) allotment: Allotment,
}

/// The peer is gone, or the connection must be closed.
pub(super) struct Broken;
