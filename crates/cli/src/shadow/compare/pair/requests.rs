//! The requests of a client: parses them, and appends their bytes to those for the candidate.

use std::mem;
use std::time::Instant;

use larder_protocol::{Bad, Command, Frame, Parsed, names_command};

use super::{Pair, QUIET_MAX, REQUEST_BYTES_MAX, Step, TRIAL_EXCHANGES};
use crate::shadow::compare::Context;
use crate::shadow::compare::asked::{Asked, Plan, Shape, Verb};
use crate::shadow::compare::token;
use crate::shadow::tally::Uncompared;

impl Pair {
    /// Takes bytes of the client.
    pub(crate) fn take_request(&mut self, bytes: &[u8], context: &mut Context) {
        match self.step {
            Step::Unknown => return,
            Step::Lost { is_answered } => {
                if !is_answered || !names_command(bytes) {
                    return;
                }
                self.restart(context);
                self.step = Step::Trial { exchanges: 0 };
            }
            Step::Trial { exchanges } if self.pending.is_empty() && self.is_between() => {
                self.step = match exchanges {
                    TRIAL_EXCHANGES.. => Step::Sure,
                    _ => Step::Trial { exchanges: exchanges + 1 },
                };
            }
            Step::Trial { .. } | Step::Sure => {}
        }
        self.parse(bytes, context);
    }

    /// True if neither a request nor a response of the live server is incomplete.
    pub(super) fn is_between(&self) -> bool {
        self.held.is_empty() && self.value_missing == 0 && self.live.answers.is_between()
    }

    pub(super) fn parse(&mut self, mut bytes: &[u8], context: &mut Context) {
        while !bytes.is_empty() && self.step != Step::Unknown {
            if self.value_missing > 0 {
                let missing = usize::try_from(self.value_missing).unwrap_or(usize::MAX);
                let (value, rest) = bytes.split_at(missing.min(bytes.len()));
                self.value_missing -= value.len() as u64;
                self.pass(value, context);
                bytes = rest;
            } else if self.held.is_empty() {
                let used = self.parse_commands(bytes, context);
                bytes = &bytes[used..];
                if self.value_missing == 0 {
                    self.held.extend_from_slice(bytes);
                    break;
                }
            } else {
                let mut joined = mem::take(&mut self.held);
                joined.extend_from_slice(bytes);
                let used = self.parse_commands(&joined, context);
                if self.value_missing == 0 {
                    joined.drain(..used);
                    self.held = joined;
                } else {
                    self.parse(&joined[used..], context);
                }
                break;
            }
        }
        if self.held.len() > REQUEST_BYTES_MAX {
            self.give_up(context);
        }
    }

    /// Parses complete commands up to a value that has not arrived. Returns the number of bytes
    /// used.
    pub(super) fn parse_commands(&mut self, bytes: &[u8], context: &mut Context) -> usize {
        let mut used = 0;
        while self.value_missing == 0 && self.step != Step::Unknown {
            if self.parser.is_between_commands() {
                self.passes = self.can_pass(context);
            }
            let rest = &bytes[used..];
            match self.parser.next(rest) {
                Parsed::NeedMore => break,
                Parsed::Skipped { consumed } => {
                    self.pass(&rest[..consumed], context);
                    used += consumed;
                }
                Parsed::Bad(Bad { close: true, .. }) => self.give_up(context),
                Parsed::Bad(bad) => {
                    if bad.error.is_some() {
                        self.begin(Asked::refused(&bad.frame), true, context);
                    }
                    self.pass(&rest[..bad.consumed], context);
                    self.value_missing = bad.swallow;
                    used += bad.consumed;
                }
                Parsed::Command { command, frame, consumed } => {
                    self.command(&command, &frame, &rest[..consumed], context);
                    used += consumed;
                }
            }
        }
        used
    }

