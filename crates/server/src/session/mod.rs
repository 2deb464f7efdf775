//! A session is the protocol state of one connection. It parses the bytes that a client sent,
//! executes the commands, and appends the responses to an output buffer.
//!
//! It performs no I/O: the connection (`net/connection/`) receives the bytes and sends the output.
//! So the same code also serves UDP datagrams, and tests need no socket.

mod access;
mod ahead;
mod allowance;
mod batch;
pub(crate) mod execute;
mod login;
mod long;
mod near;
mod observed;
pub(crate) mod observer;
mod older;
pub(crate) mod payload;
mod refresh;
mod sampling;
mod suspended;
mod timer;

use std::sync::Arc;
use std::task::Poll;

use larder::{DirectBuffer, LargeValue, Wait};
use larder_item::{KEY_BYTES_MAX, Meta};
use larder_options::{AnswersAs, Protocol};
use larder_protocol::{
    Bad, ClientError, Command, Fetch, Frame, OwnedFrame, Parsed, Parser, Refusal, Response, Store,
    meta, names_command,
};

use crate::buffers::output::Output;
use crate::followers::{Follow, Subscription};
use crate::observe::dump::Dump;
use crate::observe::watch::Watch;
use crate::server::Server;
use crate::session::execute::{Call, CommandResult, Executor};
use crate::session::payload::{Payload, payload_bytes};
use crate::stats::{self, RowList, StatsResponse};
use crate::warming::WarmSession;

use self::access::{SessionAccess, dialects_of};
pub use self::allowance::{Allowance, Next, Progress};
use self::batch::{Batch, KEYS_PER_COMMAND, ParsedCommand, Step, words};
use self::login::WaitingLogin;
use self::near::{ArrivingValue, WaitingForOrigin};
use self::refresh::WaitingRefresh;
use self::suspended::SuspendedCommand;
use self::timer::RequestTimer;

/// The protocol state of one peer, the client at the other end of a connection.
///
/// A session does not buffer input: the caller must pass the bytes that [`Session::receive`] did
/// not consume again, followed by more. The responses are the same however the input is split into
/// calls.
#[derive(Debug)]
pub struct Session {
    /// The session's id in the log.
    id: u64,
    parser: Parser,
    state: State,
    /// The parser returns one command for each key of a line like `get a b c`. True if `-vv` has
    /// already logged the current line.
    shown_list: bool,
    /// True if the peer has sent `quit`.
    has_quit: bool,
    /// True for the session of a single UDP datagram. No work may remain after its response.
    is_brief: bool,
    /// True if the peer is a local reader, which may map the cache's memory and read it.
    may_read: bool,
    /// The key of the command that waits for a disk read. The caller receives it from
    /// `keys_to_ask`.
    asked: Option<Box<[u8]>>,
    /// The user and its rights; `None` if nothing is forbidden to the peer.
    access: Option<Box<SessionAccess>>,
    /// True while a read of a near cache looks for a copy: a miss is then fetched.
    reads_copy: bool,
    /// A bit for each of the next reads: 1 if a near cache has fetched its item together with that
    /// of an earlier read.
    fetched_ahead: u64,
    /// The change stream to which the connection of a near cache belongs.
    subscription: Option<Arc<Subscription>>,
    /// The copy of items that the peer makes into this server.
    warm: Option<Arc<WarmSession>>,
    /// Times requests, with `--log-slower-than`.
    timer: Option<Box<RequestTimer>>,
}

