//! Answers that are longer than a turn: lists of items, statistics, watch lines.

use larder_protocol::{Frame, Refusal, Response};

use super::batch::{Batch, Step};
use super::{Session, State};
use crate::admin::dump::Dump;
use crate::admin::watch::Watch;
use crate::stats::Gathering;

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
        gathering: Box<Gathering>,
        frame: &Frame<'_>,
    ) {
        (batch.left, batch.took_long) = (0, true);
        if self.is_brief {
            gathering.finish(frame, &mut batch.out.bytes);
            return batch.respond(&Response::EndOfStats, frame);
        }
        self.state = State::Gather(gathering, Box::new(frame.keep()));
    }

    #[cold]
    pub(super) fn gather_on(&mut self, batch: &mut Batch<'_>) -> Step {
        (batch.left, batch.took_long) = (0, true);
        if let State::Gather(gathering, kept) = &mut self.state
            && gathering.step(&kept.frame(), &mut batch.out.bytes)
        {
            batch.respond(&Response::EndOfStats, &kept.frame());
            self.state = State::Command;
        }
        Step::GoOn(0)
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