    pub(super) fn command(
        &mut self,
        command: &Command<'_>,
        frame: &Frame<'_>,
        bytes: &[u8],
        context: &mut Context,
    ) {
        self.is_binary = matches!(frame, Frame::Binary(_));
        if let Command::Store(store) = command {
            self.value_missing = (store.value_bytes + frame.value_end().len()) as u64;
        }
        let is_next_key = matches!(command, Command::Get { .. })
            && self.pending.back().is_some_and(|asked| asked.is_open);
        let plan = match is_next_key {
            true => Plan::Key,
            false => Plan::of(command, frame, context.hashing),
        };
        match plan {
            Plan::Key => self.add_key(command.key().unwrap_or_default(), context),
            Plan::EndOfKeys => {
                if let Some(asked) = self.pending.back_mut() {
                    asked.is_open = false;
                }
            }
            Plan::Leave => return self.give_up(context),
            Plan::Withhold(asked) => {
                self.begin(*asked, false, context);
                self.passes = false;
            }
            Plan::Compare(mut asked) => {
                if context.shows_keys {
                    asked.key_texts.extend(command.key().map(Box::from));
                }
                let found = token::find(&asked, frame, bytes).filter(|_| self.passes);
                asked.is_held = found.is_some();
                let seen = self.begin(*asked, true, context);
                if let (Some(mut found), Some(link)) = (found, &mut self.link) {
                    found.seen = seen;
                    return link.push_with_token(bytes, found);
                }
            }
        }
        self.pass(bytes, context);
        self.settle(context);
    }

    /// Appends a request. Returns its position among all requests.
    pub(super) fn begin(
        &mut self,
        mut asked: Asked,
        is_sendable: bool,
        context: &mut Context,
    ) -> u64 {
        asked.seen = context.keys.tick();
        asked.unsent = match (is_sendable, self.passes) {
            (false, _) => Some(Uncompared::Withheld),
            (true, true) => None,
            (true, false) => Some(self.reason(context)),
        };
        asked.compare_identity(self.pending.back_mut());
        match asked.unsent {
            None => {
                if asked.changes && asked.is_held {
                    context.keys.hold_change(asked.key, asked.seen, self.connection);
                } else if asked.changes {
                    context.keys.begin_change(asked.key, self.connection);
                    asked.has_begun = true;
                }
                if asked.reads_token && !asked.is_held {
                    context.keys.begin_tokens(asked.key);
                    asked.has_begun_read = true;
                }
                if asked.verb == Verb::Flush {
                    context.keys.begin_flush();
                }
                self.owes_since.get_or_insert_with(Instant::now);
            }
            Some(_) if asked.changes => context.keys.doubt(asked.key),
            Some(_) if asked.verb == Verb::Flush => context.keys.note_gap(),
            Some(_) => {}
        }
        let seen = asked.seen;
        if asked.shape == Shape::Nothing {
            asked.live.is_done = true;
            asked.candidate.is_done = true;
        }
        self.pending.push_back(asked);
        self.forget_quiet(context);
        seen
    }

    pub(super) fn add_key(&mut self, key: &[u8], context: &mut Context) {
        let Some(asked) = self.pending.back_mut() else { return };
        let hash = context.hashing.of(key);
        asked.more_keys.push(hash);
        self.further_keys += 1;
        if context.shows_keys {
            asked.key_texts.push(key.into());
        }
        if asked.reads_token && asked.unsent.is_none() {
            context.keys.begin_tokens(hash);
        }
    }

    /// Ends the oldest requests without a response if there are very many.
    pub(super) fn forget_quiet(&mut self, context: &mut Context) {
        if self.pending.len() <= QUIET_MAX {
            return;
        }
        let Some(oldest) = self.pending.front_mut().filter(|oldest| oldest.is_quiet) else {
            return;
        };
        oldest.live.is_done = true;
        oldest.candidate.is_done = true;
        self.settle(context);
    }

    /// Returns the reason why requests are not sent to the candidate.
    pub(super) fn reason(&self, context: &Context) -> Uncompared {
        match self.step {
            Step::Sure => context.last_failure,
            _ => Uncompared::LostTrack,
        }
    }

    /// True if the next request can be sent. Connects to the candidate if necessary.
    pub(super) fn can_pass(&mut self, context: &mut Context) -> bool {
        if self.step == Step::Sure && self.link.is_none() {
            self.link = context.connect(self.connection);
        }
        self.step == Step::Sure && self.link.is_some()
    }

    pub(super) fn pass(&mut self, bytes: &[u8], context: &mut Context) {
        if !self.passes {
            return;
        }
        if let Some(link) = &mut self.link {
            link.push(bytes);
            if link.unsent_bytes() > context.limits.connection_bytes {
                self.lose_candidate(Uncompared::Slow, context);
            }
        }
    }
}
