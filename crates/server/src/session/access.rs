//! The permission of a session: its user, the limits of its listener, and the judgement of its
//! commands.

use larder_options::Protocol;
use larder_protocol::{
    ClientError, Command, Denial, Dialects, Frame, Parsed, Parser, Permission, Response, Right,
    Scope, text,
};
use larder_stats::Counter;

use super::batch::{Batch, ParsedCommand, Step};
use super::payload::payload_bytes;
use super::{Next, Session};
use crate::log::{self, Interest};
use crate::observe::conn_table::Labels;
use crate::session::execute::Executor;
use crate::users::grant::Grant;
use crate::users::login::Origin;

/// The user of a session, and the limits of its listener.
#[derive(Debug)]
pub(super) struct SessionAccess {
    /// What the peer may do; `None` before a login.
    pub(super) grant: Option<Grant>,
    /// The highest right on the listener.
    pub(super) right_max: Right,
    pub(super) origin: Origin,
    /// True until the first input, if the client may have presented a certificate.
    pub(super) awaits_certificate: bool,
    /// The name that the peer has given to the connection.
    name: Box<str>,
    /// True if the user or the name has changed since [`Session::take_labels`].
    pub(super) is_relabeled: bool,
}

impl Default for SessionAccess {
    fn default() -> Self {
        Self {
            grant: None,
            right_max: Right::Admin,
            origin: Origin::default(),
            awaits_certificate: false,
            name: Box::default(),
            is_relabeled: false,
        }
    }
}

/// Returns the dialects of a protocol.
pub(super) fn dialects_of(protocol: Protocol) -> Dialects {
    match protocol {
        Protocol::Auto => Dialects::Any,
        Protocol::Ascii => Dialects::Text,
        Protocol::Binary => Dialects::Binary,
    }
}

impl Session {
    /// Admits the peer without a login, to everything.
    pub(crate) fn waive_login(&mut self, protocol: Protocol) {
        self.parser = Parser::new(dialects_of(protocol));
    }

    /// Limits the session to commands that change nothing. A login does not widen it.
    pub(crate) fn limit_to_reading(&mut self) {
        let access = self.access.get_or_insert_default();
        access.right_max = Right::Read;
        access.grant = Some(Grant::without_user(Right::Read));
    }

    /// Records where the peer is, so that logins of different peers wait in different queues.
    pub(crate) fn note_origin(&mut self, origin: impl FnOnce() -> Origin) {
        if let Some(access) = &mut self.access {
            access.origin = origin();
        }
    }

    /// Requests the names of the client's certificate once the handshake is complete.
    pub(crate) fn await_certificate(&mut self) {
        if let Some(access) = &mut self.access {
            access.awaits_certificate = true;
        }
    }

    /// True if [`Self::note_certificate`] must be called before the next input.
    #[inline]
    pub(crate) fn awaits_certificate(&self) -> bool {
        self.access.as_ref().is_some_and(|access| access.awaits_certificate)
    }

    /// Admits the user that the client's verified certificate names. Without such a user, the
    /// client must log in.
    #[cold]
    pub(crate) fn note_certificate(&mut self, executor: &Executor, names: &[String]) {
        let Some(access) = &mut self.access else { return };
        access.awaits_certificate = false;
        let users = executor.server().access.users.as_ref();
        let user = users.and_then(|users| users.of_certificate(names.iter().map(|name| &**name)));
        if let Some(user) = user {
            self.admit(executor, user);
        }
    }

    /// Returns the name of the user; `None` before a login and without users.
    pub(crate) fn user_name(&self) -> Option<&str> {
        Some(self.access.as_ref()?.grant.as_ref()?.user()?.name())
    }

    /// Names the connection.
    #[cold]
    pub(super) fn name_connection(
        &mut self,
        batch: &mut Batch<'_>,
        command: &Command<'_>,
        frame: &Frame<'_>,
    ) {
        let Command::Name { name } = command else { return };
        if self.is_brief {
            // A datagram has no connection.
            return batch.respond(&ClientError::UnknownCommand.into(), frame);
        }
        let access = self.access.get_or_insert_default();
        access.name = String::from_utf8_lossy(name).into();
        access.is_relabeled = true;
        batch.respond(&Response::Ok, frame);
    }

    /// Returns the labels of the connection if they have changed since the last call.
    #[inline]
    pub(crate) fn take_labels(&mut self) -> Option<Labels> {
        let access = self.access.as_mut().filter(|access| access.is_relabeled)?;
        access.is_relabeled = false;
        let name = access.name.clone();
        Some(Labels { user: self.user_name().unwrap_or_default().into(), name })
    }

    /// Returns the command events that are observed, and whether commands are judged.
    #[inline]
    pub(super) fn interest(&self, executor: &Executor) -> Interest {
        let is_judged = self.access.as_ref().is_some_and(|access| access.grant.is_some());
        executor.log().interest().judged(is_judged)
    }

