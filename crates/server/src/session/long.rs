//! Responses that take longer than a turn: lists of items, statistics, large values, watch lines,
//! change streams. Also the other commands of near caches, which need the change stream, and the
//! copy of items by `larder warm`.

use std::sync::Arc;

use larder::{DiskPages, DiskRead};
use larder_item::KEY_BYTES_MAX;
use larder_protocol::{
    ClientError, Command, Copied, Frame, Refusal, Response, Warm, WarmRefusal, base64, text,
};

use super::batch::{Batch, ParsedCommand, Step};
use super::refresh::WaitingRefresh;
use super::{Next, Session, State};
use crate::followers::{Follow, StreamStep};
use crate::observe::dump::{Dump, DumpStep};
use crate::observe::listing::Listing;
use crate::observe::watch::Watch;
use crate::session::execute::CommandResult;
use crate::session::execute::copy::CopiedItem;
use crate::stats::{GatherStep, StatsResponse};
use crate::warming::WarmSession;

impl Session {
    /// Handles reports of reads: of a local reader in the cache's memory, or of a near cache in its
    /// copies.
    #[cold]
    pub(super) fn note_reads(
        &mut self,
        batch: &mut Batch<'_>,
        command: &Command<'_>,
        frame: &Frame<'_>,
    ) {
        match command {
            Command::NoteReads { keys } if self.may_read => {
                batch.executor.note_reads(keys, batch.wait);
            }
            Command::NoteReads { keys } if self.subscription.is_some() => {
                batch.executor.note_copied(keys, batch.wait);
            }
            _ => batch.respond(&ClientError::RegionNotAllowed.into(), frame),
        }
    }

    #[cold]
    pub(super) fn begin_dump(&mut self, batch: &mut Batch<'_>, dump: Box<Dump>, frame: &Frame<'_>) {
        if self.is_brief {
            return batch.respond(&Refusal::DumpNotAllowed(dump.form()).into(), frame);
        }
        if batch.has_answers() {
            return batch.respond(&Refusal::DumpPipelined(dump.form()).into(), frame);
        }
        if batch.executor.acknowledges_dumps() {
            batch.respond(&Response::Ok, frame);
        }
        self.state = State::Dump(dump);
    }

    #[cold]
    pub(super) fn gather(
        &mut self,
        batch: &mut Batch<'_>,
        gathering: Box<StatsResponse>,
        frame: &Frame<'_>,
    ) {
        (batch.left, batch.took_long) = (0, true);
        // A brief session, which serves a UDP datagram, has no later turn, so its response ends
        // with the first slice. But if a worker with a disk tier gathers the statistics, a thread
        // that may wait for the disk continues.
        if self.is_brief && !batch.wait.asks() {
            gathering.finish(frame, &mut batch.out.bytes);
            return batch.respond(&Response::EndOfStats, frame);
        }
        self.state = State::Gather(gathering, Box::new(frame.keep()));
    }

    #[cold]
    pub(super) fn gather_on(&mut self, batch: &mut Batch<'_>) -> Step {
        (batch.left, batch.took_long) = (0, true);
        let State::Gather(gathering, kept) = &mut self.state else { return Step::GoOn(0) };
        let started = batch.out.len();
        match gathering.step(&kept.frame(), batch.wait, &mut batch.out.bytes) {
            GatherStep::Some => {}
            GatherStep::NeedsDisk => return Step::Stop(0, Next::Disk),
            GatherStep::All => {
                batch.respond(&Response::EndOfStats, &kept.frame());
                self.state = State::Command;
            }
        }
        self.note_gathered(batch.out.len().saturating_sub(started));
        Step::GoOn(0)
    }

    pub(super) fn dump_on(&mut self, batch: &mut Batch<'_>) -> Step {
        let State::Dump(dump) = &mut self.state else { return Step::GoOn(0) };
        match dump.step(batch.wait, &mut batch.out.bytes) {
            DumpStep::Visited(items) => batch.left = batch.left.saturating_sub(items.max(1)),
            DumpStep::NeedsDisk => return Step::Stop(0, Next::Disk),
            DumpStep::Over => self.state = State::Command,
        }
        Step::GoOn(0)
    }

    /// Returns the disk reads that a list of items waits for.
    pub(crate) fn reads_to_list(&mut self) -> Vec<DiskRead> {
        self.listing().map(Listing::take_reads).unwrap_or_default()
    }

    /// Passes the results of its disk reads to a list of items.
    pub(crate) fn give_read(&mut self, read: Vec<DiskPages>) {
        if let Some(listing) = self.listing() {
            listing.give_read(read);
        }
    }

    fn listing(&mut self) -> Option<&mut Listing> {
        match &mut self.state {
            State::Dump(dump) => Some(dump.listing()),
            State::Gather(gathering, _) => gathering.listing(),
            _ => None,
        }
    }

    #[cold]
    pub(super) fn begin_watch(
        &mut self,
        batch: &mut Batch<'_>,
        watch: Box<Watch>,
        frame: &Frame<'_>,
    ) {
        if self.is_brief {
            return batch.respond(&Refusal::CannotWatch.into(), frame);
        }
        if batch.has_answers() {
            return batch.respond(&Refusal::WatchPipelined.into(), frame);
        }
        batch.respond(&Response::Ok, frame);
        self.state = State::Watch(watch);
    }

    /// Appends the next piece of a large value, or the end of its item.
    pub(super) fn large_piece(&mut self, batch: &mut Batch<'_>) -> Step {
        let State::Large(large, kept) = &mut self.state else { return Step::GoOn(0) };
        match large.take_piece() {
            Ok(Some(piece)) => batch.show(piece, self.is_brief),
            Ok(None) => {
                batch.respond(&Response::Hit, &kept.frame());
                self.state = State::Command;
            }
            // A part of the value has already been sent, so no error response is possible.
            Err(_) => return Step::Stop(0, Next::Close),
        }
        Step::GoOn(0)
    }

