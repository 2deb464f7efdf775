//! A batch: the commands that one call of [`Session::receive`](super::Session::receive) executes.

use larder::{Piece, Wait};
use larder_protocol::{Command, Frame, Response, binary, render};

use super::allowance::Next;
use crate::buffers::output::Output;
use crate::log::Interest;
use crate::near::boot_ms;
use crate::session::execute::{Call, Executor};
use crate::session::observer::Observer;

/// One call of [`Session::receive`](super::Session::receive).
pub(super) struct Batch<'a> {
    pub(super) executor: &'a Executor,
    pub(super) out: &'a mut Output,
    /// Maximum length of the output including the next item. A read whose item would exceed it
    /// waits until the output has been sent. Unlimited unless memory is short.
    pub(super) tight_bytes_max: usize,
    /// The events that a `watch` client, the prefix counters or the log of `-vv` observe.
    pub(super) interest: Interest,
    /// Length of `out` before the first command.
    pub(super) started: usize,
    /// True if the last command was so slow that the batch ends after it.
    pub(super) took_long: bool,
    /// The last response, if an observer needs it.
    pub(super) last_response: Option<Response>,
    /// How much more the batch may execute, measured in keys of lists. Any other command counts as
    /// [`KEYS_PER_COMMAND`] keys.
    pub(super) left: usize,
    /// How many keys of lists may still be looked up. This second limit does not count other
    /// commands. It matters only if many connections take their turns together.
    pub(super) keys_left: usize,
    /// The time of the boot clock in milliseconds, read when the batch first needed it; 0: not
    /// read.
    pub(super) boot_ms: u64,
    /// How operations wait for the disk.
    pub(super) wait: Wait<'a>,
}

impl<'a> Batch<'a> {
    /// Appends a response to the output.
    #[inline]
    pub(super) fn respond(&mut self, response: &Response, frame: &Frame<'_>) {
        render::response(&mut self.out.bytes, response, frame);
    }

    /// Counts the lookup of one key of a list.
    #[inline]
    pub(super) fn take_key(&mut self) {
        self.left = self.left.saturating_sub(1);
        self.keys_left = self.keys_left.saturating_sub(1);
        if self.keys_left == 0 {
            self.left = 0;
        }
    }

    /// Appends a piece of a value by reference, or as a copy if `is_copied`.
    pub(super) fn show(&mut self, piece: Piece, is_copied: bool) {
        match is_copied {
            true => self.out.bytes.extend_from_slice(&piece),
            false => self.out.push_piece(piece),
        }
    }

    /// Returns a time of the boot clock, in milliseconds, after the input of the batch was
    /// received. So every request of the batch began before.
    #[inline]
    pub(super) fn boot_ms(&mut self) -> u64 {
        if self.boot_ms == 0 {
            self.boot_ms = boot_ms();
        }
        self.boot_ms
    }

    /// Returns what the session needs next if the batch ends although input is left.
    pub(super) fn end(&self) -> Next {
        if self.took_long { Next::GiveWay } else { Next::Turn }
    }

    /// True if responses wait to be sent.
    pub(super) fn has_answers(&self) -> bool {
        self.out.bytes.len() > self.started
    }

    pub(super) fn observer(&self, connection: u64) -> Observer<'a> {
        Observer { executor: self.executor, interest: self.interest, connection }
    }
}

/// A parsed command.
#[derive(Clone, Copy)]
pub(super) struct ParsedCommand<'a> {
    pub(super) command: &'a Command<'a>,
    pub(super) frame: &'a Frame<'a>,
    /// The input from the first byte of the command, at least to the end of its line.
    pub(super) input: &'a [u8],
    /// Length of the command in bytes, without the value of a store.
    pub(super) consumed: usize,
    /// The input after the command.
    pub(super) rest: &'a [u8],
}

impl<'a> ParsedCommand<'a> {
    /// Returns the call that executes the command in a batch.
    #[inline]
    pub(super) fn call(&self, batch: &Batch<'a>) -> Call<'a> {
        Call { wait: batch.wait, frame: self.frame }
    }

    /// True if the command looks up one of several keys of the same request line.
    #[inline]
    pub(super) fn is_of_list(&self) -> bool {
        matches!((self.command, self.frame), (Command::Get { .. }, Frame::Text { .. }))
    }
}

/// Returns the part of a command that the log may show, without values and passwords.
#[cold]
pub(super) fn words<'a>(
    command: Option<&Command<'_>>,
    frame: &Frame<'_>,
    input: &'a [u8],
    consumed: usize,
) -> &'a [u8] {
    match (frame, command) {
        (Frame::Binary(_), Some(Command::Authenticate { .. })) => &input[..binary::HEADER_BYTES],
        (Frame::Binary(_), _) => &input[..consumed],
        _ => input.split(|byte| *byte == b'\n').next().unwrap_or_default(),
    }
}

/// One step of a session: how many bytes it consumed, and whether another step can follow.
pub(super) enum Step {
    /// Another step can follow. The step has consumed this many bytes.
    GoOn(usize),
    /// The batch ends. The step has consumed this many bytes, and the caller must do this next.
    Stop(usize, Next),
}

/// How many keys of a list count as one command.
pub(super) const KEYS_PER_COMMAND: usize = 50;