    /// True if the session must end before its next command, because its user is gone or has
    /// another password.
    #[inline]
    pub(super) fn is_revoked(&mut self) -> bool {
        let grant = self.access.as_mut().and_then(|access| access.grant.as_mut());
        grant.is_some_and(|grant| !grant.renew()) && self.is_between_commands()
    }

    /// Returns why a command is not permitted; `None` if it is.
    pub(super) fn refusal_of(&self, parsed: &ParsedCommand<'_>) -> Option<Response> {
        self.access.as_ref()?.grant.as_ref()?.judge(parsed.command)
    }

    /// True if the command could claim a recache token, and the client may change no item.
    pub(super) fn only_reads(&self, command: &Command<'_>) -> bool {
        let Command::Fetch(_) = command else { return false };
        let grant = self.access.as_ref().and_then(|access| access.grant.as_ref());
        let change = Permission { right: Some(Right::Write), scope: Scope::Nothing };
        grant.is_some_and(|grant| !grant.permits(&change))
    }

    /// True if the user may read this key, so that the disk may be read for it in advance.
    pub(super) fn may_read_key(&self, key: &[u8]) -> bool {
        let grant = self.access.as_ref().and_then(|access| access.grant.as_ref());
        let needed = Permission { right: Some(Right::Read), scope: Scope::Key(key) };
        grant.is_none_or(|grant| grant.permits(&needed))
    }

    /// Refuses a command that is not permitted. Skips the value of a store, and the other keys of a
    /// list.
    #[cold]
    pub(super) fn deny(
        &mut self,
        batch: &mut Batch<'_>,
        parsed: ParsedCommand<'_>,
        refusal: Response,
    ) -> Step {
        let ParsedCommand { command, frame, consumed, .. } = parsed;
        self.log_refusal(batch, command, &refusal);
        let bytes = match command {
            Command::Store(store) => payload_bytes(store, frame),
            _ => 0,
        };
        self.parser.end_list();
        self.pass_over(batch, bytes as u64, Some(refusal), frame);
        Step::GoOn(consumed)
    }

    /// Counts and logs a command that is not permitted. The rate is not logged, because a client
    /// that exceeds it does so all the time.
    fn log_refusal(&self, batch: &Batch<'_>, command: &Command<'_>, refusal: &Response) {
        let counters = batch.executor.counters();
        if !matches!(refusal, Response::ClientError(_)) {
            return counters.bump(Counter::RateLimited);
        }
        counters.bump(Counter::NotPermitted);
        let (user, mut line) = (self.user_name().unwrap_or("none"), Vec::new());
        text::render::response(&mut line, refusal);
        let key =
            command.key().map_or_else(String::new, |key| format!(", key {}", key.escape_ascii()));
        log::warn(format_args!(
            "larderd: <{} user {user}{key}: {}",
            self.id,
            line.trim_ascii_end().escape_ascii(),
        ));
    }

    /// Judges a line of keys before its first key is answered, for a user with prefixes. Returns
    /// `None` if the line is permitted, or if `input` does not begin a line of keys.
    pub(super) fn judge_list(&mut self, batch: &mut Batch<'_>, input: &[u8]) -> Option<Step> {
        let grant = self.access.as_ref()?.grant.as_ref()?;
        if !grant.has_prefixes() || !self.parser.begins_list(input) {
            return None;
        }
        let (mut ahead, mut at) = (self.parser.clone(), 0);
        let denial = loop {
            match ahead.next(&input[at..]) {
                Parsed::Command { command: Command::EndOfKeys, .. } | Parsed::Bad(_) => {
                    return None;
                }
                Parsed::Command { command, consumed, .. } => {
                    if let Some(refusal) = grant.denial(&command.permission()) {
                        break refusal;
                    }
                    at += consumed;
                }
                Parsed::Skipped { consumed } => at += consumed,
                Parsed::NeedMore if input.len() < LIST_BYTES_MAX => {
                    return Some(Step::Stop(0, Next::Input));
                }
                Parsed::NeedMore => break Denial::LongList,
            }
        };
        self.refuse_list(batch, input, denial)
    }

    /// Refuses a line of keys as a whole.
    #[cold]
    fn refuse_list(&mut self, batch: &mut Batch<'_>, input: &[u8], denial: Denial) -> Option<Step> {
        let consumed = match self.parser.next(input) {
            Parsed::Command { ref command, consumed, .. } => {
                self.log_refusal(batch, command, &denial.into());
                consumed
            }
            Parsed::Skipped { consumed } => consumed,
            Parsed::NeedMore | Parsed::Bad(_) => return None,
        };
        self.parser.end_list();
        batch.respond(&denial.into(), &Frame::default());
        Some(Step::GoOn(consumed))
    }
}

/// The longest line of keys that is judged before its first key is answered.
const LIST_BYTES_MAX: usize = 256 << 10;
