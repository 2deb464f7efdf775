//! Commands of a near cache: reads that copies answer or that fetch an item, and commands that the
//! origin executes.

mod waiting;

use larder::copies::{FetchFailure, Flight, FlightResult};
use larder::{DiskNeed, Piece, StoreMode};
use larder_protocol::{Command, Frame, Response, ServerError, Store};
use larder_stats::Counter;

use self::waiting::StoreHead;
pub(super) use self::waiting::{ArrivingValue, WaitingForOrigin};
use super::batch::{Batch, ParsedCommand, Step};
use super::payload::payload_bytes;
use super::{Next, Session, State};
use crate::near::{AnswerPart, Concerned, Near, Origin, PassRequest, Way, is_error, is_plain};

/// A store that is refused before its value has arrived.
struct RefusedStore<'a> {
    store: &'a Store<'a>,
    payload_bytes: u64,
    response: Response,
}

impl Session {
    /// Executes a command of a near cache.
    pub(super) fn run_near(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
        near: &Near,
        is_sampled: bool,
    ) -> Step {
        if batch.executor.reads_cluster(parsed.command) {
            return self.run_permitted(batch, parsed, is_sampled);
        }
        let flushes = batch.executor.server().options.flush_all;
        match Way::of(parsed.command, parsed.frame) {
            Way::Local => self.run_permitted(batch, parsed, is_sampled),
            Way::Read => self.read_near(batch, parsed, near, is_sampled),
            Way::Origin => match parsed.command {
                Command::Store(store) => self.store_at_origin(batch, store, parsed, near),
                command => match command.key() {
                    Some(key) => self.pass_to_origin(batch, parsed, Concerned::Key(key.into())),
                    None => Step::GoOn(parsed.consumed),
                },
            },
            // The refusal is local.
            Way::Everything if !flushes => self.run_permitted(batch, parsed, is_sampled),
            Way::Everything => self.pass_to_origin(batch, parsed, Concerned::All),
        }
    }

    /// Executes a plain read.
    fn read_near(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
        near: &Near,
        is_sampled: bool,
    ) -> Step {
        let Some(key) = parsed.command.key() else { return Step::GoOn(parsed.consumed) };
        let may_be_timed = !is_fetchable(parsed.command) && near.has_timed_origin();
        if may_be_timed && near.origin_of(key).is_timed() {
            return self.read_and_copy(batch, parsed);
        }
        let was_fetched_ahead = self.fetched_ahead & 1 == 1;
        self.fetched_ahead >>= 1;
        if !near.is_fresh_at(key, batch.boot_ms()) {
            batch.executor.counters().bump(Counter::CmdGet);
            batch.executor.counters().bump(Counter::GetMisses);
            return self.fetch_from_origin(batch, parsed, near.origin_of(key));
        }
        self.reads_copy = true;
        let step = self.run_permitted(batch, parsed, is_sampled);
        // A miss has reset it.
        if std::mem::take(&mut self.reads_copy) {
            batch.executor.counters().add(Counter::NearAhead, was_fetched_ahead.into());
            batch.executor.note_copy_read(near, key);
        }
        step
    }

    /// Passes a read to an origin that does not report changes, because a copy does not tell
    /// whether the item is stale. If the client reads the memory, then copies the item for its next
    /// reads.
    fn read_and_copy(&mut self, batch: &mut Batch<'_>, parsed: ParsedCommand<'_>) -> Step {
        let Some(key) = parsed.command.key() else { return Step::GoOn(parsed.consumed) };
        let step = self.pass_to_origin(batch, parsed, Concerned::Key(key.into()));
        if self.may_read
            && let State::Near(waiting) = &mut self.state
            && let WaitingForOrigin::Pass { copied, .. } = &mut **waiting
        {
            *copied = Some(key.into());
        }
        step
    }

    /// Handles a read that found no copy.
    #[cold]
    pub(super) fn miss_copy(&mut self, batch: &mut Batch<'_>, parsed: ParsedCommand<'_>) -> Step {
        self.reads_copy = false;
        let Some(near) = batch.executor.near() else { return Step::GoOn(parsed.consumed) };
        let Some(key) = parsed.command.key() else { return Step::GoOn(parsed.consumed) };
        let origin = near.origin_of(key);
        if origin.place_of(key).is_some_and(|place| origin.copies.is_absent(place, key)) {
            batch.executor.counters().bump(Counter::NearAbsentHits);
            batch.respond(&Response::Miss, parsed.frame);
            return Step::GoOn(parsed.consumed);
        }
        self.fetch_from_origin(batch, parsed, origin)
    }