#[derive(Debug)]
enum State {
    /// The next byte begins a command, or continues a list of keys.
    Command,
    /// A command waits for a disk read. If it is a store, the next byte begins its value; otherwise
    /// the next command.
    Suspended(Box<SuspendedCommand>),
    /// A login waits for the verification of its password.
    Login(Box<WaitingLogin>),
    /// A `refresh_certs` waits until the files are read.
    Refresh(Box<WaitingRefresh>),
    /// A command waits for the origin of the near cache.
    Near(Box<WaitingForOrigin>),
    /// The next byte belongs to the value of a store that is passed to the origin.
    NearValue(Box<ArrivingValue>),
    /// The next byte belongs to the payload of a store.
    Payload(Box<Payload>),
    /// The session writes the rest of a large value before it reads the next byte.
    Large(Box<LargeValue>, Box<OwnedFrame>),
    /// The session writes the rest of a list of items before it reads the next byte.
    Dump(Box<Dump>),
    /// The session writes the rest of a list of connections or users before it reads the next byte.
    Rows(Box<RowList>),
    /// The session gathers statistics in several steps, then responds in this form.
    Gather(Box<StatsResponse>, Box<OwnedFrame>),
    /// The session ignores input. The connection sends watch lines until it is closed.
    Watch(Box<Watch>),
    /// The session reads lines `alive`, and writes the messages of a change stream.
    Follow(Box<Follow>),
}

impl Session {
    /// Creates a session. `id` identifies it in the log. If the server requires authentication, its
    /// credentials determine the dialect, and `protocol` has no effect.
    pub fn new(server: &Server, id: u64, protocol: Protocol) -> Self {
        let dialects = dialects_of(protocol);
        let users = server.access.users.as_ref();
        let parser = match &server.access.credentials {
            Some(credentials) => Parser::locked(credentials.dialect()),
            None if users.is_some() => Parser::locked(dialects),
            None => Parser::new(dialects),
        };
        Self {
            id,
            parser,
            state: State::Command,
            shown_list: false,
            has_quit: false,
            is_brief: false,
            may_read: false,
            asked: None,
            reads_copy: false,
            fetched_ahead: 0,
            access: users.map(|_| Box::default()),
            subscription: None,
            warm: None,
            timer: server.statistics.slow.as_ref().map(|_| Box::default()),
        }
    }

    /// Creates the session of a single UDP datagram. It refuses commands that would still have work
    /// after the response, such as `watch`.
    pub(crate) fn brief(server: &Server) -> Self {
        Self { is_brief: true, ..Self::new(server, 0, Protocol::Auto) }
    }

    /// Permits the peer to receive the cache's memory and read it directly.
    pub(crate) fn let_read(&mut self) {
        self.may_read = true;
    }

    /// Executes the commands of `input` and appends the responses to `out`, until the input or
    /// `allowance` is used up. Large values are not copied: `out` refers to their pieces in the
    /// cache's memory. `wait` decides whether a command that needs the disk blocks. If it does not,
    /// this returns [`Next::Disk`]: the caller looks up `keys_to_ask` on the disk, and calls again.
    pub fn receive(
        &mut self,
        executor: &Executor,
        wait: Wait<'_>,
        input: &[u8],
        allowance: Allowance,
        out: &mut Output,
    ) -> Progress {
        if self.is_revoked() {
            return Progress { consumed: 0, next: Next::Close };
        }
        if let Some(session) = &self.warm {
            session.hear();
            executor.set_warm(Some(Arc::clone(session)));
        }
        let progress = self.receive_commands(executor, wait, input, allowance, out);
        if self.warm.is_some() {
            // The next commands may be of another connection.
            executor.set_warm(None);
        }
        progress
    }