    /// Begins the change stream of the connection.
    #[cold]
    pub(super) fn begin_follow(
        &mut self,
        batch: &mut Batch<'_>,
        follow: Box<Follow>,
        line: &[u8],
        frame: &Frame<'_>,
    ) {
        if batch.has_answers() {
            return batch.respond(&Refusal::FollowPipelined.into(), frame);
        }
        batch.out.bytes.extend_from_slice(line);
        self.state = State::Follow(follow);
    }

    /// Writes messages of the change stream, and responds to lines `alive`.
    #[cold]
    pub(super) fn follow_on(
        &mut self,
        batch: &mut Batch<'_>,
        input: &[u8],
        out_bytes_max: usize,
    ) -> Step {
        let State::Follow(follow) = &mut self.state else { return Step::GoOn(0) };
        let (cache, counters) = (batch.executor.cache(), batch.executor.counters());
        let out = &mut batch.out.bytes;
        let (consumed, step) = follow.step(cache, counters, input, out, out_bytes_max);
        let next = match step {
            StreamStep::Drain => Next::Drain,
            StreamStep::Wait => Next::Changes,
            StreamStep::End(refusal) => {
                text::render::response(out, &refusal.into());
                Next::Close
            }
        };
        Step::Stop(consumed, next)
    }

    /// Executes a command that concerns the change stream to which the connection belongs.
    #[cold]
    pub(super) fn run_of_follower(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let response = match *parsed.command {
            Command::Copy(Copied { key: b"", .. }) => ClientError::BadFormat.into(),
            Command::Copy(copied) => return self.copy(batch, copied, parsed),
            Command::Follower { token: None } => Refusal::BadStreamToken.into(),
            Command::Follower { token: Some(token) } => {
                self.subscription = batch.executor.server().followers.find(token);
                match &self.subscription {
                    Some(_) => Response::Ok,
                    None => Refusal::NoSuchStream.into(),
                }
            }
            _ => ClientError::UnknownCommand.into(),
        };
        batch.respond(&response, parsed.frame);
        Step::GoOn(parsed.consumed)
    }

    fn copy(
        &mut self,
        batch: &mut Batch<'_>,
        copied: Copied<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let mut bytes = [0; KEY_BYTES_MAX];
        let key = match copied.base64 {
            true => base64::decode(copied.key, &mut bytes).unwrap_or_default(),
            false => copied.key,
        };
        let (value_bytes_max, subscription) = (copied.value_bytes_max, self.subscription.clone());
        let item = CopiedItem { key, value_bytes_max, subscription: subscription.as_deref() };
        match batch.executor.copy(item, parsed.call(batch), &mut batch.out.bytes) {
            CommandResult::Done(response) => batch.respond(&response, parsed.frame),
            CommandResult::Large(first, large) => {
                batch.show(first, self.is_brief);
                self.state = State::Large(large, Box::new(parsed.frame.keep()));
            }
            _ => {
                // The item is looked up on the disk by its decoded key.
                let command = &Command::Copy(Copied { key, base64: false, ..copied });
                return self.suspend(ParsedCommand { command, ..parsed });
            }
        }
        Step::GoOn(parsed.consumed)
    }

    /// Begins or ends the copy of items that the peer makes into this server.
    #[cold]
    pub(super) fn warm(&mut self, batch: &mut Batch<'_>, command: &Command<'_>, frame: &Frame<'_>) {
        let response = match (command, self.warm.take()) {
            // A datagram has no connection.
            _ if self.is_brief => Refusal::Warm(WarmRefusal::Unconnected).into(),
            (Command::Warm(Warm::Begin { max_silence_ms }), None) => {
                match WarmSession::begin(&batch.executor.server().warming, *max_silence_ms) {
                    Ok(session) => {
                        self.warm = Some(Arc::new(session));
                        Response::Ok
                    }
                    Err(refusal) => refusal.into(),
                }
            }
            (Command::Warm(Warm::Begin { .. }), session) => {
                self.warm = session;
                Refusal::Warm(WarmRefusal::Busy).into()
            }
            (_, None) => Refusal::Warm(WarmRefusal::NotBegun).into(),
            (_, Some(session)) => match session.complete() {
                Ok(()) => Response::Ok,
                Err(reason) => Refusal::Warm(WarmRefusal::Over(reason)).into(),
            },
        };
        batch.executor.set_warm(self.warm.clone());
        batch.respond(&response, frame);
    }

    /// Returns the memory that the session owns beyond its own size, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.state {
            State::Payload(payload) => payload.held_bytes(),
            State::Dump(dump) => dump.held_bytes(),
            State::Gather(gathering, _) => gathering.held_bytes(),
            State::Suspended(suspended) => suspended.held_bytes(),
            State::Login(waiting) => waiting.held_bytes(),
            State::Refresh(_) => size_of::<WaitingRefresh>(),
            State::Near(waiting) => waiting.held_bytes(),
            State::NearValue(arriving) => arriving.held_bytes(),
            State::Follow(_) => size_of::<Follow>(),
            State::Command | State::Large(..) | State::Rows(_) | State::Watch(_) => 0,
        }
    }

    /// True if the peer copies items into this server.
    pub(crate) fn copies_items(&self) -> bool {
        self.warm.is_some()
    }

    /// True if no line has arrived for a long time on a connection that is a change stream, or that
    /// copies items.
    pub(crate) fn is_silent_stream(&self) -> bool {
        self.warm.as_ref().is_some_and(|session| session.is_silent())
            || matches!(&self.state, State::Follow(follow) if follow.is_silent())
    }
}