    /// Fetches the item of a read, and those of the reads that follow it in the input.
    fn fetch_from_origin(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
        origin: &Origin,
    ) -> Step {
        let ParsedCommand { command, frame, consumed, .. } = parsed;
        let owned = command.keep();
        let waker = batch.executor.connection_waker().filter(|_| !self.is_brief);
        let (Some(command), Some(waker), Some(near)) = (owned, waker, batch.executor.near()) else {
            batch.respond(&ServerError::OriginUnreachable.into(), frame);
            return Step::GoOn(consumed);
        };
        let Some(place) = origin.place_of(command.key()) else {
            return self.read_at_origin(batch, &command.command(), frame, consumed, false);
        };
        let (flight, is_new) = origin.fetch(place, command.key(), Some(&waker));
        if !is_new {
            batch.executor.counters().bump(Counter::NearJoined);
        }
        self.fetched_ahead = 0;
        let reads = self.ahead(parsed.rest).filter(|(_, need)| *need == DiskNeed::Reads);
        for (number, (key, _)) in reads.take(AHEAD_MAX).enumerate() {
            if self.may_read_key(key)
                && batch.executor.cache().peek(key).is_none()
                && let origin = near.origin_of(key)
                && !origin.is_crowded()
                && let Some(place) = origin.place_of(key)
                && !origin.copies.is_absent(place, key)
            {
                origin.fetch(place, key, None);
                self.fetched_ahead |= 1 << number;
            }
        }
        let frame = frame.keep();
        self.state = State::Near(Box::new(WaitingForOrigin::Read { flight, command, frame }));
        Step::Stop(consumed, Next::Origin)
    }

    /// Passes a read to the origin, without making a copy.
    fn read_at_origin(
        &mut self,
        batch: &mut Batch<'_>,
        command: &Command<'_>,
        frame: &Frame<'_>,
        consumed: usize,
        reads_much: bool,
    ) -> Step {
        // A memcached refuses the flag that leaves the recache token to others.
        let is_timed =
            |near: &Near| command.key().is_some_and(|key| near.origin_of(key).is_timed());
        let only_reads = self.only_reads(command) && !batch.executor.near().is_some_and(is_timed);
        match PassRequest::read(command, frame, only_reads) {
            Some(request) if reads_much => {
                self.await_answer(batch, request.reading_much(), frame, consumed)
            }
            Some(request) => self.await_answer(batch, request, frame, consumed),
            None => Step::GoOn(consumed),
        }
    }

    fn pass_to_origin(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
        concerned: Concerned,
    ) -> Step {
        let ParsedCommand { command, frame, input, consumed, .. } = parsed;
        let is_of_list = matches!(
            command,
            Command::Get { .. } | Command::LeaseGet { .. } | Command::Inspect { .. }
        ) && matches!(frame, Frame::Text { .. });
        if is_of_list || self.only_reads(command) {
            return self.read_at_origin(batch, command, frame, consumed, false);
        }
        let bytes = input.get(..consumed).unwrap_or_default().to_vec();
        self.await_answer(batch, PassRequest::raw(bytes, frame, concerned), frame, consumed)
    }

    fn await_answer(
        &mut self,
        batch: &mut Batch<'_>,
        request: PassRequest,
        frame: &Frame<'_>,
        consumed: usize,
    ) -> Step {
        let waker = batch.executor.connection_waker().filter(|_| !self.is_brief);
        let (Some(near), Some(waker)) = (batch.executor.near(), waker) else {
            batch.respond(&ServerError::OriginUnreachable.into(), frame);
            return Step::GoOn(consumed);
        };
        batch.executor.counters().bump(Counter::NearPassed);
        let frame = frame.keep();
        let waiting = match (request.concerned(), near.origins()) {
            (Concerned::Key(key), _) => {
                let pass = near.origin_of(key).pass(request, waker);
                WaitingForOrigin::Pass { pass, frame, is_shown: false, copied: None }
            }
            (Concerned::All, [origin]) => {
                let pass = origin.pass(request, waker);
                WaitingForOrigin::Pass { pass, frame, is_shown: false, copied: None }
            }
            (Concerned::All, _) => {
                let everywhere = near.pass_everywhere(&request, &waker);
                WaitingForOrigin::Everywhere { everywhere, frame }
            }
        };
        self.state = State::Near(Box::new(waiting));
        Step::Stop(consumed, Next::Origin)
    }