    /// Same as [`Session::receive`], after the copy of items is set to which the commands belong.
    fn receive_commands(
        &mut self,
        executor: &Executor,
        wait: Wait<'_>,
        input: &[u8],
        allowance: Allowance,
        out: &mut Output,
    ) -> Progress {
        let mut batch = Batch {
            executor,
            interest: self.interest(executor),
            started: out.bytes.len(),
            last_response: None,
            took_long: false,
            out,
            tight_bytes_max: if allowance.is_tight { allowance.out_bytes_max } else { usize::MAX },
            left: allowance.commands_max.saturating_mul(KEYS_PER_COMMAND),
            keys_left: allowance.keys_max,
            boot_ms: 0,
            wait,
        };
        let mut consumed = 0;
        let next = loop {
            if batch.out.is_full(allowance.out_bytes_max) {
                break Next::Drain;
            }
            let rest = &input[consumed..];
            let step = match &mut self.state {
                State::Command if rest.is_empty() => break Next::Input,
                State::Command if batch.left == 0 => break batch.end(),
                State::Command => self.command(&mut batch, rest),
                State::Suspended(_) => self.resume(&mut batch, rest),
                State::Login(_) => self.await_login(&mut batch),
                State::Refresh(_) => self.await_refresh(&mut batch),
                State::Near(_) => self.await_origin(&mut batch),
                State::NearValue(_) | State::Payload(_) if rest.is_empty() => break Next::Input,
                State::NearValue(_) => self.receive_near_value(&mut batch, rest),
                State::Payload(_) => self.payload(&mut batch, rest),
                State::Dump(_) | State::Gather(..) if batch.left == 0 => break Next::GiveWay,
                State::Gather(..) => self.gather_on(&mut batch),
                State::Dump(_) => self.dump_on(&mut batch),
                State::Rows(_) if batch.left == 0 => break Next::GiveWay,
                State::Rows(list) => {
                    batch.left -= 1;
                    if !list.step(&mut batch.out.bytes) {
                        self.state = State::Command;
                    }
                    Step::GoOn(0)
                }
                State::Watch(watch) => {
                    let has_more = watch.read(&mut batch.out.bytes, allowance.out_bytes_max);
                    Step::Stop(rest.len(), if has_more { Next::Drain } else { Next::Lines })
                }
                State::Follow(_) => self.follow_on(&mut batch, rest, allowance.out_bytes_max),
                State::Large(..) => self.large_piece(&mut batch),
            };
            match step {
                Step::GoOn(bytes) => consumed += bytes,
                Step::Stop(bytes, next) => {
                    consumed += bytes;
                    break next;
                }
            }
        };
        Progress { consumed, next }
    }

    /// Passes input to the payload that is arriving.
    fn payload(&mut self, batch: &mut Batch<'_>, input: &[u8]) -> Step {
        let State::Payload(payload) = &mut self.state else { return Step::GoOn(0) };
        if let Some(timer) = &mut self.timer {
            timer.begin();
        }
        if batch.wait.asks()
            && let Some(key) = suspended::asked_of(batch, payload, input)
        {
            self.asked = Some(key);
            return Step::Stop(0, Next::Disk);
        }
        let bytes = payload.receive(batch.executor, batch.wait, input, &mut batch.out.bytes);
        let is_complete = payload.is_complete();
        if self.timer.is_some() {
            self.note_payload();
        }
        if is_complete {
            if batch.interest.reports()
                && let State::Payload(payload) = &self.state
                && let Some((store, response)) = payload.ended()
            {
                batch.observer(self.id).stored(&store, response);
            }
            self.state = State::Command;
        }
        Step::GoOn(bytes)
    }

    /// Executes the first command of `input`.
    #[inline]
    fn command(&mut self, batch: &mut Batch<'_>, input: &[u8]) -> Step {
        if batch.tight_bytes_max < usize::MAX && self.lacks_room(batch, input) {
            return Step::Stop(0, Next::Drain);
        }
        if batch.interest.judges()
            && let Some(step) = self.judge_list(batch, input)
        {
            return step;
        }
        // By reference: the parser has just written the command to memory field by field. A move
        // would read it in wider loads. The processor cannot forward several stores to one load, so
        // these loads would wait until the stores have left the store buffer.
        match &self.parser.next(input) {
            Parsed::Command { command, frame: Frame::Meta(frame), consumed } if frame.base64 => {
                self.decode(batch, command, frame, input, *consumed)
            }
            Parsed::Command { command, frame, consumed } => {
                let (consumed, rest) = (*consumed, &input[*consumed..]);
                self.run(batch, ParsedCommand { command, frame, input, consumed, rest })
            }
            Parsed::Skipped { consumed } => Step::GoOn(*consumed),
            Parsed::NeedMore => Step::Stop(0, Next::Input),
            Parsed::Bad(bad) => self.refuse(batch, bad, input),
        }
    }

