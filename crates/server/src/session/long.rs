//! Responses that take longer than a turn: lists of items, statistics, watch lines.

use larder::{DiskPages, DiskRead};
use larder_protocol::{Frame, Refusal, Response};

use super::batch::{Batch, Step};
use super::{Next, Session, State};
use crate::observe::dump::{Dump, DumpStep};
use crate::observe::listing::Listing;
use crate::observe::watch::Watch;
use crate::stats::{GatherStep, StatsResponse};

impl Session {
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
}