    /// Passes a store to the origin once its value is complete.
    fn store_at_origin(
        &mut self,
        batch: &mut Batch<'_>,
        store: &Store<'_>,
        parsed: ParsedCommand<'_>,
        near: &Near,
    ) -> Step {
        let ParsedCommand { frame, input, consumed, rest, .. } = parsed;
        let bytes = payload_bytes(store, frame);
        if let Some(response) = batch.executor.refusal(store, frame) {
            let refused = RefusedStore { store, payload_bytes: bytes as u64, response };
            return self.refuse_store(batch, near, &refused, parsed);
        }
        let Some(block) = rest.get(..bytes) else {
            let line = input.get(..consumed).unwrap_or_default().to_vec();
            let head = StoreHead { key: store.key.into(), value_bytes: store.value_bytes };
            let arriving = ArrivingValue::new(line, bytes, head, frame.keep());
            self.state = State::NearValue(Box::new(arriving));
            return Step::GoOn(consumed);
        };
        if frame.value_of(block).is_none() {
            batch.respond(&batch.executor.bad_data_chunk(store), frame);
            return Step::GoOn(consumed + bytes);
        }
        let bytes = input.get(..consumed + bytes).unwrap_or_default().to_vec();
        let consumed = bytes.len();
        let request = PassRequest::raw(bytes, frame, Concerned::Key(store.key.into()));
        self.await_answer(batch, request, frame, consumed)
    }

    /// Refuses a store whose value is too large for this server. Like at the origin, a store that
    /// fails for this reason removes the item that it would have replaced.
    fn refuse_store(
        &mut self,
        batch: &mut Batch<'_>,
        near: &Near,
        refused: &RefusedStore<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let ParsedCommand { frame, consumed, .. } = parsed;
        let RefusedStore { store, payload_bytes, response } = *refused;
        let removes = store.mode == StoreMode::Set || matches!(frame, Frame::Meta(_));
        let waker = batch.executor.connection_waker().filter(|_| !self.is_brief && removes);
        let Some(waker) = waker else {
            self.pass_over(batch, payload_bytes, Some(response), frame);
            return Step::GoOn(consumed);
        };
        let pass = near.origin_of(store.key).pass(PassRequest::removal(store.key), waker);
        let frame = frame.keep();
        let removal = WaitingForOrigin::Removal { pass, frame, payload_bytes, response };
        self.state = State::Near(Box::new(removal));
        Step::Stop(consumed, Next::Origin)
    }

    /// Receives a part of the value of a store.
    pub(super) fn receive_near_value(&mut self, batch: &mut Batch<'_>, input: &[u8]) -> Step {
        let State::NearValue(arriving) = &mut self.state else { return Step::GoOn(0) };
        let consumed = arriving.receive(input);
        if !arriving.is_complete() {
            return Step::GoOn(consumed);
        }
        let State::NearValue(arriving) = std::mem::replace(&mut self.state, State::Command) else {
            return Step::GoOn(consumed);
        };
        let (StoreHead { key, value_bytes }, frame) = (&arriving.store, &arriving.frame);
        let (key, value_bytes, owned) = (key.clone(), *value_bytes, frame.clone());
        let frame = owned.frame_with(&key);
        let Some(parts) = arriving.into_parts() else {
            let head = Store { key: &key, value_bytes, ..Store::PLAIN };
            batch.respond(&batch.executor.bad_data_chunk(&head), &frame);
            return Step::GoOn(consumed);
        };
        let request = PassRequest::in_parts(parts, &frame, Concerned::Key(key.clone()));
        self.await_answer(batch, request, &frame, consumed)
    }

    /// Continues a command once the origin has answered.
    pub(super) fn await_origin(&mut self, batch: &mut Batch<'_>) -> Step {
        let State::Near(waiting) = &self.state else { return Step::GoOn(0) };
        match &**waiting {
            WaitingForOrigin::Read { flight, .. } if flight.result().is_some() => {}
            WaitingForOrigin::Pass { .. } | WaitingForOrigin::Removal { .. } => {
                return self.take_answer(batch);
            }
            WaitingForOrigin::Everywhere { .. } => return self.take_answers(batch),
            WaitingForOrigin::Read { .. } => return Step::Stop(0, Next::Origin),
        }
        let State::Near(waiting) = std::mem::replace(&mut self.state, State::Command) else {
            return Step::GoOn(0);
        };
        let WaitingForOrigin::Read { flight, command, frame } = *waiting else {
            return Step::GoOn(0);
        };
        let frame = frame.frame_with(command.key());
        self.end_read(batch, &flight, &command.command(), &frame)
    }