    /// True if the next command reads an item that does not fit into the rest of the output. Called
    /// only while memory for buffers is short. The command is not consumed: the caller sends the
    /// output first, and passes the command again.
    #[cold]
    fn lacks_room(&self, batch: &Batch<'_>, input: &[u8]) -> bool {
        if batch.out.is_empty() {
            return false;
        }
        let Parsed::Command { command, .. } = self.parser.clone().next(input) else { return false };
        let (Command::Get { key, .. }
        | Command::LeaseGet { key }
        | Command::Fetch(Fetch { key, .. })) = command
        else {
            return false;
        };
        let item_bytes = |meta: Meta| HEAD_BYTES_MAX + key.len() + meta.value_bytes;
        let room = batch.tight_bytes_max.saturating_sub(batch.out.bytes.len());
        // The length of an item that is only on disk is not known yet, so it counts as fitting.
        match batch.executor.cache().raw(batch.wait).peek(key) {
            Poll::Ready(Ok(Some(meta))) => item_bytes(meta) > room,
            Poll::Ready(_) | Poll::Pending => false,
        }
    }

    /// Executes a command whose key is written in base64.
    #[cold]
    fn decode(
        &mut self,
        batch: &mut Batch<'_>,
        command: &Command<'_>,
        frame: &meta::Frame<'_>,
        input: &[u8],
        consumed: usize,
    ) -> Step {
        let mut bytes = [0; KEY_BYTES_MAX];
        let key = frame.decoded_key(&mut bytes).expect("the parser has checked the key");
        let (command, frame) = (&command.with_key(key), &Frame::Meta(*frame));
        let rest = &input[consumed..];
        self.run(batch, ParsedCommand { command, frame, input, consumed, rest })
    }

    /// Executes a command.
    #[inline]
    fn run(&mut self, batch: &mut Batch<'_>, parsed: ParsedCommand<'_>) -> Step {
        match parsed.is_of_list() {
            true => batch.take_key(),
            false => batch.left = batch.left.saturating_sub(KEYS_PER_COMMAND),
        }
        let is_sampled = batch.executor.sampler().is_due();
        if is_sampled || !batch.interest.is_none() {
            return self.run_with_care(batch, parsed, is_sampled);
        }
        self.dispatch::<false>(batch, parsed)
    }

    /// Executes a command. If `OBSERVED`, also keeps the response in the batch for observers.
    #[inline]
    fn dispatch<const OBSERVED: bool>(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        match parsed.command {
            Command::Store(store) => self.store::<OBSERVED>(batch, store, parsed),
            _ => self.execute::<OBSERVED>(batch, parsed),
        }
    }

