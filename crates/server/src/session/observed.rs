//! Commands that are judged by the rights of a user, sampled for the hot keys, or observed: by
//! `watch` clients, by the prefix counters, by the log, and by the timer of slow requests. A
//! request skips all of this unless at least one of them is active.

use larder_protocol::{Command, Response};

use super::batch::{Batch, ParsedCommand, Step, words};
use super::observer::key_of;
use super::timer::name;
use super::{Next, Session, State};
use crate::observe::conn_table::Stage;
use crate::observe::slow::TimedRequests;

impl Session {
    /// Returns the session's stage, for `stats conns`.
    pub(crate) fn stage(&self) -> Stage {
        match &self.state {
            State::Command
            | State::Suspended(_)
            | State::Login(_)
            | State::Refresh(_)
            | State::Near(_) => Stage::Command,
            State::Payload(payload) if payload.is_passing() => Stage::Swallow,
            State::NearValue(_) | State::Payload(_) => Stage::Value,
            State::Large(..) | State::Dump(_) | State::Gather(..) | State::Rows(_) => Stage::Answer,
            State::Watch(_) | State::Follow(_) => Stage::Watch,
        }
    }

    /// Same as [`Self::run`], for a command that is judged, observed or sampled.
    #[inline(never)]
    pub(super) fn run_with_care(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
        is_sampled: bool,
    ) -> Step {
        if batch.interest.judges()
            && let Some(refusal) = self.refusal_of(&parsed)
        {
            return self.deny(batch, parsed, refusal);
        }
        if let Some(near) = batch.executor.near() {
            return self.run_near(batch, parsed, near, is_sampled);
        }
        if batch.interest.judges() && self.only_reads(parsed.command) {
            return batch.executor.only_reading(|| self.run_permitted(batch, parsed, is_sampled));
        }
        self.run_permitted(batch, parsed, is_sampled)
    }

    #[inline]
    pub(super) fn run_permitted(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
        is_sampled: bool,
    ) -> Step {
        match is_sampled {
            true => self.run_with_sampling(batch, parsed),
            false => self.run_unsampled(batch, parsed),
        }
    }

    #[inline]
    pub(super) fn run_unsampled(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        if batch.interest.observed().is_none() {
            self.dispatch::<false>(batch, parsed)
        } else {
            self.run_observed(batch, parsed)
        }
    }

    /// Same as [`Self::dispatch`], but also passes the command to its observers.
    #[cold]
    fn run_observed(&mut self, batch: &mut Batch<'_>, parsed: ParsedCommand<'_>) -> Step {
        let started = batch.out.len();
        if let Some(timer) = &mut self.timer {
            timer.begin();
        }
        let step = match batch.interest.reports() {
            true => self.run_with_observers(batch, parsed),
            false => self.dispatch::<false>(batch, parsed),
        };
        if self.timer.is_some() {
            self.note_run(batch, parsed, &step, started);
        }
        step
    }

    /// Reports the command to `watch` clients, the prefix counters and the log.
    fn run_with_observers(&mut self, batch: &mut Batch<'_>, parsed: ParsedCommand<'_>) -> Step {
        if Self::must_suspend(batch, parsed) {
            return self.suspend(parsed);
        }
        let started = batch.out.bytes.len();
        let observer = batch.observer(self.id);
        let wait = batch.wait;
        // The command is reported now. If it were suspended after this, it would be reported twice.
        batch.wait = wait.without_asking();
        let meta = observer.before(parsed.command, parsed.call(batch));
        batch.last_response = None;
        let step = self.dispatch::<true>(batch, parsed);
        batch.wait = wait;
        if let Some(response) = &batch.last_response {
            observer.after(parsed.command, parsed.frame, meta, response);
        }
        if batch.interest.shows_commands() {
            let words = words(Some(parsed.command), parsed.frame, parsed.input, parsed.consumed);
            let is_error = matches!(batch.last_response, Some(Response::ServerError(_)));
            self.show(words, parsed.is_of_list() && !is_error, batch, started);
        }
        step
    }

    /// Logs a command and its response. The line of a list of keys is logged only for the first
    /// key.
    fn show(&mut self, words: &[u8], is_of_list: bool, batch: &Batch<'_>, started: usize) {
        let log = batch.executor.log();
        let is_begun = std::mem::replace(&mut self.shown_list, is_of_list);
        if !is_begun {
            log.received(self.id, words);
        }
        log.answered(self.id, &batch.out.bytes[started..]);
    }

    /// Passes a command to the timer after it was executed, unless it is not complete.
    fn note_run(
        &mut self,
        batch: &Batch<'_>,
        parsed: ParsedCommand<'_>,
        step: &Step,
        started: usize,
    ) {
        let Some(timer) = &mut self.timer else { return };
        let bytes = batch.out.len().saturating_sub(started);
        let bytes = match (&self.state, parsed.command) {
            _ if matches!(step, Step::Stop(_, Next::Disk)) => return,
            (State::Gather(..), _) => return timer.add_bytes(bytes),
            // The time in which a client sends a value does not count.
            (State::Payload(_), _) => return timer.drop_open(),
            // The end of a list of keys, which is no request.
            (_, Command::EndOfKeys) => return timer.drop_open(),
            // The pieces of the value are sent later.
            (State::Large(..), command) => {
                let meta = key_of(command).and_then(|key| batch.executor.cache().peek(key));
                meta.map_or(bytes, |meta| meta.value_bytes)
            }
            (_, Command::Store(store)) => store.value_bytes,
            _ => bytes,
        };
        timer.finish(name(parsed.command, parsed.frame), key_of(parsed.command), bytes);
    }

    /// Passes a store to the timer after a part of its payload was received.
    #[cold]
    pub(super) fn note_payload(&mut self) {
        let (State::Payload(payload), Some(timer)) = (&self.state, &mut self.timer) else { return };
        match payload.ended() {
            Some((store, _)) => {
                let name = name(&Command::Store(store), &payload.frame());
                timer.finish(name, Some(store.key), store.value_bytes);
            }
            None => timer.drop_open(),
        }
    }

    /// Passes statistics to the timer after they were gathered, or a part of them.
    pub(super) fn note_gathered(&mut self, bytes: usize) {
        let Some(timer) = &mut self.timer else { return };
        match self.state {
            State::Gather(..) => timer.add_bytes(bytes),
            _ => timer.finish("stats", None, bytes),
        }
    }

    /// Records when the worker learned of the requests that the session executes next.
    #[cold]
    pub(crate) fn note_arrival(&mut self, arrived_ns: u64) {
        if let Some(timer) = &mut self.timer {
            timer.arrive(arrived_ns);
        }
    }

    /// Returns the requests whose responses are handed over now; `None` if no request is complete,
    /// or if requests are not timed.
    #[cold]
    pub(crate) fn take_timed(&mut self) -> Option<TimedRequests> {
        self.timer.as_mut()?.take()
    }
}