    fn end_read(
        &mut self,
        batch: &mut Batch<'_>,
        flight: &Flight,
        command: &Command<'_>,
        frame: &Frame<'_>,
    ) -> Step {
        let response = match flight.result() {
            Some(FlightResult::Value(item)) => {
                batch.executor.show_fetched(command, item, frame, &mut batch.out.bytes)
            }
            Some(FlightResult::Absent { .. }) => Response::Miss,
            Some(FlightResult::Uncopied) | None => {
                return self.read_at_origin(batch, command, frame, 0, true);
            }
            Some(FlightResult::Failed(failure)) => {
                self.parser.end_list();
                match failure {
                    FetchFailure::Unreachable => ServerError::OriginUnreachable.into(),
                    FetchFailure::Unanswered => ServerError::OriginSilent.into(),
                }
            }
        };
        batch.respond(&response, frame);
        Step::GoOn(0)
    }

    /// Takes a part of the answer to a passed command.
    fn take_answer(&mut self, batch: &mut Batch<'_>) -> Step {
        let (State::Near(waiting), Some(near)) = (&mut self.state, batch.executor.near()) else {
            return Step::GoOn(0);
        };
        let (WaitingForOrigin::Pass { pass, .. } | WaitingForOrigin::Removal { pass, .. }) =
            &**waiting
        else {
            return Step::GoOn(0);
        };
        let Some(part) = pass.take_part() else { return Step::Stop(0, Next::Origin) };
        match &mut **waiting {
            WaitingForOrigin::Pass { is_shown, copied, .. } => {
                let is_first = !std::mem::replace(is_shown, true);
                if let AnswerPart::Bytes { bytes, is_last } = &part {
                    copied.take_if(|_| is_first && !is_current(bytes));
                    if let Some(key) = copied.take_if(|_| *is_last)
                        && let origin = near.origin_of(&key)
                        && let Some(place) = origin.place_of(&key)
                    {
                        origin.fetch(place, &key, None);
                    }
                }
                self.show_part(batch, part, is_first)
            }
            _ => self.end_removal(batch, &part),
        }
    }

    /// Takes what has arrived of the answers of all origins.
    fn take_answers(&mut self, batch: &mut Batch<'_>) -> Step {
        let State::Near(waiting) = &mut self.state else { return Step::GoOn(0) };
        if let WaitingForOrigin::Everywhere { everywhere, frame } = &mut **waiting {
            if !everywhere.collect() {
                return Step::Stop(0, Next::Origin);
            }
            everywhere.show(&frame.frame(), &mut batch.out.bytes);
        }
        self.state = State::Command;
        Step::GoOn(0)
    }

    /// Appends a part of an answer to the output.
    fn show_part(&mut self, batch: &mut Batch<'_>, part: AnswerPart, is_first: bool) -> Step {
        match part {
            AnswerPart::Bytes { bytes, is_last } => {
                if is_first && is_error(&bytes) {
                    self.parser.end_list();
                }
                if bytes.len() < PIECE_BYTES_MIN {
                    batch.out.bytes.extend_from_slice(&bytes);
                } else {
                    batch.out.push_piece(Piece::from(bytes));
                }
                if is_last {
                    self.state = State::Command;
                }
                Step::GoOn(0)
            }
            // The client could not tell an error from the rest of a value.
            AnswerPart::Failed(_) if !is_first => Step::Stop(0, Next::Close),
            AnswerPart::Failed(error) => {
                self.parser.end_list();
                let State::Near(waiting) = std::mem::replace(&mut self.state, State::Command)
                else {
                    return Step::GoOn(0);
                };
                if let WaitingForOrigin::Pass { frame, .. } = &*waiting {
                    batch.respond(&error.into(), &frame.frame());
                }
                Step::GoOn(0)
            }
        }
    }

    /// Skips the value of a refused store, whose item is removed.
    fn end_removal(&mut self, batch: &mut Batch<'_>, part: &AnswerPart) -> Step {
        let State::Near(waiting) = std::mem::replace(&mut self.state, State::Command) else {
            return Step::GoOn(0);
        };
        if let WaitingForOrigin::Removal { frame, payload_bytes, response, .. } = *waiting {
            let response = match part {
                AnswerPart::Failed(error) => (*error).into(),
                AnswerPart::Bytes { .. } => response,
            };
            self.pass_over(batch, payload_bytes, Some(response), &frame.frame());
        }
        Step::GoOn(0)
    }
}

/// True if the answer to `mg` has a value that is neither stale nor being recached.
fn is_current(answer: &[u8]) -> bool {
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    words.next() == Some(b"VA") && words.all(|word| !matches!(word, b"W" | b"X" | b"Z"))
}

/// True if `gets` can fetch the item of a read.
fn is_fetchable(command: &Command<'_>) -> bool {
    matches!(command, Command::Get { key, .. } if is_plain(key))
}

/// The maximum number of reads whose items are fetched together.
const AHEAD_MAX: usize = 64;

/// A shorter part of an answer is copied to the output.
const PIECE_BYTES_MIN: usize = 16 * 1024;