    #[inline]
    fn execute<const OBSERVED: bool>(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let ParsedCommand { command, frame, consumed, .. } = parsed;
        let call = Call { wait: batch.wait, frame };
        match batch.executor.execute(command, call, &mut batch.out.bytes) {
            CommandResult::Done(Response::Close) => {
                batch.respond(&Response::Close, frame);
                self.has_quit = true;
                return Step::Stop(consumed, Next::Close);
            }
            CommandResult::Done(Response::Miss) if self.reads_copy => {
                return self.miss_copy(batch, parsed);
            }
            CommandResult::Done(ref response) => {
                if OBSERVED {
                    batch.last_response = Some(*response);
                }
                match response {
                    // This command may have added or removed observers of the commands that follow
                    // in the batch.
                    Response::Ok => batch.interest = self.interest(batch.executor),
                    Response::Authenticated => self.parser.unlock(),
                    Response::ClientError(ClientError::AuthenticationFailed) => self.parser.lock(),
                    // The error ends the response to a list of keys: clients expect no `END` after
                    // it.
                    Response::ServerError(_) => self.parser.end_list(),
                    // Some statistics visit many thousands of items: other connections are next.
                    Response::EndOfStats => (batch.left, batch.took_long) = (0, true),
                    _ => {}
                }
                batch.respond(response, frame);
            }
            CommandResult::Large(first, large) => {
                batch.show(first, self.is_brief);
                self.state = State::Large(large, Box::new(frame.keep()));
            }
            CommandResult::Dump(dump) => self.begin_dump(batch, dump, frame),
            CommandResult::Rows(list) => self.state = State::Rows(list),
            CommandResult::Gather(gathering) => self.gather(batch, gathering, frame),
            CommandResult::HotKeys if self.is_brief => {
                batch.respond(&Refusal::HotKeysNotAllowed.into(), frame);
            }
            CommandResult::HotKeys => {
                stats::hot_keys(batch.executor.server(), frame, &mut batch.out.bytes);
                (batch.left, batch.took_long) = (0, true);
                batch.respond(&Response::EndOfStats, frame);
            }
            CommandResult::Slow if self.is_brief => {
                batch.respond(&Refusal::SlowNotAllowed.into(), frame);
            }
            CommandResult::Slow => {
                stats::slow(batch.executor.server(), frame, &mut batch.out.bytes);
                (batch.left, batch.took_long) = (0, true);
                batch.respond(&Response::EndOfStats, frame);
            }
            CommandResult::Prefixes if self.is_brief => {
                batch.respond(&Refusal::PrefixesNotAllowed.into(), frame);
            }
            CommandResult::Prefixes => {
                let gathering = StatsResponse::prefix_report(batch.executor.server());
                self.gather(batch, Box::new(gathering), frame);
            }
            CommandResult::Watch(watch) => self.begin_watch(batch, watch, frame),
            CommandResult::Follow(follow, line) => self.begin_follow(batch, follow, &line, frame),
            CommandResult::OfFollower => return self.run_of_follower(batch, parsed),
            CommandResult::Pending => return self.suspend(parsed),
            CommandResult::Login => return self.begin_login(batch, parsed),
            CommandResult::Refresh => self.begin_refresh(batch, frame),
            CommandResult::Warm => self.warm(batch, command, frame),
            CommandResult::Name => self.name_connection(batch, command, frame),
            CommandResult::Region if self.may_read => return Step::Stop(consumed, Next::Region),
            CommandResult::Region => batch.respond(&ClientError::RegionNotAllowed.into(), frame),
            CommandResult::Reads => self.note_reads(batch, command, frame),
        }
        Step::GoOn(consumed)
    }

    /// Stores the value if it is complete. Otherwise the session waits for the payload.
    #[inline]
    fn store<const OBSERVED: bool>(
        &mut self,
        batch: &mut Batch<'_>,
        store: &Store<'_>,
        parsed: ParsedCommand<'_>,
    ) -> Step {
        let ParsedCommand { frame, consumed, .. } = parsed;
        let executor = batch.executor;
        let bytes = payload_bytes(store, frame);
        if let Some(refusal) = executor.refusal(store, frame) {
            self.pass_over(batch, bytes as u64, Some(refusal), frame);
            if OBSERVED {
                batch.last_response = Some(refusal);
            }
            return Step::GoOn(consumed);
        }
        let Some(payload) = parsed.rest.get(..bytes) else {
            self.state = State::Payload(Box::new(Payload::arriving(executor, store, frame)));
            return Step::GoOn(consumed);
        };
        let call = Call { wait: batch.wait, frame };
        let Poll::Ready(response) = executor.store(store, payload, call) else {
            return self.suspend(parsed);
        };
        if OBSERVED {
            batch.last_response = Some(response);
        }
        batch.respond(&response, frame);
        Step::GoOn(consumed + bytes)
    }

    /// Responds to malformed input.
    #[cold]
    fn refuse(&mut self, batch: &mut Batch<'_>, bad: &Bad<'_>, input: &[u8]) -> Step {
        if batch.interest.shows_commands() {
            batch.executor.log().received(self.id, words(None, &bad.frame, input, bad.consumed));
        }
        if self.is_brief && !names_command(input) {
            // The datagram may be another server's response to a forged request. If both servers
            // answered each other's errors, the exchange would never end.
            return Step::Stop(input.len(), Next::Close);
        }
        batch.left = batch.left.saturating_sub(KEYS_PER_COMMAND);
        let bad = match batch.executor.server().options.answers_as {
            AnswersAs::V1_6_45 => *bad,
            AnswersAs::V1_6_18 => older::refusal(bad, &input[..bad.consumed]),
        };
        let Bad { error, frame, consumed, swallow, close } = bad;
        self.pass_over(batch, swallow, error, &frame);
        if close { Step::Stop(consumed, Next::Close) } else { Step::GoOn(consumed) }
    }

    /// Skips the payload of a refused store, then sends the reason.
    fn pass_over(
        &mut self,
        batch: &mut Batch<'_>,
        bytes: u64,
        response: Option<Response>,
        frame: &Frame<'_>,
    ) {
        if bytes > 0 {
            self.state = State::Payload(Box::new(Payload::passing(bytes, response, frame)));
        } else if let Some(response) = response {
            batch.respond(&response, frame);
        }
    }

    /// Returns the form of a message that is not a response to a command, for example the error
    /// before the server closes a connection. In the binary protocol, a message during the value of
    /// a store is the response to that store.
    pub(crate) fn unasked(&self) -> Frame<'_> {
        match &self.state {
            State::Payload(payload) if matches!(payload.frame(), Frame::Binary(_)) => {
                payload.frame()
            }
            _ => self.parser.unasked(),
        }
    }

    /// True if the next byte of input belongs to the value of a store.
    pub(crate) fn is_in_block(&self) -> bool {
        matches!(self.state, State::Payload(_) | State::NearValue(_))
    }

    /// True if every command that has begun has its response. A `watch` client never waits for one.
    pub(crate) fn is_between_commands(&self) -> bool {
        matches!(self.state, State::Command | State::Watch(_) | State::Follow(_))
            && self.parser.is_between_commands()
    }

    /// Abandons the current command. All further input is skipped, like an endless payload.
    pub(crate) fn ignore_input(&mut self) {
        self.state =
            State::Payload(Box::new(Payload::passing(u64::MAX, None, &self.parser.unasked())));
    }

    /// Same as [`Payload::awaits_much`]; false without a payload.
    #[inline]
    pub(crate) fn awaits_much(&self) -> bool {
        matches!(&self.state, State::Payload(payload) if payload.awaits_much())
    }

    /// Same as [`Payload::direct_buffer`]; `None` without a payload.
    pub(crate) fn direct_buffer(&mut self) -> Option<(DirectBuffer, usize, bool)> {
        match &mut self.state {
            State::Payload(payload) => payload.direct_buffer(),
            _ => None,
        }
    }

    /// Same as [`Payload::complete_direct`].
    pub(crate) fn complete_direct(&mut self, direct_buffer: DirectBuffer, bytes: usize) {
        if let State::Payload(payload) = &mut self.state {
            payload.complete_direct(direct_buffer, bytes);
        }
    }

    /// True if the peer has requested the end of the connection.
    pub(crate) fn has_quit(&self) -> bool {
        self.has_quit
    }
}

/// The maximum length of a response to a read in any dialect, without its key and value.
const HEAD_BYTES_MAX: usize = 100;

#[cfg(test)]
mod tests;
